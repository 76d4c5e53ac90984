"""An upstream at a URL: whether it speaks Streamable HTTP or legacy SSE is found out by speaking to it.

A path that ends in /sse is tried as SSE first, any other as Streamable HTTP. The first messages go the one
way; if what comes back is not how such an endpoint answers, they go the other way, and so does all the rest.
"""

from __future__ import annotations

import logging

from penstock import limits
from penstock.errors import SessionRefused
from penstock.net.http_client import HttpClient
from penstock.relay.contracts import LinkFacts, UpstreamReceiver
from penstock.upstream.peer import PeerOfUpstream
from penstock.upstream.sse import SseUpstream
from penstock.upstream.streamable_http import StreamableHttpUpstream
from penstock.wire.http.http1 import Headers
from penstock.wire.http.url import Url
from penstock.wire.mcp.mcp_headers import SchemaBook
from penstock.wire.mcp.message import METHOD_NOT_FOUND, Kind, Message
from penstock.wire.mcp.replies import error_reply

log = logging.getLogger("penstock")

STREAMABLE = "streamable"
SSE = "sse"


class HttpUpstream:
    """One session with whatever answers at `url`."""

    def __init__(
        self,
        client: HttpClient,
        url: Url,
        headers: Headers,
        *,
        connect_seconds: float = limits.CONNECT_SECONDS,
        reconnect: bool = False,
        renews: bool = False,
        schemas: SchemaBook | None = None,
    ) -> None:
        """`client` is closed with the link. With `renews`, a session that the upstream has forgotten is begun
        again, though a lost upstream is not looked for. `schemas` is common to all links to one upstream,
        where lists are learnt over one link and tools called over another."""
        self._client = client
        self._url = url
        self._headers = headers
        self._connect_seconds = connect_seconds
        self._is_revivable = reconnect
        self._is_renewable = renews
        self._schemas = schemas
        self._receiver: UpstreamReceiver | None = None
        self._peer: PeerOfUpstream | None = None
        self._reasons: set[str] = set()
        self._trouble: str | None = None
        path = url.target.partition(b"?")[0].rstrip(b"/")
        self._first = SSE if path.endswith(b"/sse") else STREAMABLE
        self._ruled_out: dict[str, str] = {}  # kind: what came back
        self._link, self._kind = self._new_link(self._first), self._first

    @property
    def facts(self) -> LinkFacts:
        """What is known of the upstream: what it speaks, once it has shown that, and what it wants."""
        link = self._link
        # Who wants credentials first has shown no more than that; it is taken for what it was spoken to as.
        kind = self._kind if link.is_proven or link.wants_credentials else None
        trouble = link.trouble or self._trouble
        if isinstance(link, SseUpstream):
            return LinkFacts(kind, False, link.wants_credentials, trouble=trouble)
        return LinkFacts(
            kind, link.has_session, link.wants_credentials, link.via, link.answers_with_events, trouble
        )

    @property
    def receiver(self) -> UpstreamReceiver | None:
        """Who hears what the upstream says."""
        return self._receiver

    @receiver.setter
    def receiver(self, receiver: UpstreamReceiver | None) -> None:
        self._receiver = self._link.receiver = receiver

    @property
    def peer(self) -> PeerOfUpstream | None:
        """Who is not read while the upstream takes nothing."""
        return self._peer

    @peer.setter
    def peer(self, peer: PeerOfUpstream | None) -> None:
        self._peer = self._link.peer = peer

    @property
    def untaken(self) -> int:
        """Bytes of messages that the upstream has not taken."""
        return self._link.untaken

    def send(self, message: Message) -> None:
        """Sends a message the way that is tried or chosen."""
        self._link.send(message)

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        self._reasons.add(reason)
        self._link.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the upstream."""
        self._reasons.discard(reason)
        self._link.resume(reason)

    def cork(self) -> None:
        """Nothing to collect."""

    def uncork(self) -> None:
        """Nothing was collected."""

    async def connect(self) -> None:
        """Makes sure that somebody is there; raises ConnectFailed."""
        await self._client.connect()

    async def stop(self, grace: float) -> None:
        """Waits a while for what is still to be answered, then ends the session and every connection."""
        if grace > 0:
            await self._link.settle(grace)
        await self._link.close()
        await self._client.close()

    async def close(self) -> None:
        """Ends the session and every connection at once."""
        await self.stop(0.0)

    def kill(self) -> None:
        """Nothing of it outlives us anyway."""

    @property
    def how_it_ended(self) -> str:
        """The end of the session in words."""
        return "its session is closed"

    def _new_link(self, kind: str) -> StreamableHttpUpstream | SseUpstream:
        link: StreamableHttpUpstream | SseUpstream
        if kind == SSE:
            link = SseUpstream(
                self._client,
                self._url,
                self._headers,
                connect_seconds=self._connect_seconds,
                reconnect=self._is_revivable,
                on_unsuitable=self._turn,
            )
        else:
            link = StreamableHttpUpstream(
                self._client,
                self._url,
                self._headers,
                connect_seconds=self._connect_seconds,
                reconnect=self._is_revivable,
                renews=self._is_renewable,
                on_unsuitable=self._turn,
                schemas=self._schemas,
            )
        link.receiver, link.peer = self._receiver, self._peer
        for reason in self._reasons:
            link.pause(reason)
        return link

    def _turn(self, why: str) -> bool:
        """Goes the other way, with everything that was not answered."""
        messages = self._link.abandon()
        self._ruled_out[self._kind] = why
        other = SSE if self._kind == STREAMABLE else STREAMABLE
        if other in self._ruled_out:
            self._fail(messages)
        else:
            log.debug("The upstream is not spoken to by %s (%s).", self._kind, why)
            self._link, self._kind = self._new_link(other), other
            for message in messages:
                self._link.send(message)
        return True

    def _fail(self, messages: list[Message]) -> None:
        """Neither way leads anywhere.

        An upstream of the older era may know nothing of the newer one's first message, and say so in any
        way it likes: then the client's next attempt decides. After a handshake there is none.
        """
        ruled_out, self._ruled_out = self._ruled_out, {}
        self._trouble = f"No MCP server there: {ruled_out[STREAMABLE]} to POST, {ruled_out[SSE]} to GET"
        self._link, self._kind = self._new_link(self._first), self._first
        assert self._receiver is not None
        if any(message.method == "initialize" for message in messages):
            self._receiver.upstream_lost(SessionRefused(self._url.shown, self._trouble))
            return
        for message in messages:
            if message.kind is Kind.REQUEST:
                reply = error_reply(
                    message.id_token, METHOD_NOT_FOUND, f"Upstream MCP answered {ruled_out[STREAMABLE]}"
                )
                self._receiver.from_upstream(reply)
