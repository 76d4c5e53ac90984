"""One message on its way to a Streamable HTTP upstream, until nothing more can come back for it."""

from __future__ import annotations

import asyncio

from penstock import limits
from penstock.errors import UpstreamError
from penstock.upstream.http_answer import HttpAnswer
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.ids import exact_key, id_key
from penstock.wire.mcp.message import Kind, Message


class Post:
    """A message, how it was sent, and what is known of its answer."""

    __slots__ = (
        "answer",
        "barren",
        "had_session",
        "headers",
        "id_token",
        "is_answered",
        "is_modern",
        "is_request",
        "is_resumed",
        "key",
        "last_id",
        "message",
        "own",
        "retry",
        "timer",
        "was_relisted",
    )

    def __init__(self, message: Message, headers: Headers, is_modern: bool, had_session: bool) -> None:
        self.message = message
        self.headers = headers
        self.is_modern = is_modern
        self.had_session = had_session
        self.is_request = message.kind is Kind.REQUEST
        self.id_token = message.id_token
        # A response has an id too, but it is the upstream's: only requests are found by theirs.
        self.key: bytes | int = id(self)
        if self.is_request and message.id_token:
            self.key = exact_key(message.id_token)
        self.own: asyncio.Future[bytes] | None = None  # who waits, when it is not the receiver
        self.answer: HttpAnswer | None = None
        self.is_answered = False
        self.is_resumed = False  # the rest of the answer is asked for with GET
        self.was_relisted = False
        self.barren = 0  # streams in a row that brought no event
        self.last_id: bytes | None = None
        self.retry = limits.RETRY_SECONDS
        self.timer: asyncio.TimerHandle | None = None

    def is_named_by(self, id_token: bytes) -> bool:
        """Whether `id_token` is the id of this request, as a peer may have rounded it."""
        return self.is_request and self.id_token is not None and id_key(id_token) == id_key(self.id_token)

    def fail_own(self, error: UpstreamError) -> None:
        """Tells ourselves, if it is we who wait."""
        if self.own is not None and not self.own.done():
            self.own.set_exception(error)
