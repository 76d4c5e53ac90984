"""A link over which every message goes with a token that was made for its caller and this upstream."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from msgspec import structs

from penstock import limits
from penstock.errors import UpstreamError
from penstock.relay.contracts import LinkFacts, UpstreamReceiver
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.carried import carried
from penstock.wire.mcp.message import Message


class TokenSource(Protocol):
    """Where the headers come from."""

    def maybe_headers(self) -> Headers | None:
        """Those that are at hand."""

    async def headers(self) -> Headers:
        """Those that count, fetched if need be. Raises UpstreamError."""

    def forget(self) -> None:
        """The upstream does not take them."""


class SwappingLink:
    """The link `inner`. What is sent while a token is fetched waits, in its order."""

    def __init__(self, inner: Any, source: TokenSource) -> None:
        self._inner = inner
        self._source = source
        self._waiting: list[Message] = []
        self._task: asyncio.Task[None] | None = None
        self._is_refused = False
        self.receiver: UpstreamReceiver | None = None
        inner.receiver = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # all that is not about messages is the link's own

    @property
    def facts(self) -> LinkFacts:
        """What is known; that no token could be had is the upstream's want, too."""
        facts: LinkFacts = self._inner.facts
        return structs.replace(facts, wants_credentials=True) if self._is_refused else facts

    @property
    def untaken(self) -> int:
        """Bytes that wait here or there."""
        return sum(len(message.raw) for message in self._waiting) + int(self._inner.untaken)

    def send(self, message: Message) -> None:
        """Sends a message as soon as there is a token for it."""
        headers = None if self._waiting else self._source.maybe_headers()
        if headers is not None:
            self._inner.send(carried(message, headers))
            return
        self._waiting.append(message)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_later())

    async def _send_later(self) -> None:
        try:
            while self._waiting:
                headers = await self._source.headers()
                waiting, self._waiting = self._waiting, []
                for message in waiting:
                    self._inner.send(carried(message, headers))
        except UpstreamError as error:
            self._waiting, self._is_refused = [], True
            if self.receiver is not None:
                self.receiver.upstream_lost(error)
        finally:
            self._task = None

    async def close(self) -> None:
        """Ends it."""
        await self.stop()

    async def stop(self, grace: float = limits.CHILD_GRACE_SECONDS) -> None:
        """Ends it; nobody waits for a token any more."""
        if self._task is not None:
            self._task.cancel()
        await self._inner.stop(grace)

    def kill(self) -> None:
        """Ends it at once."""
        self._inner.kill()

    def from_upstream(self, raw: bytes) -> None:
        """Passes on what the upstream says; who refuses a token gets another next time."""
        self._look()
        assert self.receiver is not None
        self.receiver.from_upstream(raw)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something came that must not be passed on."""
        if self.receiver is not None:
            self.receiver.upstream_refused(id_token, why, raw)

    def upstream_noise(self, raw: bytes) -> None:
        """A line came that is no message."""
        if self.receiver is not None:
            self.receiver.upstream_noise(raw)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The link is gone."""
        self._look()
        if self.receiver is not None:
            self.receiver.upstream_lost(error)

    def _look(self) -> None:
        if self._inner.facts.wants_credentials:
            self._source.forget()
