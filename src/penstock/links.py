"""Opening a link to the upstream that the configuration names."""

from __future__ import annotations

from penstock.config import CommandUpstream, ProxyConfig
from penstock.net.warden import Warden
from penstock.upstream.stdio import StdioUpstream


def open_upstream(config: ProxyConfig, warden: Warden) -> StdioUpstream:
    """A new link. Raises ConnectFailed when a command cannot be started."""
    upstream = config.upstream
    assert isinstance(upstream, CommandUpstream)
    return StdioUpstream(list(upstream.command), upstream.environment(), upstream.cwd, warden)
