"""The doors of an instance among others: a request whose session is another's goes there, and no further."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Protocol

from penstock.downstream.mcp_head import Door, read_head
from penstock.downstream.replies import refuse, send_json
from penstock.errors import ConnectFailed, ProtocolError, UpstreamError
from penstock.fleet.following import Following, maybe_returned
from penstock.fleet.hop import FIELD, HOST_FIELD, Hops
from penstock.fleet.session_ids import SessionIds
from penstock.net.http_client import HttpClient, Ticket
from penstock.net.http_exchange import Reply, Request
from penstock.state.store import StoreDown
from penstock.wire.http.http1 import Headers, find
from penstock.wire.http.sse import encode_event
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message, read_client_message
from penstock.wire.mcp.replies import error_reply

log = logging.getLogger("penstock")

CONNECT_SECONDS = 1.0
_UNKNOWN = "Session not found"
_OWNER_GONE = "The instance that had this session is gone"
_OF_THE_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"date")
)


class Owners(Protocol):
    """Who finds the others."""

    async def client_of(self, tag: str) -> HttpClient | None:
        """Leads to the instance; None when it is not there. Raises StoreDown."""

    def gone(self, tag: str) -> None:
        """Nobody answered there."""

    async def is_there(self, tag: str) -> bool:
        """Whether somebody takes connections there; if not, it counts as gone."""


class OwnerDoors:
    """Puts the question whose a session is before each door."""

    def __init__(
        self, ids: SessionIds, hops: Hops, owners: Owners, following: Following | None = None
    ) -> None:
        """`following` knows what children have given to modern clients, where each instance has its own."""
        self._following = following
        self._ids = ids
        self._hops = hops
        self._owners = owners
        self._looking: set[asyncio.Task[None]] = set()

    def around(self, door: Door) -> Door:
        """The door, for requests whose sessions are ours."""

        def handle(request: Request, reply: Reply) -> None:
            if FIELD in request.fields or HOST_FIELD in request.fields:
                refuse(reply, 400, "Invalid request: Penstock-Hop is for instances among themselves")
                return
            owner = self._ids.maybe_other_owner(_session_of(request))
            if owner is not None:
                self._start(self._pass(owner, request, reply, lambda: refuse(reply, 404, _UNKNOWN)))
                return
            value = maybe_returned(request)
            if value is None:
                door(request, reply)
            else:
                self._follow(value, door, request, reply)

        return handle

    def _follow(self, value: str, door: Door, request: Request, reply: Reply) -> None:
        """Brings a request to the instance whose child gave `value` out. What is nobody's, or of one who is
        gone, is ours: our own child, or the bridge before it, knows what to say."""

        def own() -> None:
            if not reply.is_gone:
                door(request, reply)

        owner = self._ids.maybe_owner(value.encode("utf-8", "surrogatepass"))
        if owner is not None and owner != self._ids.tag:
            self._start(self._pass(owner, request, reply, own))
            return
        following = self._following
        name = b"" if following is None or owner is not None else following.name_of(request, value)
        if following is None or not name or following.is_ours(name):
            own()
        else:
            self._start(self._find(following, name, request, reply, own))

    async def _find(
        self, following: Following, name: bytes, request: Request, reply: Reply, own: Callable[[], None]
    ) -> None:
        try:
            tag = await following.who_has(name)
        except StoreDown:
            _cannot_find(reply)
            return
        if tag is None or tag == self._ids.tag:
            own()
        else:
            await self._pass(tag, request, reply, own)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _pass(self, tag: str, request: Request, reply: Reply, otherwise: Callable[[], None]) -> None:
        """Brings the request to its owner; when nobody is there, does what is left to do."""
        try:
            client = await self._owners.client_of(tag)
        except StoreDown:
            _cannot_find(reply)
            return
        if client is None:
            otherwise()
            return
        if reply.is_gone:
            return

        def gone() -> None:
            self._owners.gone(tag)
            otherwise()

        hop = _Hop(request, reply, gone)
        hop.on_lost = lambda: self._look_then(tag, hop.tell_lost)
        headers = self._hops.headers_for(request, tag)
        hop.begin(client.request(request.method, request.target, headers, request.body, hop))

    def _look_then(self, tag: str, then: Callable[[bool], None]) -> None:
        """An answer was lost on its way: finds out whether its instance is, too, before anybody hears."""

        async def look() -> None:
            then(await self._owners.is_there(tag))

        self._start(look())


class _Hop:
    """One request at its owner; what comes back is passed on as it comes."""

    def __init__(self, request: Request, reply: Reply, on_gone: Callable[[], None]) -> None:
        self._request = request
        self._reply = reply
        self._on_gone = on_gone
        self._ticket: Ticket | None = None
        self._is_stream = False
        self.on_lost: Callable[[], None] = lambda: self.tell_lost(False)

    def begin(self, ticket: Ticket) -> None:
        """It is under way."""
        self._ticket = ticket
        self._reply.on_gone = ticket.cancel
        self._reply.on_drain = ticket.resume

    def on_head(self, status: int, headers: Headers) -> None:
        """The owner begins to answer."""
        self._is_stream = (find(headers, b"content-type") or b"").startswith(b"text/event-stream")
        ours = {name.lower() for name, _ in self._reply.extra}  # for pages: said here, by who was asked
        kept = [pair for pair in headers if pair[0].lower() not in _OF_THE_CONNECTION | ours]
        length = find(headers, b"content-length")
        if length is not None:
            kept.append((b"Content-Length", length))
        self._reply.start(status, kept)

    def on_data(self, chunk: bytes) -> None:
        """A part of the answer."""
        self._reply.write(chunk)
        if self._reply.is_full and self._ticket is not None:
            self._ticket.pause()

    def on_end(self) -> None:
        """All of it."""
        self._reply.finish()

    def on_failure(self, error: UpstreamError) -> None:
        """The owner is gone, before or in the middle."""
        reply = self._reply
        reply.on_gone = reply.on_drain = None
        if isinstance(error, ConnectFailed):
            log.info("The instance that had a session cannot be reached; its sessions are over.")
            self._on_gone()
            return
        self.on_lost()

    def tell_lost(self, is_there: bool) -> None:
        """Nothing more will come of what is under way; `is_there` says whether its instance goes on."""
        reply = self._reply
        if reply.is_gone:
            return
        raw = error_reply(_id_of(self._request), INTERNAL_ERROR, _OWNER_GONE)
        if not reply.is_started:
            if self._request.method == b"POST" and _id_of(self._request) is not None:
                send_json(reply, 200, raw)
            elif is_there:
                refuse(reply, 502, "The instance that has this session did not answer")
            else:
                refuse(reply, 404, _UNKNOWN)
        elif self._is_stream and self._request.method == b"POST":
            reply.write(encode_event(raw, "message"))
            reply.finish()
        elif self._is_stream:
            reply.finish()
        else:
            reply.abort()


def _cannot_find(reply: Reply) -> None:
    refuse(reply, 503, "Cannot find the owner of the session now", [(b"Retry-After", b"1")])


def _session_of(request: Request) -> bytes | None:
    """The id of the session that a request names, in its header or, for legacy SSE, in its query."""
    head = read_head(request)
    if head.session is not None:
        return head.session
    if not request.query:
        return None
    fields = [field.partition(b"=") for field in request.query.split(b"&")]
    ids = [value for name, _, value in fields if name == b"session_id"]
    return ids[0] if len(ids) == 1 else None


def _id_of(request: Request) -> bytes | None:
    try:
        message = read_client_message(request.body)
    except ProtocolError:
        return None
    return message.id_token if isinstance(message, Message) and message.kind is Kind.REQUEST else None
