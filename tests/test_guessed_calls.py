"""Calls that somebody writes who knows Pinocchio, MuJoCo and JAX: they run, or the error has what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.dynamics import FRAME_FUNCTIONS

ARM = dynagate.robots.load("two_joint_arm")
WITH_HAND = ARM.with_frame("hand", on=ARM.links[-1].name, translation=(0.1, 0.2, 0.0))


@pytest.mark.parametrize(
    ("function", "name", "own"),
    [
        ("crba", "M", "m"),
        ("computeMinverse", "Minv", "minv"),
        ("computeGeneralizedGravity", "g", "gravity_torque"),
        ("nonLinearEffects", "nle", "bias_torque"),
        ("bias_torque", "qfrc_bias", "bias_torque"),
        ("aba", "ddq", "qdd"),
        ("aba", "qacc", "qdd"),
        ("computeABADerivatives", "ddq_dq", "dqdd_dq"),
        ("computeABADerivatives", "ddq_dv", "dqdd_dqd"),
        ("computeABADerivatives", "ddq_dtau", "minv"),
        ("computeABADerivatives", "Minv", "minv"),
        ("computeRNEADerivatives", "dtau_dv", "dtau_dqd"),
        ("centerOfMass", "com", "center_of_mass"),
        ("jacobianCenterOfMass", "Jcom", "center_of_mass_jacobian"),
        ("jacobianCenterOfMass", "J", "center_of_mass_jacobian"),
        ("frame_jacobian", "J", "frame_jacobian"),
        ("frame_pose", "translation", "frame_position"),
        ("frame_pose", "rotation", "frame_rotation"),
        (["crba", "frame_jacobian"], "frame_jacobian", "frame_jacobian_hand"),
    ],
)
def test_results_answer_to_their_names_elsewhere(function: Any, name: str, own: str) -> None:
    """Reading alone: the keys and the text of results keep our names."""
    frame = "hand" if "frame" in str(function) else None
    computed = dynagate.compile(WITH_HAND, function, frame=frame, device="numpy")
    results = computed(*(np.full(2, 0.3) for _ in computed.inputs))
    assert getattr(results, name) is results[own]
    assert name not in list(results)
    if name != own:
        assert name not in repr(results).replace(",", " ").split()
        assert name not in results
        with pytest.raises(KeyError, match=f"it is called '{own}' here"):
            results[name]


@pytest.mark.parametrize(
    ("function", "name", "text"),
    [
        ("ccrba", "Ag", "it is called 'centroidal_momentum_matrix' here: [angular; linear], where Pinocchio has"),
        ("frame_pose", "xmat", "it is called 'frame_rotation' here: its shape is (3, 3)"),
        ("frame_pose", "oMf", "it is called 'frame_position' here: its rotation is 'frame_rotation'"),
        ("frame_jacobian", "jacp", "it is called 'frame_jacobian' here: its rows 3 to 5"),
        ("coriolis_torque", "C", "it is called 'coriolis_torque' here: it is the torque, not the matrix"),
        ("crba", "g", "no result 'g'; expected one of m"),
    ],
)
def test_results_that_differ_elsewhere_are_answered(function: str, name: str, text: str) -> None:
    frame = "hand" if function.startswith("frame") else None
    computed = dynagate.compile(WITH_HAND, function, frame=frame, device="numpy")
    results = computed(*(np.full(2, 0.3) for _ in computed.inputs))
    with pytest.raises(AttributeError, match=re.escape(text)):
        getattr(results, name)


@pytest.mark.parametrize("operation", [lambda x: x**2, lambda x: np.ones(2) - x, lambda x: -x, lambda x: 2.0 * x])
def test_results_are_no_array(operation: Callable[[Any], Any]) -> None:
    accelerations = dynagate.compile("two_joint_arm", "aba", device="numpy")(*np.zeros((3, 2)))
    with pytest.raises(TypeError, match=r"results are no array; write \.qdd"):
        operation(accelerations)


FRAMES = [("hand", "its name"), (WITH_HAND.frame("hand"), "a frame"), (WITH_HAND.frames[-1], "a frame of the list")]


@pytest.mark.parametrize("frame", [frame for frame, _ in FRAMES], ids=[text for _, text in FRAMES])
@pytest.mark.parametrize("function", list(FRAME_FUNCTIONS))
def test_the_frame_of_a_function_is_an_option(function: str, frame: Any) -> None:
    named = dynagate.compile(WITH_HAND, f"{function}_hand", device="numpy")
    computed = dynagate.compile(WITH_HAND, function, frame=frame, device="numpy")
    state = [np.full(2, 0.1 * k + 0.2) for k in range(len(computed.inputs))]
    assert computed.function == named.function
    assert dynagate.trace(WITH_HAND, function, frame=frame) == named.device.graph
    for name, array in named(*state).items():
        np.testing.assert_array_equal(computed(*state)[name], array)


@pytest.mark.parametrize(
    ("function", "frame", "text"),
    [
        ("frame_pose", 3, "frame=3 of 'frame_pose'; expected the name of a frame or link"),
        ("frame_pose", "", "frame='' of 'frame_pose'; expected the name"),
        ("frame_pose", True, "frame=True of 'frame_pose'; expected the name"),
        ("frame_pose", ["hand"], "frame=['hand'] of 'frame_pose'; expected the name"),
        ("frame_pose", "foot", "no frame 'foot'"),
        ("frame_pose", "a b", "frame 'a b' cannot be part of a function's name; give it one of up to"),
        ("frame_pose_hand", "hand", "function 'frame_pose_hand' with frame='hand'; expected the frame once"),
        ("inverse_dynamics_gradient", "hand", "frame 'hand'; expected base, middle, sparsest"),
        ("mass_matrix", "hand", "frame 'hand'; expected base, middle, sparsest"),
        (["mass_matrix", "frame_pose"], None, "function 'frame_pose' without a frame; expected frame='NAME'"),
    ],
)
def test_a_frame_that_is_none_is_refused(function: Any, frame: Any, text: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError, dynagate.RobotError), match=re.escape(text)):
        dynagate.compile(WITH_HAND, function, frame=frame, device="numpy")
