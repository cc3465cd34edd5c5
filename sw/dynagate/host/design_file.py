"""design.json as the host reads it: arrays to payload words and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.design.files import REBUILD, DesignError, load
from dynagate.design.payload import Stream, Words, pack_integers, stream_of, unpack_integers
from dynagate.design.source import source_digest
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.format import Arithmetic, Format, quantise, to_float
from dynagate.graph import trace
from dynagate.host.inputs import Arrays, check_range
from dynagate.robot import Joint, Link, Robot


@dataclass(frozen=True)
class DesignFile:
    """hash: 64 bits that the device must show. overflow: bits of the output payload, one for each scope."""

    robot: str
    function: str
    ii: int
    latency: int
    hash: int
    input: Stream
    output: Stream
    overflow: range


def read_design(path: str | PathLike[str]) -> DesignFile:
    """Read design.json, or the one in a folder, and check it and the Verilog beside it. Raises DesignError."""
    content = load(path)
    try:
        return design_of(content)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DesignError(f"{path} is not a design: {error!r}; {REBUILD}") from None


def design_of(content: Mapping[str, Any]) -> DesignFile:
    return DesignFile(
        content["robot"]["name"],
        content["function"],
        content["ii"],
        content["latency"],
        int(content["hash"][:16], 16),
        stream_of(content["stream"]["input"]),
        stream_of(content["stream"]["output"]),
        range(first := content["stream"]["output"]["overflow"], first + len(content["stream"]["output"]["scopes"])),
    )


def formatted_design(path: str | PathLike[str]) -> FormattedGraph:
    """The graph of a design and the formats of its nodes, which say what its datapath computes.

    path: of design.json or its folder. Raises DesignError: as `read_design`, or another version of the generator wrote
    the design, whose graph may differ.
    """
    content = load(path)
    try:
        if content["versions"]["source"] != source_digest():
            raise DesignError(
                f"{path} was built by another version of dynagate, so its graph is not known; {REBUILD}, or open it on "
                "device 'sim'"
            )
        return _formatted(content)
    except DesignError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DesignError(f"{path} is not a design: {error!r}; {REBUILD}") from None


def _formatted(content: Mapping[str, Any]) -> FormattedGraph:
    options = dict(content["options"])
    if isinstance(options.get("frame"), dict):  # JSON has no numbers as keys
        options["frame"] = {int(first): link for first, link in options["frame"].items()}
    graph = trace(_robot(content["robot"]), content["function"], **options)
    nodes = content["nodes"]
    if [node["name"] for node in nodes] != [node.name for node in graph.nodes]:
        raise ArgumentError("its nodes are not those of its robot and function")
    stream = stream_of(content["stream"]["input"])
    bounds = {
        i: (stream.fields[k].low, stream.fields[k].high)
        for port, described in zip(graph.inputs, stream.ports, strict=True)
        for i, k in zip(port.nodes, described.fields, strict=True)
    }
    constants = {
        i: (node["constant"][0], Format(*node["constant"][1:])) for i, node in enumerate(nodes) if node["constant"]
    }
    formats = tuple(Format(node["width"], node["frac"]) for node in nodes)
    return FormattedGraph(graph, formats, constants, bounds, Arithmetic(**content["arithmetic"])).check()


def _robot(content: Mapping[str, Any]) -> Robot:
    links = [Link(**{**_tuples(link), "joint": Joint(**_tuples(link["joint"]))}) for link in content["links"]]
    return Robot(content["name"], tuple(links), tuple(content["gravity"]), content["rounding"])


def _tuples(content: Any) -> Any:
    """JSON's lists as tuples; objects keep their keys."""
    if isinstance(content, dict):
        return {key: _tuples(value) for key, value in content.items()}
    return tuple(map(_tuples, content)) if isinstance(content, list) else content


def pack_inputs(design: DesignFile, arrays: Arrays, batch: int) -> Words:
    """Arrays (batch, *shape) by name, as `inputs.checked` gives them -> payload words (batch, words).

    Raises ValueError that names the input which is outside the range that the formats were chosen for.
    """
    columns: dict[int, npt.NDArray[np.int64]] = {}
    for port in design.input.ports:
        flat = arrays[port.name].astype(np.float64).reshape(batch, len(port.fields))
        for k, index in enumerate(port.fields):
            field = design.input.fields[index]
            check_range(port, k, flat[:, k], (field.low, field.high), field.format.step)
            columns[index] = quantise(flat[:, k], field.format).value
    return pack_integers(design.input, columns, batch)


def unpack_outputs(
    design: DesignFile, words: Words
) -> tuple[dict[str, npt.NDArray[np.float64]], npt.NDArray[np.bool_]]:
    """Payload words -> float64 arrays (batch, *shape) by name, and which samples overflowed on their way."""
    columns = [
        to_float(integers, field.format)
        for integers, field in zip(unpack_integers(design.output, words), design.output.fields, strict=True)
    ]
    outputs = {
        port.name: np.stack([columns[index] for index in port.fields], axis=1).reshape(len(words), *port.shape)
        for port in design.output.ports
    }
    overflow = np.zeros(len(words), dtype=bool)
    for place in design.overflow:
        word, bit = divmod(place, 32)
        overflow |= (words[:, word] >> np.uint32(bit) & np.uint32(1)).astype(bool)
    return outputs, overflow
