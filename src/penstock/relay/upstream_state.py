"""Whether the upstream is there: the four states of the connection, and since when."""

from __future__ import annotations

import enum
import logging
import time

log = logging.getLogger("penstock")


class State(enum.StrEnum):
    """What is known of the upstream."""

    DISCONNECTED = "disconnected"  # nobody has tried yet
    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"


class UpstreamState:
    """The state, and since when it lasts."""

    def __init__(self) -> None:
        self.current = State.DISCONNECTED
        self.since = time.time()

    @property
    def is_ready(self) -> bool:
        """Whether clients can be served."""
        return self.current is State.CONNECTED

    def move(self, to: State) -> None:
        """Notes a change, and says so."""
        if to is not self.current:
            level = logging.INFO if State.LOST in (to, self.current) else logging.DEBUG
            log.log(level, "The upstream is %s (was %s).", to, self.current, extra={"state": to})
            self.current, self.since = to, time.time()
