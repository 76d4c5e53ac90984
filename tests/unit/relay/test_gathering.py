"""The answers to a batch come together."""

from __future__ import annotations

from penstock.relay.batch_replies import BatchReplies


def test_answers_are_given_when_all_are_there() -> None:
    given: list[bytes] = []
    batch_replies = BatchReplies(given.append)
    batch_replies.expect()
    batch_replies.expect()
    batch_replies.take(b"1")
    batch_replies.seal()
    assert given == []
    batch_replies.take(b"2")
    assert given == [b"[1,2]"]


def test_nothing_is_given_before_the_batch_is_read_to_its_end() -> None:
    given: list[bytes] = []
    batch_replies = BatchReplies(given.append)
    batch_replies.expect()
    batch_replies.take(b"1")
    assert given == []
    batch_replies.seal()
    assert given == [b"[1]"]


def test_a_batch_of_notifications_has_no_answer() -> None:
    given: list[bytes] = []
    batch_replies = BatchReplies(given.append)
    batch_replies.expect()
    batch_replies.expect_less()
    batch_replies.seal()
    assert given == []


def test_sealing_tells_whether_anything_is_still_expected() -> None:
    batch_replies = BatchReplies(lambda raw: None)
    assert not batch_replies.seal()
    batch_replies.expect()
    assert batch_replies.seal()


def test_an_answer_that_will_not_come_is_not_waited_for() -> None:
    given: list[bytes] = []
    batch_replies = BatchReplies(given.append)
    for _ in range(4):
        batch_replies.expect()
    batch_replies.expect_less()
    batch_replies.take(b"1")
    batch_replies.take(b"2")
    assert batch_replies.seal()
    assert given == []
    batch_replies.take(b"3")
    assert given == [b"[1,2,3]"]
