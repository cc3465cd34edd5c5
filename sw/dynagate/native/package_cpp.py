"""The C++17 header and the example of a package of portable C.

The header overloads one name for float and double. Arguments are pointers. With C++20 they may be spans of fixed
length, and with Eigen on the include path matrices of fixed size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dynagate.native.package_content import Package
from dynagate.native.portable import CArgument
from dynagate.native.source import PRECISIONS, wrapped, wrapped_arguments


def cpp_header(package: Package) -> str:
    """Return the C++17 header of a package."""
    return "\n".join(_lines(package)) + "\n"


def _lines(package: Package) -> Iterator[str]:
    name, arguments = package.name, package.arguments
    yield f"#ifndef {name}_HPP\n#define {name}_HPP\n"
    yield f"/* {name} for C++17. Arguments, units and status: see {name}.h. */"
    yield f'#include "{name}.h"\n'
    has_shapes = package.workspace is None
    if has_shapes:
        yield "#if defined(__has_include) && __cplusplus >= 202002L\n#if __has_include(<span>)\n#include <span>"
        yield f"#define {name}_HAS_SPAN\n#endif\n#endif"
        yield "#if defined(__has_include)\n#if __has_include(<Eigen/Core>)\n#include <Eigen/Core>"
        yield f"#define {name}_HAS_EIGEN\n#endif\n#endif\n"
    yield "namespace dynagate {\n\n/* Pointers to the first entries. */"
    for number, suffix in PRECISIONS:
        declared = package.declared(number)
        names = [text.split()[-1].lstrip("*") for text in declared]
        yield from _overload(name, suffix, declared, names)
    if has_shapes:
        data = [f"{each.name}.data()" for each in arguments]
        yield f"\n#ifdef {name}_HAS_SPAN\n/* Spans, or arrays of the right length. */"
        for number, suffix in PRECISIONS:
            yield from _overload(name, suffix, [_span(each, number) for each in arguments], data)
        yield f"#endif\n\n#ifdef {name}_HAS_EIGEN"
        yield from _eigen(name, arguments)
        yield "#endif"
    yield "\n} // namespace dynagate\n"
    if has_shapes:
        yield f"#undef {name}_HAS_SPAN\n#undef {name}_HAS_EIGEN"
    yield "#endif"


def _overload(name: str, suffix: str, declared: Sequence[str], passed: Sequence[str]) -> Iterator[str]:
    """Yield a function of one precision that passes its arguments to that of C."""
    yield from wrapped_arguments(f"inline int {name}", declared, " noexcept {")
    yield from wrapped_arguments(f"return ::{name}_{suffix}", passed, ";", "    ")
    yield "}"


def _span(each: CArgument, number: str) -> str:
    return f"std::span<{'' if each.is_output else 'const '}{number}, {each.size}> {each.name}"


def _matrix(each: CArgument, number: str) -> str:
    """Return the type of a matrix of fixed size. Axes before the last one are joined to rows."""
    columns = each.port.shape[-1] if len(each.port.shape) > 1 else 1
    rows = each.size // columns if columns else 0
    order = "Eigen::RowMajor" if columns > 1 else "Eigen::ColMajor"
    return f"Eigen::Matrix<{number}, {rows}, {columns}, {order}>"


def _eigen(name: str, arguments: Sequence[CArgument]) -> Iterator[str]:
    """Yield the overloads for matrices of Eigen, which return all results in a structure."""
    inputs, outputs = ([each for each in arguments if each.is_output == side] for side in (False, True))
    yield f"/* Results of {name}. Axes of arrays before the last one are joined to rows. */"
    yield f"template <class Number> struct {name}_results {{"
    yield from (f"    {_matrix(each, 'Number')} {each.name};" for each in outputs)
    yield "    int status;\n};"
    for number, suffix in PRECISIONS:
        taken = (f"const Eigen::Ref<const {_matrix(each, number)}> &{each.name}" for each in inputs)
        yield from wrapped_arguments(f"inline {name}_results<{number}> {name}", taken, " noexcept {")
        yield f"    {name}_results<{number}> results;"
        pointers = [f"{each.name}.data()" for each in inputs] + [f"results.{each.name}.data()" for each in outputs]
        yield from wrapped_arguments(f"results.status = ::{name}_{suffix}", pointers, ";", "    ")
        yield "    return results;\n}"


def example(package: Package) -> str:
    """Return a program that calls the function for one state and prints the first output."""
    name, outputs = package.name, package.outputs
    lines = [f"/* One call of {name} in C++17. */", f'#include "{name}.hpp"', "#include <cstdio>\n", "int main() {"]
    for each in package.arguments:
        if each.is_output:
            lines.append(f"    double {each.name}[{each.numbers(package.iterations)}];")
        else:
            numbers = ", ".join(f"{x:.9g}" for x in package.vectors.inputs[each.port.name][0].ravel())
            lines += wrapped(f"const double {each.name}[] = {{{numbers}}};", "    ", " " * 8)
    if package.workspace is not None:
        lines.append(f"    static double workspace[{name}_workspace];")
    lines += wrapped_arguments(f"const int status = dynagate::{name}", package.passed(), ";", "    ")
    lines += [
        '    if (status != 0) return std::printf("the call failed, with status %d\\n", status), status;',
        f'    for (double x : {outputs[0].name}) std::printf("%.17g\\n", x);',
        "    return 0;\n}",
    ]
    return "\n".join(lines) + "\n"
