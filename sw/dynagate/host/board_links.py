"""Links to boards by name: "xdma:/dev/xdma0", or "xdma:/dev/xdma0,channel=1". A new link is a file and a row here."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from dynagate.base.arguments import shown
from dynagate.base.errors import ArgumentError
from dynagate.design.design import DesignRecord
from dynagate.host.links import DeviceLink


@dataclass(frozen=True)
class LinkRow:
    """A kind of link to a board. Its class is imported when it is first used."""

    module: str
    """Module with the class of the link, imported on first use."""
    name: str
    """Name of the class in that module."""
    place: str
    """Description of the part after the link's name, for errors."""
    devices: tuple[str, ...] = ()
    """Patterns of the system's device files for boards of this kind."""
    package: str = ""
    """Module that the link needs besides dynagate; empty if it needs none."""
    install: str = ""
    """Command that installs this module."""
    simulated: bool = False
    """Whether the link opens a simulation: the path is the design's own folder unless the user names another."""


LINKS = {
    "xdma": LinkRow("dynagate.host.xdma_link", "XdmaLink", "/dev/xdma0", devices=("/dev/xdma*_user",)),
    "pynq": LinkRow(
        "dynagate.host.pynq_link",
        "PynqLink",
        "PATH.bit",
        package="pynq",
        install="on a PC: pip install 'dynagate[board]' --no-build-isolation, as docs/zynq.md explains",
    ),
    "xrt": LinkRow(
        "dynagate.host.xrt_link",
        "XrtLink",
        "PATH.xclbin",
        package="pyxrt",
        install="source /opt/xilinx/xrt/setup.sh",
    ),
    "pcie": LinkRow(
        "dynagate.host.pcie_link",
        "PcieLink",
        "FOLDER",
        package="cocotbext.pcie",
        install="pip install 'dynagate[sim]' cocotbext-pcie",
        simulated=True,
    ),
    "uart": LinkRow(
        "dynagate.host.uart_link",
        "UartLink",
        "/dev/ttyUSB0",
        devices=("/dev/ttyUSB*", "/dev/ttyACM*"),
        package="serial",
        install="pip install 'dynagate[uart]'",
    ),
}

TYPES = (int, float, str)
"""Types of options that a text can set."""


@dataclass(frozen=True)
class LinkText:
    """The text of a link, taken apart and checked as far as that is possible without its package."""

    text: str
    """The text as the user wrote it."""
    row: LinkRow
    """Kind of link that the text names."""
    path: str
    """Path of the board's file, its bitstream or its serial port."""
    options: dict[str, str]
    """Options after the path by name, as texts."""

    @classmethod
    def of(cls, text: str, folder: str = "") -> LinkText:
        """Parse the text of a link.

        Args:
            text: The text, such as "xdma:/dev/xdma0,channel=1".
            folder: Folder of the design, which a simulated link without a path opens.

        Returns:
            The parts of the text.

        Raises:
            ArgumentError: There is no such link, or a part of the text is wrong. The message names the part.
        """
        if not isinstance(text, str):
            raise ArgumentError(f"link={shown(text)}; expected a text such as 'uart:/dev/ttyUSB0'", code="DG-LINK-001")
        head, *settings = text.split(",")
        name, _, path = head.partition(":")
        if name in LINKS and LINKS[name].simulated:
            path = path or folder
        if name not in LINKS or not path:
            forms = ", ".join(["'sim'", *(f"'{known}:{row.place}'" for known, row in LINKS.items())])
            raise ArgumentError(f"link '{text}'; expected one of {forms}", code="DG-LINK-002")
        options = {}
        for setting in settings:
            option, equals, value = setting.partition("=")
            if not equals or not option or not value:
                raise ArgumentError(f"link '{text}' has '{setting}'; expected OPTION=VALUE", code="DG-LINK-003")
            options[option] = value
        return cls(text, LINKS[name], path, options)

    def opened(self, design: DesignRecord) -> DeviceLink:
        """Open the link.

        Args:
            design: Record of the design that the board should hold.

        Returns:
            The open link.

        Raises:
            ArgumentError: The link does not take one of the options.
            DeviceError: There is no such board, or another process has it.
        """
        link = getattr(importlib.import_module(self.row.module), self.row.name)
        return link(self.path, design, **self._options(link))

    def _options(self, link: Any) -> dict[str, Any]:
        defaults = {
            parameter.name: parameter.default
            for parameter in inspect.signature(link).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY and type(parameter.default) in TYPES
        }
        values: dict[str, Any] = {}
        for name, value in self.options.items():
            if name not in defaults:
                raise ArgumentError(
                    f"link '{self.text}' has option '{name}'; expected one of {', '.join(defaults)}", code="DG-LINK-004"
                )
            kind = type(defaults[name])
            try:
                values[name] = int(value, 0) if kind is int else kind(value)
            except ValueError:
                raise ArgumentError(
                    f"link '{self.text}' has {name}={value}; expected a number", code="DG-LINK-005"
                ) from None
        return values
