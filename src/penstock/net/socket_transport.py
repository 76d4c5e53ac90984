"""A connected socket as asyncio's protocols know it, for the loop of our own."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock import limits

if TYPE_CHECKING:
    from penstock.net.poll_loop import PollLoop

log = logging.getLogger("penstock")

_HIGH_BYTES = 64 * 1024  # asyncio's own marks, for protocols that set none
_LOW_BYTES = 16 * 1024
_JOIN_BUFFERS = 64


class SocketTransport(asyncio.Transport):
    """Reads and writes one socket; tells its protocol."""

    marks_pieces = True  # `writelines` tells the protocol when much waits

    __slots__ = (
        "_buffers",
        "_fd",
        "_high",
        "_is_closing",
        "_is_ending_writes",
        "_is_full",
        "_is_lost",
        "_is_reading",
        "_loop",
        "_low",
        "_peer",
        "_protocol",
        "_read_bytes",
        "_size",
        "_sock",
    )

    def __init__(self, loop: PollLoop, sock: socket.socket, protocol: Any) -> None:
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._protocol = protocol
        self._buffers: deque[bytes | memoryview] = deque()
        self._size = 0
        self._high, self._low = _HIGH_BYTES, _LOW_BYTES
        self._is_full = False
        self._is_reading = False
        self._is_closing = False
        self._is_ending_writes = False
        self._is_lost = False
        self._read_bytes = limits.SOCKET_READ_BYTES
        try:
            self._peer: Any = sock.getpeername()
        except OSError:
            self._peer = None
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol.connection_made(self)
        if not self._is_closing:
            self.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The socket, or whom it is connected to."""
        return {"socket": self._sock, "peername": self._peer}.get(name, default)

    # --- reading ----------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Leaves what comes to the kernel."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        """Reads on."""
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def is_reading(self) -> bool:
        """Whether we read."""
        return self._is_reading

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(self._read_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as why:
            self._lose(why)
            return
        try:
            if data:
                # Who sends much gets a larger buffer, and only as long as it fills it.
                self._read_bytes = (
                    limits.BULK_READ_BYTES if len(data) == self._read_bytes else limits.SOCKET_READ_BYTES
                )
                self._protocol.data_received(data)
            elif self._protocol.eof_received():
                self.pause_reading()
            else:
                self.close()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as why:
            log.exception("A connection failed")
            self._lose(why)

    # --- writing ----------------------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """How much may wait before the protocol is told, and how little before it is told again."""
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """How much waits for the peer to read."""
        return self._size

    def write(self, data: Any) -> None:
        """Sends `data`, now as far as the kernel takes it."""
        if self._is_lost or self._is_ending_writes or not data:
            return
        if not self._buffers:
            try:
                sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as why:
                self._lose(why)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._wait_with(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Sends several pieces in one call and without joining them, as far as the kernel takes them."""
        if self._is_lost or self._is_ending_writes:
            return
        pieces = [memoryview(data) for data in list_of_data if data]
        sent = 0
        if not self._buffers and pieces:
            try:
                sent = self._sock.sendmsg(pieces[:_JOIN_BUFFERS])
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as why:
                self._lose(why)
                return
        for piece in pieces:
            if sent >= len(piece):
                sent -= len(piece)
            elif not self._is_lost:  # as it can be when the protocol is told that much waits
                self._wait_with(piece[sent:])
                sent = 0

    def _wait_with(self, data: Any) -> None:
        """Keeps what the kernel does not take now."""
        if not self._buffers:
            self._loop.add_writer(self._fd, self._on_writable)
        self._buffers.append(data)
        self._size += len(data)
        if self._size > self._high and not self._is_full:
            self._is_full = True
            self._tell(self._protocol.pause_writing)

    def write_eof(self) -> None:
        """Sends what waits, then says that no more will come."""
        if not self._is_closing and not self._is_ending_writes:
            self._is_ending_writes = True
            if not self._buffers:
                self._end_writes()

    def can_write_eof(self) -> bool:
        """Always."""
        return True

    def _on_writable(self) -> None:
        while self._buffers:
            try:
                if len(self._buffers) == 1:
                    sent = self._sock.send(self._buffers[0])
                else:
                    count = min(len(self._buffers), _JOIN_BUFFERS)
                    sent = self._sock.sendmsg([self._buffers[place] for place in range(count)])
            except (BlockingIOError, InterruptedError):
                break
            except OSError as why:
                self._lose(why)
                return
            self._size -= sent
            while sent:
                first = self._buffers[0]
                if sent < len(first):
                    self._buffers[0] = memoryview(first)[sent:]
                    break
                sent -= len(first)
                self._buffers.popleft()
        if not self._buffers:
            self._loop.remove_writer(self._fd)
            if self._is_closing:
                self._loop.call_soon(self._end, None)
            elif self._is_ending_writes:
                self._end_writes()
        if self._is_full and self._size <= self._low:
            self._is_full = False
            self._tell(self._protocol.resume_writing)

    def _end_writes(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    # --- ends -------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Whether this is over, or will be when what waits is sent."""
        return self._is_closing

    def close(self) -> None:
        """Reads no more, and closes once everything is sent."""
        if not self._is_closing:
            self.pause_reading()
            self._is_closing = True
            if not self._buffers:
                self._is_lost = True
                self._loop.call_soon(self._end, None)

    def abort(self) -> None:
        """Closes now, whatever waits."""
        self._lose(None)

    def _lose(self, why: BaseException | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._buffers.clear()
        self._size = 0
        self._loop.remove_writer(self._fd)
        self.pause_reading()
        self._is_closing = True
        self._loop.call_soon(self._end, why if isinstance(why, Exception) else None)

    def _end(self, why: Exception | None) -> None:
        self._is_lost = True
        protocol, self._protocol = self._protocol, None  # they know each other: untied, both are gone at once
        if protocol is None:
            return  # closed and then lost in the same turn
        try:
            protocol.connection_lost(why)
        finally:
            self._sock.close()

    def _tell(self, what: Any) -> None:
        try:
            what()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            log.exception("A connection could not be slowed down")
