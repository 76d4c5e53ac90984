"""The way to other instances, by their tags."""

from __future__ import annotations

import asyncio

from penstock.errors import ConfigError, UpstreamError
from penstock.fleet.members import Members
from penstock.fleet.owner_door import CONNECT_SECONDS
from penstock.net.http_client import HttpClient
from penstock.state.store import StoreDown
from penstock.wire.http.url import parse_url

_MOST_CLIENTS = 1024


class Directory:
    """Leads to the instances that are on the list."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._clients: dict[tuple[str, str], HttpClient] = {}

    async def client_of(self, tag: str) -> HttpClient | None:
        """Leads to the instance; None when it is not there. Raises StoreDown."""
        member = await self._members.find(tag)
        if member is None or not member.address:
            return None
        key = tag, member.address
        if key not in self._clients:
            try:
                url = parse_url(f"http://{member.address}/")
            except ConfigError:
                return None
            while len(self._clients) >= _MOST_CLIENTS:
                await self._clients.pop(next(iter(self._clients))).close()
            self._clients[key] = HttpClient(url, connect_timeout=CONNECT_SECONDS, environ={})
        return self._clients[key]

    def gone(self, tag: str) -> None:
        """Nobody answered there."""
        self._members.gone(tag)

    async def is_there(self, tag: str) -> bool:
        """Whether somebody takes connections there; if not, it counts as gone."""
        try:
            client = await self.client_of(tag)
            if client is None:
                return False
            await client.look()
        except StoreDown:
            return True
        except UpstreamError:
            self.gone(tag)
            return False
        return True

    async def close(self) -> None:
        """Closes every connection."""
        clients, self._clients = self._clients, {}
        await asyncio.gather(*(client.close() for client in clients.values()))
