"""One connection to Redis that the driver has opened, spoken over without it: the driver packs what goes out
and has seen to the address, TLS and the user; replies are read as they arrive.

The driver's own way is a pool that looks at a connection each time it gives it away, a task for each write
and a stream for each read: with that, a decision took three times as long (docs/decisions/0025).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

Replies = list[Any] | Exception
"""One for each command, or why there are none; in the place of one that failed stands an exception."""


class PipeLost(Exception):
    """The connection has ended."""


class RedisPipe(asyncio.Protocol):
    """Asks one batch of commands after the other."""

    def __init__(self, connection: Any) -> None:
        import hiredis

        self._connection = connection
        self._transport: asyncio.Transport = connection._writer.transport
        self._reader = hiredis.Reader(notEnoughData=_NOT_YET)
        self._failed = hiredis.HiredisError
        self._replies: list[Any] = []
        self._wanted = 0
        self._then: Callable[[Replies], None] | None = None
        self._transport.set_protocol(self)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._transport.is_closing()

    @property
    def is_free(self) -> bool:
        """Whether it is open and nobody waits for replies."""
        return self._then is None and not self.is_over

    def ask(self, commands: Sequence[Sequence[Any]], then: Callable[[Replies], None]) -> None:
        """Sends the commands; calls `then` with their replies."""
        self._wanted, self._then = len(commands), then
        self._transport.writelines(self._connection.pack_commands(commands))

    def data_received(self, data: bytes) -> None:
        """More of the replies."""
        if self._then is None:  # nobody has asked anything
            self.close()
            return
        try:
            self._reader.feed(data)
            while self._then is not None and (reply := self._reader.gets()) is not _NOT_YET:
                self._replies.append(reply)
                if len(self._replies) == self._wanted:
                    replies, self._replies = self._replies, []
                    self._end(replies)
        except self._failed as why:
            self._end(why)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """There will be no more."""
        self._end(PipeLost("the connection has ended"))

    def close(self) -> None:
        """Gives the connection up, with whatever is under way: nobody hears of that."""
        self._then = None
        self._transport.abort()

    def _end(self, replies: Replies) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(replies)


_NOT_YET = object()
