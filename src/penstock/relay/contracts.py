"""What the rooms on either side promise the relay, and what it promises them."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from penstock.errors import UpstreamError
from penstock.policy.exchange import Route
from penstock.wire.mcp.message import Message


class ClientLink(Protocol):
    """One client's connection."""

    def send(self, raw: bytes, route: Route | None, message: Message | None) -> None:
        """Gives the client a message: the answer to what came by `route`, or, with None, one unasked.

        `message` is what was read of it, when it came from the upstream."""

    def refuse(self, raw: bytes, route: Route | None) -> None:
        """Tells the client that what came by `route` was not passed on."""

    def progress(self, raw: bytes, route: Route | None) -> bool:
        """Tells the client progress of what came by `route`; False when nobody is there to hear any."""

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...


class UpstreamReceiver(Protocol):
    """Who hears what an upstream says."""

    def from_upstream(self, raw: bytes) -> None: ...

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something came that must not be passed on; `id_token` tells who waits for it, if it is known."""

    def upstream_lost(self, error: UpstreamError) -> None: ...


class LinkFacts(Struct, frozen=True):
    """What a link has found out about its upstream so far."""

    transport: str | None = None  # stdio, streamable, sse, replay; None as long as that is not known
    has_session: bool = False  # the upstream gave the session an id
    wants_credentials: bool = False  # it last answered that it wants some
    via: bytes | None = None  # the id of the request whose own stream brings what is being delivered
    answers_with_events: bool = False  # over HTTP, it answered the handshake with a stream of events
    trouble: str | None = None  # how it last refused a message, other than in the words of the protocol


class UpstreamLink(Protocol):
    """One connection to an upstream."""

    receiver: UpstreamReceiver | None

    @property
    def facts(self) -> LinkFacts:
        """What is known of the upstream."""

    @property
    def untaken(self) -> int:
        """Bytes sent that the upstream has not taken yet."""

    def send(self, message: Message) -> None: ...

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...

    async def close(self) -> None:
        """Ends the connection in good order, or, after a while, in any order."""

    async def stop(self, grace: float) -> None:
        """Ends it, leaving what is under way so many seconds."""

    def kill(self) -> None:
        """Ends it at once."""
