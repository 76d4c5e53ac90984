"""Several upstreams: what all sessions share of them, and the link of one session to all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from msgspec import structs

from penstock.auth.caller import Subject
from penstock.config.model import ProxyConfig, SeveralUpstreams, UrlUpstream
from penstock.errors import PenstockError
from penstock.net.warden import Warden
from penstock.open_gate import OpenGate
from penstock.open_links import Upstream, open_upstream
from penstock.policy.several.terms import MemberTerms, SearchTerms
from penstock.relay.adapters.aggregate.aggregate import Aggregate
from penstock.relay.adapters.aggregate.hub import Hub, OpenMember
from penstock.relay.adapters.aggregate.view import View
from penstock.relay.contracts import UpstreamLink
from penstock.wire.mcp.mcp_headers import SchemaBook

if TYPE_CHECKING:  # loaded where tokens are exchanged
    from penstock.auth.swap import SwappedToken
    from penstock.auth.terms import SwapTerms

log = logging.getLogger("penstock")


def open_hub(config: ProxyConfig, warden: Warden, *, learns: bool) -> Hub:
    """What sessions share of the upstreams that `config` names. `learns`: over links of its own."""
    upstream = config.upstream
    assert isinstance(upstream, SeveralUpstreams)
    reserved: frozenset[str] = frozenset()
    profiles = config.access.profiles if config.access is not None else ()
    if upstream.terms.search or config.search or any(profile.search for profile in profiles):
        from penstock.policy.several.finder import OWN_NAMES

        reserved = OWN_NAMES
    return Hub(upstream.terms, _opener(config, upstream, warden), learns=learns, reserved=reserved)


def search_of(config: ProxyConfig, hub: Hub) -> SearchTerms | None:
    """How tools are found where `config` counts; None where they are listed."""
    found = config.search or hub.terms.search
    if found is not None and not hub.finds:  # the names of our own tools may be others' by now
        log.warning("The profile %s lists all its tools: the first search needs a restart.", config.profile)
        return None
    return found


def unwrapped(opened: OpenGate, view: View) -> OpenGate:
    """The gate with wrapped calls unwrapped before it, where tools are found and not listed."""
    if view.search is None:
        return opened
    from penstock.gate.unwrapped import UnwrappedGate

    return structs.replace(opened, gate=UnwrappedGate(opened.gate, view.unwrap))


def _opener(config: ProxyConfig, upstream: SeveralUpstreams, warden: Warden) -> OpenMember:
    configs = member_configs(config, upstream)

    def open_member(terms: MemberTerms, credential: object | None, schemas: SchemaBook) -> UpstreamLink:
        config = configs[terms.name]
        if not terms.credential or credential is None:
            return open_upstream(config, warden, restarts=False, schemas=schemas)
        assert isinstance(credential, CallerCredential)
        return credential.open(terms.name, config, warden, schemas)

    return open_member


class CallerCredential:
    """What one caller brings for the upstreams that see it. It stays with the links opened for it."""

    def __init__(self, headers: dict[bytes, bytes], who: str) -> None:
        self._headers = headers
        self.subject = Subject(who)
        self._swapped: dict[tuple[str, SwapTerms], SwappedToken] = {}

    def open(
        self, name: str, config: ProxyConfig, warden: Warden, schemas: SchemaBook | None = None
    ) -> UpstreamLink:
        """A link to an upstream, as this caller."""
        upstream = config.upstream
        assert isinstance(upstream, UrlUpstream)
        own = [
            (target, self._headers[source]) for source, target in upstream.relays if source in self._headers
        ]
        upstream = structs.replace(upstream, headers=(*upstream.headers, *own))
        config = structs.replace(config, upstream=upstream)
        link = open_upstream(config, warden, restarts=False, schemas=schemas)
        if upstream.swap is None:
            return link
        from penstock.relay.adapters.swapping_link import SwappingLink

        return SwappingLink(link, self._token_for(name, upstream.swap))

    def _token_for(self, name: str, terms: SwapTerms) -> SwappedToken:
        from penstock.auth.swap import SwappedToken

        key = name, terms
        if key not in self._swapped:
            self._swapped[key] = SwappedToken(name, terms, self.subject)
        return self._swapped[key]


class Reload:
    """Leads another file to a hub that runs."""

    def __init__(self, config: ProxyConfig, warden: Warden, hub: Hub) -> None:
        self._config = config
        self._warden = warden
        self._hub = hub
        assert isinstance(config.upstream, SeveralUpstreams)
        self._first = config.upstream

    def __call__(self, config: ProxyConfig) -> None:
        """Takes the upstreams of a new good configuration."""
        old, new = self._config.upstream, config.upstream
        assert isinstance(old, SeveralUpstreams)
        assert isinstance(new, SeveralUpstreams)
        before = {member.terms.name: member for member in old.members}
        changed = frozenset(
            member.terms.name for member in new.members if before.get(member.terms.name) != member
        )
        terms = structs.replace(old.terms, members=new.terms.members)
        # A relay keeps what it was started with; only who stands behind it may change.
        self._config = structs.replace(self._config, upstream=structs.replace(new, terms=terms))
        if _has_credentials(new) and not _has_credentials(self._first):
            log.warning("The first server that gets callers' own credentials needs a restart.")
        if terms != new.terms:
            log.warning("A change of names, lists, server or search needs a restart.")
        if self._hub.reload(terms, _opener(self._config, new, self._warden), changed):
            log.info("The upstreams are those of the new file.")


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

    def __init__(
        self,
        hub: Hub,
        view: View,
        owns_hub: bool = True,
        reload: Reload | None = None,
        credential: CallerCredential | None = None,
    ) -> None:
        """`reload` takes another file for the hub, where this is the one to do so. With `credential`, its
        links are one caller's own."""
        self._credential = credential
        self.hub = hub
        self.view = view
        self.reload = reload
        self._owns_hub = owns_hub

    def status(self) -> bytes:
        """How the upstreams are, a line each."""
        from penstock.relay.adapters.aggregate.status import status_lines

        lines = status_lines(self.hub, asyncio.get_running_loop().time())
        return "".join(f"{line}\n" for line in lines).encode()

    def meet(self, on_fatal: Callable[[PenstockError], None], on_ready: Callable[[], None]) -> None:
        """Begins to learn the upstreams. `on_fatal` hears when none of them, or not one that must be there,
        could be had; `on_ready` each time that one could."""
        self.hub.on_ready.append(on_ready)
        if self._owns_hub:
            self.hub.on_fatal = on_fatal
            self.hub.start()

    def open_link(self) -> UpstreamLink:
        """The link of one session."""
        return Aggregate(self.hub, self.view, credential=self._credential)

    async def close(self) -> None:
        """Ends what sessions shared."""
        if self._owns_hub:
            await self.hub.close()


def open_shared(config: ProxyConfig, warden: Warden) -> Several:
    """The upstreams for many sessions, as `config` wants them seen."""
    hub = open_hub(config, warden, learns=True)
    view = hub.new_view(config.choice, _shown(config), search_of(config, hub))
    return Several(hub, view, reload=Reload(config, warden, hub))


def open_aggregate(config: ProxyConfig, warden: Warden) -> Upstream:
    """The link of the only session there is, to every upstream."""
    hub = open_hub(config, warden, learns=False)
    link = Aggregate(hub, hub.new_view(config.choice, _shown(config), search_of(config, hub)), owns_hub=True)
    link.take_config = Reload(config, warden, hub)
    return cast(Upstream, link)


def _shown(config: ProxyConfig) -> frozenset[str] | None:
    """The members that a profile shows. All are met all the same: a tool has one name in every profile."""
    return None if config.only is None else frozenset(config.only)


def _has_credentials(upstream: SeveralUpstreams) -> bool:
    return any(member.terms.credential for member in upstream.members)


def _or(own: float | None, usual: float) -> float:
    return usual if own is None else own
