"""Clients of the legacy HTTP+SSE transport: a stream to hear on, an address to speak to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock import limits
from penstock.downstream.event_stream import EventStream
from penstock.downstream.link_session import UNREAD, LinkDoor, LinkSession
from penstock.downstream.mcp_head import read_head
from penstock.downstream.replies import deny, is_refused_for_now, refuse, send_json
from penstock.downstream.sse_post import SsePost, accept
from penstock.errors import PenstockError
from penstock.net.http_exchange import Reply, Request
from penstock.relay.catalogs import rights_of
from penstock.relay.contracts import UpstreamLink
from penstock.relay.link_pool import LinkPool
from penstock.relay.sessions import Sessions
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.carried import HttpRefusal
from penstock.wire.mcp.message import Message


class SseSession(LinkSession):
    """One client and its open stream, as long as which the session lives."""

    def __init__(self, session_id: bytes, stream: EventStream, link: UpstreamLink, pool: LinkPool) -> None:
        self._stream = stream
        self._taken: bytes | None = None  # rights with which the upstream has last answered
        self._posts: list[SsePost] = []  # that wait for the upstream to take what they show
        super().__init__(session_id, link, pool, carries=True)
        stream.on_gone = self.end
        stream.on_drain = lambda: link.resume(UNREAD)

    def take(self, body: bytes, reply: Reply, headers: Headers) -> None:
        """Takes what the client posted. The answer goes to the stream, a refusal to the post."""
        if self.backlog > limits.BACKLOG_SMALL_BYTES and is_refused_for_now(reply, self):
            return
        carry = self._pool.carry
        if carry is not None and (rights := rights_of(carry(headers))) != self._taken:
            post = SsePost(reply, rights, self._deny_late)
            self._posts = [one for one in self._posts if one.is_waiting] + [post]
            self._relay.from_client(body, post, headers)
            return
        self._relay.from_client(body, reply, headers)
        if not reply.is_started:
            accept(reply)

    def _deny_late(self, refusal: HttpRefusal) -> None:
        """Credentials that were good are not any more: the next post with them hears it in its own answer."""
        self._taken = None
        self._say(refusal)

    def send(self, raw: bytes, route: object, message: Message | None) -> None:
        """Gives the client a message."""
        if isinstance(raw, HttpRefusal):
            self._taken = None
        elif isinstance(route, SsePost):
            self._taken = route.rights
        if self._posts:
            # Whatever is heard may be something that the client has to answer, with a post that comes next.
            posts, self._posts = self._posts, []
            for post in posts:
                post.accept()
        self._say(raw)

    def _say(self, raw: bytes) -> None:
        self._stream.send(raw, "message")
        if self._stream.is_full:
            self._link.pause(UNREAD)

    def refuse(self, raw: bytes, route: object) -> None:
        """Tells the client that what it posted was not passed on."""
        reply = route.reply if isinstance(route, SsePost) else route
        if isinstance(reply, Reply) and not reply.is_started:
            send_json(reply, 400, raw)
        else:
            self.send(raw, None, None)

    def progress(self, raw: bytes, route: object) -> bool:
        """Tells the client progress. No post is accepted for it: nobody has looked at its credentials yet."""
        self._say(raw)
        return self._stream.is_open

    def _hang_up(self) -> None:
        self._stream.finish()


class SseDoor(LinkDoor):
    """`/sse` and `/messages`."""

    def __init__(
        self,
        pool: LinkPool,
        sessions: Sessions,
        on_lost: Callable[[PenstockError], None],
        messages_path: bytes = b"/messages",
    ) -> None:
        super().__init__(pool, sessions, on_lost)
        self._messages_path = messages_path
        self.refusal_of: Callable[[Headers], Awaitable[HttpRefusal | None]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Asks nobody any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def handle_stream(self, request: Request, reply: Reply) -> None:
        """Takes a request to `/sse`: a new session."""
        if request.method != b"GET":
            # Clients that try Streamable HTTP first read this as: use the older transport.
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"GET")])
            return
        if not read_head(request).wants_events:
            refuse(reply, 406, "Not acceptable: the client must accept text/event-stream by name")
            return
        carry = self._pool.carry
        if carry is None or self.refusal_of is None or not self._pool.catalogs.lists.is_by_principal:
            self._begin(reply)
            return
        if len(self._tasks) >= limits.SESSIONS:
            refuse(reply, 503, "Too many sessions", [(b"Retry-After", b"5")])
            return
        asked = self.refusal_of(carry(request.headers))
        task = asyncio.get_running_loop().create_task(self._admit(asked, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _admit(self, asked: Awaitable[HttpRefusal | None], reply: Reply) -> None:
        """Begins a session for a client whose credentials the upstream takes. Clients expect to be told here
        when it does not."""
        refusal = await asked
        if reply.is_gone:
            return
        if refusal is None:
            self._begin(reply)
        else:
            deny(reply, None, refusal)

    def _begin(self, reply: Reply) -> None:
        if self._is_full:
            refuse(reply, 503, "Too many sessions", [(b"Retry-After", b"5")])
            return
        link = self._maybe_link(reply, None)
        if link is None:
            return
        session_id = self._sessions.new_id()
        stream = EventStream(reply)
        stream.send(self._messages_path + b"?session_id=" + session_id, "endpoint")
        self._kept(SseSession(session_id, stream, link, self._pool))

    def handle_message(self, request: Request, reply: Reply) -> None:
        """Takes a request to `/messages`: something a client says."""
        if request.method != b"POST":
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"POST")])
            return
        head = read_head(request)
        if head.posted_to is None:
            head.posted_to = _maybe_session_id(request.query)
            if head.posted_to is None:
                refuse(reply, 400, "Invalid request: one session_id is needed")
                return
        session = self._sessions.find(head.posted_to)
        if not isinstance(session, SseSession):
            refuse(reply, 404, "Session not found")
            return
        if head.wrong_body is not None:
            refuse(reply, *head.wrong_body)
            return
        session.take(request.body, reply, request.headers)


def _maybe_session_id(query: bytes) -> bytes | None:
    """The one session that a query names. Ids are ours and plain, so nothing in it needs to be decoded."""
    fields = [field.partition(b"=") for field in query.split(b"&")]
    ids = [value for name, _, value in fields if name == b"session_id"]
    return ids[0] if len(ids) == 1 else None
