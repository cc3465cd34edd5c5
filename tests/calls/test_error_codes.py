"""Codes of errors: they follow an error through copies, processes, groups and errors that quote it."""

from __future__ import annotations

import copy
import pickle
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from dynagate.base import errors
from dynagate.base.errors import ArgumentError, EntryError, Error, OptionError
from dynagate.base.explained import explained
from dynagate.graph.region import LimitError
from dynagate.robot.errors import RobotError
from dynagate.robot.mimic_elements import NoLeader

ERRORS = [
    Error(code="DG-TEST-001"),
    ArgumentError("word 3; expected 4", code="DG-TEST-002"),
    ArgumentError("word 3; expected 4"),
    ArgumentError("two", 2, code="DG-TEST-003"),
    OptionError("units", "=4 (--units 4)", code="DG-TEST-004"),
    EntryError("q of sample {sample} is nan at {at}", (3, 1), code="DG-TEST-005"),
    errors.OutOfMemoryError("no memory", code="DG-TEST-006"),
    errors.MissingNameError("no name", code="DG-TEST-007"),
    LimitError("velocity", ["elbow", "wrist"]),
    NoLeader("a mimic without a leader", 0.5),
]


@explained
def doubled(number: int) -> int:
    return 2 * number + 1


def test_the_text_ends_with_the_code() -> None:
    error = ArgumentError("word 3; expected 4", code="DG-TEST-002")
    assert str(error) == "word 3; expected 4 [DG-TEST-002]"
    assert (error.text, error.code, error.args) == ("word 3; expected 4", "DG-TEST-002", ("word 3; expected 4",))
    assert "".join(traceback.format_exception_only(error)).endswith("word 3; expected 4 [DG-TEST-002]\n")


def test_the_first_line_of_several_ends_with_the_code() -> None:
    error = ArgumentError("no limit; add:\n  --velocity 1", code="DG-TEST-002")
    assert str(error) == "no limit; add: [DG-TEST-002]\n  --velocity 1"
    assert error.text == "no limit; add:\n  --velocity 1"
    with pytest.raises(ArgumentError) as caught:
        raise_while_handling(error, "arm.urdf: {cause}")
    assert str(caught.value) == "arm.urdf: no limit; add: [DG-TEST-002]\n  --velocity 1"


def test_errors_without_a_code_have_only_their_text() -> None:
    assert (str(ArgumentError("word 3")), ArgumentError("word 3").code, str(Error())) == ("word 3", "", "")


def test_the_code_is_not_repeated_if_the_text_is_extended() -> None:
    error = ArgumentError("no answer", code="DG-TEST-001")
    error.args = (f"{error}; 3 holes",)
    assert str(error) == "no answer; 3 holes [DG-TEST-001]"


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_copies_keep_text_code_and_attributes(error: Error, protocol: int) -> None:
    for other in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert (str(other), other.text, other.code, other.args) == (str(error), error.text, error.code, error.args)
        assert vars(other) == vars(error)


def raise_in_worker(number: int) -> None:
    if number < len(ERRORS):
        raise ERRORS[number]
    doubled("two")  # type: ignore[arg-type]


def test_errors_arrive_from_another_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for number in range(len(ERRORS) + 1):
            with pytest.raises(Error) as caught:
                pool.submit(raise_in_worker, number).result()
            if number < len(ERRORS):
                assert (str(caught.value), caught.value.code) == (str(ERRORS[number]), ERRORS[number].code)
            else:
                assert type(caught.value) is errors.ArgumentTypeError
                assert "doubled() got number='two'; expected a whole number" in str(caught.value)


def test_an_entry_within_a_larger_array_has_the_same_code() -> None:
    error = EntryError("q of sample {sample} is nan at {at}", (3, 1), code="DG-TEST-005").within((2, 2))
    assert (str(error), error.code) == ("q of sample (1, 1) is nan at (1, 1, 1) [DG-TEST-005]", "DG-TEST-005")


def raise_while_handling(cause: BaseException, text: str, is_cut: bool = True) -> None:
    """Raise an ArgumentError while another error is handled. Its text may quote the other by {cause}."""
    try:
        raise cause
    except BaseException as error:
        raise ArgumentError(text.format(cause=error), code="DG-TEST-002") from (None if is_cut else error)


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_error_that_quotes_another_has_the_code_of_the_cause(is_cut: bool) -> None:
    cause = RobotError("link 'hand' has mass -1", code="DG-TEST-001")
    with pytest.raises(ArgumentError) as caught:
        raise_while_handling(cause, "arm.urdf: {cause}; expected another file", is_cut)
    assert caught.value.code == "DG-TEST-001"
    assert str(caught.value) == "arm.urdf: link 'hand' has mass -1; expected another file [DG-TEST-001]"
    assert caught.value.text == "arm.urdf: link 'hand' has mass -1; expected another file"


def test_an_option_that_quotes_an_error_has_the_code_of_the_cause() -> None:
    def read() -> None:
        try:
            raise ERRORS[1]
        except ArgumentError as error:
            raise OptionError("units", f"4: {error}", code="DG-TEST-004") from None

    with pytest.raises(OptionError) as caught:
        read()
    assert (str(caught.value), caught.value.args) == (
        "units 4: word 3; expected 4 [DG-TEST-002]",
        ("units", "4: word 3; expected 4"),
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (EntryError("q of sample {sample} is nan at {at}", (3, 1)), "q of sample 3 is nan at (3, 1)"),
        (EntryError("q of sample {sample} is nan at {at}", (1,), 0), "q is nan at (1,)"),
        (EntryError("q of sample {sample} is nan at {at}", (), 0), "q is nan"),
    ],
)
def test_an_entry_names_its_sample_and_its_place(error: EntryError, text: str) -> None:
    assert str(error) == error.text == text


@pytest.mark.parametrize("cause", [ValueError("no number"), ArgumentError("no number"), SystemExit("DG-TEST-009")])
def test_an_error_that_quotes_no_code_keeps_its_own(cause: BaseException) -> None:
    with pytest.raises(ArgumentError) as caught:
        raise_while_handling(cause, "arm.urdf: {cause}")
    assert caught.value.code == "DG-TEST-002"


def test_names_that_look_like_codes_are_no_codes() -> None:
    with pytest.raises(ArgumentError) as caught:
        raise_while_handling(ERRORS[0], "link 'x [DG-TEST-003]' is not there")
    assert str(caught.value) == "link 'x [DG-TEST-003]' is not there [DG-TEST-002]"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no groups of exceptions")
def test_errors_in_a_group_keep_their_codes() -> None:
    group = ExceptionGroup("both", [ERRORS[1], ExceptionGroup("inner", [ERRORS[5]])])  # noqa: F821
    found, _ = pickle.loads(pickle.dumps(group)).split(EntryError)
    assert found.exceptions[0].exceptions[0].code == "DG-TEST-005"
    assert "[DG-TEST-002]" in "".join(traceback.format_exception(group))


def test_notes_follow_the_code() -> None:
    error = ArgumentError("no answer", code="DG-TEST-001")
    errors.add_note(error, "The device did not come to rest.")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["The device did not come to rest."]
