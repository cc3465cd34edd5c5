"""Fields that the streams of a design's ring have in addition to those of its datapath: the steps of trajectories."""

from __future__ import annotations

from dataclasses import replace

from dynagate.design.design import WORD, AnyBody, DesignRecord, Field, Sides, StreamPort
from dynagate.fixedpoint.format import Format

FLAGS = ("start", "stop", "bad", "last")
"""Bits above the fields of a step: the state comes with it; the result does not return; an input does not fit; the
batch ends with it. The step's tag is above them."""
FLAGS_PORT, TAG_PORT = "flags", "tag"
"""The inputs of a ring that are no inputs of its datapath."""
FLAGGED = "flagged"
"""After the overflow bits of a result: its trajectory has overflowed in this step or before. Above it are a bit that is
1 where the batch ends and the step's tag."""
COMMAND = Format(3, 0)
"""Format of the command after a step's inputs on an AXI stream: 1 if the step continues a trajectory, plus 2 if its
result returns. A sample of zeros is a trajectory of one step, so every link gets a result for it.
"""


def ring_design(design: DesignRecord[AnyBody]) -> DesignRecord[AnyBody]:
    """The design with the streams of `rollout.v`: inputs FLAGS_PORT and TAG_PORT after the others, and FLAGGED after
    the overflow bits."""
    source, sink = design.input, design.output
    flags = Field("_".join(FLAGS), source.bits, len(FLAGS), 0)
    tag = Field(TAG_PORT, flags.lsb + flags.width, WORD, 0)
    first = len(source.fields)
    ports = StreamPort(FLAGS_PORT, (), (first,)), StreamPort(TAG_PORT, (), (first + 1,))
    payload = replace(source, bits=tag.lsb + WORD, fields=(*source.fields, flags, tag), ports=(*source.ports, *ports))
    results = replace(sink, bits=sink.bits + 2 + WORD, scopes=(*sink.scopes, FLAGGED))
    return replace(design, stream=Sides(payload, results))


def shell_design(design: DesignRecord[AnyBody]) -> DesignRecord[AnyBody]:
    """The design with the numbers that a step has on the AXI streams: an input `command` after the others."""
    source = design.input
    command = Field("command", source.bits, COMMAND.width, COMMAND.frac)
    port = StreamPort(command.signal, (), (len(source.fields),))
    stream = replace(
        source,
        bits=source.bits + COMMAND.width,
        fields=(*source.fields, command),
        ports=(*source.ports, port),
    )
    return replace(design, stream=replace(design.stream, input=stream))
