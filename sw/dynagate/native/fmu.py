"""Functional mock-up units of FMI 3.0: a robot for simulators such as OpenModelica, Simulink and Gazebo.

A unit has torques as inputs and positions, velocities and accelerations as outputs. In co-simulation it advances by the
steps of a rollout. In model exchange the simulator integrates its states. Derivatives are those of the exact gradient.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

import dynagate
from dynagate.base.errors import ArgumentError
from dynagate.base.ownership import OWNERSHIP
from dynagate.base.untrusted import identifier, plain_text
from dynagate.dynamics.configuration import neutral
from dynagate.dynamics.steps.step import DEFAULT_STEP
from dynagate.forces.options import DEFAULTS, AlgorithmOptions
from dynagate.graph import Graph, trace
from dynagate.native.cross_compile import compiler_for, shared_library
from dynagate.native.headers import in_one_text
from dynagate.native.platforms import chosen_platforms
from dynagate.native.portable import SEGMENT_PLACES, PortableStep
from dynagate.native.source import stamp_of
from dynagate.robot import Robot

INPUTS = ("q", "qd", "tau")
DATE = (2000, 1, 1, 0, 0, 0)
"""Date of all files in a unit, so that the same robot gives the same archive."""

UNITS = {
    "rad": 'rad="1"',
    "rad/s": 'rad="1" s="-1"',
    "rad/s2": 'rad="1" s="-2"',
    "m": 'm="1"',
    "m/s": 'm="1" s="-1"',
    "m/s2": 'm="1" s="-2"',
    "N.m": 'kg="1" m="2" s="-2"',
    "N": 'kg="1" m="1" s="-2"',
    "s": 's="1"',
    "1": "",
}
"""Unit -> its exponents of SI base units, as FMI lists them."""


@dataclass(frozen=True)
class Variable:
    """A variable of a unit."""

    name: str
    reference: int
    attributes: str
    description: str = ""

    def xml(self) -> str:
        """Return the element of modelDescription.xml."""
        described = f" description={quoteattr(self.description)}" if self.description else ""
        return f'<Float64 name={quoteattr(self.name)} valueReference="{self.reference}"{described} {self.attributes}/>'


@dataclass(frozen=True)
class Fmu:
    """A robot as a functional mock-up unit.

    Args:
        robot: The robot. Its parameters are constants.
        options: Time step, integrator, algorithm and forces of a step.

    Raises:
        ArgumentError: The robot has variable parameters or no degree of freedom, or a step has further inputs.
    """

    robot: Robot
    options: AlgorithmOptions = DEFAULTS

    def __post_init__(self) -> None:
        if self.robot.variables:
            raise ArgumentError(
                f"{self.robot.name} has the variable parameters {', '.join(v.input for v in self.robot.variables)}; "
                "expected a robot without them for a functional mock-up unit",
                code="DG-COMPILE-005",
            )
        if not self.robot.nv:
            raise ArgumentError(
                f"{self.robot.name} has no joints that move; expected a robot with at least one", code="DG-COMPILE-006"
            )

    @property
    def dt(self) -> float:
        """Return the internal time step in seconds."""
        return DEFAULT_STEP if self.options.dt is None else float(self.options.dt)

    @property
    def name(self) -> str:
        """Return the identifier of the model."""
        return f"{identifier(self.robot.name)}_fmu"

    @property
    def exchanges(self) -> bool:
        """Return whether the unit has model exchange and derivatives, which need coordinates without quaternions."""
        return not self.robot.quaternions()

    def graphs(self) -> dict[str, Graph]:
        """Return the functions of the unit by their names in C."""
        steps = replace(self.options, dt=self.dt, outputs=None)
        rest = AlgorithmOptions(forces=self.options.forces)
        graphs = {
            "accelerations": trace(self.robot, "forward_dynamics", rest),
            "advance": trace(self.robot, "step", steps),
        }
        if self.exchanges:
            graphs["gradient"] = trace(self.robot, "forward_dynamics_gradient", rest)
        for graph in graphs.values():
            if (names := tuple(port.name for port in graph.inputs)) != INPUTS:
                raise ArgumentError(
                    f"{graph.name} has the inputs {', '.join(names)}; expected {', '.join(INPUTS)} only",
                    code="DG-COMPILE-007",
                )
        return graphs

    def source(self) -> str:
        """Return the C of the unit."""
        robot, lines = self.robot, [SEGMENT_PLACES]
        for name, graph in self.graphs().items():
            lines += PortableStep(graph, name).lines()
        lines += [
            f"#define NQ {robot.nq}\n#define NV {robot.nv}\n#define DT {self.dt!r}",
            f"#define MODEL_EXCHANGE {int(self.exchanges)}",
            f"static const double neutral[] = {{{', '.join(repr(float(x)) for x in neutral(robot))}}};",
        ]
        head = "#define DYNAGATE_REAL double\n#define DYNAGATE_MATH(name) name\n" + in_one_text("dynagate_portable.h")
        body = "\n".join([*lines, ""])
        token = f'#define TOKEN "{stamp_of(body)}"\n'
        first = "".join(f"/* {line} */\n" for line in OWNERSHIP)
        return first + head + body + token + in_one_text("dynagate_fmu.c")

    def write(self, file: Path, platforms: Sequence[str] = ()) -> None:
        """Write the unit, with its sources and a binary for each platform.

        Args:
            file: The file.
            platforms: Names of `native.platforms.PLATFORMS`, such as "x86_64-windows"; none for that of this process.

        Raises:
            ArgumentError: A platform is unknown.
            CompileError: The C compiler of a platform is missing or fails.
        """
        chosen = chosen_platforms(platforms)
        for platform in chosen:
            compiler_for(platform)
        source = self.source()
        token = source.split('#define TOKEN "')[1].split('"')[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{self.name}.c"
            path.write_text(source)
            binaries = {
                f"binaries/{platform.name}/{self.name}{platform.suffix}": shared_library(path, platform)
                for platform in chosen
            }
        contents = {
            "modelDescription.xml": self.description(token).encode(),
            **binaries,
            f"sources/{self.name}.c": source.encode(),
            "sources/buildDescription.xml": self.build_description().encode(),
        }
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                archive.writestr(zipfile.ZipInfo(name, DATE), content, zipfile.ZIP_DEFLATED)

    def build_description(self) -> str:
        """Return the file that lists the sources."""
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n<fmiBuildDescription fmiVersion="3.0">\n'
            f'  <BuildConfiguration modelIdentifier="{self.name}">\n    <SourceFileSet language="C11">\n'
            f'      <SourceFile name="{self.name}.c"/>\n    </SourceFileSet>\n'
            '    <Library name="m" external="true"/>\n  </BuildConfiguration>\n</fmiBuildDescription>\n'
        )

    def description(self, token: str) -> str:
        """Return modelDescription.xml. token: the text that a simulator passes when it makes an instance."""
        return "\n".join(self._description(token)) + "\n"

    def _description(self, token: str) -> Iterator[str]:
        common = f'modelIdentifier="{self.name}" canGetAndSetFMUState="true" canSerializeFMUState="true"'
        exact = ' providesDirectionalDerivatives="true" providesAdjointDerivatives="true"' if self.exchanges else ""
        yield '<?xml version="1.0" encoding="UTF-8"?>'
        for line in OWNERSHIP:
            yield f"<!-- {line} -->"
        yield (
            f'<fmiModelDescription fmiVersion="3.0" modelName="{plain_text(self.robot.name)}" '
            f'instantiationToken="{token}" generationTool="dynagate {dynagate.__version__}" '
            'variableNamingConvention="structured">'
        )
        if self.exchanges:
            yield f"  <ModelExchange {common}{exact}/>"
        step = f'canHandleVariableCommunicationStepSize="true" fixedInternalStepSize="{self.dt!r}"'
        yield f"  <CoSimulation {common} {step}{exact}/>"
        yield "  <UnitDefinitions>"
        yield from (f'    <Unit name="{name}"><BaseUnit {base}/></Unit>' for name, base in UNITS.items())
        yield '  </UnitDefinitions>\n  <LogCategories><Category name="logStatusError"/></LogCategories>'
        yield f'  <DefaultExperiment startTime="0" stopTime="1" stepSize="{self.dt!r}"/>\n  <ModelVariables>'
        variables = self.variables()
        yield from (f"    {variable.xml()}" for group in variables.values() for variable in group)
        yield "  </ModelVariables>\n  <ModelStructure>"
        state = " ".join(str(v.reference) for group in ("tau", "q", "qd") for v in variables[group])
        for group in ("q", "qd", "qdd"):
            for variable in variables[group]:
                known = f' dependencies="{state if group == "qdd" else variable.reference}"'
                known = known if self.exchanges else ""
                yield f'    <Output valueReference="{variable.reference}"{known}/>'
        if self.exchanges:
            for v in variables["qd"]:
                yield f'    <ContinuousStateDerivative valueReference="{v.reference}" dependencies="{v.reference}"/>'
            for v in variables["qdd"]:
                yield f'    <ContinuousStateDerivative valueReference="{v.reference}" dependencies="{state}"/>'
        for v in variables["qdd"]:
            yield f'    <InitialUnknown valueReference="{v.reference}" dependencies="{state}"/>'
        yield "  </ModelStructure>\n</fmiModelDescription>"

    def variables(self) -> dict[str, list[Variable]]:
        """Return the variables in the order of their value references, by the argument that they are entries of."""
        nq, nv = self.robot.nq, self.robot.nv
        first = {"tau": 1, "q": 1 + nv, "qd": 1 + nv + nq, "qdd": 1 + 2 * nv + nq}
        start = [float(x) for x in neutral(self.robot)]
        groups = {"time": [Variable("time", 0, 'causality="independent" variability="continuous" unit="s"')]}
        for group in first:
            entries = []
            for k, (joint, unit) in enumerate(self._entries(group)):
                exact = 'causality="output" initial="exact"'
                attributes = {
                    "tau": 'causality="input" start="0.0"',
                    "q": f'{exact} start="{start[k] if group == "q" else 0.0!r}"',
                    "qd": f'{exact} start="0.0"',
                    "qdd": 'causality="output" initial="calculated"',
                }[group]
                if self.exchanges and group in ("qd", "qdd"):
                    attributes += f' derivative="{first["q" if group == "qd" else "qd"] + k}"'
                entries.append(Variable(f"{group}[{k + 1}]", first[group] + k, f'{attributes} unit="{unit}"', joint))
            groups[group] = entries
        return groups

    def _entries(self, group: str) -> Iterator[tuple[str, str]]:
        """Yield the joint and the unit of each entry of an argument."""
        for link in self.robot.links:
            joint = link.joint
            if joint.has_quaternion:
                yield from ((plain_text(joint.name), unit) for unit in _free(group, joint.nq, joint.nv))
            else:
                slides = joint.type == "prismatic"
                yield from ((plain_text(joint.name), _UNIT_OF[group][slides]) for _ in range(joint.nv))


_UNIT_OF = {"tau": ("N.m", "N"), "q": ("rad", "m"), "qd": ("rad/s", "m/s"), "qdd": ("rad/s2", "m/s2")}
"""Units of an entry of a joint that rotates and of one that slides, by argument."""


def _free(group: str, nq: int, nv: int) -> list[str]:
    """Return the units of the entries of a spherical or floating joint, linear ones first."""
    turning, sliding = _UNIT_OF[group]
    return [sliding] * (nv - 3) + (["1"] * 4 if group == "q" else [turning] * 3)
