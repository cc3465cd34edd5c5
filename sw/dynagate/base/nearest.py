"""Suggest the nearest known name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from dynagate.base.errors import ArgumentTypeError
from dynagate.base.foreign_names import OF_OTHER_CALLS, spelled, written

ALIKE = 0.7
"""Smallest ratio of `difflib` at which one name may be a misspelling of another."""
ALIKE_A_LITTLE = 0.5
"""Smallest ratio of `difflib` for the names that an error lists."""
LISTED = 8
"""Largest number of options of a call that an error lists completely."""
SUGGESTED, FEWEST = 4, 3
"""Largest number of names in a suggestion, and shortest name that is searched for inside other names."""


RENAMED = {
    "abreast": "samples_per_run",
    "damping": "implicit_damping=True",
    "friction": "forces=[dynagate.forces.Friction()]",
    "friction_speed": "forces=[dynagate.forces.Friction(speed=...)]",
    "linearise": "linearize",
    "meshes": "shapes=dynagate.Shapes(meshes=...)",
    "method": "integrator",
    "step": "progress",
    "stops": "forces=[dynagate.forces.Stops()]",
    "urdf": "shapes=dynagate.Shapes(urdf=...)",
    "what": "design",
}
"""Former names of options -> what to write now."""


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a hint that follows an unknown name in an error: " (write x)", " (did you mean 'x'?)" or ""."""
    if str(name) in RENAMED and RENAMED[str(name)].split("=")[0] in (known := list(known)):
        return f" (write {RENAMED[str(name)]})"
    if str(name) not in (known := list(known)) and (text := written(name, known)):
        return f" (write {text})"
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(str(name).lower(), by_lower, n=1, cutoff=ALIKE)
    return f" (did you mean '{by_lower[close[0]]}'?)" if close else ""


def check_keyword(function: str, name: str, known: Iterable[str], what: str = "") -> None:
    """Raise ArgumentTypeError if a function has no keyword of this name.

    Args:
        function: Name of the function.
        name: The keyword.
        known: The keywords that it has.
        what: The kind of object for which it has them, for the error.
    """
    names = list(known)
    if name not in names:
        here = f"for {what} one of" if what else "one of"
        elsewhere = OF_OTHER_CALLS.get(function.rpartition(".")[2], {}).get(spelled(name))
        hint = f"; {elsewhere}" if elsewhere else nearest(name, names)
        few = names if len(names) <= LISTED else _nearest_few(name, names)
        more = "" if few == names else f", or another of its {len(names)} options"
        raise ArgumentTypeError(
            f"{function}() got an unexpected keyword argument '{name}'{hint}; expected {here} {', '.join(few)}{more}",
            code="DG-ARG-040",
        )


def _nearest_few(name: str, names: list[str]) -> list[str]:
    """Return the SUGGESTED names that are nearest to a name, then the first ones."""
    text = written(name, names)
    near = get_close_matches(name.lower(), names, n=SUGGESTED, cutoff=ALIKE_A_LITTLE)
    first = [each for each in names if each == text.split("=")[0]]
    return list(dict.fromkeys([*first, *near, *names]))[:SUGGESTED]


def suggested(name: str, known: Iterable[str]) -> list[str]:
    """Return up to SUGGESTED known names that a user may have meant, the likeliest first."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    spelled = {"".join(letter for letter in each.lower() if letter.isalnum()): each for each in known}
    if plain in spelled:
        return [spelled[plain]]
    alike = [spelled[each] for each in get_close_matches(plain, spelled, n=SUGGESTED, cutoff=ALIKE)]
    within = [own for each, own in spelled.items() if len(plain) >= FEWEST and (plain in each or each in plain)]
    return list(dict.fromkeys([*alike, *within]))[:SUGGESTED]
