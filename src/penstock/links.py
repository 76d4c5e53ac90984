"""Which link leads to the upstream that was asked for."""

from __future__ import annotations

from typing import Protocol

from penstock.config import CommandUpstream, ProxyConfig, UrlUpstream
from penstock.net.warden import Warden
from penstock.relay.contracts import UpstreamLink, UpstreamReceiver
from penstock.upstream.peer import PeerOfUpstream


class Upstream(UpstreamLink, Protocol):
    """A link with a beginning and an end."""

    receiver: UpstreamReceiver | None
    peer: PeerOfUpstream | None

    def cork(self) -> None: ...

    def uncork(self) -> None: ...

    async def connect(self) -> None:
        """Makes sure that somebody is there; raises ConnectFailed."""

    async def stop(self, grace: float) -> None:
        """Ends it, leaving what is under way so many seconds."""

    def kill(self) -> None:
        """Ends it at once."""

    @property
    def how_it_ended(self) -> str:
        """Its end in words."""


def open_upstream(config: ProxyConfig, warden: Warden) -> Upstream:
    """The link to the upstream that `config` names. Raises ConnectFailed when a command cannot be started."""
    upstream = config.upstream
    if isinstance(upstream, CommandUpstream):
        from penstock.upstream.stdio import StdioUpstream

        return StdioUpstream(list(upstream.command), upstream.environment(), upstream.cwd, warden)
    assert isinstance(upstream, UrlUpstream)
    from penstock.net.http_client import HttpClient
    from penstock.upstream.http import HttpUpstream

    client = HttpClient(upstream.url, connect_timeout=config.connect_seconds)
    return HttpUpstream(
        client,
        upstream.url,
        list(upstream.headers),
        connect_seconds=config.connect_seconds,
        reconnect=upstream.reconnect,
    )
