"""Beginning a session again with the words its client began it with."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator

from penstock import limits
from penstock.errors import UpstreamError
from penstock.relay.tool_list_pages import own_id, own_notification
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.carried import CarriedMessage, carried
from penstock.wire.mcp.message import Message, read_client_message

log = logging.getLogger("penstock")


class Handshake:
    """What the client said to open its session; None as long as it has not."""

    def __init__(self) -> None:
        self.initialize: Message | None = None
        self.initialized: Message | None = None

    def hear(self, message: Message) -> None:
        """Remembers the two messages that open a session of the legacy era."""
        if message.method == "initialize":
            self.initialize = message
            self.initialized = None
        elif message.method == "notifications/initialized":
            self.initialized = message

    def first_words(self) -> Message:
        """The client's initialize, under an id of ours."""
        opening = self.initialize
        assert opening is not None
        again = read_client_message(with_value(opening.raw, opening.envelope, "id", own_id()))
        assert isinstance(again, Message)
        return carried(again, opening.headers) if isinstance(opening, CarriedMessage) else again

    def last_words(self) -> Message:
        """The notification that follows its answer, as a message not sent before."""
        if self.initialized is None:
            return own_notification("notifications/initialized")
        kept = self.initialized
        if isinstance(kept, CarriedMessage):
            return carried(kept, kept.headers)
        return Message(kept.raw, kept.kind, kept.id_token, kept.method, kept.envelope, kept.params)


def waits() -> Iterator[float]:
    """How long to wait before each attempt: twice as long every time, and never the same for two of us."""
    step = limits.RECONNECT_FIRST_SECONDS
    while True:
        yield step * random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients out, guards nothing
        step = min(step * 2, limits.RETRY_MOST_SECONDS)


async def revive(
    attempt: Callable[[], Awaitable[None]], seconds: float, patience: float = limits.RECONNECT_SECONDS
) -> bool:
    """Makes attempts, each of so many `seconds`, until one succeeds; False when all took over `patience`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    for wait in waits():
        await asyncio.sleep(wait)
        try:
            async with asyncio.timeout(seconds):
                await attempt()
        except (UpstreamError, TimeoutError) as why:
            log.info("The upstream is not back yet: %s.", getattr(why, "detail", "it does not answer"))
            if loop.time() > deadline:
                return False
        else:
            log.info("The upstream is back.")
            return True
    return False
