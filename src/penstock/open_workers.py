"""The workers of one machine, which serve one port together: each finds the others over Unix sockets."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

from penstock import limits
from penstock.effects.real import RealEffects
from penstock.errors import UpstreamError
from penstock.fleet.hop import Hops
from penstock.fleet.owner_door import CONNECT_SECONDS
from penstock.net.fetch import fetch
from penstock.net.http_client import HttpClient
from penstock.net.http_exchange import Reply, Request
from penstock.peers import Peers
from penstock.state.seals import Seals
from penstock.wire.http.url import unix_url

if TYPE_CHECKING:
    from penstock.config.worker_place import WorkerPlace
    from penstock.downstream.mcp_head import Door
    from penstock.effects.fork import OpenLink
    from penstock.net.warden import Warden


WHOSE = b"/penstock/whose"
"""At the peer door: whether a worker gave out what has the name in the body."""
_MOST_SAID = 1024


class Siblings:
    """Leads to the other workers: each has a socket in a folder that nobody else can look into."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._clients: dict[str, HttpClient] = {}

    def path_of(self, tag: str) -> str:
        """Where the worker called `tag` listens. A tag is ten hexadecimal digits."""
        return os.path.join(self._folder, tag)

    def open_socket(self, tag: str) -> socket.socket:
        """The socket on which the worker called `tag` hears its siblings."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(self.path_of(tag))
        sock.listen(limits.LISTEN_BACKLOG)
        sock.setblocking(False)
        return sock

    async def client_of(self, tag: str) -> HttpClient | None:
        """Leads to the worker; None when there never was one of that name."""
        if not self._is_known(tag):
            return None
        if tag not in self._clients:
            url = unix_url(self.path_of(tag))
            self._clients[tag] = HttpClient(url, connect_timeout=CONNECT_SECONDS, environ={})
        return self._clients[tag]

    def _is_known(self, tag: str) -> bool:
        return os.path.exists(self.path_of(tag))

    def gone(self, tag: str) -> None:
        """Nobody answered there: it will never be again."""
        try:
            os.unlink(self.path_of(tag))
        except OSError:
            pass

    async def is_there(self, tag: str) -> bool:
        """Whether the worker takes connections."""
        client = await self.client_of(tag)
        try:
            if client is not None:
                await client.look()
        except UpstreamError:
            self.gone(tag)
            return False
        return client is not None

    def others_than(self, tag: str) -> list[str]:
        """The tags of the other workers."""
        return [one for one in os.listdir(self._folder) if one != tag]

    async def close(self) -> None:
        """Closes every connection."""
        clients, self._clients = self._clients, {}
        await asyncio.gather(*(client.close() for client in clients.values()))


class AskedSiblings:
    """Who gave something out, as the siblings say themselves: each is asked."""

    def __init__(self, siblings: Siblings, hops: Hops, tag: str) -> None:
        self._siblings = siblings
        self._hops = hops
        self._tag = tag

    async def tell(self, name: bytes) -> None:
        """Who wants to know asks."""

    async def drop(self, name: bytes) -> None:
        """Likewise."""

    async def who_has(self, name: bytes) -> str | None:
        """The tag of the worker that says it has it."""
        tags = self._siblings.others_than(self._tag)
        said = await asyncio.gather(*(self._is_at(tag, name) for tag in tags))
        return next((tag for tag, has_it in zip(tags, said, strict=True) if has_it), None)

    async def _is_at(self, tag: str, name: bytes) -> bool:
        client = await self._siblings.client_of(tag)
        question = Request(b"POST", WHOSE, [], name, None, 0, {})
        headers = self._hops.headers_for(question, tag)
        try:
            if client is None:
                return False
            answer = await fetch(client, b"POST", WHOSE, headers, name, _MOST_SAID, CONNECT_SECONDS)
        except UpstreamError:
            return False
        return answer.status == 204


class DividedEffects(RealEffects):
    """The effects of a worker that has its part of every limit."""

    parts = 1

    def may_pass(self, key: str, limit: int, window: float) -> bool:
        """Counts one more under `key`, of the part that is this worker's."""
        return super().may_pass(key, limit // self.parts, window)


class WorkerPeers(Peers):
    """One worker among its siblings."""

    def __init__(self, place: WorkerPlace, divides_limits: bool) -> None:
        self._siblings = Siblings(place.folder)
        self._parts = place.count if divides_limits else 1
        super().__init__(os.urandom(5).hex(), Seals(place.secret, None, "workers"), self._siblings)

    def whereabouts(self) -> AskedSiblings:
        """The siblings are asked what they have given out."""
        return AskedSiblings(self._siblings, self._hops, self.tag)

    def answer_peers(self, own: Door) -> None:
        """What siblings bring goes to `own` from now on; what they ask is answered."""

        def handle(request: Request, reply: Reply) -> None:
            if request.target != WHOSE:
                own(request, reply)
            elif self._following is not None and self._following.is_ours(request.body):
                reply.send(204, [])
            else:
                reply.send(404, [])

        super().answer_peers(handle)

    async def listen(self) -> None:
        """Takes what siblings bring."""
        self.open_peer_server().adopt([self._siblings.open_socket(self.tag)])

    async def close(self) -> None:
        """Leaves the siblings."""
        await super().close()
        self._siblings.gone(self.tag)
        await self._siblings.close()

    def effects(self, warden: Warden, open_link: OpenLink) -> RealEffects:
        """What rules do outside; limits divided, where that was asked for."""
        made = DividedEffects(warden, open_link)
        made.parts = self._parts
        return made
