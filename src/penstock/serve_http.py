"""Serving clients over HTTP: one process and its endpoints, from the first signal to the last."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import limits
from penstock import logs as say
from penstock.config.model import ProxyConfig, SeveralUpstreams
from penstock.downstream.host_origin_check import HostOriginCheck
from penstock.downstream.mcp_head import Door
from penstock.downstream.router import Router, by_path
from penstock.endpoint import Endpoint
from penstock.errors import PenstockError
from penstock.net.http_server import Handler, HttpServer, ServerLimits
from penstock.net.warden import Warden
from penstock.process_staff import staff

if TYPE_CHECKING:
    from penstock.gate.record import Observer
    from penstock.open_access import Access
    from penstock.peers import Peers

log = logging.getLogger("penstock")


async def serve_http(config: ProxyConfig, reread: Callable[[bytes], ProxyConfig]) -> int:
    """Serves until it is asked to end or the upstream is lost; gives back the exit code."""
    async with staff(config) as (observers, fleet, warden):
        return await _Listening(config, warden, reread, observers, fleet).run()


class _Listening:
    """The process: its signals, one HTTP server, and the endpoints behind it."""

    def __init__(
        self,
        config: ProxyConfig,
        warden: Warden,
        reread: Callable[[bytes], ProxyConfig],
        observers: list[Observer],
        fleet: Peers | None = None,
    ) -> None:
        assert config.listen is not None
        self._fleet = fleet
        self._config = config
        self._observers = observers
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[PenstockError | None] = self._loop.create_future()
        self._signals = 0
        self._is_listening = False
        self._access: Access | None = None
        if config.access is None:
            make: Callable[..., Endpoint] = Endpoint
            if isinstance(config.upstream, SeveralUpstreams):
                from penstock.credential_endpoint import new_endpoint as make
            self._endpoints = [make(config, warden, reread, observers, self._end, fleet=fleet)]
        else:
            from penstock.open_access import Access

            self._access = Access(config, warden, reread, observers, self._end, fleet)
            self._endpoints = self._access.endpoints

    async def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._on_signal, number)
        guard = self._guard()
        if self._access is not None:
            await self._access.prepare()
        server = HttpServer(self._waiting_router(guard), ServerLimits.affordable())
        meeting = self._loop.create_task(self._meet_upstreams(server, guard))
        self._ending.add_done_callback(lambda ending: meeting.cancel())
        await asyncio.wait({meeting})
        if meeting.cancelled():
            await server.drain(0.0)
            for endpoint in self._endpoints:
                await endpoint.closed()
            return 0
        await meeting
        if self._access is not None:
            self._access.start(server, guard)
        server.serve(self._router(guard))
        if self._fleet is not None:
            self._fleet.count_sessions = lambda: sum(one.session_count for one in self._endpoints)
            await self._fleet.listen()
        if not self._is_listening:
            await self._listen(server, guard)
        for endpoint in self._endpoints:
            endpoint.start()
        error = await self._ending
        if error is not None:
            say.say_error(error, self._config.log_format)
            for endpoint in self._endpoints:
                endpoint.lose(error)
        await self._close(server, 0.5 if error is not None else limits.DRAIN_SECONDS)
        return 0 if error is None else error.exit_code

    async def _listen(self, server: HttpServer, guard: HostOriginCheck) -> None:
        """Opens the port, and says which."""
        self._is_listening = True
        assert self._config.listen is not None
        tls = self._access.maybe_tls() if self._access is not None else None
        worker = self._config.worker
        if worker is None:
            host, port = await server.listen(*self._config.listen, tls=tls)
        else:
            sockets = [socket.socket(fileno=number) for number in worker.sockets]
            server.adopt(sockets, tls)
            host, port = sockets[0].getsockname()[:2]
            self._loop.add_reader(worker.leash, self._on_leash, worker.leash)
            if worker.number:  # one of them says it for all
                self._open_to_others(server, guard, is_said=False)
                return
        shown = f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
        log.info("Listening on %s/mcp (Streamable HTTP) and %s/sse (legacy SSE).", shown, shown)
        self._open_to_others(server, guard)

    def _open_to_others(self, server: HttpServer, guard: HostOriginCheck, is_said: bool = True) -> None:
        if server.is_loopback:
            return
        guard.open_to_others(socket.gethostname())
        if is_said:
            log.info(
                "Other machines can connect. Host must be an address, the name of this machine, or one that "
                "--listen or --allow-host gives; pages in browsers need --allow-origin."
            )

    def _on_leash(self, leash: int) -> None:
        """The supervisor is gone: nobody would replace us, or end us."""
        self._loop.remove_reader(leash)
        log.warning("The supervisor of the workers is gone: ending.")
        self._end(None)

    async def _meet_upstreams(self, server: HttpServer, guard: HostOriginCheck) -> None:
        """Meets every upstream; while one is waited for, clients are told so."""

        async def listen() -> None:
            if not self._is_listening:
                await self._listen(server, guard)

        for endpoint in self._endpoints:
            await endpoint.meet_upstream(listen)

    def _guard(self) -> HostOriginCheck:
        config = self._config
        assert config.listen is not None
        hosts = [*config.allowed_hosts, config.listen[0]]
        if self._access is not None:
            hosts += self._access.hosts
        return HostOriginCheck(hosts, list(config.allowed_origins))

    def _waiting_router(self, guard: HostOriginCheck) -> Handler:
        """The front while an upstream is not there yet."""
        if self._access is not None:
            return self._access.waiting_router(guard)
        return Router(guard, self._waiting_doors(), None)

    def _waiting_doors(self) -> dict[bytes, Door]:
        """The doors while an upstream is not there yet."""
        doors: dict[bytes, Door] = {}
        for endpoint in self._endpoints:
            doors |= endpoint.waiting_doors()
        return doors

    def _router(self, guard: HostOriginCheck) -> Handler:
        if self._access is not None:
            return self._access.router(guard)
        doors: dict[bytes, Door] = {}
        for endpoint in self._endpoints:
            doors |= endpoint.doors()
        known = [endpoint.well_known for endpoint in self._endpoints if endpoint.well_known is not None]
        well_known = known[0] if known else None
        fleet = self._fleet
        if fleet is None:
            return Router(guard, doors, well_known)
        fleet.answer_peers(by_path(doors))
        return Router(guard, fleet.front_doors(doors), well_known, fleet.health)

    def _on_signal(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals > 1:
            raise SystemExit(128 + number)
        found = [endpoint.live_rules for endpoint in self._endpoints if endpoint.live_rules is not None]
        rules = list(dict.fromkeys(found))  # profiles have the same
        if number is signal.SIGHUP and rules:
            self._signals -= 1
            for live_rules in rules:
                live_rules.reload()
            return
        if self._fleet is not None and self._fleet.drain_seconds and number is not signal.SIGHUP:
            log.info("%s: no new sessions; ending when those there are have settled.", number.name)
            self._fleet.is_draining = True
            for endpoint in self._endpoints:
                endpoint.take_no_more()
            self._drain_until(self._loop.time() + self._fleet.drain_seconds)
            return
        log.info("%s: ending.", number.name)
        for observer in self._observers:
            observer.ending()
        self._end(None)

    def _drain_until(self, end: float) -> None:
        """Ends when no session is left, or when that takes too long."""
        if self._loop.time() >= end or not any(endpoint.session_count for endpoint in self._endpoints):
            self._end(None)
        else:
            self._loop.call_later(limits.DRAIN_LOOK_SECONDS, self._drain_until, end)

    def _end(self, error: PenstockError | None) -> None:
        if not self._ending.done():
            self._ending.set_result(error)

    async def _close(self, server: HttpServer, seconds: float) -> None:
        drained = self._loop.create_task(server.drain(seconds))
        await asyncio.wait({drained}, timeout=limits.DRAIN_LOOK_SECONDS)
        while not drained.done():
            for endpoint in self._endpoints:
                endpoint.end_idle_streams()
            await asyncio.wait({drained}, timeout=limits.DRAIN_LOOK_SECONDS)
        for endpoint in self._endpoints:
            await endpoint.close()
        if self._access is not None:
            await self._access.close()
