"""Looking at a client's first request before the link to its upstream is chosen, and at none after it.

A modern request proves nothing about the upstream: some legacy servers answer `tools/list` before any
handshake, in a shape that modern clients do not take. So with `--era bridge` a modern client is led through a
link that asks `server/discover` first (`relay/adapters`); a legacy one speaks with the upstream directly.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.relay.contracts import LinkFacts, UpstreamLink, UpstreamReceiver
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.message import Kind, Message


class FirstRequestLink:
    """Stands before a link until the first request has come; then `on_chosen` gets the link to use."""

    def __init__(self, inner: UpstreamLink, input_seconds: float) -> None:
        self.on_chosen: Callable[[UpstreamLink], None] = lambda link: None
        self._inner = inner
        self._input_seconds = input_seconds

    @property
    def receiver(self) -> UpstreamReceiver | None:
        """Who hears the upstream."""
        return self._inner.receiver

    @receiver.setter
    def receiver(self, receiver: UpstreamReceiver | None) -> None:
        self._inner.receiver = receiver

    @property
    def untaken(self) -> int:
        """Bytes sent that the upstream has not taken yet."""
        return self._inner.untaken

    @property
    def facts(self) -> LinkFacts:
        """What is known of the upstream."""
        return self._inner.facts

    def send(self, message: Message) -> None:
        """Sends a message; the first request over the link that is chosen by it."""
        if message.kind is not Kind.REQUEST:
            self._inner.send(message)
            return
        link = self._inner
        if maybe_modern_meta(message.params) is not None:
            from penstock.relay.adapters.modern_client_link import ModernClientLink

            receiver = link.receiver
            link = ModernClientLink(self._inner, self._input_seconds)
            link.receiver = receiver
        self.on_chosen(link)
        link.send(message)

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        self._inner.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the upstream."""
        self._inner.resume(reason)

    async def close(self) -> None:
        """Ends the connection."""
        await self._inner.close()
