"""An upstream of the other era, as a link of the client's own.

Loaded when an upstream refuses a client's `initialize`. It is asked `server/discover` then: where it names a
modern version, everything is translated from there on (`bridge/legacy_face`); otherwise the client hears the
upstream's own refusal, byte for byte.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.bridge.envelope import maybe_members, maybe_value
from penstock.bridge.legacy_face import LegacyFace
from penstock.bridge.steps import Step, ToUpstream
from penstock.errors import ProtocolError, UpstreamError
from penstock.relay.contracts import UpstreamLink, UpstreamReceiver
from penstock.relay.tool_list_pages import own_id
from penstock.wire.mcp.eras import MODERN_VERSIONS
from penstock.wire.mcp.message import Batch, Message, read_client_message, read_upstream_message

log = logging.getLogger("penstock")

_PROBE_SECONDS = 10.0


class EraLink:
    """Stands between a relay that speaks the legacy era and a link to an upstream that may not."""

    def __init__(
        self, inner: UpstreamLink, receiver: UpstreamReceiver, opening: Message, refusal: Message
    ) -> None:
        """`opening` is the client's initialize, `refusal` what the upstream answered."""
        self.receiver: UpstreamReceiver | None = receiver
        self._inner = inner
        self._refusal = refusal.raw
        self._loop = asyncio.get_running_loop()
        self._face: LegacyFace | None = LegacyFace(opening, own_id)
        self._probe: bytes | None = None  # the id of our question, as long as it is not answered
        self._held: list[Message] = []
        self._timer: asyncio.TimerHandle | None = None
        inner.receiver = self
        question = self._face.discovery()
        self._probe = question.id_token
        self._timer = self._loop.call_later(_PROBE_SECONDS, self._decide, None)
        inner.send(question)

    # --- toward the upstream -----------------------------------------------------------------------------

    @property
    def untaken(self) -> int:
        """Bytes sent that the upstream has not taken yet."""
        return self._inner.untaken

    def send(self, message: Message) -> None:
        """Sends what becomes of a client's message in the upstream's era."""
        if self._probe is not None:
            self._held.append(message)
        elif self._face is None:
            self._inner.send(message)
        else:
            self._do(self._face.client_says(message, self._loop.time()))

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

    # --- from the upstream -------------------------------------------------------------------------------

    def from_upstream(self, raw: bytes) -> None:
        """Gives the relay what becomes of an upstream's message in the client's era."""
        assert self.receiver is not None
        if self._face is None:
            self.receiver.from_upstream(raw)
            return
        try:
            message = read_upstream_message(raw)
        except ProtocolError as refusal:
            self.receiver.upstream_refused(refusal.id_token, refusal.reason)
            return
        if isinstance(message, Batch):
            log.warning("Skipped a batch from the upstream: this protocol version has none.")
        elif self._probe is None:
            self._do(self._face.upstream_says(message, self._loop.time()))
        elif message.id_token == self._probe:
            self._decide(message)

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""
        assert self.receiver is not None
        self.receiver.upstream_noise(raw)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something came that must not be passed on."""
        assert self.receiver is not None
        if self._probe is not None and id_token == self._probe:
            self._decide(None)
        else:
            self.receiver.upstream_refused(id_token, why, raw)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The upstream is gone."""
        assert self.receiver is not None
        self._forget_timer()
        if self._probe is not None:
            self._decide(None)  # it could not bear the question: the refusal is what the client must hear
        self.receiver.upstream_lost(error)

    # --- which era ---------------------------------------------------------------------------------------

    def _decide(self, answer: Message | None) -> None:
        """The upstream has proven that it speaks the modern era, or has not."""
        assert self.receiver is not None
        assert self._face is not None
        self._forget_timer()
        self._probe = None
        held, self._held = self._held, []
        if answer is not None and _names_modern(answer):
            log.info("The upstream speaks only the newer era of MCP: what the client says is translated.")
            self.receiver.from_upstream(self._face.discovered(answer))
        else:
            self._face = None
            self.receiver.from_upstream(self._refusal)
        for message in held:
            self.send(message)

    # --- steps and time ----------------------------------------------------------------------------------

    def _do(self, steps: list[Step]) -> None:
        assert self.receiver is not None
        for step in steps:
            if isinstance(step, ToUpstream):
                message = read_client_message(step.raw)
                assert isinstance(message, Message)
                self._inner.send(message)
            else:
                self.receiver.from_upstream(step.raw)
        self._set_timer()

    def _set_timer(self) -> None:
        self._forget_timer()
        assert self._face is not None
        due = self._face.next_due()
        if due:
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        assert self._face is not None
        self._do(self._face.tick(self._loop.time()))

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _names_modern(answer: Message) -> bool:
    result = maybe_members(answer.envelope.get("result"))
    versions = maybe_value((result or {}).get("supportedVersions"))
    return isinstance(versions, list) and any(version in versions for version in MODERN_VERSIONS)
