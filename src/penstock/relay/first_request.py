"""Looking at a client's first request before the link to its upstream is chosen, and at none after it.

A modern request proves nothing about the upstream: some legacy servers answer `tools/list` before any
handshake, in a shape that modern clients do not take. So a modern client is led through a link that asks
`server/discover` first (`relay/adapters`); a legacy one speaks with the upstream directly, and is translated
only when that has refused its handshake.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.relay.contracts import LinkFacts, UpstreamLink, UpstreamReceiver
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.message import Kind, Message


class FirstRequestLink:
    """Stands before a link until the first request has come; then `on_chosen` gets the link to use."""

    def __init__(
        self,
        inner: UpstreamLink,
        era: str,
        input_seconds: float,
        reopen: Callable[[], UpstreamLink] | None = None,
    ) -> None:
        """`era` is what the user said of the upstream: auto, bridge, legacy or modern. `reopen` opens another
        link, for an upstream that could not bear to be asked."""
        self.on_chosen: Callable[[UpstreamLink], None] = lambda link: None
        self._inner = inner
        self._era = era
        self._input_seconds = input_seconds
        self._reopen = reopen

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
        elif maybe_modern_meta(message.params) is not None:
            link = self._for_modern(message)
            self.on_chosen(link)
            link.send(message)
        elif self._era == "modern" and message.method == "initialize":
            from penstock.relay.adapters.era_link import LegacyClientLink

            assert self._inner.receiver is not None
            self.on_chosen(LegacyClientLink(self._inner, self._inner.receiver, message))
        else:
            self.on_chosen(self._inner)
            self._inner.send(message)

    def _for_modern(self, message: Message) -> UpstreamLink:
        inner = self._inner
        if self._era == "modern":
            return inner
        from penstock.relay.adapters.modern_client_link import DiscoveryWatch, ModernClientLink

        receiver = inner.receiver
        if self._era == "auto" and message.method == "server/discover":
            DiscoveryWatch(inner).receiver = receiver
            return inner
        is_known = self._era == "legacy"
        link = ModernClientLink(inner, self._input_seconds, is_known, self._reopen)
        link.receiver = receiver
        return link

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        self._inner.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the upstream."""
        self._inner.resume(reason)

    async def close(self) -> None:
        """Ends the connection."""
        await self._inner.close()

    async def stop(self, grace: float) -> None:
        """Ends it, leaving what is under way so many seconds."""
        await self._inner.stop(grace)

    def kill(self) -> None:
        """Ends it at once."""
        self._inner.kill()
