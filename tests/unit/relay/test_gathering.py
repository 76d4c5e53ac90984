"""The answers to a batch come together."""

from __future__ import annotations

from penstock.relay.gathering import Gathering


def test_answers_are_given_when_all_are_there() -> None:
    given: list[bytes] = []
    gathering = Gathering(given.append)
    gathering.expect()
    gathering.expect()
    gathering.take(b"1")
    gathering.seal()
    assert given == []
    gathering.take(b"2")
    assert given == [b"[1,2]"]


def test_nothing_is_given_before_the_batch_is_read_to_its_end() -> None:
    given: list[bytes] = []
    gathering = Gathering(given.append)
    gathering.expect()
    gathering.take(b"1")
    assert given == []
    gathering.seal()
    assert given == [b"[1]"]


def test_a_batch_of_notifications_has_no_answer() -> None:
    given: list[bytes] = []
    gathering = Gathering(given.append)
    gathering.expect()
    gathering.expect_less()
    gathering.seal()
    assert given == []
