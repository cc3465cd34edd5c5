"""Emitted C on other platforms: cross-compiled, run where an emulator is installed, and in functional mock-up units."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Policy, Region, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.emit import emit_integers
from dynagate.native.compile import CompileError
from dynagate.native.fmu import Fmu
from dynagate.native.headers import header
from dynagate.native.package import graph_package
from dynagate.native.package_files import package_files
from dynagate.native.platforms import PLATFORMS
from dynagate.native.pool import NAME as POOL

from tests.other_platforms import CrossCompiler, cross_compiler, is_for

ARM = robots.load("two_joint_arm")
DT, STEPS = 0.002, 50

long = pytest.mark.long  # the wheel's compiler first builds the C library of each platform


def built(compiler: CrossCompiler, platform: str, folder: Path, *arguments: object) -> int | None:
    """Compile a program and return its exit status, or None if nothing here runs programs of this platform."""
    program = folder / "program.exe"
    subprocess.run([*compiler.command, "-O1", *map(str, arguments), "-o", program, "-lm"], check=True)
    assert is_for(platform, program.read_bytes())
    if compiler.runner is None:
        return None
    return subprocess.run([*compiler.runner, program], check=False, capture_output=True).returncode


@long
@pytest.mark.parametrize("platform", PLATFORMS)
def test_test_vectors_hold_on_other_platforms(platform: str, tmp_path: Path) -> None:
    """Floats in both precisions, and integers, which are equal to the bit."""
    compiler = cross_compiler(platform)
    region = Region.of(ARM, velocity=1.0)
    package = graph_package(trace(ARM, "forward_dynamics_gradient"), ARM, region)
    files = {
        **package_files(package),
        **emit_integers(assign(trace(ARM, "inverse_dynamics"), region, Policy()), region),
    }
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    floats = [tmp_path / f"{package.name}_{part}.c" for part in ("f32", "f64", "test")]
    integers = tmp_path / "two_joint_arm_inverse_dynamics_integers.c"
    check = f"-D{integers.stem.upper()}_CHECK"
    assert built(compiler, platform, tmp_path, "-std=c11", *floats) in (0, None)
    assert built(compiler, platform, tmp_path, "-std=c11", check, integers) in (0, None)
    body, text = tmp_path / f"{package.name}_body.h", integers.read_text()
    body.write_text(re.sub(r"(const NUMBER v\d+ = )(\w+ \* \w+);", r"\1(real)1.001 * \2;", body.read_text(), count=1))
    assert built(compiler, platform, tmp_path, "-std=c11", *floats) != 0
    first = text.index("{{", text.index("check_out[")) + 2
    end = text.index(",", first)
    integers.write_text(f"{text[:first]}{int(text[first:end]) ^ 1}{text[end:]}")
    assert built(compiler, platform, tmp_path, "-std=c11", check, integers) in (1, None)


LOADER = """
#include <stdio.h>
#ifdef _WIN32
#include <windows.h>
#define OPEN(file) (void *)LoadLibraryA(file)
#define FIND(library, name) (void *)GetProcAddress((HMODULE)library, name)
#else
#include <dlfcn.h>
#define OPEN(file) dlopen(file, RTLD_NOW)
#define FIND(library, name) dlsym(library, name)
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef void *(*start)(const char *, const char *, const char *, bool, bool, bool, bool, const uint32_t *, size_t,
                       void *, void *, void *);
typedef int (*enter)(void *, bool, double, double, bool, double);
typedef int (*leave)(void *);
typedef int (*set)(void *, const uint32_t *, size_t, const double *, size_t);
typedef int (*step)(void *, double, double, bool, bool *, bool *, bool *, double *);
int main(void) {
    void *library = OPEN(FILE_NAME);
    if (!library) return 2;
    const start instantiate = (start)FIND(library, "fmi3InstantiateCoSimulation");
    void *unit = instantiate("arm", TOKEN, "", 0, 0, 0, 0, NULL, 0, NULL, NULL, NULL);
    if (!unit) return 3;
    const uint32_t places[] = {2, 3, 4, 5, 6};
    double state[] = {0.5, 0.3, -0.4, 1.0, 0.0}, last;
    bool flags[3];
    if (((enter)FIND(library, "fmi3EnterInitializationMode"))(unit, 0, 0, 0, 0, 0)) return 4;
    if (((set)FIND(library, "fmi3SetFloat64"))(unit, places, 5, state, 5)) return 5;
    if (((leave)FIND(library, "fmi3ExitInitializationMode"))(unit)) return 6;
    if (((step)FIND(library, "fmi3DoStep"))(unit, 0, -0.002, 0, flags, flags + 1, flags + 2, &last) != 3) return 7;
    if (((step)FIND(library, "fmi3DoStep"))(unit, 0, SECONDS, 0, flags, flags + 1, flags + 2, &last)) return 8;
    if (((int (*)(void *, const uint32_t *, size_t, double *, size_t))FIND(library, "fmi3GetFloat64"))(
            unit, places + 1, 4, state, 4)) return 9;
    printf("%.17g %.17g %.17g %.17g\\n", state[0], state[1], state[2], state[3]);
    return 0;
}
"""
"""A simulator of one communication step, which first asks for a negative one. It prints q and qd."""


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a functional mock-up unit for all platforms by the command."""
    cross_compiler("x86_64-linux")
    file = tmp_path_factory.mktemp("it's a folder") / "arm.fmu"
    options = [part for platform in PLATFORMS for part in ("--platform", platform)]
    done = CliRunner().invoke(main, ["emit", "two_joint_arm", "--fmu", str(file), "--dt", str(DT), *options])
    assert done.exit_code == 0, done.output
    return file


@long
@pytest.mark.parametrize("platform", PLATFORMS)
def test_units_have_a_binary_for_each_platform(platform: str, unit: Path, tmp_path: Path) -> None:
    """Where an emulator is installed, a simulator for the platform loads it and steps as the rollout does."""
    library = f"binaries/{platform}/two_joint_arm_fmu{PLATFORMS[platform].suffix}"
    with zipfile.ZipFile(unit) as archive:
        assert is_for(platform, archive.read(library))
        (tmp_path / "unit.library").write_bytes(archive.read(library))
        description = archive.read("modelDescription.xml").decode()
    compiler = cross_compiler(platform)
    if compiler.runner is None:
        pytest.skip(f"built only: nothing here runs programs of {platform}")
    (token,) = re.findall('instantiationToken="(.*?)"', description)
    (tmp_path / "loader.c").write_text(LOADER)
    values = [f'-DFILE_NAME="{tmp_path}/unit.library"', f'-DTOKEN="{token}"', f"-DSECONDS={STEPS * DT}"]
    command = [*compiler.command, *values, tmp_path / "loader.c", "-o", tmp_path / "loader.exe"]
    subprocess.run([*command, *([] if "windows" in platform else ["-ldl"])], check=True)
    done = subprocess.run([*compiler.runner, tmp_path / "loader.exe"], check=False, capture_output=True, text=True)
    assert done.returncode == 0
    rollout = dynagate.Rollout(ARM, steps=STEPS, dt=DT, device="numpy")
    expected = rollout(np.array([0.3, -0.4]), np.array([1.0, 0.0]), np.tile([0.0, 0.5], (STEPS, 1)))
    np.testing.assert_allclose(np.array(done.stdout.split(), float), [*expected.q[-1], *expected.qd[-1]], rtol=1e-10)


@long
@pytest.mark.parametrize("platform", PLATFORMS)
def test_threads_compile_on_other_platforms(platform: str, tmp_path: Path) -> None:
    (tmp_path / "pool.c").write_text(header(f"{POOL}.c"))
    command = [*cross_compiler(platform).command, "-std=gnu11", "-Wall", "-Werror", "-pthread", "-shared"]
    subprocess.run([*command, tmp_path / "pool.c", "-o", tmp_path / "pool.library"], check=True)
    assert is_for(platform, (tmp_path / "pool.library").read_bytes())


def test_unknown_platforms_and_missing_compilers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit, file = Fmu(ARM), tmp_path / "arm.fmu"
    with pytest.raises(ArgumentError, match="platform 'vax' is unknown; expected x86_64-linux, aarch64-linux"):
        unit.write(file, ["x86_64-linux", "vax"])
    monkeypatch.setattr("dynagate.native.cross_compile.wheel_compiler", lambda *_: None)
    with pytest.raises(CompileError, match=r"no C compiler for aarch64-darwin; .*dynagate\[compiler\]"):
        unit.write(file, ["aarch64-darwin"])
    assert not file.exists()
    done = CliRunner().invoke(
        main, ["emit", "two_joint_arm", "--folder", str(tmp_path / "c"), "--platform", "x86_64-linux"]
    )
    assert "--platform without --fmu; expected both" in done.output
