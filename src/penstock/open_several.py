"""Several upstreams: what all sessions share of them, and the link of one session to all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from msgspec import structs

from penstock.config.model import ProxyConfig, SeveralUpstreams
from penstock.errors import PenstockError
from penstock.net.warden import Warden
from penstock.open_links import Upstream, open_upstream
from penstock.policy.several.terms import MemberTerms
from penstock.relay.adapters.aggregate.aggregate import Aggregate
from penstock.relay.adapters.aggregate.hub import Hub
from penstock.relay.adapters.aggregate.view import View
from penstock.relay.contracts import UpstreamLink


def open_hub(config: ProxyConfig, warden: Warden, *, learns: bool) -> Hub:
    """What sessions share of the upstreams that `config` names. `learns`: over links of its own."""
    upstream = config.upstream
    assert isinstance(upstream, SeveralUpstreams)
    configs = member_configs(config, upstream)

    def open_member(terms: MemberTerms) -> UpstreamLink:
        return open_upstream(configs[terms.name], warden, restarts=False)

    return Hub(upstream.terms, open_member, learns=learns)


def member_configs(config: ProxyConfig, upstream: SeveralUpstreams) -> dict[str, ProxyConfig]:
    """The configuration as if each member were the only upstream, by its name."""
    return {
        member.terms.name: structs.replace(
            config,
            upstream=member.upstream,
            connect_seconds=_or(member.connect_seconds, config.connect_seconds),
            start_seconds=_or(member.start_seconds, config.start_seconds),
            call_seconds=config.call_seconds if member.call_seconds is None else member.call_seconds,
        )
        for member in upstream.members
    }


class Several:
    """What clients see of several upstreams at one endpoint."""

    def __init__(self, hub: Hub, view: View, owns_hub: bool = True) -> None:
        self.hub = hub
        self.view = view
        self._owns_hub = owns_hub

    def meet(self, on_fatal: Callable[[PenstockError], None], on_ready: Callable[[], None]) -> None:
        """Begins to learn the upstreams. `on_fatal` hears when none of them, or not one that must be there,
        could be had; `on_ready` each time that one could."""
        self.hub.on_ready.append(on_ready)
        if self._owns_hub:
            self.hub.on_fatal = on_fatal
            self.hub.start()

    def open_link(self) -> UpstreamLink:
        """The link of one session."""
        return Aggregate(self.hub, self.view)

    async def close(self) -> None:
        """Ends what sessions shared."""
        if self._owns_hub:
            await self.hub.close()


def open_shared(config: ProxyConfig, warden: Warden) -> Several:
    """The upstreams for many sessions, as `config` wants them seen."""
    hub = open_hub(config, warden, learns=True)
    return Several(hub, hub.new_view(config.choice, search=hub.terms.search))


def open_aggregate(config: ProxyConfig, warden: Warden) -> Upstream:
    """The link of the only session there is, to every upstream."""
    hub = open_hub(config, warden, learns=False)
    link = Aggregate(hub, hub.new_view(config.choice, search=hub.terms.search), owns_hub=True)
    return cast(Upstream, link)


def _or(own: float | None, usual: float) -> float:
    return usual if own is None else own
