"""Lines over a socket that is never waited for: what does not fit is refused, and the sender counts it."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable

_READ_BYTES = 256 * 1024
_SEND_BYTES = 256 * 1024


class LineSocket:
    """One connection. `on_line` gets each line without its end; `on_end` is called once."""

    def __init__(
        self,
        sock: socket.socket,
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None],
        most_out: int,
        most_line: int,
    ) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._on_line = on_line
        self._on_end = on_end
        self._most_out = most_out
        self._most_line = most_line
        self._out: deque[bytes] = deque()
        self.waiting = 0  # bytes not yet taken by the other side
        self._is_flush_due = False
        self._is_writing = False
        self._in: list[bytes] = []
        self._in_bytes = 0
        self.is_open = True
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, line: bytes) -> bool:
        """Sends a line some time soon; False, and nothing is sent, when too much waits already."""
        if not self.is_open or self.waiting + len(line) > self._most_out:
            return False
        self._out.append(line)
        self.waiting += len(line)
        if not self._is_flush_due and not self._is_writing:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        return True

    def close(self) -> None:
        """Ends it; what can be sent without waiting is."""
        if self.is_open:
            self._flush()
        self._end()

    def _flush(self) -> None:
        self._is_flush_due = False
        try:
            while self._out and self.is_open:
                data = self._out.popleft() if len(self._out) == 1 else self._gathered()
                sent = self._sock.send(data)
                self.waiting -= sent
                if sent < len(data):
                    self._out.appendleft(data[sent:])
                    break
        except BlockingIOError:
            self._out.appendleft(data)
        except OSError:
            self._end()
            return
        if bool(self._out) is not self._is_writing and self.is_open:
            self._is_writing = bool(self._out)
            if self._is_writing:
                self._loop.add_writer(self._sock.fileno(), self._flush)
            else:
                self._loop.remove_writer(self._sock.fileno())

    def _gathered(self) -> bytes:
        parts, size = [], 0
        while self._out and size < _SEND_BYTES:
            parts.append(self._out.popleft())
            size += len(parts[-1])
        return b"".join(parts)

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._in:
                line = b"".join((*self._in, line))
                self._in.clear()
                self._in_bytes = 0
            if line:
                self._on_line(line)
            if not self.is_open:
                return
        if rest:
            self._in.append(rest)
            self._in_bytes += len(rest)
            if self._in_bytes > self._most_line:
                self._end()  # no line of ours is so long

    def _end(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._sock.fileno())
        if self._is_writing:
            self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        self._out.clear()
        self._on_end()
