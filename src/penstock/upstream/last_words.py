"""What a command said last on stderr, kept for the sentence that tells why it is gone.

All of it goes on to our own stderr as the bytes it came in. While nobody reads that, the command's is not
read either (backpressure), so that a command which talks for ever fills no memory of ours.
"""

from __future__ import annotations

import asyncio
import os
import select

from penstock import limits
from penstock.net.fd_io import Reader
from penstock.wire.mcp.replies import one_line

_STDERR = 2
_UNREAD = "nobody reads our stderr"


class LastWords:
    """A pipe from a command's stderr to ours, and the end of what went through it."""

    def __init__(self, fd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._tail = b""
        self._waiting = b""
        self._timer: asyncio.TimerHandle | None = None
        self._reader = Reader(fd, self._take, lambda: None)

    def text(self) -> str:
        """The last lines, on one; empty when nothing was said."""
        said = self._tail.decode("utf-8", "replace").splitlines()
        lines = [line.strip() for line in said if line.strip()]
        return one_line(" / ".join(lines[-limits.LAST_LINES :]))[-limits.LAST_BYTES :]

    def drain(self) -> None:
        """Reads what a command that has exited left in the pipe."""
        self._reader.read_what_is_there()

    def close(self) -> None:
        """Nothing more will come."""
        self._reader.read_what_is_there()
        self._reader.close()
        if self._timer is not None:
            self._timer.cancel()
        self._write()

    def _take(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-limits.LAST_BYTES :]
        self._waiting += data
        self._write()
        if self._waiting and self._timer is None:
            self._reader.pause(_UNREAD)
            self._timer = self._loop.call_later(limits.DRAIN_LOOK_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        self._write()
        if self._waiting:
            self._timer = self._loop.call_later(limits.DRAIN_LOOK_SECONDS, self._go_on)
        else:
            self._reader.resume(_UNREAD)

    def _write(self) -> None:
        """Writes what our stderr takes now; it is shared with others, so it stays one that may block."""
        try:
            while self._waiting and select.select([], [_STDERR], [], 0)[1]:
                self._waiting = self._waiting[os.write(_STDERR, self._waiting[: select.PIPE_BUF]) :]
        except OSError:
            self._waiting = b""  # there is no stderr any more
