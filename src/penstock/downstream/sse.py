"""Clients of the legacy HTTP+SSE transport: a stream to hear on, an address to speak to."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock import limits
from penstock.downstream.event_stream import EventStream
from penstock.downstream.mcp_head import read_head
from penstock.downstream.replies import is_refused_for_now, refuse, send_json
from penstock.errors import PenstockError, UpstreamError
from penstock.net.http_exchange import Reply, Request
from penstock.relay.contracts import UpstreamLink
from penstock.relay.link_pool import LinkPool
from penstock.relay.sessions import Sessions
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.message import Message
from penstock.wire.mcp.replies import upstream_error_reply

log = logging.getLogger("penstock")


class SseSession:
    """One client: its open stream, its relay, its upstream link."""

    def __init__(self, session_id: bytes, stream: EventStream, link: UpstreamLink, pool: LinkPool) -> None:
        self.id = session_id
        self.on_over: Callable[[PenstockError | None], None] = lambda error: None
        self._stream = stream
        self._link = link
        self._pool = pool
        self._is_over = False
        self._relay = pool.new_relay(session_id, self, link, self._on_fatal)
        stream.on_gone = self.end
        stream.on_drain = lambda: link.resume("client does not read")

    @property
    def is_busy(self) -> bool:
        """A session lives as long as its stream."""
        return True

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the client is not answered yet."""
        return self._relay.pending > 0 or self._relay.is_holding

    @property
    def backlog(self) -> int:
        """What waits here or upstream, in bytes, with what is known of what is not answered."""
        beside = limits.BESIDE_BYTES * len(self._relay.requests.exchanges)
        return 0 if self._is_over else self._link.untaken + self._relay.room.bytes_held + beside

    @property
    def is_shy(self) -> bool:
        """Its stream is open, so somebody is there."""
        return False

    @property
    def patience(self) -> float:
        """It is never idle."""
        return float("inf")

    def take(self, body: bytes, reply: Reply, headers: Headers) -> None:
        """Takes what the client posted. The answer goes to the stream, a refusal to the post."""
        if self.backlog > limits.BACKLOG_SMALL_BYTES and is_refused_for_now(reply, self):
            return
        self._relay.from_client(body, reply, headers)
        if not reply.is_started:
            reply.send(202, [(b"Content-Type", b"text/plain")], b"Accepted")

    def send(self, raw: bytes, route: object, message: Message | None) -> None:
        """Gives the client a message."""
        self._stream.send(raw, "message")
        if self._stream.is_full:
            self._link.pause("client does not read")

    def refuse(self, raw: bytes, route: object) -> None:
        """Tells the client that what it posted was not passed on."""
        if isinstance(route, Reply) and not route.is_started:
            send_json(route, 400, raw)
        else:
            self.send(raw, None, None)

    def pause(self, reason: str) -> None:
        """Each post is answered before the next one is read, so there is nothing to pause."""

    def resume(self, reason: str) -> None:
        """See pause."""

    cork = uncork = lambda self: None

    def end(self) -> None:
        """The client left, or has to."""
        self._finish(None)

    def lose(self, error: UpstreamError) -> None:
        """The upstream is gone for everybody: who waits hears it, then the session ends."""
        self._relay.upstream_lost(error)

    def _on_fatal(self, error: Exception) -> None:
        self._finish(error if isinstance(error, PenstockError) else None)

    def _finish(self, error: PenstockError | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._stream.finish()
            self._relay.end()
            self._pool.close_link(self._link)
            self.on_over(error)


class SseDoor:
    """`/sse` and `/messages`."""

    def __init__(
        self,
        pool: LinkPool,
        sessions: Sessions,
        on_lost: Callable[[PenstockError], None],
        messages_path: bytes = b"/messages",
    ) -> None:
        self._pool = pool
        self._sessions = sessions
        self._on_lost = on_lost
        self._messages_path = messages_path

    def handle_stream(self, request: Request, reply: Reply) -> None:
        """Takes a request to `/sse`: a new session."""
        if request.method != b"GET":
            # Clients that try Streamable HTTP first read this as: use the older transport.
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"GET")])
            return
        if not read_head(request).wants_events:
            refuse(reply, 406, "Not acceptable: the client must accept text/event-stream by name")
            return
        if self._pool.is_full or not self._sessions.make_room():
            refuse(reply, 503, "Too many sessions", [(b"Retry-After", b"5")])
            return
        try:
            link = self._pool.open_link()
        except UpstreamError as error:
            log.warning("%s. %s.", error.headline, error.detail, extra=error.for_log)
            send_json(reply, 502, upstream_error_reply(None, error))
            self._on_lost(error)
            return
        session_id = self._sessions.new_id()
        stream = EventStream(reply)
        stream.send(self._messages_path + b"?session_id=" + session_id, "endpoint")
        session = SseSession(session_id, stream, link, self._pool)
        session.on_over = lambda error: self._over(session, error)
        self._sessions.add(session)

    def handle_message(self, request: Request, reply: Reply) -> None:
        """Takes a request to `/messages`: something a client says."""
        if request.method != b"POST":
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"POST")])
            return
        # The ids are ours and plain, so nothing in the query needs to be decoded.
        fields = [field.partition(b"=") for field in request.query.split(b"&")]
        ids = [value for name, _, value in fields if name == b"session_id"]
        if len(ids) != 1:
            refuse(reply, 400, "Invalid request: one session_id is needed")
            return
        session = self._sessions.find(ids[0])
        if not isinstance(session, SseSession):
            refuse(reply, 404, "Session not found")
            return
        wrong = read_head(request).wrong_body
        if wrong is not None:
            refuse(reply, *wrong)
            return
        session.take(request.body, reply, request.headers)

    def _over(self, session: SseSession, error: PenstockError | None) -> None:
        self._sessions.remove(session)
        if error is not None:
            self._on_lost(error)
