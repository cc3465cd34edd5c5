"""Command lines that are refused before any work: what is wrong and what is expected, and nothing written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate.cli import main

ARM = "two_joint_arm"
WHOLE_II = "expected a whole number from 1 to 65535"
WHOLE_STATES = "expected a whole number from 1 to 10000000"
WHOLE_WORD = "expected a whole number from 4 to 32"
STAGES = "expected multiply=N or add=N, N a whole number from 0 to 64"
BUDGET = "expected dsp=N, lut=N or register_bits=N, N a whole number of 0 or more"
ERROR = "expected ERROR or BLOCK=ERROR with a number between 0 and 1"
LIMIT = "expected LIMIT or JOINT=LIMIT with a number above 0"
EFFORT = "expected limits, LIMIT or JOINT=LIMIT with a number above 0"
LOCK = "expected JOINT=POSITION with a finite number, rad or m"
WORDS = "expected word lengths FIRST:LAST such as 12:24, from 4 to 32 bits"
FRAMES = "expected base, middle, sparsest, fewest, accurate, or a link's index, 0 or more"
SHIPPED = "expected one of hyq, iiwa14, two_joint_arm, or a URDF file's path"

REFUSED = [
    (
        "build two_joint_arm --force Limits(1.0)",
        "forward_dynamics_gradient has no force Limits; expected Friction, or --function rollout",
    ),
    ("build two_joint_arm --function rollout --force Limits(0.0)", "limits has stiffness 0.0; expected a finite"),
    # the robot
    ("build", "Missing argument 'ROBOT'"),
    ("build atlas", f"no shipped robot 'atlas'; {SHIPPED}"),
    ("info iiwa1", f"no shipped robot 'iiwa1' (did you mean 'iiwa14'?); {SHIPPED}"),
    ("run two-joint-arm", "no shipped robot 'two-joint-arm' (did you mean 'two_joint_arm'?)"),
    (
        "info here",
        "no shipped robot 'here'; expected one of hyq, iiwa14, two_joint_arm, or the file of this name, as ./",
    ),
    ("run missing.urdf", "missing.urdf: no such file; expected a URDF file"),
    ("info .", "no shipped robot '.'"),
    ("info ./", "./: is a folder; expected a URDF file"),
    ("info iiwa14.urdf", "iiwa14.urdf: no such file; expected a URDF file, or iiwa14, which ships"),
    ("build two_joint_arm --function mass_matrix,", "'mass_matrix,' has an empty name; expected names with commas"),
    ("report two_joint_arm --show schedule --output x.png", "x.png; expected a name that ends in .svg"),
    ("report two_joint_arm --show waves --output x.fst", "x.fst; expected a name that ends in .vcd"),
    ("report two_joint_arm --output x.pdf", "x.pdf; expected a name that ends in .html"),
    ("emit ./here --folder out", "here: not well-formed XML"),
    ("info ''", "no shipped robot ''"),
    # how it is read
    (f"info {ARM} --lock elbow=inf", f"elbow=inf; {LOCK}"),
    (f"info {ARM} --lock elbow=nan", f"elbow=nan; {LOCK}"),
    (f"info {ARM} --lock elbow=up", f"elbow=up; {LOCK}"),
    (f"info {ARM} --lock elbow=1_0", f"elbow=1_0; {LOCK}"),
    (f"info {ARM} --lock elbow", f"elbow; {LOCK}"),
    (f"info {ARM} --lock =1", f"=1; {LOCK}"),
    (f"info {ARM} --lock 1", f"1; {LOCK}"),
    (f"info {ARM} --lock elbow=1e999", f"elbow=1e999; {LOCK}"),
    (f"info {ARM} --lock elbow=1 --lock elbow=2", "'elbow' twice; expected each once"),
    (f"info {ARM} --lock nope=1", "--lock names joint 'nope', which the file does not define"),
    (f"info {ARM} --round-rotations 0", "0; expected an angle above 0 and below 0.1 rad"),
    (f"info {ARM} --round-rotations 1", "1; expected an angle above 0 and below 0.1 rad"),
    (f"info {ARM} --round-rotations x", "x; expected an angle above 0 and below 0.1 rad"),
    # the region
    (f"build {ARM} --velocity nope=1", "'--velocity': no joint 'nope'; expected one of shoulder, elbow"),
    (f"build {ARM} --velocity elbo=1", "no joint 'elbo' (did you mean 'elbow'?)"),
    (f"build {ARM} --acceleration nope=1", "'--acceleration': no joint 'nope'"),
    (f"build {ARM} --effort nope=1", "'--effort': no joint 'nope'; expected one of shoulder, elbow"),
    (f"build {ARM} --velocity 0", f"0; {LIMIT}"),
    (f"build {ARM} --velocity -1", f"-1; {LIMIT}"),
    (f"build {ARM} --velocity inf", f"inf; {LIMIT}"),
    (f"build {ARM} --velocity fast", f"fast; {LIMIT}"),
    (f"build {ARM} --velocity elbow=", f"elbow=; {LIMIT}"),
    (f"build {ARM} --velocity limits", f"limits; {LIMIT}"),
    (f"build {ARM} --acceleration nan", f"nan; {LIMIT}"),
    (f"build {ARM} --acceleration elbow=0", f"elbow=0; {LIMIT}"),
    (f"build {ARM} --effort limit", f"limit; {EFFORT}"),
    (f"build {ARM} --effort elbow=-3", f"elbow=-3; {EFFORT}"),
    (f"build {ARM} --velocity 1 --velocity elbow=2", "one number for all, and numbers by name; expected not both"),
    (f"build {ARM} --velocity 1 --velocity 2", "expected one number for all"),
    (f"build {ARM} --effort limits --effort elbow=2", "one number for all, and numbers by name; expected not both"),
    (f"build {ARM} --effort 1 --acceleration 1", "--acceleration and --effort are both given; expected one"),
    ("build hyq --floating-base", "no velocity limit for root_joint; add, with what the robot reaches (rad/s or m/s):"),
    ("run hyq --floating-base", "--velocity root_joint=1\n"),
    (f"emit {ARM} --velocity 1 --folder out", "--velocity without --integers; expected both"),
    # what is built
    (f"build {ARM} --function statics", "no function 'statics'; expected "),
    (f"build {ARM} --function ilqr", "'ilqr' is a solver and no function; expected only its name: `dynagate run ROBOT"),
    (
        f"run {ARM} --function rollout,mppi --units 4",
        "'mppi' is a solver and no function; expected only its name: `dynag",
    ),
    (f"sweep {ARM} --function mppi", "'mppi' is a solver and no function; expected only its name: "),
    (f"build {ARM} --ii 0", f"0; {WHOLE_II}"),
    (f"build {ARM} --ii -8", f"-8; {WHOLE_II}"),
    (f"build {ARM} --ii 65536", f"65536; {WHOLE_II}"),
    (f"build {ARM} --ii 100000", f"100000; {WHOLE_II}"),
    (f"build {ARM} --ii 1000000000", f"1000000000; {WHOLE_II}"),
    (f"build {ARM} --ii 99999999999999999999999", f"99999999999999999999999; {WHOLE_II}"),
    (f"build {ARM} --ii 8.5", f"8.5; {WHOLE_II}"),
    (f"build {ARM} --ii 1_0", f"1_0; {WHOLE_II}"),
    (f"build {ARM} --ii ''", f"; {WHOLE_II}"),
    (f"run {ARM} --ii x", f"x; {WHOLE_II}"),
    (f"synth {ARM} --ii 0", f"0; {WHOLE_II}"),
    (f"bench {ARM} --ii 0", f"0; {WHOLE_II}"),
    (f"bench {ARM} --ii 65536", f"65536; {WHOLE_II}"),
    (f"build {ARM} --word 3", f"3; {WHOLE_WORD}"),
    (f"build {ARM} --word 64", f"64; {WHOLE_WORD}"),
    (f"build {ARM} --word 24.5", f"24.5; {WHOLE_WORD}"),
    (f"run {ARM} --word -24", f"-24; {WHOLE_WORD}"),
    (f"build {ARM} --error 0", f"0; {ERROR}"),
    (f"build {ARM} --error 1", f"1; {ERROR}"),
    (f"build {ARM} --error -1e-3", f"-1e-3; {ERROR}"),
    (f"build {ARM} --error x", f"x; {ERROR}"),
    (f"build {ARM} --error nan", f"nan; {ERROR}"),
    (f"build {ARM} --error qdd=", f"qdd=; {ERROR}"),
    (f"build {ARM} --error =1e-3", f"=1e-3; {ERROR}"),
    (f"build {ARM} --error nope=1e-3", "no output block 'nope'; forward_dynamics_gradient has qdd, dqdd_dq, dqdd_dqd"),
    (f"build {ARM} --function mass_matrix --error qdd=1e-3", "no output block 'qdd'; mass_matrix has m"),
    (f"build {ARM} --error 1e-3 --error qdd=1e-3", "one number for all, and numbers by name; expected not both"),
    (f"build {ARM} --error qdd=1e-3 --error qdd=1e-4", "'qdd' twice; expected each once"),
    (f"build {ARM} --word 24 --error 1e-3", "--word and --error are both given; expected one"),
    (f"build {ARM} --word 24 --formats ./here", "--word and --formats are both given; expected one"),
    (f"run {ARM} --error 1e-3 --formats ./here", "--error and --formats are both given; expected one"),
    (f"build {ARM} --target nope --error 1e-3", "'nope' is not one of 'DSP48E2', 'DSP48E1', '18x18'"),
    (f"build {ARM} --target DSP48E1", "--target without --error; expected both"),
    (f"build {ARM} --floor 0", "--floor without --error; expected both"),
    (f"build {ARM} --near-rest", "--near-rest without --error; expected both"),
    (f"build {ARM} --error 1e-3 --floor 2", "expected a number from 0 to 1"),
    (f"build {ARM} --stages multiply", f"multiply; {STAGES}"),
    (f"build {ARM} --stages multiply=1.5", f"multiply=1.5; {STAGES}"),
    (f"build {ARM} --stages add=1e9", f"add=1e9; {STAGES}"),
    (f"build {ARM} --stages add=65", f"add=65; {STAGES}"),
    (f"build {ARM} --stages add=-1", f"add=-1; {STAGES}"),
    (f"build {ARM} --stages divide=1", f"divide=1; {STAGES}"),
    (f"build {ARM} --stages 2", f"2; {STAGES}"),
    (f"build {ARM} --stages add=1 --stages add=2", "'add' twice; expected each once"),
    (f"build {ARM} --formats missing.json", "File 'missing.json' does not exist"),
    (f"build {ARM} --formats .", "File '.' is a directory"),
    (f"build {ARM} --axi 7", "'7' is not one of '32', '64', '128', '256', '512'"),
    (f"build {ARM} --axi wide", "'wide' is not one of '32'"),
    (f"build {ARM} --axi 64 --tlast nope", "'nope' is not one of 'sample', 'batch'"),
    (f"build {ARM} --tlast batch", "--tlast without --axi; expected both"),
    (f"build {ARM} --budget lut=-1", f"lut=-1; {BUDGET}"),
    (f"build {ARM} --budget dsp=inf", f"dsp=inf; {BUDGET}"),
    (f"build {ARM} --budget dsp=x", f"dsp=x; {BUDGET}"),
    (f"build {ARM} --budget dsp=1.5", f"dsp=1.5; {BUDGET}"),
    (f"build {ARM} --budget ram=10", f"ram=10; {BUDGET}"),
    (f"build {ARM} --budget 10", f"10; {BUDGET}"),
    (f"build {ARM} --folder /dev/null", "/dev/null is not a folder; expected one, or a name that is free"),
    (f"build {ARM} --folder here", "here is not a folder; expected one, or a name that is free"),
    (f"build {ARM} --folder here/below", "cannot write into here/below: Not a directory"),
    (f"run {ARM} --folder /proc/designs", "cannot write into /proc/designs: No such file or directory"),
    (f"build {ARM} --folder {'x' * 300}", "File name too long"),
    # the algorithm
    (f"build {ARM} --form nope", "no form 'nope'; forward_dynamics_gradient has closed_form, body_columns"),
    (f"build {ARM} --form closed-form", "no form 'closed-form' (did you mean 'closed_form'?)"),
    (f"build {ARM} --function mass_matrix --form aba", "no form 'aba'; mass_matrix has composite_bodies"),
    (f"info {ARM} --form nope", "no form 'nope'; expected newton_euler, spatial, prefix, composite_bodies, ltdl"),
    (f"info {ARM} --frame nope", f"nope; {FRAMES}"),
    (f"build {ARM} --frame -1", f"-1; {FRAMES}"),
    (f"build {ARM} --frame 1.5", f"1.5; {FRAMES}"),
    (f"build {ARM} --frame 2", "no link 2; expected a link's index from 0 to 1, or base, middle, sparsest"),
    (f"build {ARM} --mass nope", "'nope' is not one of 'body', 'shared'"),
    (f"build {ARM} --function mass_matrix --frame base", "mass_matrix has no option --frame; expected it left out"),
    (f"emit {ARM} --form body_columns --mass shared --folder out", "form body_columns has no option --mass"),
    (f"info {ARM} --form aba --prefix", "form aba has no option --prefix; expected it left out"),
    # run, synth, emit, bench
    (f"run {ARM} --states 0", f"0; {WHOLE_STATES}"),
    (f"run {ARM} --states -5", f"-5; {WHOLE_STATES}"),
    (f"run {ARM} --states 1000000000000", f"1000000000000; {WHOLE_STATES}"),
    (f"run {ARM} --states many", f"many; {WHOLE_STATES}"),
    (f"run {ARM} --seed -1", "-1; expected a whole number from 0 to"),
    (f"run {ARM} --seed 1e3", "1e3; expected a whole number from 0 to"),
    (f"synth {ARM} --family nope", "'nope' is not one of 'xcup', 'xc7', 'ecp5'"),
    (f"emit {ARM}", "Missing option '--folder'"),
    (f"emit {ARM} --folder here", "here is not a folder"),
    (f"emit {ARM} --folder out --function nope", "'nope' is not one of"),
    (f"bench {ARM} --batch 0", f"0; {WHOLE_STATES}"),
    (f"bench {ARM} --batch 16 --batch -1", f"-1; {WHOLE_STATES}"),
    (f"bench {ARM} --threads 0", "0; expected a whole number from 1 to 1024"),
    (f"bench {ARM} --threads 1000000", "1000000; expected a whole number from 1 to 1024"),
    (f"bench {ARM} --json /proc/x", "cannot write /proc/x: No such file or directory; expected a file that can be"),
    (f"bench {ARM} --json nowhere/x.json", "no folder nowhere; expected a file in a folder that is there"),
    (f"bench {ARM} --json .", ". is a folder; expected a file's name"),
    (f"bench {ARM} --figures here", "here is not a folder"),
    (f"bench {ARM} --no-pinocchio --pinocchio-float32", "are both given; expected one"),
    (f"bench {ARM} --boards --batch 16", "--boards and --batch are both given; expected one"),
    (f"bench {ARM} --boards --all", "--boards and --all are both given; expected one"),
    # sweep, closed-loop
    (f"sweep {ARM}", "Missing option '--folder'"),
    (f"sweep {ARM} --folder out --word long", f"long; {WORDS}"),
    (f"sweep {ARM} --folder out --word 3:12", f"3:12; {WORDS}"),
    (f"sweep {ARM} --folder out --word 12:64", f"12:64; {WORDS}"),
    (f"sweep {ARM} --folder out --word 24:12", f"24:12; {WORDS}"),
    (f"sweep {ARM} --folder out --word 12:14:16", f"12:14:16; {WORDS}"),
    (f"sweep {ARM} --folder out --word :", f":; {WORDS}"),
    (f"sweep {ARM} --folder out --policy nope", "'nope' is not one of 'global', 'word', 'optimized'"),
    (f"sweep {ARM} --folder out --states 0", f"0; {WHOLE_STATES}"),
    (f"sweep {ARM} --folder out --jobs 0", "0; expected a whole number from 1 to 1024"),
    (f"sweep {ARM} --folder out --jobs -1", "-1; expected a whole number from 1 to 1024"),
    (f"sweep {ARM} --folder out --backend nope", "'nope' is not one of 'loky', 'dask', 'ray'"),
    (f"sweep {ARM} --folder out --backend dask", "--backend dask and --cluster ADDRESS go together; expected both"),
    (f"sweep {ARM} --folder out --cluster tcp://x:1", "--backend dask and --cluster ADDRESS go together"),
    (f"sweep {ARM} --folder out --backend dask --cluster nonsense://x", "no Dask scheduler at nonsense://x"),
    (f"sweep {ARM} --folder /dev/null", "/dev/null is not a folder"),
    ("closed-loop hyq --floating-base", "joint 'root_joint' of robot 'hyq' is floating and has a quaternion; expected"),
    (f"closed-loop {ARM} --policy nope", "'nope' is not one of 'global', 'word', 'optimized'"),
    (f"closed-loop {ARM} --global 17-24", f"17-24; {WORDS}"),
    (f"closed-loop {ARM} --word 64", f"64; {WORDS}"),
    (f"closed-loop {ARM} --error 2", "2; expected a number between 0 and 1"),
    (f"closed-loop {ARM} --rtl 40", f"40; {WHOLE_WORD}"),
    (f"closed-loop {ARM} --from elbow", f"elbow; {LOCK}"),
    (f"closed-loop {ARM} --from nope=1", "'--from': no joint 'nope'; expected one of shoulder, elbow"),
    (f"closed-loop {ARM} --to elbo=1", "'--to': no joint 'elbo' (did you mean 'elbow'?)"),
    (f"closed-loop {ARM} --to elbow=99", "'--to': joint 'elbow' at 99; expected -"),
    (f"closed-loop {ARM} --seconds 0", "0; expected 0.1 to 60 seconds"),
    (f"closed-loop {ARM} --seed -1", "-1; expected a whole number from 0 to"),
    # the command
    ("biuld iiwa14", "No such command 'biuld'"),
    ("schedule iiwa14", "No such command 'schedule'; write 'dynagate report --show schedule'"),
    ("wave iiwa14", "No such command 'wave'; write 'dynagate report --show waves'"),
    ("together iiwa14", "No such command 'together'; write 'dynagate report --show together'"),
    (f"run {ARM} --method rk4", "No such option '--method'; write --integrator"),
    (f"build {ARM} --damping implicit", "No such option '--damping'; write --implicit-damping"),
    (f"info {ARM} --method rk4", "No such option '--method'"),
    (f"build {ARM} --wrod 24", "No such option '--wrod'"),
    (f"build {ARM} {ARM}", "Got unexpected extra argument (two_joint_arm)"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of them are tried: it holds one file, and keeps holding that alone."""
    place = tmp_path_factory.mktemp("refused")
    (place / "here").write_text("not a robot")
    return place


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=[line[:60] for line, _ in REFUSED])
def test_refused(line: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, shlex.split(line))
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Error: " in result.output
    assert "Traceback" not in result.output
    assert [path.name for path in folder.iterdir()] == ["here"]
