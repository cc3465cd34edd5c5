"""`dynagate.open(design, link=...)`: texts of links, missing packages, and a design opened on each board's stand-in."""

from __future__ import annotations

import sys
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import build, robots
from dynagate.base.errors import MissingExtraError
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.host import DeviceError
from dynagate.host.xrt_link import CompiledIp
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi

from tests.standins.opening import board
from tests.standins.pynq_api import Pynq
from tests.standins.xdma import CardSystem, LocalCard, device_files
from tests.standins.xrt import PyXrt

FUNCTION = "forward_dynamics"


@pytest.fixture(scope="module")
def built(designs: Path) -> Design:
    policy = Policy(word=20, guard_bits=-0.3)
    return build(robots.load("two_joint_arm"), FUNCTION, ii=1, policy=policy, axi=Axi(512, "batch"), folder=designs)


TEXTS = {
    "pci:/dev/xdma0": "link 'pci:/dev/xdma0'; expected one of 'sim', 'xdma:/dev/xdma0', 'pynq:PATH.bit', 'xrt:",
    "xdma": "link 'xdma'; expected one of 'sim', 'xdma:/dev/xdma0'",
    "xdma:": "link 'xdma:'; expected one of 'sim', 'xdma:/dev/xdma0'",
    "xdma:/dev/xdma0,channel": "link 'xdma:/dev/xdma0,channel' has 'channel'; expected OPTION=VALUE",
    "xdma:/dev/xdma0,lane=1": "has option 'lane'; expected one of channel, registers, timeout",
    "xdma:/dev/xdma0,channel=one": "has channel=one; expected a number",
    "xdma:/dev/xdma0,timeout=0": "timeout 0.0; expected seconds above 0",
    "pynq:arm.bit,system=1": "has option 'system'; expected one of dma, accelerator, timeout",
}


@pytest.mark.parametrize("text", list(TEXTS))
def test_a_text_that_is_no_link_says_what_is_expected(text: str, built: Design) -> None:
    with pytest.raises(ValueError, match=TEXTS[text]):
        dynagate.open(built, link=text)


def test_a_link_leads_to_a_design(built: Design) -> None:
    with pytest.raises(
        TypeError, match=r"'two_joint_arm' is a robot, and open\(\) takes designs; write dynagate.compile"
    ):
        dynagate.open("two_joint_arm", link="xdma:/dev/xdma0")
    with pytest.raises(ValueError, match="device 'board' without a link; expected link='xdma:/dev/xdma0' or another"):
        dynagate.open(built, device="board")
    with pytest.raises(ValueError, match="device 'board' of a design takes no option 'shell'; expected one of link"):
        dynagate.open(built, link="xdma:/dev/xdma0", shell=True)
    with pytest.raises(ValueError, match="device 'fixed' with link='xdma:/dev/xdma0'; expected device='board'"):
        dynagate.open(built, device="fixed", link="xdma:/dev/xdma0")
    with pytest.raises(ValueError, match="overflow 'clip'; expected 'mask' or 'raise'"):
        dynagate.open(built, overflow="clip")


@pytest.mark.parametrize("name", ["xdma", "pynq", "xrt", "sim"])
def test_a_design_is_opened_on_each(name: str, built: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = board(built)
    monkeypatch.setattr("dynagate.host.xdma_link.System", lambda: CardSystem(LocalCard(device)))
    monkeypatch.setitem(sys.modules, "pynq", Pynq(device))
    monkeypatch.setitem(sys.modules, "pyxrt", PyXrt(device))
    for file in ("arm.bit", "arm.xclbin"):
        (tmp_path / file).touch()
    places = {"xdma": device_files(tmp_path), "pynq": tmp_path / "arm.bit", "xrt": tmp_path / "arm.xclbin"}
    text = f"{name}:{places[name]},timeout=5" if name in places else name
    states = built.region.sample(FUNCTION, 50, seed=1)
    for port in built.graph.inputs:
        low, high = np.array([built.formatted.bounds[i] for i in port.nodes]).T
        states[port.name] = np.clip(states[port.name], low, high).astype(np.float32)
    expected = evaluate(built.formatted, {key: value.astype(np.float64) for key, value in states.items()})
    with dynagate.open(built.folder, link=text) as accelerator:
        results = accelerator(**states)
        np.testing.assert_array_equal(results.overflow, expected.overflow)
        right = ~expected.overflow
        np.testing.assert_array_equal(results.qdd[right], expected.outputs["qdd"][right].astype(np.float32))
    with (
        dynagate.open(built.folder, link=text, overflow="raise") as accelerator,
        pytest.raises(ArithmeticError, match=f"{expected.overflow.sum()} of 50 samples overflowed, the first at"),
    ):
        accelerator(**states)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "pynq",
            r"needs pynq \(no module pynq\); expected the board's own Python, or the extra: pip install 'dynagate",
        ),
        (
            "xrt",
            "needs pyxrt, which is part of XRT; expected XRT installed and its environment: source /opt/xilinx/xrt",
        ),
    ],
)
def test_a_missing_package_is_named(name: str, message: str, built: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pynq", "pyxrt"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=message):
        dynagate.open(built, link=f"{name}:arm.file")


def test_pynq_says_what_it_cannot_load(built: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynq", Pynq(board(built)))
    good, other = tmp_path / "arm.bit", tmp_path / "arm.txt"
    for file in (good, other):
        file.touch()
    with pytest.raises(DeviceError, match="nothing.bit: No such file or directory; expected a bitstream"):
        dynagate.open(built, link=f"pynq:{tmp_path}/nothing.bit")
    with pytest.raises(
        DeviceError, match="arm.txt cannot be loaded: No Devices Found; expected a board that runs pynq"
    ):
        dynagate.open(built, link=f"pynq:{other}")
    with pytest.raises(DeviceError, match="arm.bit has no block 'dma'; expected one of axi_dma_0, accelerator_0"):
        dynagate.open(built, link=f"pynq:{good},dma=dma")
    with (
        dynagate.open(built, link=f"pynq:{good}"),
        pytest.raises(DeviceError, match="arm.bit is busy: another process has it open; expected one process for a"),
    ):
        dynagate.open(built, link=f"pynq:{good}")


def test_pynq_s_own_dma_driver_is_needed(built: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pynq binds it to one version of AXI DMA; else a block has a driver without channels."""
    module = Pynq(board(built))

    class Unbound(module.Overlay):  # type: ignore[name-defined,misc]
        ip_dict = {**module.Overlay.ip_dict, "axi_dma_0": {"type": "xilinx.com:ip:axi_dma:8.0"}}  # noqa: RUF012

        def __init__(self, path: str) -> None:
            self.axi_dma_0 = object()

    module.Overlay = Unbound
    monkeypatch.setitem(sys.modules, "pynq", module)
    bitstream = tmp_path / "arm.bit"
    bitstream.touch()
    message = r"no DMA driver for both directions of block 'axi_dma_0' of .*arm.bit \(.*:8.0\); expected .*axi_dma:7.1"
    with pytest.raises(DeviceError, match=message):
        dynagate.open(built, link=f"pynq:{bitstream}")


def test_xrt_says_what_it_cannot_open(built: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = PyXrt(board(built))
    monkeypatch.setitem(sys.modules, "pyxrt", module)
    file = tmp_path / "arm.xclbin"
    with pytest.raises(
        DeviceError, match="arm.xclbin is no file; expected an .xclbin, which `dynagate bitstream` makes"
    ):
        dynagate.open(built, link=f"xrt:{file}")
    file.touch()
    with pytest.raises(DeviceError, match="cannot be opened on card 3: Could not open device with index '3'; expected"):
        dynagate.open(built, link=f"xrt:{file},card=3")
    with pytest.raises(DeviceError, match="cannot be opened on card 0: No such ip 'other'"):
        dynagate.open(built, link=f"xrt:{file},accelerator=other")
    module.busy = True
    with pytest.raises(DeviceError, match="Device or resource busy.*no other process that has it"):
        dynagate.open(built, link=f"xrt:{file}")


HEADERS = {
    "xrt/xrt_device.h": """
namespace xrt { struct device { explicit device(unsigned index) : index(index) {} unsigned index; }; }
""",
    "xrt/xrt_uuid.h": """
#include <string>
namespace xrt { struct uuid { explicit uuid(const char* text) : text(text) {} std::string text; }; }
""",
    "xrt/experimental/xrt_ip.h": """
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include "xrt/xrt_device.h"
#include "xrt/xrt_uuid.h"
namespace xrt {
struct ip {
    ip(const device& d, const uuid& u, const std::string& name) {
        if (d.index != 1 || u.text != "0123-4567") throw std::runtime_error("no such ip '" + name + "'");
    }
    uint32_t read_register(uint32_t offset) const {
        if (offset > 0xFF) throw std::runtime_error("offset out of bounds");
        return (*values)[offset];
    }
    void write_register(uint32_t offset, uint32_t value) { (*values)[offset] = value; }
    using Values = std::map<uint32_t, uint32_t>;
    std::shared_ptr<Values> values = std::make_shared<Values>();
};
}
""",
}
"""The part of XRT's headers that xrt_registers.cpp uses, with the signatures of XRT 2.18."""


@pytest.mark.parametrize("place", ["xrt/experimental/xrt_ip.h", "xrt/xrt_ip.h"])
def test_registers_by_a_compiled_library_where_pyxrt_has_none(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XILINX_XRT", str(tmp_path / "xrt"))
    with pytest.raises(
        MissingExtraError, match="no headers of XRT in .*xrt/include; expected XRT's environment: source"
    ):
        CompiledIp(1, "0123-4567", "accelerator")
    for name, text in HEADERS.items():
        header = tmp_path / "xrt" / "include" / (place if name.endswith("xrt_ip.h") else name)
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("#pragma once\n" + text)
    (tmp_path / "xrt" / "lib").mkdir()
    (tmp_path / "xrt" / "lib" / "libxrt_coreutil.a").write_bytes(b"!<arch>\n")
    registers = CompiledIp(1, "0123-4567", "accelerator")
    registers.write_register(0x20, 0xFFFFFFFF)
    assert (registers.read_register(0x20), registers.read_register(0x24)) == (0xFFFFFFFF, 0)
    with pytest.raises(OSError, match="offset out of bounds"):
        registers.read_register(0x100)
    with pytest.raises(OSError, match="no such ip 'accelerator'"):
        CompiledIp(0, "0123-4567", "accelerator")
