"""float32 on the streams of processors: results, flags of numbers that do not fit, several cores and functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Function, Policy, Region, robots
from dynagate.base.errors import ArgumentError
from dynagate.design.files import DesignError
from dynagate.design.words import FLOAT32, PER_BATCH, WORD
from dynagate.fixedpoint.format import Arithmetic, Format, to_float
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_integers
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.graph import Graph, Node, Port
from dynagate.host.devices.program_session import ProgramDevice
from dynagate.host.drivers import ShellDriver
from dynagate.host.openers import executor_of
from dynagate.host.report import Checks, report_design
from dynagate.host.report.bodies import ProgramSection
from dynagate.hw.designs import Design
from dynagate.hw.processor.compiler.instructions import ProgramError, instructions
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.compiler.words import messages, output_formats
from dynagate.hw.request import DesignRequest
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.units.floating import BINARY32, from_floating, point_out_of

from tests.core_programs import ARM, FLOATS, PAUSES, SMALL, check, check_under_pauses, states_of
from tests.designs import functions_of


def build(function: str, folder: Path, **options: Any) -> Design:
    options.setdefault("policy", Policy(samples=256))
    options.setdefault("units", FLOATS)
    return dynagate.build(ARM, **functions_of(function), region=Region.of(ARM, velocity=5.0), folder=folder, **options)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Design]:
    folder = tmp_path_factory.mktemp("programs")
    iiwa14, region = robots.load("iiwa14"), Region.of(robots.load("iiwa14"), velocity=5.0)
    return {
        "arm": build("forward_dynamics", folder),
        "overflowing": build("inverse_dynamics", folder, policy=Policy(samples=64, guard_bits=-0.5)),
        "iiwa14": dynagate.build(iiwa14, "inverse_dynamics", units=FLOATS, region=region, folder=folder),
    }


@pytest.fixture
def accelerator(programs: dict[str, Design]) -> Iterator[Function]:
    with dynagate.open(programs["arm"]) as opened:
        yield opened


def test_results_are_float32_and_equal_program_after_program(
    accelerator: Function, programs: dict[str, Design]
) -> None:
    for name in ("arm", "overflowing", "iiwa14", "arm"):
        accelerator.load(programs[name])
        assert (check(accelerator, programs[name]) > 0) == (name == "overflowing")
    states = states_of(programs["arm"].graph, ARM, 5)
    assert accelerator(**states).qdd.dtype == np.float32
    design = programs["arm"].design
    assert design.numbers == dict.fromkeys(["q", "qd", "tau", "qdd"], FLOAT32)
    assert "float32 on its streams" in (programs["arm"].folder / "datasheet.md").read_text()


def test_numbers_that_no_format_holds_are_flagged(accelerator: Function, programs: dict[str, Design]) -> None:
    """On the wire, which the host never sends: each float32 in each input, beside inputs that are zero."""
    built = programs["arm"]
    design, formatted = built.design, built.formatted
    assert isinstance(accelerator.device, ProgramDevice)
    driver = accelerator.device.driver
    assert isinstance(driver, ShellDriver)
    fields = [design.input.fields[k] for port in design.input.ports for k in port.fields]
    numbers = [0.0, -0.0, 1e-45, -1e-39, 3e38, -3e38, np.inf, -np.inf, np.nan]
    count = 0
    words, expected, bad = [], [], []
    for node, field in zip(formatted.graph.input_nodes, fields, strict=True):
        (low, high), step = field.format.limits, field.format.step
        ends = [low, high, low - step, high + step / 2, high + step, 2 * low]
        own = [*numbers, *ends, 0.5 * step, -0.5 * step, 0.49 * step]
        x = np.array(own, np.float32).view(np.uint32)
        made = from_floating(x, field.format, field.width, BINARY32)
        assert 5 < made.overflow.sum() < len(x) - 5
        rows = np.zeros((len(x), driver.sample[0]), np.uint32)
        rows[:, field.lsb // WORD] = x
        integers = {i: np.zeros(len(x), np.int64) for i in formatted.graph.input_nodes} | {node: made.value}
        values = evaluate_integers(formatted, integers)
        words.append(rows)
        bad.append(made.overflow)
        expected.append((values.value, values.overflow | made.overflow))
        count += len(x)
    answers = driver.floats(np.concatenate(words)[:, :, np.newaxis])[:, :, 0]
    flags = np.concatenate([flag for _, flag in expected])
    np.testing.assert_array_equal(answers[:, design.output.overflow // WORD] & 1, flags)
    qdd = [f for port in design.output.ports for f in port.fields]
    for node, k in zip(formatted.graph.output_nodes, qdd, strict=True):
        field = design.output.fields[k]
        exact = np.concatenate([to_float(value[node], field.format) for value, _ in expected])
        own = answers[:, field.lsb // WORD].view(np.float32)
        np.testing.assert_array_equal(own[~flags], exact[~flags].astype(np.float32))
    counters = driver.session.read_counters()
    assert (counters.bad_inputs, counters.samples_in) == (np.concatenate(bad).sum(), count)
    assert counters.first_bad_input == int(np.argmax(np.concatenate(bad)))
    check(accelerator, built, 5)


@pytest.mark.parametrize("pauses", PAUSES)
def test_converters_wait_for_the_streams(programs: dict[str, Design], pauses: tuple[float, float]) -> None:
    check_under_pauses(programs["overflowing"], programs["iiwa14"], pauses)


def test_a_packet_that_is_cut_leaves_the_next_one_its_numbers(
    accelerator: Function, programs: dict[str, Design]
) -> None:
    """NaNs of the packet that TLAST ends are still in the converter when the next one begins."""
    assert isinstance(accelerator.device, ProgramDevice)
    driver = accelerator.device.driver
    assert isinstance(driver, ShellDriver)
    states = states_of(programs["arm"].graph, ARM, 3)
    expected = accelerator(**states).qdd
    for count in range(2, driver.sample[0]):
        cut = np.full((1, count, 1), 0x7FC00000, np.uint32)
        cut[:, 0] = 0
        driver.link.write(cut)
        samples = np.zeros((3, *driver.sample), np.uint32)
        driver.words.fill(states, samples)
        values, flags = driver.unpack(samples, driver.stream(samples))
        np.testing.assert_array_equal(values["qdd"], expected)
        assert not flags.any()


def test_samples_side_by_side_and_several_functions(tmp_path: Path) -> None:
    names = "inverse_dynamics,mass_matrix,forward_dynamics"
    region = Region.of(ARM, velocity=5.0)
    request = DesignRequest(ARM, names, region=region)
    report = report_design(request, FLOATS, folder=tmp_path, checks=Checks(60))
    assert report.passed, report.text()
    built = report.section(ProgramSection).built
    with dynagate.open(built) as chip, dynagate.open(built.folder, device="fixed") as integers:
        for turn, name in enumerate(names.split(",") * 2):
            inputs = region.sample(name, 9, turn)
            got, expected = getattr(chip, name)(**inputs), getattr(integers, name)(**inputs)
            for output in expected:
                np.testing.assert_array_equal(got[output], expected[output])
    beside = replace(request, function="inverse_dynamics", samples_per_run=3)
    report = report_design(beside, FLOATS, folder=tmp_path, checks=Checks(60))
    assert report.passed, report.text()


VARIATIONAL = {"integrator": "variational", "tolerance": 1e-4}


@pytest.mark.parametrize("options", [{}, pytest.param(VARIATIONAL, marks=pytest.mark.long)], ids=str)
def test_trajectories_of_float32(options: dict[str, Any], tmp_path: Path) -> None:
    """The word that says where a trajectory starts is a float32 too."""
    units, words = (2, FLOAT32) if options else (FLOATS, None)
    request = DesignRequest(ARM, "rollout", words=words, algorithm=AlgorithmOptions(**options))
    report = report_design(request, units, folder=tmp_path, checks=Checks(states=6, steps=11))
    assert report.passed, report.text()
    assert report.section(ProgramSection).built.hardware.core.floats == 1


@pytest.mark.long
def test_cores_share_the_converters(programs: dict[str, Design]) -> None:
    axi = Axi(128, PER_BATCH, FLOAT32)
    for pauses in ((0.0, 0.0), (0.3, 0.7)):
        executor = executor_of(programs["overflowing"], "sim", axi=axi, cores=3, pauses=pauses)
        with closing(Function(executor)) as accelerator:
            assert check(accelerator, programs["overflowing"], 23) > 0
            accelerator.load(programs["arm"])
            assert check(accelerator, programs["arm"], 23) == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"words": "float16"}, r"^words 'float16' of a program; expected 'fixed' or 'float32' \[DG-"),
        (
            {"words": "fixed"},
            r"^words 'fixed' for a core of 'float32'; expected Core\(floats=0\), or words left out \[DG-",
        ),
        ({"words": "float32", "units": SMALL}, r"^words 'float32' for a core of 'fixed'; expected Core\(floats=1\)"),
        ({"words": "float32", "units": None}, r"^words 'float32' of a datapath; expected axi=Axi\(words='float32'\)"),
    ],
    ids=str,
)
def test_words_that_a_core_does_not_have_are_refused(options: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=text):
        build("inverse_dynamics", tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_a_program_for_integers_is_refused(accelerator: Function, programs: dict[str, Design], tmp_path: Path) -> None:
    other = build("forward_dynamics", tmp_path, units=SMALL)
    with pytest.raises(DesignError, match=r"is a program for another core \(.*floats=0\); this one has .*floats=1: "):
        accelerator.load(other)
    check(accelerator, programs["arm"], 3)


def test_a_core_too_small_for_the_binary_points_says_so(tmp_path: Path) -> None:
    """Those of all functions lie in one table."""
    small = replace(FLOATS, input_bits=5, program_bits=12)
    text = r"takes 37 pairs of binary points, 5 more than the core's 32; expected a core with input_bits=6 \[DG-"
    with pytest.raises(ProgramError, match=text):
        dynagate.build(
            robots.load("iiwa14"), ["inverse_dynamics", "mass_matrix"], per_sample=True, units=small, folder=tmp_path
        )


def test_results_of_the_same_bits_have_words_of_their_own() -> None:
    """A word has one binary point, so what is twice another result is brought out beside it."""
    nodes = (Node("input", (), None, "a_0"), Node("mul", (0, 0), None, "square"), Node("shift", (1,), 1.0, "twice"))
    outputs = Port("square", (), (1,)), Port("twice", (), (2,))
    graph = Graph("square", "none", nodes, (Port("a", (), (0,)),), outputs).check()
    formats = Format(24, 20), Format(24, 18), Format(24, 17)
    constants = {2: (1, Format(16, 0))}
    formatted = FormattedGraph(graph, formats, constants, {0: (-4.0, 4.0)}, Arithmetic()).check()
    scheduled = schedule(instructions(FLOATS.fused(formatted)), FLOATS)
    fracs = [fmt.frac for fmt in output_formats(scheduled)[0]]
    assert sorted(fracs) == [17, 18]
    loaded = {int(a) & 0xFFFFFF: int(b) for a, b in messages(scheduled) if int(a) >> 24 == 0x25}
    assert loaded == {0: 32, 32: point_out_of(Format(24, fracs[0])), 33: point_out_of(Format(24, fracs[1]))}
