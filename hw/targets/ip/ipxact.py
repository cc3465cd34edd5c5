"""An IP-XACT component (IEEE 1685-2014): interfaces, register map, ports and files."""

from __future__ import annotations

from typing import Any

from dynagate.hw.rtl.regmap import BITS, WRITE
from dynagate.hw.targets.ip.core import LIBRARY, TOP, VENDOR, VERSION, IpCore
from lxml import etree

NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
SCHEMA = f"{NAMESPACE} {NAMESPACE}/index.xsd"
STREAM = ("amba.com", "AMBA4", "AXI4Stream", "r0p0_1")
LITE = ("amba.com", "AMBA4", "AXI4-Lite", "r0p0_0")
"""Bus definitions of Arm: vendor, library, name and version."""
CLOCK = ("xilinx.com", "signal", "clock", "1.0")
RESET = ("xilinx.com", "signal", "reset", "1.0")
"""Bus definitions for clock and reset, which Arm does not define."""


def ipxact_component(core: IpCore) -> str:
    """Return the text of component.xml."""
    space = "http://www.w3.org/2001/XMLSchema-instance"
    root = etree.Element(_tag("component"), nsmap={"ipxact": NAMESPACE, "xsi": space})
    root.set(f"{{{space}}}schemaLocation", SCHEMA)
    for line in core.notice:
        root.addprevious(etree.Comment(f" {line} "))
    for name, value in (("vendor", VENDOR), ("library", LIBRARY), ("name", core.name), ("version", VERSION)):
        _add(root, name, value)
    _interfaces(_add(root, "busInterfaces"), core)
    _memory_map(_add(root, "memoryMaps"), core)
    _model(_add(root, "model"), core)
    _files(_add(root, "fileSets"), core)
    _add(root, "description", core.title)
    tree = etree.ElementTree(root)
    return etree.tostring(tree, pretty_print=True, xml_declaration=True, encoding="UTF-8").decode()


def _interfaces(parent: Any, core: IpCore) -> None:
    """Add the streams, the registers, the clock and the reset."""
    for bus, kind in (("s_axis", STREAM), ("m_axis", STREAM), ("s_axil", LITE)):
        signals = {port.signal: port.name for port in core.ports() if port.bus == bus}
        interface = _interface(parent, bus, kind, signals)
        role = _add(interface, "master" if bus == "m_axis" else "slave")
        if bus == "s_axil":
            role.append(_element("memoryMapRef", memoryMapRef="registers"))
    for name, kind, signal in (("aclk", CLOCK, "CLK"), ("aresetn", RESET, "RST")):
        interface = _interface(parent, name, kind, {signal: name})
        _add(interface, "slave")
        parameters = _add(interface, "parameters")
        if kind == CLOCK:
            _parameter(parameters, "ASSOCIATED_BUSIF", "s_axis:m_axis:s_axil")
            _parameter(parameters, "ASSOCIATED_RESET", "aresetn")
        else:
            _parameter(parameters, "POLARITY", "ACTIVE_LOW")


def _interface(parent: Any, name: str, kind: tuple[str, str, str, str], signals: dict[str, str]) -> Any:
    """Add a bus interface that maps the signals of a bus to ports."""
    interface = _add(parent, "busInterface")
    _add(interface, "name", name)
    vendor, library, bus, version = kind
    interface.append(_element("busType", vendor=vendor, library=library, name=bus, version=version))
    abstraction = _add(_add(interface, "abstractionTypes"), "abstractionType")
    abstraction.append(_element("abstractionRef", vendor=vendor, library=library, name=f"{bus}_rtl", version=version))
    maps = _add(abstraction, "portMaps")
    for logical, physical in signals.items():
        port_map = _add(maps, "portMap")
        _add(_add(port_map, "logicalPort"), "name", logical)
        _add(_add(port_map, "physicalPort"), "name", physical)
    return interface


def _memory_map(parent: Any, core: IpCore) -> None:
    """Add the registers behind AXI4-Lite."""
    memory = _add(parent, "memoryMap")
    _add(memory, "name", "registers")
    block = _add(memory, "addressBlock")
    for name, value in (("name", "registers"), ("baseAddress", "0"), ("range", str(1 << core.address_bits))):
        _add(block, name, value)
    _add(block, "width", str(BITS))
    for row in core.registers:
        register = _add(block, "register")
        _add(register, "name", row.name)
        _add(register, "description", row.meaning)
        _add(register, "addressOffset", f"'h{row.address:x}")
        _add(register, "size", str(BITS))
        access = "read-write" if row.access == WRITE else "read-only"
        for name, low, width in [(bit, k, 1) for k, bit in enumerate(row.bits)] or [("value", 0, BITS)]:
            field = _add(register, "field")
            _add(field, "name", name)
            _add(field, "bitOffset", str(low))
            reset = core.reset_value(row)
            if reset is not None:
                _add(_add(_add(field, "resets"), "reset"), "value", f"'h{reset:x}")
            _add(field, "bitWidth", str(width))
            _add(field, "access", access)
    _add(memory, "addressUnitBits", "8")


def _model(parent: Any, core: IpCore) -> None:
    """Add the view of the Verilog, and the ports."""
    view = _add(_add(parent, "views"), "view")
    _add(view, "name", "verilog")
    _add(view, "componentInstantiationRef", "verilog")
    instance = _add(_add(parent, "instantiations"), "componentInstantiation")
    _add(instance, "name", "verilog")
    _add(instance, "language", "verilog")
    _add(instance, "moduleName", TOP)
    _add(_add(instance, "fileSetRef"), "localName", "rtl")
    ports = _add(parent, "ports")
    for port in core.ports():
        element = _add(ports, "port")
        _add(element, "name", port.name)
        wire = _add(element, "wire")
        _add(wire, "direction", "in" if port.is_input else "out")
        if port.width > 1:
            vector = _add(_add(wire, "vectors"), "vector")
            _add(vector, "left", str(port.width - 1))
            _add(vector, "right", "0")


def _files(parent: Any, core: IpCore) -> None:
    """Add the Verilog files."""
    files = _add(parent, "fileSet")
    _add(files, "name", "rtl")
    for name in core.files:
        file = _add(files, "file")
        _add(file, "name", name)
        _add(file, "fileType", "verilogSource")


def _parameter(parent: Any, name: str, value: str) -> None:
    """Add a parameter of an interface."""
    parameter = _add(parent, "parameter")
    parameter.set("parameterId", name)
    _add(parameter, "name", name)
    _add(parameter, "value", value)


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def _element(tag: str, /, **attributes: str) -> Any:
    return etree.Element(_tag(tag), attributes)


def _add(parent: Any, name: str, text: str | None = None) -> Any:
    """Add an element below another one and return it."""
    element = etree.SubElement(parent, _tag(name))
    element.text = text
    return element
