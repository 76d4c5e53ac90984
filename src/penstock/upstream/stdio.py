"""An upstream that we spawn and speak stdio with."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from penstock import limits
from penstock.errors import UpstreamError, UpstreamLost
from penstock.net.child import Child
from penstock.net.fd_io import Reader, Writer
from penstock.net.warden import Warden
from penstock.wire.mcp.ids import maybe_id_at_edges
from penstock.wire.mcp.message import Message
from penstock.wire.mcp.ndjson import LineSplitter, Oversize, to_line
from penstock.wire.mcp.replies import over_limit, printable

log = logging.getLogger("penstock")


class Receiver(Protocol):
    """Who hears what the upstream says."""

    def from_upstream(self, raw: bytes) -> None: ...

    def upstream_refused(self, id_token: bytes | None, why: str) -> None: ...

    def upstream_lost(self, error: UpstreamError) -> None: ...


class PeerOfUpstream(Protocol):
    """Whose reading and writing depends on how fast the upstream reads and writes."""

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...

    def cork(self) -> None: ...

    def uncork(self) -> None: ...


class StdioUpstream:
    """One child process and the pipes to it."""

    def __init__(
        self, command: list[str], env: dict[str, str] | None, cwd: str | None, warden: Warden
    ) -> None:
        """Starts the command; ConnectFailed when it cannot be started."""
        self.receiver: Receiver | None = None
        self.peer: PeerOfUpstream | None = None
        self._child = Child(command, env, cwd, warden)
        self._lines = LineSplitter()
        self._is_lost = False
        self._is_stopping = False
        self._writer = Writer(self._child.stdin_fd, self._on_full, self._on_drained, self._on_broken)
        self._reader = Reader(self._child.stdout_fd, self._on_data, self._on_end)
        self._child.exited.add_done_callback(self._on_exit)

    @property
    def untaken(self) -> int:
        """Bytes sent that the child has not read."""
        return self._writer.size

    def send(self, message: Message) -> None:
        """Writes one message as one line."""
        raw = message.raw
        if len(raw) <= limits.READ_BYTES or b"\n" in raw or b"\r" in raw:
            self._writer.write(to_line(raw))
        else:
            self._writer.write(raw)  # joined with its end, ten megabytes would be there twice
            self._writer.write(b"\n")

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        self._reader.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the upstream."""
        self._reader.resume(reason)

    def cork(self) -> None:
        """Collects messages until uncork."""
        self._writer.cork()

    def uncork(self) -> None:
        """Writes what was collected."""
        self._writer.uncork()

    @property
    def group(self) -> int:
        """The process group of the child."""
        return self._child.group

    @property
    def how_it_ended(self) -> str:
        """The end of the child in words."""
        return self._child.how_it_ended

    async def connect(self) -> None:
        """Nothing to wait for: the child was started when this was made."""

    def close_input(self) -> None:
        """Tells the child that nothing more will come; what it says is still heard."""
        self._is_stopping = True
        self._writer.close()

    async def stop(self, grace: float = limits.CHILD_GRACE_SECONDS) -> None:
        """Closes the child's stdin, gives it time to leave, then makes it leave."""
        self.close_input()
        await self._child.stop(grace)
        self._writer.abort()
        self._drain()
        self._reader.close()
        self._child.reap()

    async def close(self) -> None:
        """The same, for those who do not know that this is a child."""
        await self.stop()

    def kill(self) -> None:
        """Ends the child and all its own children at once."""
        self._is_stopping = True
        self._child.kill()

    def _drain(self) -> None:
        """Hears what a child that has exited left in the pipe."""
        if not self._is_lost:
            self._reader.read_what_is_there()

    def _on_data(self, data: bytes) -> None:
        lines = self._lines.feed(data)
        receiver, peer = self.receiver, self.peer
        assert receiver is not None
        if len(lines) > 1:
            self.cork()
            if peer is not None:
                peer.cork()
        for line in lines:
            if isinstance(line, Oversize):
                receiver.upstream_refused(line.id_token, over_limit(line.size))
            elif line[:1] != b"{" and line[:_EDGE].lstrip()[:1] not in (b"{", b"["):
                log.warning("Skipped a line of the upstream that is not JSON: %s", _glimpse(line))
            elif _CR in line:
                # Some readers end a line here and would see two messages.
                receiver.upstream_refused(maybe_id_at_edges(line, line), "It has a carriage return inside")
            else:
                receiver.from_upstream(line)
        if len(lines) > 1:
            if peer is not None:
                peer.uncork()
            self.uncork()

    def _on_full(self) -> None:
        if self.peer is not None:
            self.peer.pause("upstream does not read")

    def _on_drained(self) -> None:
        if self.peer is not None:
            self.peer.resume("upstream does not read")

    def _on_broken(self) -> None:
        # The child closed its stdin: it hears nothing more, but may still have something to say.
        if not self._is_stopping:
            log.info("The upstream has closed its stdin.")
            self._linger()

    def _on_exit(self, exited: asyncio.Future[int]) -> None:
        self._linger()

    def _linger(self) -> None:
        # Last words may still be in the pipe, and some grandchild may hold the pipe open for ever.
        asyncio.get_running_loop().call_later(limits.CHILD_LINGER_SECONDS, self._end_lingering)

    def _end_lingering(self) -> None:
        self._drain()
        self._on_end()

    def _on_end(self) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._reader.close()
        if not self._is_stopping and self.receiver is not None:
            self.receiver.upstream_lost(UpstreamLost())


_CR = 13
_EDGE = 64 * 1024  # blanks before a message that are looked behind


def _glimpse(line: bytes) -> str:
    return printable(line[:120].decode("utf-8", "replace"))
