"""A post of an SSE client whose credentials the upstream has not taken yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock import limits
from penstock.downstream.replies import send_json
from penstock.net.http_exchange import Reply
from penstock.wire.http.http1 import response_start
from penstock.wire.mcp.carried import HttpRefusal

_ACCEPTED_START = response_start(202, [(b"Content-Type", b"text/plain")])


class SsePost:
    """Waits a moment for the upstream's answer: a post is the one place where the transport can say that
    other credentials are wanted. Most clients post one after another, so it never waits for long."""

    def __init__(self, reply: Reply, rights: bytes, on_late: Callable[[HttpRefusal], None]) -> None:
        """`on_late` gets a refusal that came when the post had its answer."""
        self.reply = reply
        self.rights = rights
        self._on_late = on_late
        self._timer = asyncio.get_running_loop().call_later(limits.SSE_TURN_SECONDS, self.accept)

    @property
    def is_waiting(self) -> bool:
        """Whether the client has not heard yet what came of it."""
        return not self.reply.is_started and not self.reply.is_gone

    def accept(self) -> None:
        """The message was taken; what comes of it comes on the stream."""
        self._timer.cancel()
        if self.is_waiting:
            accept(self.reply)

    def deny(self, refusal: HttpRefusal) -> None:
        """The upstream wants other credentials: the client hears it as if it had asked it itself."""
        self._timer.cancel()
        if self.is_waiting:
            send_json(self.reply, refusal.status, refusal, refusal.headers)
        else:
            self._on_late(refusal)


def accept(reply: Reply) -> None:
    """Says that a message was taken."""
    reply.send_as(_ACCEPTED_START, b"Accepted")
