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


def test_sealing_tells_whether_anything_is_still_expected() -> None:
    gathering = Gathering(lambda raw: None)
    assert not gathering.seal()
    gathering.expect()
    assert gathering.seal()


def test_an_answer_that_will_not_come_is_not_waited_for() -> None:
    given: list[bytes] = []
    gathering = Gathering(given.append)
    for _ in range(4):
        gathering.expect()
    gathering.expect_less()
    gathering.take(b"1")
    gathering.take(b"2")
    assert gathering.seal()
    assert given == []
    gathering.take(b"3")
    assert given == [b"[1,2,3]"]
