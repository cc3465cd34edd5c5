"""Options and the folder in which tests keep what takes long to build."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rtl", action="store_true", help="run what takes long too: sweeps over robots and widths")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--rtl"):
        skip = pytest.mark.skip(reason="long: make test-rtl")
        for item in items:
            if "long" in item.keywords:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def designs() -> Path:
    """Designs kept between runs by content hash, the one of `make run` among them."""
    return Path(__file__).parent.parent / "build" / "designs"


@pytest.fixture(scope="session")
def units() -> Path:
    return Path(__file__).parent.parent / "build" / "units"
