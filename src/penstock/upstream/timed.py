"""A time limit for every request over a link: who waits longer gets an error, and the upstream a cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from penstock.errors import Failure, UpstreamError
from penstock.relay.contracts import UpstreamReceiver
from penstock.relay.tool_list_pages import own_notification
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message
from penstock.wire.mcp.replies import error_reply
from penstock.wire.mcp.response_id import maybe_response_id

LASTING = frozenset(("initialize", "subscriptions/listen"))
"""What has a time of its own, or none: the handshake, and what lasts until somebody ends it."""


def timeout_text(seconds: float) -> str:
    """What a client is told."""
    return f"Request timeout after {round(seconds * 1000)}ms"


class TimedLink:
    """The link `inner`, with a limit of `seconds` for each request of a client's."""

    def __init__(self, inner: Any, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timers: dict[bytes, asyncio.TimerHandle] = {}
        self.receiver: UpstreamReceiver | None = None
        inner.receiver = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # all that is not about messages is the link's own

    @property
    def peer(self) -> Any:
        """Who is not read while the upstream takes nothing."""
        return self._inner.peer

    @peer.setter
    def peer(self, peer: Any) -> None:
        self._inner.peer = peer

    def send(self, message: Message) -> None:
        """Sends a message; of a request, the time begins."""
        if message.kind is Kind.REQUEST and message.method not in LASTING:
            assert message.id_token is not None
            timer = self._loop.call_later(self._seconds, self._on_late, message.id_token)
            self._timers[id_key(message.id_token)] = timer
        elif message.method == "notifications/cancelled":
            token = (message.params or {}).get("requestId")
            if token is not None:
                self._forget(bytes(token))
        self._inner.send(message)

    def from_upstream(self, raw: bytes) -> None:
        """Passes on what the upstream says; with an answer its time is over."""
        if self._timers:
            id_token = maybe_response_id(raw)
            if id_token is not None:
                self._forget(id_token)
        assert self.receiver is not None
        self.receiver.from_upstream(raw)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something came that must not be passed on."""
        if id_token is not None:
            self._forget(id_token)
        if self.receiver is not None:
            self.receiver.upstream_refused(id_token, why, raw)

    def upstream_noise(self, raw: bytes) -> None:
        """A line came that is no message."""
        if self.receiver is not None:
            self.receiver.upstream_noise(raw)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The link is gone, and with it all that was waited for."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self.receiver is not None:
            self.receiver.upstream_lost(error)

    def _forget(self, id_token: bytes) -> None:
        timer = self._timers.pop(id_key(id_token), None)
        if timer is not None:
            timer.cancel()

    def _on_late(self, id_token: bytes) -> None:
        self._forget(id_token)
        text = timeout_text(self._seconds)
        reason = msgspec.json.encode(text)
        params = b'{"requestId":%b,"reason":%b}' % (id_token, reason)
        self._inner.send(own_notification("notifications/cancelled", params))
        assert self.receiver is not None
        self.receiver.from_upstream(error_reply(id_token, INTERNAL_ERROR, text, {"code": Failure.TIMEOUT}))
