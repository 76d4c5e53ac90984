"""The POSTs to a legacy SSE upstream: their answers only say whether a message was taken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock import limits
from penstock.errors import UpstreamError
from penstock.net.http_client import HttpClient
from penstock.upstream import refusals
from penstock.upstream.http_answer import HttpAnswer
from penstock.wire.http.bodies import to_body
from penstock.wire.http.http1 import Headers
from penstock.wire.http.sse import Oversize, SseEvent
from penstock.wire.mcp.carried import REFUSING, CarriedMessage
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message
from penstock.wire.mcp.replies import error_reply, raw_error_reply

log = logging.getLogger("penstock")

_BASE: Headers = [(b"Content-Type", b"application/json"), (b"Accept-Encoding", b"identity")]


class SsePosts:
    """What is being posted; each message is over when its POST is."""

    def __init__(
        self,
        client: HttpClient,
        headers: Headers,
        on_done: Callable[[Message], None],
        on_slow: Callable[[Message], None],
        on_refused: Callable[[Message, bytes], None],
        on_lost: Callable[[UpstreamError], None],
    ) -> None:
        """`on_slow` hears of a request that is not acknowledged in its turn: some servers take it, work on
        it, and answer the POST when they are done. `on_refused` gets the reply to a request not taken.
        `on_lost` hears that the client's answer to a question did not arrive: who asked waits for ever."""
        self.target: bytes | None = None
        self._client = client
        self._headers = _BASE + headers
        self._on_done = on_done
        self._on_slow = on_slow
        self._on_refused = on_refused
        self._on_lost = on_lost
        self._open: dict[HttpAnswer, asyncio.TimerHandle] = {}

    def send(self, message: Message) -> None:
        """Posts a message to the endpoint."""
        assert self.target is not None
        answer = HttpAnswer(self, message)
        loop = asyncio.get_running_loop()
        self._open[answer] = loop.call_later(limits.SSE_TURN_SECONDS, self._on_slow, message)
        body = to_body(message.raw, message.method is not None)
        is_kept_used = message.kind is not Kind.RESPONSE
        own = message.headers if isinstance(message, CarriedMessage) else []
        answer.ticket = self._client.request(
            b"POST", self.target, self._headers + own, body, answer, is_kept_used
        )

    def close(self) -> None:
        """Stops everything; the endpoint is not known any more."""
        self.target = None
        for answer, timer in self._open.items():
            timer.cancel()
            answer.cancel()
        self._open.clear()

    def began(self, answer: HttpAnswer) -> None:
        """Taken: the answer itself comes on the stream."""
        if answer.is_good:
            answer.skip()

    def event(self, answer: HttpAnswer, event: SseEvent | Oversize) -> None:
        """Never looked at."""

    def over(self, answer: HttpAnswer, error: UpstreamError | None) -> None:
        """Next, please; and whoever waits for a message that was not taken hears so."""
        timer = self._open.pop(answer, None)
        if timer is None:
            return
        timer.cancel()
        message = answer.purpose
        assert isinstance(message, Message)
        if error is not None and answer.is_good:
            error = None  # it was taken; how the connection ends does not matter
        if error is not None or not answer.is_good:
            why = error.detail if error is not None else refusals.describe(answer)
            log.warning("The upstream did not take a message. %s.", why)
            if message.kind is Kind.REQUEST and message.id_token is not None:
                self._on_refused(message, _reply(message.id_token, answer))
        self._on_done(message)
        if error is not None and message.kind is Kind.RESPONSE:
            self._on_lost(error)


def _reply(id_token: bytes, answer: HttpAnswer) -> bytes:
    """The error for a request that was not taken: the upstream's own, if it sent one."""
    if answer.status == 0:
        return error_reply(id_token, INTERNAL_ERROR, "Lost connection to upstream MCP")
    error = refusals.maybe_error(answer)
    if error is not None and answer.status not in REFUSING:
        return raw_error_reply(id_token, error)
    return refusals.reply_for_status(id_token, answer, True, error)
