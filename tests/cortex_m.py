"""Emitted C on an emulated Cortex-M: compiled for the bare machine, run by QEMU, its instructions counted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

COMPILER, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
PACKAGES = "gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm"

TICK = 40
"""Instructions of a tick of the machines' timer: it has 25 MHz, and an instruction takes 1 ns (-icount shift=0)."""

CALLS = 50

LINKED = """
MEMORY { code (rwx) : ORIGIN = 0x00000000, LENGTH = 4M
         data (rw) : ORIGIN = 0x20000000, LENGTH = 4M }
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.data*) } > code
    .ARM.exidx : { *(.ARM.exidx*) } > code
    .bss : { *(.bss*) *(COMMON) } > data
}
"""

START = """
#include "%(file)s"

void reset(void);
__attribute__((section(".vectors"), used)) static const void *vectors[] = {(void *)0x20400000, (void *)reset};

static void system_call(int number, const void *argument) {
    register int r0 __asm__("r0") = number;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(const char *name, unsigned value) {
    static char text[40];
    char digits[12];
    int at = 0, count = 0;
    while (*name) text[at++] = *name++;
    text[at++] = ' ';
    do digits[count++] = (char)('0' + value %% 10); while (value /= 10);
    while (count) text[at++] = digits[--count];
    text[at++] = '\\n';
    text[at] = 0;
    system_call(4, text);
}

static volatile unsigned *const timer = (volatile unsigned *)0xE000E010; /* control, reload, current */

static unsigned started(void) {
    timer[1] = 0xFFFFFF;
    timer[2] = 0;
    timer[0] = 5;
    return timer[2];
}

static void begin(void) {
#ifdef __ARM_FP
    *(volatile unsigned *)0xE000ED88 |= 0xFu << 20; /* the floating-point unit is on */
    __asm__ volatile("dsb\\nisb");
#endif
    print("wrong", (unsigned)main());
    const unsigned before = started();
    __asm__ volatile(".align 2\\nmovw r3, #50000\\n1: subs r3, r3, #1\\nbne 1b" ::: "r3", "cc");
    print("loop", (before - timer[2]) & 0xFFFFFF);
}

static void finish(void) {
    static const unsigned done[2] = {0x20026, 0};
    system_call(0x20, done);
    for (;;) {}
}
"""
"""Start of a program for the bare machine, which runs the test vector of the file that it includes."""

HARNESS = (
    START
    + """
void reset(void) {
    static %(type)s output[%(outputs)d];
    begin();
    const unsigned before = started();
    for (int k = 0; k < %(calls)d; k++) {
        %(name)s(check_in[k %% %(states)d], output);
        __asm__ volatile("" ::: "memory");
    }
    print("ticks", (before - timer[2]) & 0xFFFFFF);
    finish();
}
"""
)

PACKAGE = """
#include "%(name)s.h"
#define %(name)s_%(precision)s(...) counted((first_tick = started(), %(name)s_%(precision)s(__VA_ARGS__)))
static unsigned first_tick, calls, total, worst;
static int counted(int status);
static unsigned started(void);
"""
"""Before `START` and the test of a package: count the calls in one precision that return 0."""

COUNTED = """
int printf(const char *text, ...) { return 0; }

static int counted(int status) {
    const unsigned ticks = (first_tick - timer[2]) & 0xFFFFFF;
    if (status == 0) {
        calls++;
        total += ticks;
        if (ticks > worst) worst = ticks;
    }
    return status;
}

void reset(void) {
    begin();
    print("calls", calls);
    print("ticks", total);
    print("worst", worst);
    finish();
}
"""


class Machine(NamedTuple):
    """board: QEMU's. flags: of the compiler."""

    board: str
    flags: tuple[str, ...]


SOFT = Machine("mps2-an385", ("-mcpu=cortex-m3", "-mfloat-abi=soft"))
SEVEN = Machine("mps2-an500", ("-mcpu=cortex-m7", "-mfloat-abi=hard", "-mfpu=fpv5-d16"))
HARD = Machine("mps2-an386", ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"))


class Run(NamedTuple):
    """wrong: states of the test vector, or outputs of a package, with other results. loop: what is counted of 100,000
    instructions. instructions: of a call, on average. worst: of the longest call of a package. bytes: of the
    program."""

    wrong: int
    loop: float
    instructions: float
    bytes: int
    worst: float = 0.0


def is_there() -> bool:
    return all(shutil.which(program) for program in (COMPILER, EMULATOR))


def run(machine: Machine, source: Path, outputs: int, states: int, kind: str) -> Run:
    """A file of `dynagate emit` with its test vector. kind: the type of its numbers."""
    name, folder = source.stem, source.parent
    values = {"file": source.name, "name": name, "outputs": outputs, "states": states, "calls": CALLS, "type": kind}
    return _executed(machine, folder, HARNESS % values, [f"-D{name.upper()}_CHECK"])


def run_package(machine: Machine, folder: Path, name: str, precision: str) -> Run:
    """The test of a package of `dynagate emit --cmake`. precision: "f32" or "f64", of the calls that are counted."""
    values = {"file": f"{name}_test.c", "name": name, "precision": precision}
    sources = [str(folder / f"{name}_{each}.c") for each in ("f32", "f64")]
    return _executed(machine, folder, PACKAGE % values + START % values + COUNTED, ["-fno-builtin-printf", *sources])


def _executed(machine: Machine, folder: Path, text: str, more: Sequence[str]) -> Run:
    """Compile a program for the bare machine, run it, and return what it prints."""
    harness, script, program = folder / "harness.c", folder / "machine.ld", folder / "program.elf"
    harness.write_text(text)
    script.write_text(LINKED)
    flags = ["-mthumb", *machine.flags, "-O2", "-ffreestanding", "-nostartfiles", "-T", str(script)]
    flags += ["-fno-math-errno", "-masm-syntax-unified", "--specs=nosys.specs", "-Wl,--gc-sections"]
    subprocess.run([COMPILER, *flags, *more, harness, "-o", program, "-lm"], check=True, capture_output=True)
    emulated = [EMULATOR, "-M", machine.board, "-nographic", "-icount", "shift=0", "-semihosting", "-kernel", program]
    done = subprocess.run(emulated, check=True, capture_output=True, text=True, timeout=300)
    printed = dict(line.split() for line in (done.stdout + done.stderr).splitlines() if len(line.split()) == 2)
    size = subprocess.run(["arm-none-eabi-size", program], check=True, capture_output=True, text=True).stdout
    return Run(
        int(printed["wrong"]),
        int(printed["loop"]) * TICK,
        int(printed["ticks"]) * TICK / int(printed.get("calls", CALLS)),
        int(size.splitlines()[1].split()[0]),
        int(printed.get("worst", 0)) * TICK,
    )
