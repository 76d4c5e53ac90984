"""What came back for one HTTP request, read as far as it can be a message or events, and no further."""

from __future__ import annotations

import asyncio
from typing import Protocol

from penstock import limits
from penstock.errors import UpstreamError
from penstock.net.http_client import Ticket
from penstock.wire.http.byte_buffer import ByteBuffer
from penstock.wire.http.http1 import Headers, find
from penstock.wire.http.sse import Oversize, SseEvent, SseReader


class AnswerOwner(Protocol):
    """Who asked."""

    def began(self, answer: HttpAnswer) -> None:
        """The status and the headers are there."""

    def event(self, answer: HttpAnswer, event: SseEvent | Oversize) -> None:
        """One event of a stream has come."""

    def over(self, answer: HttpAnswer, error: UpstreamError | None) -> None:
        """All has come that will; with an error, it was cut. Called once, last."""


class HttpAnswer:
    """One response: a body that is kept as long as it could be one message, or a stream of events."""

    __slots__ = (
        "_owner",
        "_pieces",
        "_reader",
        "_room",
        "_size",
        "body",
        "content_type",
        "headers",
        "is_events",
        "is_too_big",
        "last_id",
        "purpose",
        "retry",
        "status",
        "ticket",
        "trouble",
    )

    def __init__(self, owner: AnswerOwner, purpose: object = None) -> None:
        """`purpose` is for the owner, to know its answers apart."""
        self._owner = owner
        self.purpose = purpose
        self.ticket: Ticket | None = None
        self.status = 0  # none yet
        self.headers: Headers = []
        self.content_type = b""
        self.trouble: str | None = None  # why the body cannot be read
        self.is_events = False
        self.is_too_big = False
        self.body = b""
        self.last_id: bytes | None = None
        self.retry: float | None = None
        self._reader: SseReader | None = None
        self._pieces = ByteBuffer()
        self._room = 0
        self._size = 0

    @property
    def is_good(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300

    @property
    def is_json(self) -> bool:
        """Whether the body says it is JSON, and is whole."""
        return self.content_type == b"application/json" and self.trouble is None and not self.is_too_big

    def skip(self) -> None:
        """Its body, if it has one, is nobody's."""
        self._reader = None
        self.is_events = False
        self._room = limits.ERROR_EXCERPT_BYTES

    def cancel(self) -> None:
        """Hears nothing more of it."""
        if self.ticket is not None:
            self.ticket.cancel()

    # What the HTTP client calls

    def on_head(self, status: int, headers: Headers) -> None:
        """Decides how the body is read."""
        self.status = status
        self.headers = headers
        self.content_type = (find(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
        coding = (find(headers, b"content-encoding") or b"").strip().lower()
        if coding not in (b"", b"identity"):
            # It was told not to. What is compressed cannot be inspected, and can be a bomb.
            self.trouble = "Its body is compressed, though that was not allowed"
        elif self.content_type == b"text/event-stream" and status == 200:
            self.is_events = True
            self._reader = SseReader(limits.MESSAGE_BYTES + limits.EVENT_SLACK_BYTES, is_raw_wanted=False)
        elif self.content_type == b"application/json":
            self._room = limits.MESSAGE_BYTES
        else:
            self._room = limits.ERROR_EXCERPT_BYTES
        self._owner.began(self)

    def on_data(self, chunk: bytes) -> None:
        """Passes events on; keeps a body."""
        if self._reader is not None:
            for event in self._reader.feed(chunk):
                if isinstance(event, SseEvent):
                    self._note(event)
                self._owner.event(self, event)
                if self.ticket is not None and self.ticket.is_done:
                    return
            return
        self._size += len(chunk)
        self._pieces.add(chunk)
        if self._size > self._room:
            # Nobody waits for the rest of what is not going to be passed on.
            self.is_too_big = True
            self.body = self._pieces.take()[: limits.ERROR_EXCERPT_BYTES]
            self.cancel()
            self._owner.over(self, None)

    def on_end(self) -> None:
        """The body is complete."""
        self.body = self._pieces.take()
        self._owner.over(self, None)
        self._let_go()

    def on_failure(self, error: UpstreamError) -> None:
        """There is no body, or no more of it."""
        self._owner.over(self, error)
        self._let_go()

    def _let_go(self) -> None:
        # Answer, ticket and purpose know each other: a body would stay until the collector comes by.
        self.body = b""
        self.ticket = None
        self.purpose = None

    def _note(self, event: SseEvent) -> None:
        if event.id is not None:
            self.last_id = event.id if is_returnable(event.id) else None
        if event.retry is not None:
            seconds = event.retry / 1000
            self.retry = min(max(seconds, limits.RETRY_LEAST_SECONDS), limits.RETRY_MOST_SECONDS)


class LastAnswer:
    """An answer that matters only in that it came; `done` is set when it did, or will not."""

    def __init__(self) -> None:
        self.done = asyncio.Event()

    def began(self, answer: HttpAnswer) -> None:
        """The status is enough."""
        answer.cancel()
        self.done.set()

    def event(self, answer: HttpAnswer, event: SseEvent | Oversize) -> None:
        """Never asked for."""

    def over(self, answer: HttpAnswer, error: UpstreamError | None) -> None:
        """It will not come any more."""
        self.done.set()


def is_returnable(event_id: bytes) -> bool:
    """Whether an event id can stand in a header."""
    if not 0 < len(event_id) <= limits.EVENT_ID_BYTES:
        return False
    return all(byte >= 0x20 and byte != 0x7F for byte in event_id)
