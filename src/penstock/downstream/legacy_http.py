"""Clients of Streamable HTTP, legacy era, when the upstream speaks over one pipe or stream.

A session and an upstream link are made at initialize. An answer goes to the POST that asked. What the
upstream says unasked carries no hint of where it belongs, so: progress goes to the POST whose request carried
that token; anything else to the POST under way if there is just one, else to the GET stream, and waits for
that stream if there is none yet.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock import limits
from penstock.downstream.event_stream import EventStream
from penstock.downstream.link_session import UNREAD, LinkDoor, LinkSession
from penstock.downstream.mcp_head import McpHead, read_head
from penstock.downstream.post_reply import PostReply
from penstock.downstream.replies import is_refused_for_now, refuse, refuse_unread, send_event, send_json
from penstock.errors import ClientProtocolError
from penstock.net.http_exchange import Reply, Request
from penstock.policy.tools import tool_gate
from penstock.relay.contracts import UpstreamLink
from penstock.relay.link_pool import LinkPool
from penstock.wire.http.http1 import Headers
from penstock.wire.json.ambiguity import readable
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, Batch, Message, read_client_message
from penstock.wire.mcp.replies import error_reply
from penstock.wire.mcp.routing_headers import check_routing_headers, refuse_routing_headers

if TYPE_CHECKING:  # loaded where an upstream has refused somebody
    from penstock.wire.mcp.carried import HttpRefusal

log = logging.getLogger("penstock")


class Post(PostReply):
    """One POST of a client that waits for its answer."""

    def __init__(self, reply: Reply, session: HttpSession, message: Message | Batch) -> None:
        method = message.method if isinstance(message, Message) else None
        self.progress_token = _maybe_progress_token(message)
        self._is_list = method == tool_gate.LIST
        self._session = session
        self._more: Headers = [(b"Mcp-Session-Id", session.id)] if method == "initialize" else []
        self._on_drain = session.on_drain
        super().__init__(reply)

    def push(self, raw: bytes) -> None:
        """Something that comes before the answer."""
        self._push(raw, self._more)

    def answer(self, raw: bytes, is_ours: bool) -> None:
        """The answer, and the end of this exchange.

        What the upstream answers travels as an event, as SDK servers of this era send it, unless it is large:
        some clients refuse events over 1 MiB, none a JSON body.
        """
        self._session.forget(self)
        is_event = (not is_ours or self._is_list) and not self._more and len(raw) < limits.EVENT_BYTES
        if is_event and self._stream is None and not self._reply.is_gone:
            send_event(self._reply, raw)
        else:
            self._end_with(200, raw, self._more)

    def refuse(self, raw: bytes) -> None:
        """The message was not passed on."""
        self._session.forget(self)
        self._end_with(400, raw)

    def deny(self, refusal: HttpRefusal) -> None:
        """The upstream wants other credentials: the client hears it as if it had asked it itself."""
        self._session.forget(self)
        self._end_with(refusal.status, refusal, refusal.headers)
        if self._more:
            self._session.end()  # its client never learned its id

    def accept(self) -> None:
        """Nothing will be answered."""
        self._session.forget(self)
        if not self._reply.is_started:
            self._reply.send(202, [])

    def abandon(self) -> None:
        """The session ends without an answer."""
        self._end_without(404, "Session not found")

    def _on_gone(self) -> None:
        # In this era a disconnect is no cancel: the upstream goes on, only nobody hears its answer.
        self._session.lost(self)


class HttpSession(LinkSession):
    """One client's session, with its posts under way and its stream."""

    def __init__(self, session_id: bytes, link: UpstreamLink, pool: LinkPool) -> None:
        self._posts: dict[Post, None] = {}
        self._stream: EventStream | None = None
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._requests = 0
        super().__init__(session_id, link, pool, carries=True)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way or a stream is open."""
        return bool(self._posts) or self._stream is not None

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the client is not answered yet."""
        return bool(self._posts)

    @property
    def is_shy(self) -> bool:
        """Whether the client only ever said hello."""
        return self._requests <= 1

    def take(self, message: Message | Batch, reply: Reply, headers: Headers) -> None:
        """Takes what the client posted."""
        self._requests += 1
        if self.backlog > limits.BACKLOG_SMALL_BYTES and is_refused_for_now(reply, self):
            return
        post = Post(reply, self, message)
        self._posts[post] = None
        if not self._relay.take(message, post, headers):
            post.accept()

    def open_stream(self, reply: Reply) -> None:
        """The client wants to hear what comes unasked."""
        if self._stream is not None:
            refuse(reply, 409, "Conflict: this session has a stream already")
            return
        self._requests += 1
        self._stream = stream = EventStream(reply, [(b"Mcp-Session-Id", self.id)])
        stream.on_gone = self._on_stream_gone
        stream.on_drain = self.on_drain
        while self._backlog:
            stream.send(self._backlog.popleft(), "message")
        self._backlog_bytes = 0

    def send(self, raw: bytes, route: object, message: Message | None) -> None:
        """Gives the client a message."""
        if self._is_over:
            return  # everybody who waited was told so
        if isinstance(route, Post):
            route.answer(raw, is_ours=message is None)
            return
        post = self._maybe_post_for(message)
        if post is not None:
            post.push(raw)
        elif self._stream is not None:
            self._stream.send(raw, "message")
        else:
            self._keep(raw)
        if (post is not None and post.is_full) or (self._stream is not None and self._stream.is_full):
            self._link.pause(UNREAD)

    def refuse(self, raw: bytes, route: object) -> None:
        """Tells the client that what it posted was not passed on."""
        if isinstance(route, Post) and not self._is_over:
            route.refuse(raw)

    def progress(self, raw: bytes, route: object) -> bool:
        """Tells the client progress, on the stream of the very POST that it is about, and on no other."""
        if self._is_over or not isinstance(route, Post) or route not in self._posts:
            return False
        route.push(raw)
        return True

    def on_drain(self) -> None:
        """The client reads again."""
        if not any(post.is_full for post in self._posts) and not (self._stream and self._stream.is_full):
            self._link.resume(UNREAD)

    def forget(self, post: Post) -> None:
        """A post has its answer."""
        self._posts.pop(post, None)

    def lost(self, post: Post) -> None:
        """The client is gone before the answer came."""
        self.forget(post)
        self.on_drain()
        if self._requests == 1 and not self._posts:
            self.end()  # it never learned its session id, so nobody can come back

    def _on_stream_gone(self) -> None:
        self._stream = None
        self.on_drain()

    def _maybe_post_for(self, message: Message | None) -> Post | None:
        if message is not None and message.method == "notifications/progress":
            token = _maybe_token(message.envelope.get("params"))
            for post in self._posts:
                if token is not None and post.progress_token == token:
                    return post
        return next(iter(self._posts)) if len(self._posts) == 1 else None

    def _keep(self, raw: bytes) -> None:
        self._backlog.append(raw)
        self._backlog_bytes += len(raw)
        while self._backlog_bytes > limits.SESSION_BACKLOG_BYTES:
            self._backlog_bytes -= len(self._backlog.popleft())
            log.warning("Dropped the oldest message that waits for a client's stream: too many wait.")

    def _hang_up(self) -> None:
        for post in tuple(self._posts):
            post.abandon()
        if self._stream is not None:
            self._stream.finish()


class LegacyDoor(LinkDoor):
    """`/mcp` for legacy clients of an upstream that is not HTTP itself."""

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes one request of a legacy client."""
        head = read_head(request)
        if request.method == b"POST":
            self._post(request, reply, head)
        elif request.method == b"GET":
            if not head.wants_events:
                refuse(reply, 406, "Not acceptable: the client must accept text/event-stream by name")
                return
            session = self._maybe_session(head, reply)
            if session is not None:
                session.open_stream(reply)
        elif request.method == b"DELETE":
            session = self._maybe_session(head, reply)
            if session is not None:
                session.end()
                reply.send(200, [])
        else:
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"GET, POST, DELETE")])

    def _post(self, request: Request, reply: Reply, head: McpHead) -> None:
        if head.wrong_post is not None:
            refuse(reply, *head.wrong_post)
            return
        try:
            message = read_client_message(request.body)
            if head.is_routed and isinstance(message, Message):
                check_routing_headers(message, request.fields, is_required=False)
            elif head.is_routed:
                refuse_routing_headers(request.fields)
        except ClientProtocolError as refusal:
            refuse_unread(reply, refusal, self._pool.gate, request.body)
            return
        if isinstance(message, Message) and message.method == "initialize" and head.session is None:
            session = self._maybe_new_session(reply, message.id_token)
        else:
            session = self._maybe_session(head, reply)
        if session is not None:
            session.take(message, reply, request.headers)

    def _maybe_new_session(self, reply: Reply, id_token: bytes | None) -> HttpSession | None:
        if self._is_full:
            raw = error_reply(id_token, INTERNAL_ERROR, "Too many sessions")
            send_json(reply, 503, raw, [(b"Retry-After", b"5")])
            return None
        link = self._maybe_link(reply, id_token)
        return None if link is None else self._kept(HttpSession(self._sessions.new_id(), link, self._pool))

    def _maybe_session(self, head: McpHead, reply: Reply) -> HttpSession | None:
        if head.session is None:
            refuse(reply, 400, "Bad request: Missing session ID")
            return None
        if head.is_session_malformed:
            refuse(reply, 400, "Bad request: malformed session id")
            return None
        session = self._sessions.find(head.session)
        if not isinstance(session, HttpSession):
            refuse(reply, 404, "Session not found")
            return None
        return session


_BACKSLASH = ord("\\")


class _Token(Struct, gc=False):
    # Only this is made: there may be a million members beside it.
    token: Raw | UnsetType = msgspec.field(name="progressToken", default=UNSET)


_decode_token = msgspec.json.Decoder(_Token).decode


def _maybe_token(holder: Raw | None) -> bytes | None:
    """The progress token in the params of a notification, or in the `_meta` of a request."""
    try:
        token = UNSET if holder is None else _decode_token(readable(holder)).token
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if token is UNSET else id_key(bytes(token))


def _maybe_progress_token(message: Message | Batch) -> bytes | None:
    raw = message.raw
    # Two bytes are looked for at a tenth of the speed of one, which a megabyte makes felt.
    if b"progressToken" not in raw and (_BACKSLASH not in raw or b"\\u" not in raw):
        return None  # nobody calls it so, and nothing in it can be spelt otherwise
    params = message.params if isinstance(message, Message) else None
    return _maybe_token(params.get("_meta")) if params else None
