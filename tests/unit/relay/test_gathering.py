"""The answers to a batch come together."""

from __future__ import annotations

import pytest

from penstock.errors import ClientProtocolError
from penstock.relay.batch_replies import BatchReplies, no_batches, parts_of, read_part, take_batch
from penstock.wire.mcp.message import Batch, Message


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


PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'
TOLD = b'{"jsonrpc":"2.0","method":"notifications/x"}'


def array(*parts: bytes) -> Batch:
    return Batch(b"[%b]" % b",".join(parts), list(parts))


class Taking:
    """Who takes the messages of an array: what it took and refused, and what was delivered."""

    def __init__(self, *, answers: bool = True) -> None:
        self._answers = answers
        self.taken: list[bytes] = []
        self.refused: list[tuple[str, bytes]] = []
        self.delivered: list[bytes] = []
        self.replies: BatchReplies | None = None

    def take(self, message: Message, replies: BatchReplies) -> bool:
        self.taken.append(message.raw)
        self.replies = replies
        return self._answers

    def refuse(self, refusal: ClientProtocolError, replies: BatchReplies, part: bytes) -> None:
        self.refused.append((refusal.reason, part))
        replies.take(b"no")

    def run(self, *parts: bytes) -> bool:
        return take_batch(array(*parts), self.take, self.refuse, self.delivered.append)


def test_every_message_of_an_array_is_taken_and_all_answers_are_waited_for() -> None:
    it = Taking()
    assert it.run(PING % 1, TOLD, PING % 2)
    assert it.taken == [PING % 1, TOLD, PING % 2]
    assert it.replies is not None
    it.replies.take(b"1")
    assert it.delivered == []
    it.replies.take(b"2")
    assert it.delivered == [b"[1,2]"]


def test_what_cannot_be_read_is_answered_and_the_rest_is_taken() -> None:
    it = Taking()
    assert it.run(b"[]", PING % 1)
    assert it.refused == [("Invalid request: a batch within a batch", b"[]")]
    assert (it.taken, it.delivered) == ([PING % 1], [])
    assert it.replies is not None
    it.replies.take(b"1")
    assert it.delivered == [b"[no,1]"]


def test_no_answer_is_waited_for_where_none_will_come() -> None:
    assert not Taking(answers=False).run(PING % 1, TOLD)
    assert not Taking().run(TOLD)
    for others in ((TOLD,), (PING % 1,), (TOLD, PING % 1)):
        it = Taking(answers=False)
        assert it.run(*others, b"7")
        assert it.delivered == [b"[no]"]


def test_an_array_in_an_array_is_refused_to_clients_and_skipped_of_upstreams(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert read_part(PING % 1).raw == PING % 1
    with pytest.raises(ClientProtocolError, match=r"^Invalid request: a batch within a batch$"):
        read_part(b"[%b]" % TOLD)
    text = "Invalid request: batches are not part of this protocol version"
    assert (no_batches().reason, no_batches().code) == (text, -32600)
    assert parts_of(array(TOLD, TOLD), has_batches=True) == [TOLD, TOLD]
    assert caplog.records == []
    assert parts_of(array(b"[]", TOLD), has_batches=True) == [TOLD]
    assert parts_of(array(TOLD), has_batches=False) == []
    assert [(one.name, one.getMessage()) for one in caplog.records] == [
        ("penstock", "Skipped a batch within a batch from the upstream."),
        ("penstock", "Skipped a batch from the upstream: this protocol version has none."),
    ]
