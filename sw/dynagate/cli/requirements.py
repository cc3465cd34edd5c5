"""Read the requirements of the package and its extras from its own metadata, and the installed versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

PACKAGE = "dynagate"


@dataclass(frozen=True)
class Need:
    """A requirement, and the version of it that is installed or None."""

    requirement: Requirement
    version: str | None

    @property
    def is_met(self) -> bool:
        return self.version is not None and self.requirement.specifier.contains(self.version, prereleases=True)

    def text(self) -> str:
        """Name and version, and the version that is expected where it is another one."""
        name, expected = self.requirement.name, self.requirement.specifier
        if self.version is None:
            return f"{name} is missing"
        return f"{name} {self.version}" + ("" if self.is_met else f" (expected {expected})")


def python_versions() -> str:
    """The versions of Python that the package runs on, such as ">=3.10". Raises PackageNotFoundError."""
    return metadata(PACKAGE)["Requires-Python"]


def extras() -> list[str]:
    """Raises PackageNotFoundError: the package is not installed."""
    return sorted(metadata(PACKAGE).get_all("Provides-Extra") or ())


def needs(extra: str = "") -> list[Need]:
    """Return the requirements of an extra beyond the package itself; with "", those of the package. Extras of other
    packages are expanded. Raises PackageNotFoundError.
    """
    requirements = {requirement.name: requirement for requirement in _requirements(PACKAGE, extra)}
    return [Need(requirement, installed(name)) for name, requirement in requirements.items()]


def _requirements(package: str, extra: str) -> Iterator[Requirement]:
    for text in requires(package) or ():
        requirement = Requirement(text)
        if _concerns(requirement, extra):
            if requirement.name != PACKAGE:
                yield requirement
            if requirement.name == PACKAGE or installed(requirement.name) is not None:
                for further in sorted(requirement.extras):
                    yield from _requirements(requirement.name, further)


def _concerns(requirement: Requirement, extra: str) -> bool:
    """Whether a requirement is one of this extra and of no environment without it."""
    if requirement.marker is None:
        return not extra
    return requirement.marker.evaluate({"extra": extra}) and not (extra and requirement.marker.evaluate({"extra": ""}))


def installed(name: str) -> str | None:
    """The version of a package that is installed, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
