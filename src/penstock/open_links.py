"""Which link leads to the upstream that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from penstock import limits
from penstock.config.model import CommandUpstream, ProxyConfig, ReplayUpstream, SeveralUpstreams, UrlUpstream
from penstock.errors import ConfigError, ConnectFailed
from penstock.net.warden import Warden
from penstock.relay.contracts import UpstreamLink, UpstreamReceiver
from penstock.upstream.peer import PeerOfUpstream

if TYPE_CHECKING:
    from penstock.gate.record import Observer
    from penstock.live_rules import LiveRules
    from penstock.peers import Peers
    from penstock.policy.rules.effect_contract import ForkSpec
    from penstock.wire.mcp.mcp_headers import SchemaBook


class Upstream(UpstreamLink, Protocol):
    """A link with a beginning and an end."""

    receiver: UpstreamReceiver | None
    peer: PeerOfUpstream | None

    def cork(self) -> None: ...

    def uncork(self) -> None: ...

    async def connect(self) -> None:
        """Makes sure that somebody is there; raises ConnectFailed."""

    @property
    def how_it_ended(self) -> str:
        """Its end in words."""


def open_upstream(
    config: ProxyConfig,
    warden: Warden,
    *,
    is_first: bool = False,
    restarts: bool = True,
    schemas: SchemaBook | None = None,
) -> Upstream:
    """The link to the upstream that `config` names. Raises ConnectFailed when a command cannot be started.

    With `restarts`, one that is lost is looked for or started again, where that was asked for.
    Of the first one people hear what it said last when it is lost: that costs a descriptor.
    `schemas` is common to all links to one upstream, where there are several.
    """
    if isinstance(config.upstream, SeveralUpstreams):
        from penstock.open_several import open_aggregate

        return open_aggregate(config, warden)
    link = _open_link(config, warden, is_first, restarts, schemas)
    if config.call_seconds is None:
        return link
    from penstock.upstream.timed import TimedLink

    return cast(Upstream, TimedLink(link, config.call_seconds))


def _open_link(
    config: ProxyConfig, warden: Warden, is_first: bool, restarts: bool, schemas: SchemaBook | None
) -> Upstream:
    upstream = config.upstream
    if isinstance(upstream, CommandUpstream):
        return _open_command(config, upstream, warden, is_first, restarts and upstream.reconnect)
    if isinstance(upstream, ReplayUpstream):
        from penstock.observe.replay_link import ReplayLink

        return ReplayLink(upstream.book, upstream.match, upstream.once, upstream.is_real_time)
    assert isinstance(upstream, UrlUpstream)
    from penstock.net.http_client import HttpClient
    from penstock.upstream.detect_transport import HttpUpstream

    client_type = HttpClient
    if (
        config.observe is not None
        and config.observe.telemetry is not None
        and config.observe.telemetry.inject
    ):
        from penstock.upstream.traced_client import TracedClient

        client_type = TracedClient
    client = client_type(upstream.url, connect_timeout=config.connect_seconds)
    return HttpUpstream(
        client,
        upstream.url,
        list(upstream.headers),
        connect_seconds=config.connect_seconds,
        reconnect=upstream.reconnect and restarts,
        renews=upstream.renews,
        schemas=schemas,
    )


def _open_command(
    config: ProxyConfig, upstream: CommandUpstream, warden: Warden, is_first: bool, restarts: bool
) -> Upstream:
    from penstock.upstream.stdio import StdioUpstream

    def start() -> StdioUpstream:
        return StdioUpstream(
            list(upstream.command),
            upstream.environment(),
            upstream.cwd,
            warden,
            start_seconds=config.start_seconds,
            is_stderr_heard=is_first,
        )

    if not restarts:
        return start()
    from penstock.upstream.restarting import RestartingCommand

    return RestartingCommand(start, config.start_seconds)


def open_shadow(spec: ForkSpec, warden: Warden) -> Upstream:
    """The link to a shadow upstream that a rule names; its address is judged as that of a webhook is."""
    if spec.url is None:
        from penstock.upstream.stdio import StdioUpstream

        return StdioUpstream(list(spec.argv), None, None, warden)
    from penstock.effects.addresses import admission
    from penstock.net.http_client import HttpClient
    from penstock.upstream.detect_transport import HttpUpstream
    from penstock.wire.http.url import parse_url

    try:
        url = parse_url(spec.url)
    except ConfigError as why:
        raise ConnectFailed("a shadow upstream", why.detail) from None
    if not url.is_tls and not spec.allow_http:
        raise ConnectFailed(url.origin, "http is not encrypted; the rule must say allow_http: true")
    client = HttpClient(url, environ={}, admits=admission(spec.allow_private))
    headers = [(name.encode(), value.encode()) for name, value in spec.headers]
    return HttpUpstream(client, url, headers, connect_seconds=limits.CONNECT_SECONDS)


def open_live_rules(
    config: ProxyConfig,
    reread: Callable[[bytes], ProxyConfig],
    warden: Warden,
    observers: Sequence[Observer] = (),
    fleet: Peers | None = None,
) -> LiveRules | None:
    """The rules, where a configuration file was named; nothing of them is loaded where none was."""
    if config.path is None:
        return None
    from penstock.live_rules import LiveRules

    return LiveRules(config, reread, warden, observers, fleet)
