"""Rebuild the graph and formats of a design from design.json."""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.design.files import REBUILD, DesignError, load_datapath
from dynagate.design.source import source_digest
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.proof.certificate import Certificate, recertified
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph, trace
from dynagate.graph.critical_path import late_terms_last
from dynagate.graph.region import Region
from dynagate.robot import Constraint, Frame, Joint, Link, Mimic, Robot


def formatted_design(path: str | PathLike[str], *, graph_of: Callable[..., Graph] = trace) -> FormattedGraph:
    """Return the graph of a design with the formats of its nodes.

    Args:
        path: Path of design.json or of its folder.
        graph_of: Returns the graph of a function of a robot.

    Raises:
        DesignError: The design cannot be loaded, or another version of the generator built it, whose graph may
            differ.
    """
    return formatted_of(load_datapath(path), path, graph_of)


def formatted_of(
    design: DesignRecord[DatapathBody], path: str | PathLike[str], graph_of: Callable[..., Graph] = trace
) -> FormattedGraph:
    """Return the graph of a loaded design with the formats of its nodes; `path` is its origin for errors."""
    check_generator(design, path)
    try:
        return _formatted(design, graph_of)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DesignError(f"{path} is not a design: {error!r}; {REBUILD}", code="DG-DESIGN-019") from None


def _formatted(design: DesignRecord[DatapathBody], graph_of: Callable[..., Graph]) -> FormattedGraph:
    robot = robot_of(design)
    graph = late_terms_last(graph_of(robot, design.function, AlgorithmOptions.of_record(design.options)))
    if design.formats.certificate is not None:
        graph = recertified(graph, robot, Certificate.of_dict(design.formats.certificate))
    if [node.name for node in design.body.nodes] != [node.name for node in graph.nodes]:
        raise ArgumentError("its nodes are not those of its robot and function", code="DG-DESIGN-020")
    bounds = {
        i: design.input.fields[k].range
        for port, described in zip(graph.inputs, design.input.ports, strict=True)
        for i, k in zip(port.nodes, described.fields, strict=True)
    }
    constants = {
        i: (node.constant[0], Format(*node.constant[1:])) for i, node in enumerate(design.body.nodes) if node.constant
    }
    formats = tuple(Format(node.width, node.frac) for node in design.body.nodes)
    return FormattedGraph(graph, formats, constants, bounds, Arithmetic(**design.body.arithmetic)).check()


def robot_of(design: DesignRecord[Any]) -> Robot:
    """Return the robot of a design."""
    content = design.robot
    links = tuple(Link(**{**_tuples(link), "joint": _joint(link["joint"])}) for link in content["links"])
    frames = tuple(Frame(**_tuples(frame)) for frame in content["frames"])
    constraints = tuple(Constraint(**constraint) for constraint in content["constraints"])
    passive = tuple(content.get("passive", ()))
    return Robot(
        content["name"],
        links,
        tuple(content["gravity"]),
        content["rounding"],
        frames,
        constraints,
        passive,
        tuple(content.get("variable", ())),
        content.get("friction_speed", 0.0),
    )


def region_of(design: DesignRecord[Any]) -> Region:
    """Return the states that the formats of a design are for.

    Raises:
        DesignError: The record has no such region.
    """
    try:
        return Region(robot_of(design), **{name: _tuples(value) for name, value in design.region.items()})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DesignError(
            f"the design of {design.title} has no region: {error!r}; {REBUILD}", code="DG-DESIGN-021"
        ) from None


def check_generator(design: DesignRecord[Any], path: str | PathLike[str]) -> None:
    """Check that this version of the generator built a design, so that it makes the same graph again.

    Raises:
        DesignError: Another version built it.
    """
    if design.versions.source != source_digest():
        raise DesignError(
            f"{os.fspath(path)} was built by another version of dynagate, so its graph is not known; {REBUILD}, or "
            "open it on device 'sim'",
            code="DG-DESIGN-022",
        )


def _joint(content: dict[str, Any]) -> Joint:
    mimic = content["mimic"]
    return Joint(**{**_tuples(content), "mimic": None if mimic is None else Mimic(**mimic)})


def _tuples(content: Any) -> Any:
    """Convert JSON's lists to tuples, inside objects too."""
    if isinstance(content, dict):
        return {key: _tuples(value) for key, value in content.items()}
    return tuple(map(_tuples, content)) if isinstance(content, list) else content
