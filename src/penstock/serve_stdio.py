"""One client on our own stdin and stdout, one child: how the session begins and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import limits
from penstock import logs as say
from penstock.catalog_summary import say_catalog
from penstock.config.model import CommandUpstream, ProxyConfig, SeveralUpstreams
from penstock.downstream.stdio import StdioClient, take_stdio
from penstock.errors import ConfigError, PenstockError, UpstreamError, UpstreamLost
from penstock.net.warden import Warden
from penstock.open_gate import open_gate
from penstock.open_links import open_live_rules, open_upstream
from penstock.process_staff import staff
from penstock.relay.contracts import UpstreamLink
from penstock.relay.session_relay import SessionRelay
from penstock.relay.upstream_state import State, UpstreamState

if TYPE_CHECKING:
    from penstock.gate.record import Observer
    from penstock.peers import Peers
    from penstock.relay.first_request import FirstRequestLink

log = logging.getLogger("penstock")


async def serve_stdio(config: ProxyConfig, reread: Callable[[bytes], ProxyConfig]) -> int:
    """Serves one session; gives back the exit code."""
    async with staff(config) as (observers, fleet, warden):
        return await _StdioSession(config, warden, reread, observers, fleet).run()


class _StdioSession:
    def __init__(
        self,
        config: ProxyConfig,
        warden: Warden,
        reread: Callable[[bytes], ProxyConfig],
        observers: list[Observer],
        fleet: Peers | None,
    ) -> None:
        self._config = config
        self._warden = warden
        self._observers = observers
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[PenstockError | None] = self._loop.create_future()
        self._late_error: PenstockError | None = None  # what went wrong after the client had left
        self._signals = 0
        self._state = UpstreamState()
        self._leave_by = 0.0  # in the loop's time, once a signal has come
        try:
            fds = take_stdio()
        except OSError as why:
            raise ConfigError("Cannot use stdin and stdout", why.strerror or str(why)) from None
        self._live_rules = open_live_rules(config, reread, warden, observers, fleet)
        opened = open_gate(config, self._live_rules, observers)
        self._upstream = open_upstream(config, warden, is_first=True)
        if isinstance(config.upstream, SeveralUpstreams):
            from penstock.open_several import unwrapped
            from penstock.relay.adapters.aggregate.aggregate import Aggregate

            assert isinstance(self._upstream, Aggregate)
            opened = unwrapped(opened, self._upstream.view)
        self._client = StdioClient(fds, self._on_client_end)
        first = None if config.era == "same" else self._first_request_link()
        self._relay = SessionRelay(
            self._client,
            first or self._upstream,
            opened.gate,
            opened.new_session(),
            tools_seconds=config.tools_seconds,
            first_seconds=config.first_seconds,
            on_catalog=say_catalog,
            on_fatal=self._end,
            translates=config.era in ("auto", "bridge"),
            refreshes=config.refreshes_tools,
        )
        if first is not None:
            first.on_chosen = self._relay.use
        if self._live_rules is not None:
            self._live_rules.on_upstreams = getattr(self._upstream, "take_config", None)
        self._client.hearer = self._relay
        self._client.peer = self._upstream
        self._upstream.peer = self._client

    async def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._on_signal, number)
        if self._live_rules is not None:
            self._live_rules.start()
        connecting = self._loop.create_task(self._connect())
        error = await self._ending
        self._state.move(State.LOST if isinstance(error, UpstreamError) else State.DISCONNECTED)
        self._relay.give_up("The session has ended")
        connecting.cancel()
        if error is not None:
            say.say_error(error, self._config.log_format)
        self._client.stop_reading()
        # After a loss nobody waits: what is left of the child goes at once.
        await self._upstream.stop(0.0 if error is not None else self._grace_seconds())
        # After an error the last line is that one, which names the cause.
        level = logging.INFO if error is None else logging.DEBUG
        log.log(level, "The upstream has ended: %s.", self._upstream.how_it_ended)
        await self._settle()
        await self._flush_client()
        if self._live_rules is not None:
            await self._live_rules.close()
        if error is None and self._late_error is not None:
            error = self._late_error
            say.say_error(error, self._config.log_format)
        return 0 if error is None else error.exit_code

    def _first_request_link(self) -> FirstRequestLink:
        """A link that looks at the client's first request to choose between the eras."""
        from penstock.relay.first_request import FirstRequestLink

        config = self._config
        reopen = self._reopen if isinstance(config.upstream, CommandUpstream) else None
        return FirstRequestLink(self._upstream, config.era, config.input_seconds, reopen)

    def _reopen(self) -> UpstreamLink:
        """Starts the command once more, because the first one has ended over a question of ours."""
        self._upstream = open_upstream(self._config, self._warden, is_first=True)
        self._client.peer = self._upstream
        self._upstream.peer = self._client
        return self._upstream

    async def _connect(self) -> None:
        """Finds out whether somebody is there before the client asks."""
        self._state.move(State.CONNECTING)
        try:
            await self._upstream.connect()
        except UpstreamError as error:
            if not self._config.reconnects:
                self._relay.upstream_lost(error)
                return
            log.info("The upstream is not there yet: %s. It is waited for.", error.detail)
        else:
            self._state.move(State.CONNECTED)

    def _on_client_end(self) -> None:
        self._relay.client_ended()
        if self._relay.is_holding:
            # Its last requests still wait for the tool list; the upstream must not be told to leave yet.
            self._relay.on_idle = self._end
            self._loop.call_later(self._config.tools_seconds, self._end)
        else:
            self._end()

    def _on_signal(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals > 1:
            self._upstream.kill()
            raise SystemExit(128 + number)
        if number is signal.SIGHUP and self._live_rules is not None:
            self._signals -= 1
            self._live_rules.reload()
            return
        log.info("%s: ending.", number.name)
        for observer in self._observers:
            observer.ending()
        self._client.stop_reading()
        self._leave_by = self._loop.time() + limits.CHILD_GRACE_SECONDS
        self._drain()

    def _drain(self) -> None:
        """Ends the session when all is answered, or when that takes too long.

        Many an upstream leaves as soon as its stdin is closed, with calls under way or not.
        """
        if self._relay.is_answering and self._loop.time() < self._leave_by:
            self._loop.call_later(limits.DRAIN_LOOK_SECONDS, self._drain)
        else:
            self._end()

    def _grace_seconds(self) -> float:
        """How long the upstream may take to leave; after a signal, what is left of its time."""
        if not self._signals:
            return limits.CHILD_GRACE_SECONDS
        return max(limits.SIGNAL_GRACE_SECONDS, self._leave_by - self._loop.time())

    def _end(self, error: PenstockError | None = None) -> None:
        if not self._ending.done():
            self._ending.set_result(error)
        elif self._late_error is None and not self._is_harmless(error):
            self._late_error = error

    def _is_harmless(self, error: PenstockError | None) -> bool:
        # An upstream may leave of its own accord once the client has left; that is no loss to anybody.
        return isinstance(error, UpstreamLost) and not self._relay.is_loss_felt

    async def _settle(self) -> None:
        """Lets the rules decide about the last answers."""
        settled = asyncio.Event()
        self._relay.on_idle = settled.set
        if self._relay.is_holding:
            try:
                await asyncio.wait_for(settled.wait(), limits.CHILD_GRACE_SECONDS)
            except TimeoutError:
                log.warning("The rules have not decided about the last answers.")
        self._relay.end()

    async def _flush_client(self) -> None:
        flushed = asyncio.Event()
        self._client.finish(flushed.set)
        try:
            await asyncio.wait_for(flushed.wait(), limits.FLUSH_SECONDS)
        except TimeoutError:
            log.warning("The client does not read its last answers.")
            self._client.abort()
