"""The reply to a POST whose answer comes over a link that is not HTTP: JSON, or events."""

from __future__ import annotations

from collections.abc import Callable

from penstock.downstream.event_stream import EventStream
from penstock.downstream.replies import refuse, send_json
from penstock.net.http_exchange import Reply
from penstock.wire.http.http1 import Headers


class PostReply:
    """One POST under way. It becomes a stream of events as soon as something comes before its answer."""

    _stream: EventStream | None = None
    _on_drain: Callable[[], None] | None = None  # who hears that the client reads again

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        reply.on_gone = self._on_gone

    @property
    def is_full(self) -> bool:
        """Whether the client reads more slowly than we write."""
        return self._stream is not None and self._stream.is_full

    @property
    def unread(self) -> int:
        """Bytes that wait for the client to read."""
        return self._stream.unread if self._stream is not None else 0

    def _push(self, raw: bytes, more: Headers | None = None) -> None:
        """Something that comes before the answer."""
        if self._reply.is_gone or self._reply.is_finished:
            return
        if self._stream is None:
            self._stream = EventStream(self._reply, more)
            self._stream.on_gone = self._on_gone
            self._stream.on_drain = self._on_drain
        self._stream.send(raw, "message")

    def _end_with(self, status: int, raw: bytes, more: Headers | None = None) -> None:
        """The answer, and the end."""
        if self._stream is not None:
            self._stream.send(raw, "message")
            self._stream.finish()
        elif not self._reply.is_started and not self._reply.is_gone:
            send_json(self._reply, status, raw, more)

    def _end_without(self, status: int, reason: str) -> None:
        """The end, where no answer will come."""
        if self._stream is not None:
            self._stream.finish()
        elif not self._reply.is_started:
            refuse(self._reply, status, reason)

    def _on_gone(self) -> None:
        """The client has hung up."""
        raise NotImplementedError
