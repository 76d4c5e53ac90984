"""A health check of an upstream at a URL: notices that it is gone while nobody talks to it.

A connection that is in use tells at once when the other side ends. Between requests there may be none, so a
new one is made every few seconds, and at once when a stream has ended; nothing is sent on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock import limits
from penstock.errors import ConnectFailed, Failure, UpstreamError
from penstock.net.http_client import HttpClient
from penstock.upstream.handshake import waits


class UpstreamWatch:
    """Looks whether the upstream is there, until it is stopped."""

    def __init__(
        self,
        client: HttpClient,
        on_lost: Callable[[UpstreamError], None],
        on_back: Callable[[], None],
    ) -> None:
        """`on_lost` is called when nobody answers any more, `on_back` when somebody does again."""
        self._client = client
        self._on_lost = on_lost
        self._on_back = on_back
        self._wanted = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._watch())

    def look_now(self) -> None:
        """Something has ended that may be a sign."""
        self._wanted.set()

    async def stop(self) -> None:
        """Looks no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await self._wait(limits.WATCH_SECONDS)
            error = await self._maybe_loss()
            if error is None:
                continue
            self._on_lost(error)
            for seconds in waits():
                await self._wait(seconds)
                if await self._maybe_failure() is None:
                    self._on_back()
                    break

    async def _wait(self, seconds: float) -> None:
        self._wanted.clear()
        try:
            await asyncio.wait_for(self._wanted.wait(), seconds)
        except TimeoutError:
            pass

    async def _maybe_loss(self) -> UpstreamError | None:
        """Why it is gone; one refusal alone may be a restart that takes a moment."""
        if await self._maybe_failure() is None:
            return None
        await asyncio.sleep(limits.SECOND_CALL_SECONDS)
        return await self._maybe_failure()

    async def _maybe_failure(self) -> UpstreamError | None:
        try:
            await self._client.look()
        except ConnectFailed as error:
            return error if error.failure in (Failure.REFUSED, Failure.TIMEOUT) else None
        except UpstreamError:
            pass  # it says something about this machine, and nothing about the other one
        return None
