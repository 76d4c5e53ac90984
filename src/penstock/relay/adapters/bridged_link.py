"""A link to an upstream of one era that shows the other: a face decides, this carries its steps out."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from penstock.bridge.steps import Step, Tell, ToClient, ToUpstream
from penstock.errors import ProtocolError, UpstreamError
from penstock.relay.contracts import LinkFacts, UpstreamLink, UpstreamReceiver
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.carried import CarriedMessage, HttpRefusal, carried
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import error_reply, told
from penstock.wire.mcp.response_id import maybe_response_id

log = logging.getLogger("penstock")


class Face(Protocol):
    """One era shown as the other: no clock, no I/O."""

    def client_says(self, message: Message, now: float) -> list[Step]: ...

    def upstream_says(self, message: Message, now: float, via: bytes | None = None) -> list[Step]: ...

    def tick(self, now: float) -> list[Step]: ...

    def next_due(self) -> float: ...


class BridgedLink:
    """Stands between whoever speaks one era and a link to an upstream of the other. Without a face, or as
    long as `is_undecided`, it is a link like any other, or holds what is said."""

    def __init__(self, inner: UpstreamLink, face: Face | None = None) -> None:
        self.receiver: UpstreamReceiver | None = None
        self._inner = inner
        self._face = face
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.credentials: Headers = []  # what goes up with messages that no client's request has caused
        self.via: bytes | None = None  # the id of the request to which what is being delivered belongs
        self.refusal: HttpRefusal | None = None  # the last answer that was one
        inner.receiver = self

    # --- toward the upstream -----------------------------------------------------------------------------

    @property
    def facts(self) -> LinkFacts:
        """What is known of the upstream."""
        return self._inner.facts

    @property
    def is_waiting(self) -> bool:
        """Whether something is held here that has its time: a call that waits for its client, perhaps."""
        return self._face is not None and self._face.next_due() > 0

    @property
    def untaken(self) -> int:
        """Bytes sent that the upstream has not taken yet."""
        return self._inner.untaken

    def send(self, message: Message) -> None:
        """Sends what becomes of a client's message in the upstream's era."""
        if self._face is None:
            self._inner.send(message)
            return
        headers = self._headers_of(message)
        self._do(self._face.client_says(message, self._loop.time()), headers)

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        self._inner.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the upstream."""
        self._inner.resume(reason)

    async def close(self) -> None:
        """Ends the connection."""
        self._forget_timer()
        await self._inner.close()

    async def stop(self, grace: float) -> None:
        """Ends it, leaving what is under way so many seconds."""
        self._forget_timer()
        await self._inner.stop(grace)

    def kill(self) -> None:
        """Ends it at once."""
        self._forget_timer()
        self._inner.kill()

    # --- from the upstream -------------------------------------------------------------------------------

    def from_upstream(self, raw: bytes) -> None:
        """Gives the receiver what becomes of an upstream's message in the client's era."""
        assert self.receiver is not None
        if self._face is None:
            self.receiver.from_upstream(raw)
            return
        try:
            message = read_upstream_message(raw)
        except ProtocolError as refusal:
            self.upstream_refused(refusal.id_token, refusal.reason, raw)
            return
        if isinstance(message, Batch):
            log.warning("Skipped a batch from the upstream: this protocol version has none.")
            return
        steps = self._face.upstream_says(message, self._loop.time(), self._inner.facts.via)
        if isinstance(raw, HttpRefusal):
            self.refusal = raw
            steps = [_refusing(step, raw) for step in steps]
        self._do(steps)

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped."""
        assert self.receiver is not None
        self.receiver.upstream_noise(raw)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something came that must not be passed on; who waits for it is known by another id, perhaps."""
        assert self.receiver is not None
        if self._face is None or id_token is None:
            self.receiver.upstream_refused(id_token, why, raw)
            return
        self.receiver.upstream_refused(None, why, raw)
        reply = Message(error_reply(id_token, INTERNAL_ERROR, told(why)), Kind.RESPONSE, id_token, None)
        self._do(self._face.upstream_says(reply, self._loop.time()))

    def upstream_lost(self, error: UpstreamError) -> None:
        """The upstream is gone."""
        assert self.receiver is not None
        self._forget_timer()
        self.receiver.upstream_lost(error)

    # --- steps and time ----------------------------------------------------------------------------------

    def _headers_of(self, message: Message | None) -> Headers | None:
        """What goes up with what a client's message causes; None when it brought nothing along."""
        if not isinstance(message, CarriedMessage):
            return None
        if message.headers:
            self.credentials = message.headers
        return message.headers

    def _do(self, steps: list[Step], headers: Headers | None = None) -> None:
        assert self.receiver is not None
        for step in steps:
            if isinstance(step, ToUpstream):
                message = read_client_message(step.raw)
                assert isinstance(message, Message)
                if headers is None and isinstance(step.of, CarriedMessage):
                    self._send(message, step.of.headers)
                else:
                    self._send(message, headers)
            elif isinstance(step, Tell):
                log.warning("%s", step.text)
            else:
                self.via = step.to
                self.receiver.from_upstream(step.raw)
                self.via = None
        self._set_timer()

    def _send(self, message: Message, headers: Headers | None = None) -> None:
        """Sends a message in the upstream's era, with these headers or with those that came last."""
        headers = self.credentials if headers is None else headers
        self._inner.send(carried(message, headers) if headers else message)

    def _set_timer(self) -> None:
        self._forget_timer()
        due = self._face.next_due() if self._face is not None else 0.0
        if due:
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._face is not None:
            self._do(self._face.tick(self._loop.time()))

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _refusing(step: Step, refusal: HttpRefusal) -> Step:
    """An answer of the face's to a refusal is one too."""
    if not isinstance(step, ToClient) or maybe_response_id(step.raw) is None:
        return step
    return ToClient(refusal.reworded(step.raw), step.to)
