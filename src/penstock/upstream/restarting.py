"""A command that is started again when it ends, with back-off: one link that outlives its processes.

Requests that a process took with it are answered with an error; what none has heard is told to the next.
The client's own handshake is repeated, so that the next process knows what the client told the last one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock import limits
from penstock.errors import ConnectFailed, UpstreamError, UpstreamLost
from penstock.gate.pending import PendingTable
from penstock.policy.exchange import Exchange
from penstock.relay.contracts import LinkFacts, UpstreamReceiver
from penstock.upstream.handshake import Handshake, revive
from penstock.upstream.peer import PeerOfUpstream
from penstock.upstream.stdio import StdioUpstream
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Message
from penstock.wire.mcp.response_id import maybe_response_id

log = logging.getLogger("penstock")

_DOWN = "the upstream is started again"


class RestartingCommand:
    """Speaks with whichever process of the command is alive."""

    facts = LinkFacts("stdio")

    def __init__(self, start: Callable[[], StdioUpstream], start_seconds: float) -> None:
        """`start` starts the command, and may raise ConnectFailed; a process has `start_seconds` to begin."""
        self.receiver: UpstreamReceiver | None = None
        self._start = start
        self._seconds = start_seconds
        self._peer: PeerOfUpstream | None = None
        self._link: StdioUpstream | None = None
        self._handshake = Handshake()
        self._waiting = PendingTable()
        self._unsaid: list[Message] = []  # for the next process
        self._early: list[Message] | None = []  # said to one that has not spoken yet
        self._own: tuple[bytes, asyncio.Future[bytes]] | None = None
        self._was_answered = False
        self._revival: asyncio.Task[None] | None = None
        self._is_over = False
        try:
            self._link = self._open()
        except ConnectFailed as error:
            self._look_again(error)

    @property
    def peer(self) -> PeerOfUpstream | None:
        """Who is not read while the upstream takes nothing."""
        return self._peer

    @peer.setter
    def peer(self, peer: PeerOfUpstream | None) -> None:
        self._peer = peer
        if self._link is not None:
            self._link.peer = peer

    @property
    def untaken(self) -> int:
        """Bytes that no process has taken."""
        held = sum(len(message.raw) for message in self._unsaid)
        return held + (self._link.untaken if self._link is not None else 0)

    def send(self, message: Message) -> None:
        """Writes a message, now or to the next process."""
        self._handshake.hear(message)
        if self._link is None or self._revival is not None:
            self._unsaid.append(message)
            return
        self._pass(message)

    def _pass(self, message: Message) -> None:
        assert self._link is not None
        if message.id_token is not None and message.method is not None:
            self._waiting.open(Exchange(message.id_token, message.method))
        if self._early is not None:
            self._early.append(message)
        self._link.send(message)

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        if self._link is not None:
            self._link.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the upstream."""
        if self._link is not None:
            self._link.resume(reason)

    def cork(self) -> None:
        """Collects messages until uncork."""
        if self._link is not None:
            self._link.cork()

    def uncork(self) -> None:
        """Writes what was collected."""
        if self._link is not None:
            self._link.uncork()

    async def connect(self) -> None:
        """Nothing to wait for."""

    async def stop(self, grace: float = limits.CHILD_GRACE_SECONDS) -> None:
        """Ends the process that lives, and starts no other."""
        self._is_over = True
        if self._revival is not None:
            self._revival.cancel()
        if self._link is not None:
            await self._link.stop(grace)

    async def close(self) -> None:
        """The same, for those who do not know that this is a child."""
        await self.stop()

    def kill(self) -> None:
        """Ends the process that lives at once."""
        self._is_over = True
        if self._link is not None:
            self._link.kill()

    @property
    def how_it_ended(self) -> str:
        """The end of the last process in words."""
        return self._link.how_it_ended if self._link is not None else "it could not be started"

    # --- what a process tells ----------------------------------------------------------------------------

    def from_upstream(self, raw: bytes) -> None:
        """Passes on what it says, but for the answer to a handshake of ours."""
        self._early = None
        self._was_answered = True
        id_token = maybe_response_id(raw)
        if id_token is not None:
            self._waiting.close(id_token)
            if self._own is not None and self._own[0] == id_key(id_token):
                if not self._own[1].done():
                    self._own[1].set_result(raw)
                return
        assert self.receiver is not None
        self.receiver.from_upstream(raw)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something came that must not be passed on."""
        if id_token is not None:
            self._waiting.close(id_token)
        if self.receiver is not None:
            self.receiver.upstream_refused(id_token, why, raw)

    def upstream_noise(self, raw: bytes) -> None:
        """A line came that is no message."""
        if self.receiver is not None:
            self.receiver.upstream_noise(raw)

    def upstream_lost(self, error: UpstreamError) -> None:
        """A process has ended."""
        if self._own is not None and not self._own[1].done():
            self._own[1].set_exception(error)
        if self._is_over or self._revival is not None:
            return
        early, self._early = self._early, None
        if isinstance(error, ConnectFailed) and early is not None:
            self._waiting.close_all()
            self._unsaid = early + self._unsaid  # nobody has heard it
        else:
            assert self.receiver is not None
            for exchange in self._waiting.close_all():
                self.receiver.upstream_refused(exchange.id_token, "The connection to the upstream was lost")
        self._look_again(error)

    # --- the next process --------------------------------------------------------------------------------

    def _open(self) -> StdioUpstream:
        link = self._start()
        link.receiver, link.peer = self, self._peer
        return link

    def _look_again(self, error: UpstreamError) -> None:
        log.info("The upstream is gone: %s. It is started again.", error.cause or error.detail)
        if self._peer is not None:
            self._peer.pause(_DOWN)
        self._revival = asyncio.get_running_loop().create_task(self._revive())

    async def _revive(self) -> None:
        patience = limits.RECONNECT_SECONDS if self._was_answered else float("inf")
        is_back = await revive(self._begin_again, self._seconds, patience)
        self._revival = None
        if self._peer is not None:
            self._peer.resume(_DOWN)
        if not is_back:
            assert self.receiver is not None
            self.receiver.upstream_lost(UpstreamLost())
            return
        unsaid, self._unsaid = self._unsaid, []
        for message in unsaid:
            self._pass(message)

    async def _begin_again(self) -> None:
        last, self._link = self._link, None
        if last is not None:
            await last.stop(0.0)
        self._link = self._open()
        self._early = []
        if self._handshake.initialize is None or not self._was_answered:
            return
        opening = self._handshake.first_words()
        assert opening.id_token is not None
        self._own = (id_key(opening.id_token), asyncio.get_running_loop().create_future())
        try:
            self._link.send(opening)
            await self._own[1]
            if self._handshake.initialized is not None:
                self._link.send(self._handshake.last_words())
        finally:
            self._own = None
