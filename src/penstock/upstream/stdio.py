"""An upstream that we spawn and speak stdio with."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import ConnectFailed, Failure, UpstreamError, UpstreamLost
from penstock.net.child import Child
from penstock.net.fd_io import Reader, Writer
from penstock.net.warden import Warden
from penstock.relay.contracts import LinkFacts, UpstreamReceiver
from penstock.upstream.last_words import LastWords
from penstock.upstream.starting import Starting, shown_command
from penstock.wire.mcp.ids import maybe_id_at_edges
from penstock.wire.mcp.message import Message
from penstock.wire.mcp.ndjson import LineSplitter, Oversize, to_line
from penstock.wire.mcp.replies import over_limit, printable

if TYPE_CHECKING:
    from penstock.upstream.peer import PeerOfUpstream

log = logging.getLogger("penstock")


class StdioUpstream:
    """One child process and the pipes to it."""

    facts = LinkFacts("stdio")

    def __init__(
        self,
        command: list[str],
        env: dict[str, str] | None,
        cwd: str | None,
        warden: Warden,
        *,
        start_seconds: float = limits.START_SECONDS,
        is_stderr_heard: bool = False,
    ) -> None:
        """Starts the command; ConnectFailed when it cannot be started.

        It has `start_seconds` from the first message to its first answer. With `is_stderr_heard` its last
        words are told when it is lost, for the price of a descriptor.
        """
        self.receiver: UpstreamReceiver | None = None
        self.peer: PeerOfUpstream | None = None
        self._command = command
        self._child = Child(command, env, cwd, warden, is_stderr_heard=is_stderr_heard)
        self._lines = LineSplitter()
        self._is_lost = False
        self._is_stopping = False
        self._has_spoken = False
        self._was_loss_told = False
        self._start_seconds = start_seconds
        self._starting: Starting | None = None
        self._words = LastWords(self._child.stderr_fd) if self._child.stderr_fd is not None else None
        self._writer = Writer(self._child.stdin_fd, self._on_full, self._on_drained, self._on_broken)
        # The first message and the first answer are met by functions of their own: all the rest pay nothing.
        self._reader = Reader(self._child.stdout_fd, self._on_first_data, self._on_end)
        self.send = self._send_first  # type: ignore[method-assign]
        self._child.exited.add_done_callback(self._on_exit)

    def _send_first(self, message: Message) -> None:
        """Writes the first message; from now on an answer is waited for."""
        del self.send
        if not self._is_lost:
            self._starting = Starting(self._command, self._start_seconds, self._on_late)
        self.send(message)

    def _on_first_data(self, data: bytes) -> None:
        """Takes what comes until there is an answer in it: a package manager may talk on stdout before."""
        if b'"jsonrpc"' in data:
            self._has_spoken = True
            self._stop_starting()
            self._reader.on_data = self._on_data
        self._on_data(data)

    def _on_late(self, error: ConnectFailed) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._reader.close()
            if self.receiver is not None:
                self.receiver.upstream_lost(error)

    def _stop_starting(self) -> None:
        if self._starting is not None:
            self._starting.stop()
            self._starting = None

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
        self._stop_starting()
        # One that is still starting may be a package manager with a cache half written: it gets more time.
        patience = limits.CHILD_TERM_SECONDS if self._has_spoken else limits.CHILD_GRACE_SECONDS
        await self._child.stop(grace, patience)
        self._writer.abort()
        if self._words is not None:
            self._words.close()
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
                receiver.upstream_noise(line)
            elif _CR in line:
                # Some readers end a line here and would see two messages.
                receiver.upstream_refused(
                    maybe_id_at_edges(line, line), "It has a carriage return inside", line
                )
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
        self._stop_starting()
        if self._child.exited.done():
            self._tell_loss()
        else:
            # Its status follows in a moment, as a rule, and says more than that it is gone.
            timer = asyncio.get_running_loop().call_later(limits.LAST_WORDS_SECONDS, self._tell_loss)

            def tell(exited: asyncio.Future[int]) -> None:
                timer.cancel()
                self._tell_loss()

            self._child.exited.add_done_callback(tell)

    def _tell_loss(self) -> None:
        if self._is_stopping or self.receiver is None or self._was_loss_told:
            return
        self._was_loss_told = True
        self.receiver.upstream_lost(self._loss())

    def _loss(self) -> UpstreamError:
        """Why it is gone: before its first answer it never was there."""
        words = ""
        if self._words is not None:
            self._words.drain()
            words = self._words.text()
        said = f"; its last words: {words}" if words else ""
        is_gone = self._child.exited.done()
        how = self._child.how_it_ended.removeprefix("it ") if is_gone else "closed its stdout"
        if self._has_spoken:
            return UpstreamLost(cause=f"{shown_command(self._command)} {how}{said}")
        detail = f"It {how} before it answered{said}"
        return ConnectFailed(shown_command(self._command), detail, Failure.INVALID_RESPONSE)


_CR = 13
_EDGE = 64 * 1024  # blanks before a message that are looked behind


def _glimpse(line: bytes) -> str:
    return printable(line[:120].decode("utf-8", "replace"))
