"""One session's link to a process that several sessions share."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from penstock import limits
from penstock.errors import SessionEnded
from penstock.relay.contracts import LinkFacts, UpstreamReceiver
from penstock.wire.mcp.message import Message

if TYPE_CHECKING:
    from penstock.relay.adapters.aggregate.shared_child import SharedChild


class Lane:
    """The link: to its session a whole upstream, to the process one of many."""

    def __init__(self, child: SharedChild) -> None:
        self._child = child
        self.receiver: UpstreamReceiver | None = None
        self.peer: Any = None
        self._waiting: list[Message] = []  # said before the process was greeted
        self._waiting_bytes = 0
        self.uris: set[str] = set()  # resources that it is subscribed to
        self._reasons: set[str] = set()
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0

    @property
    def facts(self) -> LinkFacts:
        """What is known of the process."""
        return self._child.facts

    @property
    def untaken(self) -> int:
        """Bytes that it has not taken, whoever sent them."""
        return self._child.untaken + self._waiting_bytes

    def send(self, message: Message) -> None:
        """Sends a message, as one of many."""
        self._child.take(self, message)

    def hold(self, message: Message) -> None:
        """Keeps a message until the process is greeted."""
        self._waiting.append(message)
        self._waiting_bytes += len(message.raw)

    def held(self) -> list[Message]:
        """What was kept; it is given out once."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def say(self, raw: bytes) -> None:
        """Passes on what is for this session. One that does not read keeps nobody else waiting."""
        if self._reasons:
            self._unread.append(raw)
            self._unread_bytes += len(raw)
            if self._unread_bytes > limits.PENDING_BYTES:
                self._unread.clear()
                self._child.leave(self)
                self.receive().upstream_lost(SessionEnded("It does not read what a shared process says"))
            return
        self.receive().from_upstream(raw)

    def receive(self) -> UpstreamReceiver:
        """Who hears this."""
        assert self.receiver is not None
        return self.receiver

    def pause(self, reason: str) -> None:
        """This session reads no more for now."""
        self._reasons.add(reason)

    def resume(self, reason: str) -> None:
        """It reads again."""
        self._reasons.discard(reason)
        while self._unread and not self._reasons:
            raw = self._unread.popleft()
            self._unread_bytes -= len(raw)
            self.receive().from_upstream(raw)

    async def stop(self, grace: float = 0.0) -> None:
        """This session leaves; the process stays."""
        self._child.leave(self)

    def kill(self) -> None:
        """The same, at once."""
        self._child.leave(self)

    async def close(self) -> None:
        """The same."""
        await self.stop()
