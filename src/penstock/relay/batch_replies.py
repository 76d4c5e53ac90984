"""The answers to a batch, until they can be given together."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.errors import ClientProtocolError
from penstock.wire.mcp.message import INVALID_REQUEST, Batch, Kind, Message, is_batch, read_client_message

log = logging.getLogger("penstock")


class BatchReplies:
    """Collects one answer for each request of a batch, then hands them over as one JSON array."""

    def __init__(self, deliver: Callable[[bytes], None]) -> None:
        self._deliver = deliver
        self._answers: list[bytes] = []
        self._expected = 0
        self._is_sealed = False

    def expect(self) -> None:
        """One more answer will come."""
        self._expected += 1

    def expect_less(self) -> None:
        """One answer will not come after all."""
        self._expected -= 1

    def seal(self) -> bool:
        """Nothing more will be expected; True when something is."""
        self._is_sealed = True
        self._deliver_if_complete()
        return self._expected > 0

    def take(self, raw: bytes) -> None:
        """One answer has come."""
        self._answers.append(raw)
        self._deliver_if_complete()

    def _deliver_if_complete(self) -> None:
        if self._is_sealed and self._answers and len(self._answers) == self._expected:
            answers, self._answers = self._answers, []
            self._deliver(b"[%b]" % b",".join(answers))


def no_batches() -> ClientProtocolError:
    """The refusal of a client's array where there must be none."""
    return ClientProtocolError(
        INVALID_REQUEST, "Invalid request: batches are not part of this protocol version"
    )


def read_part(part: bytes) -> Message:
    """One message of a client's array. Raises ClientProtocolError."""
    message = read_client_message(part)
    if isinstance(message, Batch):
        raise ClientProtocolError(INVALID_REQUEST, "Invalid request: a batch within a batch")
    return message


def take_batch(
    batch: Batch,
    take: Callable[[Message, BatchReplies], bool],
    refuse: Callable[[ClientProtocolError, BatchReplies, bytes], None],
    deliver: Callable[[bytes], None],
) -> bool:
    """Takes every message of a client's array; True when an answer to it has come or will come."""
    replies = BatchReplies(deliver)
    for part in batch.parts:
        try:
            message = read_part(part)
        except ClientProtocolError as refusal:
            replies.expect()
            refuse(refusal, replies, part)
            continue
        if message.kind is Kind.REQUEST:
            replies.expect()
        if not take(message, replies) and message.kind is Kind.REQUEST:
            replies.expect_less()
    return replies.seal()


def parts_of(batch: Batch, has_batches: bool) -> list[bytes]:
    """The messages in an array of the upstream's; none where the protocol version `has_batches` not."""
    if not has_batches:
        log.warning("Skipped a batch from the upstream: this protocol version has none.")
        return []
    parts = [part for part in batch.parts if not is_batch(part)]
    if len(parts) < len(batch.parts):
        log.warning("Skipped a batch within a batch from the upstream.")
    return parts
