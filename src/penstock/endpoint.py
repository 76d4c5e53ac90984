"""One endpoint: a gate, an upstream, and the doors through which clients over HTTP come to them.

A process may have several, each with its own tools, rules and sessions; a session of one is unknown to the
others. How clients reach the upstream (pass-through, a relay for each, one shared link) is picked once, when
the upstream has shown what it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from penstock.catalog_summary import say_catalog
from penstock.config.model import ProxyConfig, SeveralUpstreams, UrlUpstream
from penstock.downstream.by_era import by_era
from penstock.downstream.legacy_http import LegacyDoor
from penstock.downstream.mcp_head import Door
from penstock.downstream.modern_http import ModernDoor
from penstock.downstream.readiness import Readiness
from penstock.downstream.router import READY, STATUS
from penstock.downstream.sse import SseDoor
from penstock.errors import CannotStart, PenstockError, ToolListRefused, UpstreamError, UpstreamLost
from penstock.net.http_client import HttpClient
from penstock.net.warden import Warden
from penstock.open_gate import open_gate
from penstock.open_links import open_live_rules, open_upstream
from penstock.policy.tools.catalog import ToolCatalog
from penstock.relay.catalogs import Catalogs
from penstock.relay.contracts import LinkFacts, UpstreamLink
from penstock.relay.kept_lists import CatalogKey, KeptLists
from penstock.relay.link_pool import LinkPool
from penstock.relay.sessions import Sessions
from penstock.relay.shared_link import SharedLink
from penstock.relay.upstream_probe import UpstreamProbe
from penstock.relay.upstream_questions import UpstreamQuestions
from penstock.relay.upstream_state import State, UpstreamState
from penstock.upstream.handshake import waits
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.eras import Era, said_era

if TYPE_CHECKING:
    from penstock.downstream.era_door import EraDoor
    from penstock.downstream.passthrough import Passthrough
    from penstock.gate.record import Observer
    from penstock.live_rules import LiveRules
    from penstock.open_several import Several
    from penstock.peers import Peers
    from penstock.upstream.watch import UpstreamWatch

log = logging.getLogger("penstock")


class Endpoint:
    """What clients find at one address."""

    def __init__(
        self,
        config: ProxyConfig,
        warden: Warden,
        reread: Callable[[bytes], ProxyConfig],
        observers: Sequence[Observer],
        on_lost: Callable[[PenstockError], None],
        prefix: bytes = b"",
        fleet: Peers | None = None,
        several: Several | None = None,
        sibling: Endpoint | None = None,
        public_url: str | None = None,
    ) -> None:
        """`on_lost` hears when nobody can be served here any more. `prefix` comes before the paths of the
        doors, such as `/team` for `/team/mcp`. `several`: what clients see here of
        several upstreams, where another endpoint shares them. The rules are a `sibling`'s, where there is
        one: then what they count is counted once. `public_url` is where clients reach us, if that is not
        where we listen."""
        self._config = config
        self._warden = warden
        self._on_lost = on_lost
        self.prefix = prefix
        self._public_url = public_url
        self._is_lost = False
        self.several: Several | None = None
        if isinstance(config.upstream, SeveralUpstreams):
            from penstock.open_several import open_shared

            self.several = several or open_shared(config, warden)
        self._has_own_rules = sibling is None
        self.live_rules: LiveRules | None = None if sibling is None else sibling.live_rules
        if sibling is None:
            self.live_rules = open_live_rules(config, reread, warden, list(observers), fleet)
        self._opened = open_gate(config, self.live_rules, observers, fleet)
        if self.several is not None:
            from penstock.open_several import unwrapped

            self._opened = unwrapped(self._opened, self.several.view)
        if self.several is not None and self.live_rules is not None and self.several.reload is not None:
            self.live_rules.on_upstreams = self.several.reload
        self._lists = KeptLists(lambda era: self._questions.tools(era))
        self._lists.is_refreshed = config.refreshes_tools
        self._catalogs = Catalogs(config.relayed, self._lists, self._say)
        self._sessions = Sessions(idle_seconds=config.session_idle_seconds)
        self._pool = LinkPool(
            self._open_link,
            self._opened.gate,
            self._catalogs,
            config.tools_seconds,
            say_catalog,
            self._opened.new_session,
            config.era,
            config.input_seconds,
            config.refreshes_tools,
        )
        self._questions = UpstreamQuestions(self._pool, config.tools_seconds)
        self._shared_link = SharedLink(
            self._open_shared,
            self._opened.gate,
            self._catalogs,
            config.tools_seconds,
            self._on_shared_lost,
            config.era,
            config.input_seconds,
        )
        self._fleet = fleet
        if fleet is not None and fleet.ids is not None:
            self._sessions.new_id = self._shared_link.new_state = fleet.ids.new
        self._state = UpstreamState()
        self._readiness = Readiness(self._state)
        self._watch: UpstreamWatch | None = None
        self._client: HttpClient | None = None
        self._passthrough: Passthrough | None = None
        self._era_door: EraDoor | None = None
        self._sse_door: SseDoor | None = None
        self._is_modern_only = False
        self._facts = LinkFacts()

    # --- the upstream ------------------------------------------------------------------------------------

    async def meet_upstream(self, on_wait: Callable[[], Awaitable[None]]) -> None:
        """Learns what the upstream is and which tools it has. Raises UpstreamError; with `reconnect`, waits
        for one that is not there, and calls `on_wait` when it does."""
        self._state.move(State.CONNECTING)
        if self.several is not None:
            self.several.meet(self._on_lost, lambda: self._state.move(State.CONNECTED))
            return
        for seconds in waits():
            try:
                await self._meet_once()
                return
            except UpstreamError as error:
                if not self._config.reconnects or isinstance(error, ToolListRefused):
                    raise
                log.info("The upstream is not there yet: %s. It is waited for.", error.detail)
            await on_wait()
            await asyncio.sleep(seconds)

    async def _meet_once(self) -> None:
        link = open_upstream(self._config, self._warden, is_first=True, restarts=False)
        is_kept = False
        try:
            probe = UpstreamProbe(link, self._config.tools_seconds, self._opened.gate)
            try:
                era, tools = await probe.learn(said_era(self._config.era))
            except UpstreamError:
                if not link.facts.wants_credentials or (self._config.strips and not self._relays):
                    raise
                self._lists.is_by_principal = True
                log.info("The upstream wants credentials; each client's own will be used to list its tools.")
                return
            # What clients' own credentials lead to may be another list for each of them.
            self._lists.is_by_principal = bool(self._relays)
            self._is_modern_only = era is Era.MODERN  # it was asked in the older one first
            catalog = self._catalogs.put(CatalogKey(era), tools)
            if era is Era.MODERN and link.facts.transport != "streamable":
                is_kept = True
                self._shared_link.adopt(link, catalog)
        finally:
            self._facts = link.facts
            if not is_kept:
                self._pool.close_link(link)

    async def _judge(self, era: Era, headers: Headers) -> bool | None:
        """Whether the upstream speaks an era, as it says to a client with these headers."""
        spoken = await self._questions.speaks(era, headers)
        if spoken is False:
            self._settle(era)
        return spoken

    def _settle(self, refused: Era) -> None:
        """The upstream speaks only the other era: nobody asks it for this one any more."""
        if refused is Era.MODERN:
            self._shared_link.settle_legacy()
        else:
            log.info("The upstream speaks only the newer era of MCP: what other clients say is translated.")
            self._pool.era = "modern"

    def _say(self, catalog: ToolCatalog) -> None:
        if self._config.choice.is_active:
            say_catalog(catalog)
        else:
            log.info("%d tools, none denied.", len(catalog.allowed))

    def start(self) -> None:
        """The upstream is there and clients may come: begins to look after it and after the rules' file."""
        if self.several is None:
            self._state.move(State.CONNECTED)
        if isinstance(self._config.upstream, UrlUpstream):
            from penstock.upstream.watch import UpstreamWatch

            client = HttpClient(self._config.upstream.url, connect_timeout=self._config.connect_seconds)
            self._watch = UpstreamWatch(
                client, self._on_upstream_lost, lambda: self._state.move(State.CONNECTED)
            )
        if self.live_rules is not None and self._has_own_rules:
            self.live_rules.start()

    def _open_shared(self) -> UpstreamLink:
        if self.several is not None:
            return self.several.open_link()
        # One that is opened anew is asked for its tools again, so that people hear when they have changed.
        is_url = isinstance(self._config.upstream, UrlUpstream)
        return open_upstream(self._config, self._warden, restarts=is_url)

    def _open_link(self) -> UpstreamLink:
        if self.several is not None:
            return self.several.open_link()
        return open_upstream(self._config, self._warden)

    @property
    def _relays(self) -> tuple[tuple[bytes, bytes], ...]:
        """Headers of clients' that go to the upstream by another name."""
        upstream = self._config.upstream
        return upstream.relays if isinstance(upstream, UrlUpstream) else ()

    # --- the doors ---------------------------------------------------------------------------------------

    def doors(self) -> dict[bytes, Door]:
        """The doors by their paths. They know who is behind them: they are asked for once."""
        messages = self.prefix + b"/messages"
        sse = self._sse_door = SseDoor(self._pool, self._sessions, self._on_session_lost, messages)
        sse.refusal_of = self._questions.maybe_refusal
        more: dict[bytes, Door] = {}
        if self.several is not None:
            from penstock.downstream.status import StatusDoor

            more[self.prefix + STATUS] = StatusDoor(self.several.status).handle
        return more | {
            self.prefix + b"/mcp": self._streamable_door(),
            self.prefix + b"/sse": sse.handle_stream,
            messages: sse.handle_message,
            self.prefix + READY: self._readiness.handle,
        }

    def waiting_doors(self) -> dict[bytes, Door]:
        """The doors while the upstream is not there yet."""
        paths = [self.prefix + path for path in (b"/mcp", b"/sse", b"/messages")]
        waiting: dict[bytes, Door] = dict.fromkeys(paths, self._readiness.not_ready)
        return waiting | {self.prefix + READY: self._readiness.handle}

    @property
    def well_known(self) -> Door | None:
        """The door for the upstream's metadata, where there is some. There is none before `doors`."""
        return self._passthrough.handle_well_known if self._passthrough is not None else None

    def _streamable_door(self) -> Door:
        """The door for clients of Streamable HTTP: here it is picked how they reach the upstream."""
        config, upstream = self._config, self._config.upstream
        legacy = LegacyDoor(self._pool, self._sessions, self._on_session_lost)
        modern = ModernDoor(self._shared_link, self._opened.gate, self._opened.sessions)
        if not isinstance(upstream, UrlUpstream) or self._facts.transport == "sse":
            modern.following = self._fleet.follow() if self._fleet is not None else None
            own = by_era(legacy.handle, modern.handle)
            if isinstance(upstream, UrlUpstream):
                return self._door_over_sse(upstream, own, legacy, modern)
            return own
        from penstock.downstream.passthrough import Passthrough  # a command has no use for it

        self._client = HttpClient(upstream.url, connect_timeout=config.connect_seconds)
        self._passthrough = Passthrough(
            self._client,
            list(upstream.headers),
            self._opened.gate,
            self._catalogs,
            self._on_upstream_lost,
            self._facts,
            self._opened.sessions,
            config.tools_seconds,
            upstream.passes_cookies,
            config.connect_seconds,
        )
        if config.strips:
            self._passthrough.heads.strip(dict(upstream.relays))
        self._passthrough.serve_at(self._public_url, self.prefix + b"/mcp")
        if config.call_seconds is not None:
            from penstock.downstream.call_timer import CallTimer

            self._passthrough.under_way = CallTimer(config.call_seconds)
        self._pool.carry = self._shared_link.carry = self._passthrough.carried
        if config.era == "same":
            return self._passthrough.handle
        speaks = self._known_eras()
        for era in [era for era, spoken in speaks.items() if spoken is False]:
            self._settle(era)
        return self._door_by_era(self._passthrough.handle, legacy, modern, speaks, self._passthrough.carried)

    def _door_over_sse(
        self, upstream: UrlUpstream, own: Door, legacy: LegacyDoor, modern: ModernDoor
    ) -> Door:
        """The same where the upstream speaks SSE: each session has a stream there, opened with what its
        client shows."""
        config = self._config
        if config.strips and not upstream.relays:
            return own
        from penstock.downstream.passthrough_head import HeadReader

        heads = HeadReader(
            HttpClient(upstream.url), list(upstream.headers), self._catalogs, upstream.passes_cookies
        )
        if config.strips:
            heads.strip(dict(upstream.relays))
        self._pool.carry = self._shared_link.carry = heads.carried
        if config.era == "same" or not self._lists.is_by_principal:
            return own
        return self._door_by_era(own, legacy, modern, self._known_eras(), heads.carried)

    def _door_by_era(
        self,
        own: Door,
        legacy: LegacyDoor,
        modern: ModernDoor,
        speaks: dict[Era, bool | None],
        carried: Callable[[Headers], Headers],
    ) -> Door:
        """A door that finds out what the upstream speaks, in the name of the first client of an era; `own`
        is where those go whose era it speaks."""
        from penstock.downstream.era_door import EraDoor, EraDoors

        self._era_door = EraDoor(
            EraDoors(own, legacy.handle, modern.handle),
            speaks,
            self._judge,
            carried,
            self._config.era != "auto",
            self._lists.is_by_principal,
        )
        return self._era_door.handle

    def _known_eras(self) -> dict[Era, bool | None]:
        """What an upstream that speaks Streamable HTTP is known to speak; None where nobody has asked."""
        said = said_era(self._config.era)
        if said is None and self._is_modern_only:
            said = Era.MODERN
        if said is not None:
            return {era: era is said for era in Era}
        return {Era.LEGACY: None if self._lists.is_by_principal else True, Era.MODERN: None}

    @property
    def session_count(self) -> int:
        """Sessions that live in this process."""
        return len(self._sessions)

    def take_no_more(self) -> None:
        """From now on no session begins here."""
        self._sessions.takes_none = True

    # --- the end -----------------------------------------------------------------------------------------

    def _on_upstream_lost(self, error: UpstreamError) -> None:
        upstream = self._config.upstream
        if isinstance(upstream, UrlUpstream) and upstream.reconnect:
            # Every request has a connection of its own, so the next one finds out whether it is back.
            log.info("The upstream is gone: %s. The next request will look for it.", error.detail)
            self._state.move(State.LOST)
            if self._watch is not None:
                self._watch.look_now()
        elif not self._is_lost:
            self._is_lost = True
            log.info("The upstream is gone: %s.", error.detail, extra=error.for_log)
            self._on_lost(UpstreamLost())

    def _on_shared_lost(self, error: UpstreamError) -> None:
        """The link is gone that all clients of the modern era share: nothing takes its place unasked."""
        if self._config.reconnects or error.is_of_one_session:
            self._on_session_lost(error)
        else:
            self._on_lost(error)

    def _on_session_lost(self, error: PenstockError) -> None:
        is_of_one = isinstance(error, UpstreamError) and error.is_of_one_session
        is_everybodys = isinstance(self._config.upstream, UrlUpstream) or isinstance(error, CannotStart)
        if is_everybodys and not is_of_one:
            self._on_lost(error)
        else:
            # Each session has a child of its own: one that dies takes its session with it, and no other. Nor
            # does one that the upstream refuses or ends, or that we have no resources to open a connection
            # for: else any client could end the sessions of all the others.
            cause = f" {error.cause}." if error.cause else ""
            log.warning("%s.%s Its session has ended.", error.headline, cause, extra=error.for_log)
            if self._watch is not None:
                self._watch.look_now()

    def lose(self, error: PenstockError) -> None:
        """Nobody is served any more because of this error; where it is the upstream's, who waits hears it."""
        self._is_lost = True
        self._state.move(State.LOST)
        if not isinstance(error, UpstreamError):
            return
        self._sessions.lose_all(error)
        self._shared_link.lose(error)
        if self._passthrough is not None:
            self._passthrough.fail_all(error)

    async def retire(self) -> None:
        """Nobody is led here any more: whoever is still here leaves. What siblings share stays, and nothing
        that ends here is a loss: the upstream is as it was."""
        self._is_lost, self._on_lost = True, lambda error: None
        self._sessions.end_all()
        self.end_idle_streams()
        if not self._has_own_rules:
            await self.close()

    def end_idle_streams(self) -> None:
        """Ends what has no end of its own and on which nothing is under way."""
        self._sessions.end_settled()
        self._shared_link.end_listeners()
        if self._passthrough is not None:
            self._passthrough.end_streams()

    async def closed(self) -> None:
        """Waits until every link that was given up is closed."""
        await self._pool.closed()

    async def close(self) -> None:
        """Ends every session and closes every link."""
        if self._watch is not None:
            await self._watch.stop()
        self._sessions.end_all()
        for door in (self._era_door, self._sse_door):
            if door is not None:
                await door.close()
        await self._shared_link.close()
        if self._client is not None:
            await self._client.close()
        await self._pool.closed()
        if self.several is not None:
            await self.several.close()
        if self.live_rules is not None and self._has_own_rules:
            await self.live_rules.close()
