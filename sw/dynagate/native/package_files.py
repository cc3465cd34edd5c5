"""The files of a package of portable C and C++: header, sources, test, example and CMake project.

All files are named after the function, so that one folder may hold the installed packages of several functions.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from dynagate.base.ownership import with_head
from dynagate.base.untrusted import plain_text
from dynagate.native.headers import in_one_text
from dynagate.native.package_cmake import cmake_files
from dynagate.native.package_content import STATES, Package
from dynagate.native.package_cpp import cpp_header, example
from dynagate.native.package_units import unit_of
from dynagate.native.portable import CALL
from dynagate.native.source import PRECISIONS, wrapped, wrapped_arguments
from dynagate.robot import Robot


def package_files(package: Package) -> dict[str, str]:
    """Return the text of each file by its name."""
    name = package.name
    code = {
        f"{name}.h": header(package),
        f"{name}.hpp": cpp_header(package),
        f"{name}_body.h": body(package),
        **{f"{name}_{suffix}.c": source(package, number, suffix) for number, suffix in PRECISIONS},
        f"{name}_test.c": "\n".join(test_program(package)) + "\n",
        f"{name}_example.cpp": example(package),
    }
    files = code | cmake_files(name, package.title)
    return {file: with_head(file, text) for file, text in files.items()}


def write_package(package: Package, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the files of a package into a folder, which is made if it is missing, and return their paths."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    files = package_files(package)
    for name, text in files.items():
        (place / name).write_text(text)
    return [place / name for name in files]


def header(package: Package) -> str:
    """Return the header for callers in C and C++."""
    return "\n".join(_header(package)) + "\n"


def _header(package: Package) -> Iterator[str]:
    name = package.name
    yield f"#ifndef {name}_H\n#define {name}_H\n"
    yield f"/* {package.title}, {package.stamp}."
    yield " *\n * Arguments are arrays in row-major order without gaps, in the order of the function:"
    yield from described(package)
    yield from _joints(package.robot)
    yield " *\n * A function returns 0." + package.reports * " It returns 1 if an input or a result is infinite or NaN."
    if package.workspace is not None:
        yield f" * It returns 2 if the workspace has fewer than {name}_workspace numbers."
    if package.counts:
        yield " * It returns 3 if the number of iterations is less than 1, or no multiple of that between results."
    yield " * It is reentrant: it keeps nothing between calls, locks nothing, and allocates no memory."
    if package.workspace is None:
        yield f" * It has an array of {package.stack} numbers on the stack. Results may overlap inputs. */\n"
    else:
        yield " * Each thread needs a workspace of its own, whose content has no meaning before and after a call."
        yield " * Arrays may not overlap. */\n"
    yield "#ifndef DYNAGATE_NOEXCEPT\n#ifdef __cplusplus\n#define DYNAGATE_NOEXCEPT noexcept\n#else"
    yield "#define DYNAGATE_NOEXCEPT\n#endif\n#endif\n"
    yield '#ifdef __cplusplus\nextern "C" {\n#endif\n'
    yield "enum {"
    sizes = [f"    {name}_{each.name}_size = {each.size}" for each in package.arguments]
    sizes += [] if package.workspace is None else [f"    {name}_workspace = {package.workspace}"]
    yield ",\n".join(sizes) + "\n};\n"
    for number, suffix in PRECISIONS:
        yield from wrapped_arguments(f"int {name}_{suffix}", package.declared(number), " DYNAGATE_NOEXCEPT;")
    yield "\n#ifdef __cplusplus\n}\n#endif\n#endif"


def described(package: Package) -> Iterator[str]:
    """Yield a line of a comment for each argument: name, shape, unit, and whether it is read or written."""
    for each in package.arguments:
        unit = unit_of(each.port.name, package.robot)
        known = "" if plain_text(each.port.name) == each.name else f" ({plain_text(each.port.name)})"
        yield f" *   {'out' if each.is_output else 'in '} {each.name}{each.shape or '[1]'}{known}: {unit}"


def _joints(robot: Robot) -> Iterator[str]:
    """Yield lines of a comment: the joint of each entry of a velocity."""
    yield " *\n * Joints in the order of q, with the first entry of each in q and in qd:"
    q = v = 0
    for link in robot.links:
        joint = link.joint
        if joint.mimic:
            yield f" *   {plain_text(joint.name)}, {joint.type}: follows another joint"
            continue
        yield f" *   {plain_text(joint.name)}, {joint.type}: q[{q}], qd[{v}]"
        q, v = q + joint.nq, v + joint.nv


def body(package: Package) -> str:
    """Return the text that both sources include."""
    return "\n".join([f'#include "{package.name}.h"', in_one_text("dynagate_portable.h"), *package.body, ""])


def source(package: Package, number: str, suffix: str) -> str:
    """Return the source for a type of numbers."""
    function = "name##f" if number == "float" else "name"
    return (
        f"#define DYNAGATE_REAL {number}\n#define DYNAGATE_MATH(name) {function}\n"
        f'#define {CALL}(name) name##_{suffix}\n#include "{package.name}_body.h"\n'
    )


def test_program(package: Package) -> Iterator[str]:
    """Yield a program that compares the functions with stored results and returns the number of wrong outputs."""
    yield f'#include "{package.name}.h"\n#include <stdio.h>\n'
    yield f"enum {{ STATES = {STATES} }};\n"
    for side, arguments, arrays in (
        ("in", package.inputs, package.vectors.inputs),
        ("out", package.outputs, package.vectors.outputs),
    ):
        for each in arguments:
            rows = arrays[each.port.name].reshape(STATES, -1)
            numbers = ", ".join("{" + ", ".join(repr(float(x)) for x in row) + "}" for row in rows)
            entries = each.numbers(package.iterations)
            yield from wrapped(f"static const double {side}_{each.name}[STATES][{entries}] = {{{numbers}}};")
    yield _CHECK
    for number, suffix in PRECISIONS:
        yield from _check(package, number, suffix)
    calls = " + ".join(f"check_{suffix}()" for _, suffix in PRECISIONS)
    yield f"int main(void) {{\n    return {calls};\n}}"


_CHECK = """
/* The largest error of `size` numbers, relative to the largest that is expected among all `total` numbers. */
static double error_of(const double *found, const double *expected, long size, const double *all, long total) {
    double scale = 0, error = 0;
    for (long j = 0; j < total; j++) scale = all[j] > scale ? all[j] : -all[j] > scale ? -all[j] : scale;
    for (long j = 0; j < size; j++) {
        const double difference = found[j] > expected[j] ? found[j] - expected[j] : expected[j] - found[j];
        if (!(difference <= error)) error = difference;
    }
    return scale > 0 ? error / scale : error;
}

static int report(const char *precision, const char *output, double error, double accepted) {
    const int wrong = !(error <= accepted);
    printf("%s %s: error %.2g, accepted %.2g%s\\n", precision, output, error, accepted, wrong ? ": WRONG" : "");
    return wrong;
}
"""


def _check(package: Package, number: str, suffix: str) -> Iterator[str]:
    """Yield the function that checks one precision."""
    yield f"static int check_{suffix}(void) {{\n    int wrong = 0;"
    yield "    double largest[] = {" + ", ".join("0" for _ in package.outputs) + "};"
    yield "    for (int k = 0; k < STATES; k++) {"
    count = {each.name: each.numbers(package.iterations) for each in package.arguments}
    for each in package.arguments:
        yield f"        static {number} {each.name}[{count[each.name]}];"
    if package.workspace is not None:
        yield f"        static {number} workspace[{package.name}_workspace];"
    for name, n in count.items():
        value = f"({number})in_{name}[k][j]" if name in {each.name for each in package.inputs} else f"({number})1e9"
        yield f"        for (int j = 0; j < {n}; j++) {name}[j] = {value};"
    yield from wrapped_arguments(f"        if ({package.name}_{suffix}", package.passed(), ") wrong++;")
    if package.workspace is not None:
        small = [*package.passed()[:-1], f"{package.name}_workspace - 1"]
        yield from wrapped_arguments(f"        if ({package.name}_{suffix}", small, " != 2) wrong++;")
    for p, each in enumerate(package.outputs):
        n = count[each.name]
        yield f"        static double found_{p}[{n}];"
        yield f"        for (int j = 0; j < {n}; j++) found_{p}[j] = {each.name}[j];"
        call = f"error_of(found_{p}, out_{each.name}[k], {n}, &out_{each.name}[0][0], STATES * {n})"
        yield f"        const double error_{p} = {call};"
        yield f"        if (!(error_{p} <= largest[{p}])) largest[{p}] = error_{p};"
    yield "    }"
    for p, each in enumerate(package.outputs):
        accepted = package.vectors.tolerances[suffix][each.port.name]
        if math.isinf(accepted):
            yield f"    (void)largest[{p}];"
            continue
        yield f'    wrong += report("{suffix}", "{each.name}", largest[{p}], {accepted:.3g});'
    yield "    return wrong;\n}\n"
