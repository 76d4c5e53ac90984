"""Bytes in and out of file descriptors, never more in memory than agreed."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import sys
from collections import deque
from collections.abc import Callable

from penstock import limits

_READ_BYTES = limits.READ_BYTES


def make_private(fd: int, writable: bool) -> int:
    """A non-blocking descriptor of ours for the pipe or socket behind `fd`, closed on exec.

    O_NONBLOCK belongs to the open file, which may be shared with processes that do not expect it, so on
    Linux a pipe is opened anew.
    """
    kind = os.fstat(fd).st_mode
    if stat.S_ISFIFO(kind) and sys.platform == "linux":
        try:
            mode = os.O_WRONLY if writable else os.O_RDONLY
            return os.open(f"/proc/self/fd/{fd}", mode | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            pass
    mine = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        os.set_blocking(mine, False)
    return mine


def enlarge_pipe(fd: int) -> None:
    """Asks for a larger pipe; whoever says no leaves us with a slower one."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, limits.PIPE_BYTES)
    except (AttributeError, OSError):
        pass


class Reader:
    """Reads one descriptor as long as nobody has a reason not to.

    `on_data` gets each piece, `on_end` is called once, at the end of the stream or on an error.
    """

    def __init__(self, fd: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._fd = fd
        self.on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._reasons: set[str] = set()
        self._is_over = False
        self._is_pollable = True
        self._watch()

    def pause(self, reason: str) -> None:
        """Stops reading until every reason given is taken back."""
        if not self._reasons and not self._is_over:
            self._unwatch()
        self._reasons.add(reason)

    def resume(self, reason: str) -> None:
        """Takes one reason back."""
        if reason in self._reasons:
            self._reasons.discard(reason)
            if not self._reasons and not self._is_over:
                self._watch()

    def close(self) -> None:
        """Stops for good, without calling on_end."""
        if not self._is_over:
            self._is_over = True
            if not self._reasons:
                self._unwatch()
            os.close(self._fd)

    def read_what_is_there(self) -> None:
        """Reads what a writer that is gone has left, paused or not: no more than a pipe can hold."""
        for _ in range(limits.PIPE_BYTES // limits.READ_BYTES):
            if self._is_over or not self._on_readable():
                return

    def _watch(self) -> None:
        if self._is_pollable:
            try:
                self._loop.add_reader(self._fd, self._on_readable)
                return
            except OSError:  # epoll and kqueue do not take every file and device: those never block
                self._is_pollable = False
        self._loop.call_soon(self._read_unpollable)

    def _unwatch(self) -> None:
        if self._is_pollable:
            self._loop.remove_reader(self._fd)

    def _read_unpollable(self) -> None:
        if not self._is_over and not self._reasons:
            self._on_readable()
            if not self._is_over and not self._reasons:
                self._loop.call_soon(self._read_unpollable)

    def _on_readable(self) -> bool:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if data:
            self.on_data(data)
            if len(data) == _READ_BYTES:
                self._read_more()
            return True
        self.close()
        self._on_end()
        return False

    def _read_more(self) -> None:
        """Reads on in the same turn what is there already: a large message takes fewer turns."""
        if self._is_over or self._reasons:
            return
        try:
            data = os.read(self._fd, limits.BULK_READ_BYTES)
        except OSError:
            return  # the next turn hears of it
        if data:
            self.on_data(data)


class Writer:
    """Writes one descriptor, keeping what it does not take at once.

    `on_full` is called when more than the high mark waits, `on_drained` when less than the low mark does,
    `on_broken` once, when nobody reads any more.
    """

    def __init__(
        self,
        fd: int,
        on_full: Callable[[], None],
        on_drained: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._fd = fd
        self._on_full = on_full
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_full = False
        self._is_watched = False
        self._is_corked = False
        self._is_closing = False
        self._is_over = False
        self._on_closed: Callable[[], None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing can be written any more."""
        return self._is_over

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self._size

    def write(self, data: bytes) -> None:
        """Writes `data`, now if possible. After the end of the stream it goes nowhere."""
        if self._is_over or self._is_closing:
            return
        if not self._waiting and not self._is_corked:
            try:
                written = os.write(self._fd, data)
            except (BlockingIOError, InterruptedError):
                written = 0
            except OSError:
                self._break()
                return
            if written == len(data):
                return
            # A view, so that what is left of ten megabytes is not copied at each step.
            data = memoryview(data)[written:]  # type: ignore[assignment]
            self._watch()
        self._waiting.append(data)
        self._size += len(data)
        if self._size > limits.WRITE_HIGH_BYTES and not self._is_full:
            self._is_full = True
            self._on_full()

    def cork(self) -> None:
        """Collects what is written until uncork, so that it takes one system call."""
        self._is_corked = True

    def uncork(self) -> None:
        """Writes what was collected."""
        self._is_corked = False
        if self._waiting and not self._is_watched:
            self._flush()

    def close(self, on_closed: Callable[[], None] | None = None) -> None:
        """Closes once everything is written; `on_closed` is called then, or when nobody reads any more."""
        if self._is_over:
            if on_closed is not None:
                on_closed()
            return
        self._is_closing = True
        self._on_closed = on_closed
        if not self._waiting:
            self._end()

    def abort(self) -> None:
        """Closes now, whatever waits."""
        if not self._is_over:
            self._end()

    def _flush(self) -> None:
        waiting = self._waiting
        while waiting:
            if len(waiting) > 1 and len(waiting[0]) < limits.JOINED_BYTES:
                self._join_first()
            try:
                written = os.write(self._fd, waiting[0])
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self._break()
                return
            self._size -= written
            self._take_off(written)
        if waiting:
            self._watch()
        elif self._is_watched:
            self._is_watched = False
            self._loop.remove_writer(self._fd)
        if self._is_full and self._size < limits.WRITE_LOW_BYTES:
            self._is_full = False
            self._on_drained()
        if self._is_closing and not waiting:
            self._end()

    def _join_first(self) -> None:
        """Makes one of the small messages that wait first: one buffer is written faster than many."""
        waiting = self._waiting
        pieces: list[bytes] = []
        size = 0
        while waiting and (not pieces or size + len(waiting[0]) <= limits.JOINED_BYTES):
            piece = waiting.popleft()
            pieces.append(piece)
            size += len(piece)
        waiting.appendleft(b"".join(pieces))

    def _take_off(self, written: int) -> None:
        while written:
            first = self._waiting[0]
            if written >= len(first):
                written -= len(first)
                self._waiting.popleft()
            else:
                self._waiting[0] = memoryview(first)[written:]  # type: ignore[assignment]
                return

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._loop.add_writer(self._fd, self._flush)

    def _break(self) -> None:
        """Nobody reads any more."""
        self._waiting.clear()
        self._size = 0
        self._end()
        self._on_broken()

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_writer(self._fd)
        os.close(self._fd)
        if self._on_closed is not None:
            self._on_closed()
