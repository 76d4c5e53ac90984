"""Serving clients over HTTP: learning the upstream's tools, opening the doors, closing them in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock import limits
from penstock import logs as say
from penstock.catalog_summary import say_catalog
from penstock.config.model import ProxyConfig, UrlUpstream
from penstock.downstream.host_origin_check import HostOriginCheck
from penstock.downstream.legacy_http import LegacyDoor
from penstock.downstream.mcp_head import Door, read_head
from penstock.downstream.modern_http import ModernDoor
from penstock.downstream.readiness import Readiness
from penstock.downstream.replies import refuse
from penstock.downstream.router import READY, Router
from penstock.downstream.sse import SseDoor
from penstock.errors import CannotStart, PenstockError, ToolListRefused, UpstreamError, UpstreamLost
from penstock.net.http_client import HttpClient
from penstock.net.http_exchange import Reply, Request
from penstock.net.http_server import HttpServer, ServerLimits
from penstock.net.warden import Warden
from penstock.observers import open_observers
from penstock.open_gate import open_gate
from penstock.open_links import open_live_rules, open_upstream
from penstock.policy.tools.catalog import ToolCatalog
from penstock.relay.catalogs import CatalogKey, Catalogs
from penstock.relay.contracts import UpstreamLink
from penstock.relay.link_pool import LinkPool
from penstock.relay.sessions import Sessions
from penstock.relay.shared_link import SharedLink
from penstock.relay.upstream_probe import NotThisEra, UpstreamProbe
from penstock.relay.upstream_state import State, UpstreamState
from penstock.upstream.handshake import waits
from penstock.wire.mcp.eras import Era

if TYPE_CHECKING:
    from penstock.downstream.passthrough import Passthrough
    from penstock.gate.record import Observer
    from penstock.upstream.watch import UpstreamWatch

log = logging.getLogger("penstock")


async def serve_http(config: ProxyConfig, reread: Callable[[bytes], ProxyConfig]) -> int:
    """Serves until it is asked to end or the upstream is lost; gives back the exit code."""
    observers = await open_observers(config)  # first: who cannot keep what was asked for starts nothing
    warden = Warden()
    try:
        return await _Listening(config, warden, reread, observers).run()
    finally:
        warden.dismiss()
        for observer in observers:
            observer.close()


class _Listening:
    def __init__(
        self,
        config: ProxyConfig,
        warden: Warden,
        reread: Callable[[bytes], ProxyConfig],
        observers: list[Observer],
    ) -> None:
        assert config.listen is not None
        self._config = config
        self._warden = warden
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[PenstockError | None] = self._loop.create_future()
        self._signals = 0
        self._live_rules = open_live_rules(config, reread, warden, observers)
        self._opened = open_gate(config, self._live_rules, observers)
        self._catalogs = Catalogs(self._learn)
        self._sessions = Sessions(idle_seconds=config.session_idle_seconds)
        self._pool = LinkPool(
            self._open_link,
            self._opened.gate,
            self._catalogs,
            config.tools_seconds,
            say_catalog,
            self._opened.new_session,
            config.era != "same",
        )
        self._shared_link = SharedLink(
            self._open_shared,
            self._opened.gate,
            self._catalogs,
            config.tools_seconds,
            say_catalog,
            self._on_shared_lost,
            config.era,
            config.input_seconds,
        )
        self._state = UpstreamState()
        self._readiness = Readiness(self._state)
        self._watch: UpstreamWatch | None = None
        self._client: HttpClient | None = None
        self._passthrough: Passthrough | None = None
        self._has_sessions = False
        self._is_listening = False
        self._is_modern_only = False
        self._is_legacy_only = False  # as far as somebody asked
        self._kind: str | None = None

    async def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._on_signal, number)
        guard = self._guard()
        waiting = Router(guard, self._doors_of(self._readiness.not_ready), None)
        server = HttpServer(waiting, ServerLimits.affordable())
        meeting = self._loop.create_task(self._meet_patiently(lambda: self._listen(server, guard)))
        self._ending.add_done_callback(lambda ending: meeting.cancel())
        await asyncio.wait({meeting})
        if meeting.cancelled():
            await server.drain(0.0)
            await self._pool.closed()
            return 0
        await meeting
        self._state.move(State.CONNECTED)
        server.serve(self._front(guard))
        if not self._is_listening:
            await self._listen(server, guard)
        self._start_watch()
        if self._live_rules is not None:
            self._live_rules.start()
        error = await self._ending
        if error is not None:
            self._state.move(State.LOST)
            say.say_error(error, self._config.log_format)
            if isinstance(error, UpstreamError):
                self._sessions.lose_all(error)
                self._shared_link.lose(error)
                if self._passthrough is not None:
                    self._passthrough.fail_all(error)
        await self._close(server, 0.5 if error is not None else limits.DRAIN_SECONDS)
        return 0 if error is None else error.exit_code

    async def _listen(self, server: HttpServer, guard: HostOriginCheck) -> None:
        """Opens the port, and says which."""
        self._is_listening = True
        assert self._config.listen is not None
        host, port = await server.listen(*self._config.listen)
        shown = f"[{host}]" if ":" in host else host
        log.info(
            "Listening on http://%s:%d/mcp (Streamable HTTP) and http://%s:%d/sse (legacy SSE).",
            shown,
            port,
            shown,
            port,
        )
        if not server.is_loopback:
            guard.open_to_others(socket.gethostname())
            log.info(
                "Other machines can connect. Host must be an address, the name of this machine, or one that "
                "--listen or --allow-host gives; pages in browsers need --allow-origin."
            )

    # --- the upstream ------------------------------------------------------------------------------------

    async def _meet_patiently(self, listen: Callable[[], Awaitable[None]]) -> None:
        """Meets the upstream; with `reconnect`, waits for one that is not there, and listens."""
        self._state.move(State.CONNECTING)
        for seconds in waits():
            try:
                await self._meet_upstream()
                return
            except UpstreamError as error:
                if not self._config.reconnects or isinstance(error, ToolListRefused):
                    raise
                log.info("The upstream is not there yet: %s. It is waited for.", error.detail)
            if not self._is_listening:
                await listen()
            await asyncio.sleep(seconds)

    def _start_watch(self) -> None:
        """Looks after an upstream at a URL while nobody talks to it."""
        if isinstance(self._config.upstream, UrlUpstream):
            from penstock.upstream.watch import UpstreamWatch

            client = HttpClient(self._config.upstream.url, connect_timeout=self._config.connect_seconds)
            self._watch = UpstreamWatch(
                client, self._on_upstream_lost, lambda: self._state.move(State.CONNECTED)
            )

    async def _meet_upstream(self) -> None:
        """Learns what the upstream is and which tools it has, or fails."""
        link = open_upstream(self._config, self._warden, is_first=True, restarts=False)
        is_kept = False
        try:
            try:
                era, catalog = await UpstreamProbe(link, self._config.tools_seconds, self._opened.gate).learn(
                    self._config.choice
                )
            except UpstreamError:
                if getattr(link, "wants_credentials", False):
                    self._catalogs.is_by_principal = True
                    log.info(
                        "The upstream wants credentials; each client's own will be used to list its tools."
                    )
                    return
                raise
            self._is_modern_only = era is Era.MODERN  # it was asked in the older one first
            self._catalogs.put(CatalogKey(era), catalog)
            if self._config.choice.is_active:
                say_catalog(catalog)
            else:
                log.info("%d tools, none denied.", len(catalog.allowed))
            if era is Era.LEGACY and self._is_streamable(link) and self._config.era == "bridge":
                self._is_legacy_only = not await self._speaks_modern()
            if era is Era.MODERN and not self._is_streamable(link):
                is_kept = True
                self._shared_link.adopt(link, catalog)
        finally:
            self._kind = getattr(link, "kind", None)
            self._has_sessions = bool(getattr(link, "has_session", False))
            if not is_kept:
                self._pool.close_link(link)

    async def _speaks_modern(self) -> bool:
        """Whether an upstream that took a handshake takes requests of the newer era as well."""
        try:
            self._catalogs.put(CatalogKey(Era.MODERN), await self._learn(Era.MODERN))
        except NotThisEra:
            return False
        return True

    async def _learn(self, era: Era) -> ToolCatalog:
        """Asks the upstream for the catalog of an era that nobody spoke so far."""
        link = self._open_link()
        try:
            probe = UpstreamProbe(link, self._config.tools_seconds, self._opened.gate)
            _, catalog = await probe.learn(self._config.choice, era)
        finally:
            self._pool.close_link(link)
        say_catalog(catalog)
        return catalog

    def _open_shared(self) -> UpstreamLink:
        # One that is opened anew is asked for its tools again, so that people hear when they have changed.
        is_url = isinstance(self._config.upstream, UrlUpstream)
        return open_upstream(self._config, self._warden, restarts=is_url)

    def _open_link(self) -> UpstreamLink:
        return open_upstream(self._config, self._warden)

    def _is_streamable(self, link: UpstreamLink) -> bool:
        return getattr(link, "kind", None) == "streamable"

    # --- the doors ---------------------------------------------------------------------------------------

    def _guard(self) -> HostOriginCheck:
        config = self._config
        assert config.listen is not None
        return HostOriginCheck([*config.allowed_hosts, config.listen[0]], list(config.allowed_origins))

    def _front(self, guard: HostOriginCheck) -> Router:
        config = self._config
        sse = SseDoor(self._pool, self._sessions, self._on_session_lost)
        doors: dict[bytes, Door] = {b"/sse": sse.handle_stream, b"/messages": sse.handle_message}
        well_known: Door | None = None
        upstream = config.upstream
        if isinstance(upstream, UrlUpstream) and self._kind != "sse":
            from penstock.downstream.passthrough import Passthrough  # a command has no use for it

            self._client = HttpClient(upstream.url, connect_timeout=config.connect_seconds)
            self._passthrough = Passthrough(
                self._client,
                list(upstream.headers),
                self._opened.gate,
                self._catalogs,
                say_catalog,
                self._on_upstream_lost,
                self._has_sessions,
                self._opened.sessions,
                config.tools_seconds,
                upstream.passes_cookies,
            )
            doors[b"/mcp"] = self._passthrough.handle
            modern = ModernDoor(self._shared_link, self._opened.gate, self._opened.sessions)
            if self._is_legacy_only:
                doors[b"/mcp"] = _by_era(self._passthrough.handle, modern.handle)
            elif self._is_modern_only and config.era != "same":
                legacy = LegacyDoor(self._pool, self._sessions, self._on_session_lost)
                doors[b"/mcp"] = _by_era(legacy.handle, self._passthrough.handle)
            well_known = self._passthrough.handle_well_known
        else:
            legacy = LegacyDoor(self._pool, self._sessions, self._on_session_lost)
            modern = ModernDoor(self._shared_link, self._opened.gate, self._opened.sessions)
            doors[b"/mcp"] = _by_era(legacy.handle, modern.handle)
        doors[READY] = self._readiness.handle
        return Router(guard, doors, well_known)

    def _doors_of(self, mcp: Door) -> dict[bytes, Door]:
        """The doors while the upstream is not there yet."""
        return {b"/mcp": mcp, b"/sse": mcp, b"/messages": mcp, READY: self._readiness.handle}

    # --- the end -----------------------------------------------------------------------------------------

    def _on_upstream_lost(self, error: UpstreamError) -> None:
        upstream = self._config.upstream
        if isinstance(upstream, UrlUpstream) and upstream.reconnect:
            # Every request has a connection of its own, so the next one finds out whether it is back.
            log.info("The upstream is gone: %s. The next request will look for it.", error.detail)
            self._state.move(State.LOST)
            if self._watch is not None:
                self._watch.look_now()
        elif not self._ending.done():
            log.info("The upstream is gone: %s.", error.detail)
            self._end(UpstreamLost())

    def _on_shared_lost(self, error: UpstreamError) -> None:
        """The link is gone that all clients of the modern era share: nothing takes its place unasked."""
        if self._config.reconnects or error.is_of_one_session:
            self._on_session_lost(error)
        else:
            self._end(error)

    def _on_session_lost(self, error: PenstockError) -> None:
        is_of_one = isinstance(error, UpstreamError) and error.is_of_one_session
        is_everybodys = isinstance(self._config.upstream, UrlUpstream) or isinstance(error, CannotStart)
        if is_everybodys and not is_of_one:
            self._end(error)
        else:
            # Each session has a child of its own: one that dies takes its session with it, and no other. Nor
            # does one that the upstream refuses or ends, or that we have no resources to open a connection
            # for: else any client could end the sessions of all the others.
            cause = f" {error.cause}." if error.cause else ""
            log.warning("%s.%s Its session has ended.", error.headline, cause)
            if self._watch is not None:
                self._watch.look_now()

    def _on_signal(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals > 1:
            raise SystemExit(128 + number)
        if number is signal.SIGHUP and self._live_rules is not None:
            self._signals -= 1
            self._live_rules.reload()
            return
        log.info("%s: ending.", number.name)
        self._end(None)

    def _end(self, error: PenstockError | None) -> None:
        if not self._ending.done():
            self._ending.set_result(error)

    async def _close(self, server: HttpServer, seconds: float) -> None:
        drained = self._loop.create_task(server.drain(seconds))
        await asyncio.wait({drained}, timeout=limits.DRAIN_LOOK_SECONDS)
        # Streams have no end of their own, so each is ended when nothing is under way on it any more.
        while not drained.done():
            self._sessions.end_settled()
            self._shared_link.end_listeners()
            if self._passthrough is not None:
                self._passthrough.end_streams()
            await asyncio.wait({drained}, timeout=limits.DRAIN_LOOK_SECONDS)
        if self._watch is not None:
            await self._watch.stop()
        self._sessions.end_all()
        await self._shared_link.close()
        if self._client is not None:
            await self._client.close()
        await self._pool.closed()
        if self._live_rules is not None:
            await self._live_rules.close()


def _by_era(legacy: Door, modern: Door) -> Door:
    def handle(request: Request, reply: Reply) -> None:
        head = read_head(request)
        if head.is_version_repeated:
            refuse(reply, 400, "Invalid request: repeated MCP-Protocol-Version")
        elif head.era is Era.MODERN:
            modern(request, reply)
        else:
            legacy(request, reply)

    return handle
