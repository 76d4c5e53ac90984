"""Who may come in, and which endpoint they get: one for each profile, behind one front.

Loaded where a configuration has `auth`, `tls`, `public_url`, `profiles` or `choose`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from penstock import limits
from penstock.auth.caller import Admission, Caller
from penstock.auth.callers import Callers
from penstock.auth.terms import ALL, AccessTerms, AuthTerms, ProfileTerms
from penstock.config.model import ProxyConfig, SeveralUpstreams
from penstock.config.profile_view import view_of
from penstock.config.watch import sources_of
from penstock.credential_endpoint import new_endpoint
from penstock.downstream.access_router import AccessRouter
from penstock.downstream.host_origin_check import HostOriginCheck
from penstock.downstream.mcp_head import Door
from penstock.downstream.resource_metadata import ResourceMetadata
from penstock.downstream.router import is_well_known
from penstock.endpoint import Endpoint
from penstock.errors import PenstockError
from penstock.net.http_exchange import Reply, Request
from penstock.net.http_server import HttpServer
from penstock.net.warden import Warden
from penstock.wire.http.url import parse_url

if TYPE_CHECKING:
    import ssl

    from penstock.auth.jwt_check import JwtCheck
    from penstock.gate.record import Observer
    from penstock.open_several import Several
    from penstock.peers import Peers

log = logging.getLogger("penstock")


class Access:
    """The endpoints of a process by profile, and the front that leads to them."""

    def __init__(
        self,
        config: ProxyConfig,
        warden: Warden,
        reread: Callable[[bytes], ProxyConfig],
        observers: Sequence[Observer],
        on_lost: Callable[[PenstockError], None],
        fleet: Peers | None = None,
    ) -> None:
        assert config.access is not None
        self._config = config
        self._terms = config.access
        self._new = (warden, reread, observers, on_lost)
        self._fleet = fleet
        self._by_name: dict[str, Endpoint] = {}
        self._doors: dict[Endpoint, dict[bytes, Door]] = {}
        self.endpoints: list[Endpoint] = []
        for name in self._terms.names:
            self._by_name[name] = self._new_endpoint(name)
        self._jwt: JwtCheck | None = None
        self._callers: Callers | None = None
        self._anybody = Admission(Caller("", b""))  # whoever comes, where nobody is asked
        self._tls: ssl.SSLContext | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._wanted: AccessTerms | None = None  # what the file says, in force or soon
        self._front_of: Callable[[], None] = lambda: None

    def _new_endpoint(self, name: str) -> Endpoint:
        """The endpoint of a profile. The first one has the rules, and the upstreams if there are several."""
        warden, reread, observers, on_lost = self._new
        first = self.endpoints[0] if self.endpoints else None
        view = view_of(self._config, name)
        several = several_of(view, warden, first)
        prefix = b"" if name == ALL else b"/p/" + name.encode()
        url = self._terms.public_url
        endpoint = new_endpoint(
            view, warden, reread, observers, on_lost, prefix, self._fleet, several, first, url
        )
        self.endpoints.append(endpoint)
        return endpoint

    @property
    def hosts(self) -> list[str]:
        """Names in the Host header that are ours, since the configuration says so."""
        url = self._terms.public_url
        return [] if url is None else [parse_url(url).host]

    def maybe_tls(self) -> ssl.SSLContext | None:
        """The context of the listener, where it speaks TLS."""
        tls, auth = self._terms.tls, self._terms.auth
        if tls is None:
            return None
        from penstock.auth.server_tls import server_tls

        # Who may show a token instead may leave the certificate out; where nobody is asked for either, only
        # certificates tell friend from foe.
        has_choice = auth is not None and bool(auth.tokens or auth.jwt)
        self._tls = server_tls(tls.cert, tls.key, tls.client_ca, is_asked_for=not has_choice)
        return self._tls

    async def prepare(self) -> None:
        """Gets what must be there before anybody is let in."""
        self._callers = await self._open_callers(self._terms.auth)

    def start(self, server: HttpServer, guard: HostOriginCheck) -> None:
        """Begins to look for lapsed callers, and to hear of changes in the file."""
        self._front_of = lambda: server.serve(self.router(guard))
        self._look_for_lapsed(server)
        rules = self.endpoints[0].live_rules
        if rules is not None:
            rules.hear(self._on_file)

    # --- another file ------------------------------------------------------------------------------------

    def _on_file(self, config: ProxyConfig) -> None:
        """Puts other callers and profiles in force; what would need another listener waits for a restart."""
        terms = config.access
        if terms is None or terms.tls != self._terms.tls or terms.public_url != self._terms.public_url:
            log.warning("A change of tls or public_url, or the end of auth and profiles, needs a restart.")
            return
        if self._tls is not None and terms.tls is not None:
            self._tls.load_cert_chain(terms.tls.cert, terms.tls.key)  # it was tried when the file was read
        self._wanted = terms
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        """Puts in force what the file says, one change after another."""
        while self._wanted is not None and self._wanted != self._terms:
            before, self._terms = self._terms, self._wanted
            self._config = structs.replace(self._config, access=self._terms)
            await self._change(before, self._terms)

    async def _change(self, before: AccessTerms, terms: AccessTerms) -> None:
        gone = [name for name in self._by_name if name not in terms.names]
        changed = [name for name in terms.names if name in self._by_name and _differs(before, terms, name)]
        retired = [self._by_name.pop(name) for name in gone + changed]
        if terms.auth != before.auth:
            old, self._callers = self._callers, await self._open_callers(terms.auth)
            if old is not None and self._callers is not None:
                self._callers.keep_sessions_of(old)
        self._front_of()  # what is no more is no more at once; what is new comes when it is there
        for endpoint in retired:
            self._doors.pop(endpoint, None)
            await endpoint.retire()
        for name in terms.names:
            if name not in self._by_name:
                await self._add(name)
        self._front_of()
        log.info("Callers and profiles are as the file says now.")

    async def _add(self, name: str) -> None:
        endpoint = self._new_endpoint(name)

        async def wait() -> None:
            log.info("The profile %s waits for its upstream.", name)

        try:
            await endpoint.meet_upstream(wait)
        except PenstockError as error:
            self.endpoints.remove(endpoint)
            log.warning("The profile %s cannot be served: %s.", name, error.headline)
            return
        self._by_name[name] = endpoint
        endpoint.start()

    async def _open_callers(self, auth: AuthTerms | None) -> Callers | None:
        if auth is None:
            return None
        certs = None
        if auth.certs:
            from penstock.auth.certificates import CertTable

            certs = CertTable(auth.certs)
        if auth.jwt is None:
            if self._jwt is not None:
                await self._jwt.close()
            self._jwt = None
        else:
            from penstock.auth.jwt_check import JwtCheck

            if self._jwt is None or (self._jwt.terms, self._jwt.default) != (auth.jwt, self._terms.default):
                if self._jwt is not None:
                    await self._jwt.close()
                self._jwt = JwtCheck(auth.jwt, self._terms.default)
                await self._jwt.start()
        return Callers(auth, certs, self._jwt)

    def waiting_router(self, guard: HostOriginCheck) -> AccessRouter:
        """The front while an upstream is not there yet."""
        doors = {name: _relative(end.waiting_doors(), name) for name, end in self._by_name.items()}
        return self._front(guard, doors)

    def router(self, guard: HostOriginCheck) -> AccessRouter:
        """The front."""
        for end in self._by_name.values():
            if end not in self._doors:
                self._doors[end] = end.doors()
        doors = {name: _relative(self._doors[end], name) for name, end in self._by_name.items()}
        front = self._front(guard, doors)
        fleet = self._fleet
        if fleet is None:
            return front
        fleet.answer_peers(front)  # who is asked for another's sake shows the same credentials here
        return self._front(guard, {name: fleet.front_doors(found) for name, found in doors.items()})

    def _front(self, guard: HostOriginCheck, doors: dict[str, dict[bytes, Door]]) -> AccessRouter:
        terms = self._terms
        metadata = ResourceMetadata(terms.public_url, terms.auth.jwt if terms.auth is not None else None)
        return AccessRouter(
            guard,
            doors,
            self._callers,
            self._anybody,
            terms.choose,
            terms.default,
            metadata,
            self._well_known,
            self._status_door(),
            self._swaps,
        )

    def _status_door(self) -> Door | None:
        """Where this machine, and whoever has an admin's token, may ask how the upstreams are."""
        several = next((end.several for end in self._by_name.values() if end.several is not None), None)
        if several is None:
            return None
        from penstock.auth.bearer import AdminTokens
        from penstock.downstream.status import StatusDoor

        admins = AdminTokens(self._terms.auth.tokens if self._terms.auth is not None else ())
        is_behind_proxy = self._terms.public_url is not None

        def admits(request: Request) -> bool:
            return admins.has(request.header(b"authorization") or b"")

        return StatusDoor(several.status, admits, is_behind_proxy).handle

    @property
    def _swaps(self) -> bool:
        """Whether an upstream gets a token that is made of the caller's."""
        upstream = self._config.upstream
        members = upstream.members if isinstance(upstream, SeveralUpstreams) else ()
        return any(member.terms.credential == "swap" for member in members)

    def _well_known(self, request: Request, reply: Reply) -> bool:
        """Takes a request for the metadata of an upstream; whether it did."""
        path = request.path
        if not is_well_known(path):
            return False
        named = next(
            (end for end in self.endpoints if end.prefix and path.endswith(end.prefix + b"/mcp")), None
        )
        endpoint = named or self._by_name.get(self._terms.default or "")
        door = endpoint.well_known if endpoint is not None else None
        if door is None:
            return False
        door(request, reply)
        return True

    def _look_for_lapsed(self, server: HttpServer) -> None:
        """Ends the streams of callers whose credential is worth nothing any more or whose profile is gone."""
        now = time.time()
        for connection, reply in server.open_replies():
            if reply.admission is None:
                continue
            admission, profile = reply.admission
            callers = self._callers
            is_known = callers is None or callers.is_known(admission.caller)
            if admission.expires <= now or profile not in self._by_name or not is_known:
                whose = admission.caller.id or "a client"
                log.info("Ended a stream of %s: its credential has lapsed, or its profile is gone.", whose)
                connection.close_now()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(limits.LAPSE_LOOK_SECONDS, self._look_for_lapsed, server)

    async def close(self) -> None:
        """Ends what it has begun."""
        if self._timer is not None:
            self._timer.cancel()
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)
        if self._jwt is not None:
            await self._jwt.close()


def _differs(before: AccessTerms, after: AccessTerms, name: str) -> bool:
    """Whether a profile is another one than before, though it has the same name."""
    old, new = before.profile(name), after.profile(name)
    return _told(old) != _told(new)


def _told(profile: ProfileTerms) -> tuple[object, ...]:
    """What tells one profile from another, the wording of patterns instead of the patterns."""
    search = profile.search
    found = search and (tuple(pattern.source for pattern in search.keep), search.limit, search.from_tokens)
    return profile.upstreams, sources_of(profile.choice), found


def several_of(view: ProxyConfig, warden: Warden, first: Endpoint | None) -> Several | None:
    """What a profile sees of several upstreams: they are met once for all profiles, so that a tool has the
    same name in each. None where there is only one upstream."""
    if not isinstance(view.upstream, SeveralUpstreams):
        return None
    from penstock.open_several import Reload, Several, open_hub, search_of

    assert view.access is not None
    terms = view.access.profile(view.profile)
    is_first = first is None or first.several is None
    hub = open_hub(view, warden, learns=True) if first is None or first.several is None else first.several.hub
    only = None if terms.upstreams is None else frozenset(terms.upstreams)
    reload = Reload(view, warden, hub) if is_first else None
    return Several(hub, hub.new_view(view.choice, only, search_of(view, hub)), is_first, reload)


def _relative(doors: dict[bytes, Door], name: str) -> dict[bytes, Door]:
    """Doors by what stands behind the prefix of their profile."""
    prefix = b"" if name == ALL else b"/p/" + name.encode()
    return {path[len(prefix) :]: door for path, door in doors.items()}
