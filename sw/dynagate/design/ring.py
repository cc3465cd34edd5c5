"""Fields that the streams of a design's ring add to those of its datapath, for the steps of trajectories."""

from __future__ import annotations

from dataclasses import replace

from dynagate.design.design import WORD, AnyBody, DesignRecord, Field, Sides, StreamPort
from dynagate.fixedpoint.format import Format

FLAGS = ("start", "stop", "bad", "last")
"""Bits above the fields of a step: it starts from the state in the inputs; its result does not return; an input does
not fit; the batch ends with it. The step's tag is above them.
"""
FLAGS_PORT, TAG_PORT = "flags", "tag"
"""Names of the inputs that a ring adds to those of its datapath."""
FLAGGED = "flagged"
"""Name of the bit after a result's overflow bits: its trajectory has overflowed in this step or before. Above it are a
bit that is 1 where the batch ends, and the step's tag.
"""
COMMAND = Format(3, 0)
"""Format of the command after a step's inputs on an AXI stream: 1 if the step continues a trajectory, plus 2 if its
result returns. A sample of zeros is a trajectory of one step, so every link gets a result for it.
"""


def ring_design(design: DesignRecord[AnyBody]) -> DesignRecord[AnyBody]:
    """Return the record with the streams of `rollout.v`: further inputs FLAGS_PORT and TAG_PORT, and FLAGGED after
    overflow.
    """
    source, sink = design.input, design.output
    flags = Field("_".join(FLAGS), source.bits, len(FLAGS), 0)
    tag = Field(TAG_PORT, flags.lsb + flags.width, WORD, 0)
    first = len(source.fields)
    ports = StreamPort(FLAGS_PORT, (), (first,)), StreamPort(TAG_PORT, (), (first + 1,))
    payload = replace(source, bits=tag.lsb + WORD, fields=(*source.fields, flags, tag), ports=(*source.ports, *ports))
    results = replace(sink, bits=sink.bits + 2 + WORD, scopes=(*sink.scopes, FLAGGED))
    return replace(design, stream=Sides(payload, results))


def shell_design(design: DesignRecord[AnyBody]) -> DesignRecord[AnyBody]:
    """Return the record with the additional input `command`, which every step has on the AXI streams."""
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
