"""One client on our own stdin and stdout, one child: how the session begins and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal

from penstock import limits, say
from penstock.config import ProxyConfig
from penstock.downstream.stdio import StdioClient, take_stdio
from penstock.errors import PenstockError
from penstock.net.warden import Warden
from penstock.policy.catalog import ToolCatalog
from penstock.relay.relay import Relay
from penstock.summary import describe
from penstock.upstream.stdio import StdioUpstream

log = logging.getLogger("penstock")


async def serve_stdio(config: ProxyConfig) -> int:
    """Serves one session; gives back the exit code."""
    warden = Warden()
    try:
        return await _StdioSession(config, warden).run()
    finally:
        warden.dismiss()


class _StdioSession:
    def __init__(self, config: ProxyConfig, warden: Warden) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[PenstockError | None] = self._loop.create_future()
        self._signals = 0
        fds = take_stdio()
        upstream = config.upstream
        self._upstream = StdioUpstream(list(upstream.command), upstream.environment(), upstream.cwd, warden)
        self._client = StdioClient(fds, self._on_client_end)
        self._relay = Relay(
            self._client,
            self._upstream,
            config.choice,
            tools_seconds=config.tools_seconds,
            on_catalog=_say_catalog,
            on_fatal=self._end,
        )
        self._client.hearer = self._relay
        self._client.peer = self._upstream
        self._upstream.peer = self._client

    async def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._on_signal, number)
        error = await self._ending
        if error is not None:
            say.say_error(error, self._config.log_format)
        self._client.stop_reading()
        # After a loss nobody waits: what is left of the child goes at once.
        await self._upstream.stop(0.0 if error is not None else limits.CHILD_GRACE_SECONDS)
        log.info("The upstream has ended: %s.", self._upstream.how_it_ended)
        await self._flush_client()
        return 0 if error is None else error.exit_code

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
        log.info("%s: ending.", number.name)
        self._end()

    def _end(self, error: PenstockError | None = None) -> None:
        if not self._ending.done():
            self._ending.set_result(error)

    async def _flush_client(self) -> None:
        flushed = asyncio.Event()
        self._client.finish(flushed.set)
        try:
            await asyncio.wait_for(flushed.wait(), limits.FLUSH_SECONDS)
        except TimeoutError:
            log.warning("The client does not read its last answers.")
            self._client.abort()


def _say_catalog(catalog: ToolCatalog) -> None:
    for level, sentence in describe(catalog):
        log.log(level, "%s", sentence)
