"""The codec of float32 streams in C, generated for one design and compiled on first use."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from dynagate.design.codec import Codec
from dynagate.design.design import AxiStreams, DesignRecord, StreamPort
from dynagate.design.words import FLOAT32, TAG_COUNT_MASK, WORD
from dynagate.graph.packing import ZERO
from dynagate.native.compile import C, library
from dynagate.native.source import CSource

NAME = "dynagate_words"
TOOLCHAIN = replace(C, flags=(*C.flags, "-O3"))
OUTSIDE, OTHER_TAG, TORN, SOME_NAN = 1, 2, 4, 8
"""Bits of the functions' status: an input is outside its range; a tag is unexpected; some words of a result are NaN;
all words are NaN.
"""

BLOCK = 8
"""Number of rows that are converted together, so that vectors are full even for inputs with few entries."""

TEXT = """\
// Arrays to the words of a design's streams and back: written by dynagate, compiled on first use, never edited.
#include <stdint.h>
#include <string.h>

{tables}

// Rows are converted in blocks: values of a port lie behind each other there, whatever their number.
#define FILL(NAME, T) \\
static inline __attribute__((always_inline)) int64_t NAME##_rows(const T* const* in, uint32_t* words, int64_t s, \\
                                                                 int rows) {{ \\
    int64_t outside = 0; \\
    float* w = (float*)(words + s * {in_stride}); \\
{fill}
    return outside; \\
}} \\
int NAME(const T* const* in, uint32_t* words, int64_t batch, uint32_t epoch, uint32_t first) {{ \\
    int64_t outside = 0, s = 0; \\
    for (; s + {block} <= batch; s += {block}) outside |= NAME##_rows(in, words, s, {block}); \\
    if (s < batch) outside |= NAME##_rows(in, words, s, (int)(batch - s)); \\
    for (s = 0; s < batch; ++s) words[s * {in_stride} + {in_tag}] = epoch | ((first + (uint32_t)s) & {mask}u); \\
    return outside ? {outside} : 0; \\
}}

FILL(dynagate_fill_f64, double)
FILL(dynagate_fill_f32, float)

int dynagate_take(float* const* out, const uint32_t* words, int64_t batch, uint32_t epoch, uint32_t first,
                  uint8_t* empty) {{
    int status = 0;
    for (int64_t s = 0; s < batch; ++s) {{
        const uint32_t* row = words + s * {out_stride};
        const float* w = (const float*)row;
        int nans = 0;
        for (int k = 0; k < {out_words}; ++k) nans += w[k] != w[k];
        if (row[{out_tag}] != (epoch | ((first + (uint32_t)s) & {mask}u))) status |= {other_tag};
        if (nans) status |= nans == {out_words} ? {some_nan} : {torn};
        empty[s] = nans != 0;
{take}
    }}
    return status;
}}
"""


def source(design: DesignRecord, axi: AxiStreams) -> CSource:
    """Return the C of a design's streams."""
    text = TEXT.format(
        tables="\n".join(_tables(design)),
        fill="\n".join(_fill(design, axi)),
        block=BLOCK,
        take="\n".join(_take(design.output.ports, design.wire.output)),
        in_stride=axi.beats.input * axi.lanes,
        out_stride=axi.beats.output * axi.lanes,
        in_tag=axi.words.input,
        out_tag=axi.words.output,
        out_words=len(design.output.fields),
        mask=TAG_COUNT_MASK,
        outside=OUTSIDE,
        other_tag=OTHER_TAG,
        some_nan=SOME_NAN,
        torn=TORN,
    )
    return CSource.of(NAME, {f"{NAME}.c": text})


def _tables(design: DesignRecord) -> Iterator[str]:
    """Yield tables of the accepted range of inputs, one rounding step more than their ranges, for each row of a
    block.
    """
    for p, port in enumerate(design.input.ports):
        fields = [design.input.fields[index] for index in port.fields]
        low = [field.range[0] - field.format.step for field in fields]
        high = [field.range[1] + field.format.step for field in fields]
        for name, values in (("low", low), ("high", high)):
            yield f"static const double {name}_{p}[] = {{{', '.join(map(_number, BLOCK * values))}}};"


def _number(value: float) -> str:
    return {float("inf"): "1.0 / 0.0", float("-inf"): "-1.0 / 0.0"}.get(value, value.hex())


def _fill(design: DesignRecord, axi: AxiStreams) -> Iterator[str]:
    """Yield lines of C that check inputs against their ranges and write them to the words of samples."""
    stride = axi.beats.input * axi.lanes
    for p, port in enumerate(design.input.ports):
        count = len(port.fields)
        yield f"    {{ const T* x = in[{p}] + s * {count}; float y[{BLOCK * count}]; \\"
        yield f"      for (int k = 0; k < rows * {count}; ++k) {{ \\"
        yield f"          outside |= !((x[k] >= low_{p}[k]) & (x[k] <= high_{p}[k])); y[k] = (float)x[k]; }} \\"
        yield "      for (int r = 0; r < rows; ++r) { \\"
        for start, word, run in _runs(port.fields, design.wire.input):
            yield f"          memcpy(w + r * {stride} + {word}, y + r * {count} + {start}, {4 * run}); \\"
        yield "      } } \\"


def _take(ports: Sequence[StreamPort], codec: Codec) -> Iterator[str]:
    """Yield lines of C that read the outputs from the words of a result."""
    for p, port in enumerate(ports):
        yield f"        float* y_{p} = out[{p}] + s * {len(port.fields)};"
        for start, word, count in _runs(port.fields, codec):
            if word == ZERO:
                yield f"        memset(y_{p} + {start}, 0, {4 * count});"
            else:
                yield f"        memcpy(y_{p} + {start}, w + {word}, {4 * count});"


def _runs(fields: Sequence[int], codec: Codec) -> Iterator[tuple[int, int, int]]:
    """Yield the entries that are adjacent in both the array and the words: position, word, number of entries.

    Each zero, which has no word, is separate.
    """
    words = [ZERO if index == ZERO else codec.slots[index].bit // WORD for index in fields]
    start = 0
    for k in range(1, len(words) + 1):
        if k == len(words) or words[k] != words[k - 1] + 1 or words[k - 1] == ZERO:
            yield start, words[start], k - start
            start = k


@cache
def _loaded(file: Path) -> Any:
    functions = ctypes.CDLL(str(file))
    pointer, size, word = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32
    for name in ("dynagate_fill_f64", "dynagate_fill_f32"):
        getattr(functions, name).argtypes = [pointer, pointer, size, word, word]
    functions.dynagate_take.argtypes = [pointer, pointer, size, word, word, pointer]
    return functions


def has_source(design: DesignRecord, axi: AxiStreams) -> bool:
    """Return whether the C supports a design's streams: all numbers are float32, and no result has a flag."""
    sides = design.wire
    slots = (*sides.input.slots, *sides.output.slots)
    return all(slot.number == FLOAT32 for slot in slots) and not axi.parameters and sides.output.flag is None


def functions(design: DesignRecord, axi: AxiStreams) -> Any:
    """Return the compiled functions. Raise CompileError if they cannot be compiled."""
    return _loaded(library(source(design, axi), double=False, toolchain=TOOLCHAIN))


def quick(functions: Any, name: str) -> Any:
    """Return a function for calls with ctypes arguments or 32-bit integers only.

    Without declared argument types ctypes converts nothing, which halves the time of a call.
    """
    return functions[name]


def pointers(arrays: Sequence[Any]) -> Any:
    """Return the addresses of arrays for C. The caller keeps the arrays alive."""
    return (ctypes.c_void_p * len(arrays))(*(array.__array_interface__["data"][0] for array in arrays))
