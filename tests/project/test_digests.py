"""What dynagate writes stays as it was: digests of Verilog, programs, streams, help and reports."""

from __future__ import annotations

import pytest

from tests import digests

MEANT = "If the change is meant, say why in the commit and run: python -m tests.digests --record"


@pytest.mark.parametrize("group", digests.QUICK)
def test_digests_of_a_few(group: str) -> None:
    check(group)


@pytest.mark.long
@pytest.mark.parametrize("group", sorted({*digests.groups()} - {*digests.QUICK}))
def test_digests_of_all(group: str) -> None:
    check(group)


def check(group: str) -> None:
    if lines := digests.differences([group]):
        pytest.fail("\n".join([*lines, MEANT]), pytrace=False)


def test_the_file_has_no_entry_of_a_group_that_is_gone() -> None:
    known = digests.groups()
    assert not [each for each in digests.recorded()["digests"] if not any(digests.belongs(each, k) for k in known)]


def test_digits_of_a_hash_by_chance_in_a_longer_number_are_not_masked() -> None:
    hidden = ["0ff0e6e1"]
    assert digests.masked("aff0e6e1b", hidden) == "aff0e6e1b"
    assert digests.masked("32'hff0e6e1; ff0e6e1, 12000ff0e6e134", hidden) == "HASH; HASH, 12HASH34"
    assert digests.masked("64'hff0e6e12", ["ff0e6e12"]) == "HASH"
