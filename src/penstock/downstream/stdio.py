"""A client that spawned us and speaks over our stdin and stdout."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from penstock import limits
from penstock.errors import ClientProtocolError
from penstock.net.fd_io import Reader, Writer, enlarge_pipe, make_private
from penstock.wire.mcp.message import INVALID_REQUEST, Message
from penstock.wire.mcp.ndjson import LineSplitter, Oversize, to_line
from penstock.wire.mcp.replies import over_limit
from penstock.wire.sizes import spoken_size


class Hearer(Protocol):
    """Who hears what the client says."""

    def from_client(self, raw: bytes) -> None: ...

    def refuse_client(self, refusal: ClientProtocolError) -> None: ...


class PeerOfClient(Protocol):
    """Whose reading and writing depends on how fast the client reads and writes."""

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...

    def cork(self) -> None: ...

    def uncork(self) -> None: ...


def take_stdio() -> tuple[int, int]:
    """Our stdin and stdout as private descriptors.

    Descriptors 0 and 1 then lead to nothing and to stderr: no child reads the client's words, and no stray
    print, ours or a library's, gets into the protocol.
    """
    reading, writing = make_private(0, writable=False), make_private(1, writable=True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return reading, writing


class StdioClient:
    """The client at the other end of our own stdin and stdout."""

    def __init__(self, fds: tuple[int, int], on_end: Callable[[], None]) -> None:
        """`on_end` is called when the client has nothing more to say, or reads no more."""
        reading, writing = fds
        self.hearer: Hearer | None = None
        self.peer: PeerOfClient | None = None
        self._lines = LineSplitter()
        self._on_end = on_end
        enlarge_pipe(reading)
        enlarge_pipe(writing)
        self._writer = Writer(writing, self._on_full, self._on_drained, self._end)
        self._reader = Reader(reading, self._on_data, self._end)
        self._has_ended = False

    def send(self, raw: bytes, route: object = None, message: Message | None = None) -> None:
        """Writes one message as one line."""
        self._writer.write(to_line(raw))

    def refuse(self, raw: bytes, route: object = None) -> None:
        """Writes an error about a message that was not passed on."""
        self._writer.write(to_line(raw))

    def progress(self, raw: bytes, route: object = None) -> bool:
        """Writes what is told before an answer."""
        if not self._has_ended:
            self._writer.write(to_line(raw))
        return not self._has_ended

    def pause(self, reason: str) -> None:
        """Stops reading the client."""
        self._reader.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the client."""
        self._reader.resume(reason)

    def cork(self) -> None:
        """Collects answers until uncork."""
        self._writer.cork()

    def uncork(self) -> None:
        """Writes what was collected."""
        self._writer.uncork()

    def stop_reading(self) -> None:
        """Hears nothing more from the client; answers still reach it."""
        self._reader.close()

    def finish(self, on_finished: Callable[[], None]) -> None:
        """Closes once everything is written."""
        self._writer.close(on_finished)

    def abort(self) -> None:
        """Closes at once."""
        self._reader.close()
        self._writer.abort()

    def _on_data(self, data: bytes) -> None:
        lines = self._lines.feed(data)
        hearer, peer = self.hearer, self.peer
        assert hearer is not None
        assert peer is not None
        if len(lines) > 1:
            self.cork()
            peer.cork()
        for line in lines:
            if isinstance(line, Oversize):
                if not line.was_given_up or line.id_token is not None:
                    hearer.refuse_client(_too_large(line))
            else:
                hearer.from_client(line)
        if len(lines) > 1:
            peer.uncork()
            self.uncork()

    def _on_full(self) -> None:
        # Nobody may go on producing for a client that does not read: not the upstream, nor the client
        # itself, whose requests we would answer.
        self._reader.pause("own answers unread")
        if self.peer is not None:
            self.peer.pause("client does not read")

    def _on_drained(self) -> None:
        self._reader.resume("own answers unread")
        if self.peer is not None:
            self.peer.resume("client does not read")

    def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._reader.close()
            if self.peer is not None and self._writer.is_over:
                self.peer.resume("client does not read")  # nobody waits for it any more
            self._on_end()


def _too_large(line: Oversize) -> ClientProtocolError:
    if line.is_ended:
        reason = f"Invalid request. {over_limit(line.size)}"
    else:
        limit = spoken_size(limits.LINE_BYTES)
        reason = f"Invalid request: {line.size:,} bytes without a line end, over {limit}; skipping on"
    return ClientProtocolError(INVALID_REQUEST, reason, line.id_token)
