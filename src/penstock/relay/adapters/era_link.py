"""Links that find out which era an upstream speaks before anything is translated.

An upstream is asked in the client's own era first. Only when it has refused that, and proven the other one, a
face stands between them (`bridge/`); otherwise the client hears the upstream's own refusal, byte for byte.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.bridge import codes
from penstock.bridge.envelope import maybe_members, maybe_value, with_members
from penstock.errors import ProtocolError, UpstreamError
from penstock.relay.adapters.bridged_link import BridgedLink
from penstock.relay.contracts import UpstreamLink, UpstreamReceiver
from penstock.relay.tool_list_pages import own_id
from penstock.wire.mcp.carried import HttpRefusal
from penstock.wire.mcp.eras import MODERN_VERSIONS
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import error_reply

log = logging.getLogger("penstock")

PROBE_SECONDS = 10.0


class ProbingLink(BridgedLink):
    """Holds what is said until the upstream has answered a question of ours."""

    def __init__(self, inner: UpstreamLink) -> None:
        super().__init__(inner)
        self._probe: bytes | None = None  # the id of our question, as long as it is not answered
        self._probe_timer: asyncio.TimerHandle | None = None
        self._held: list[Message] = []

    def send(self, message: Message) -> None:
        """Sends a message, or lets it wait for the answer."""
        if self._probe is not None:
            self._held.append(message)
        else:
            super().send(message)

    def from_upstream(self, raw: bytes) -> None:
        """Takes the answer; until then only answers to what was asked before are of use to anybody."""
        if self._probe is None:
            super().from_upstream(raw)
            return
        answer = maybe_response(raw)
        if answer is not None and answer.id_token == self._probe:
            self._settle(answer)
        elif answer is not None:
            super().from_upstream(raw)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """An answer that cannot be read is none."""
        if self._probe is not None and id_token == self._probe:
            self._settle(None)
        else:
            super().upstream_refused(id_token, why, raw)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The upstream could not bear the question, or is gone for another reason."""
        if self._probe is not None:
            self._settle(None)
        super().upstream_lost(error)

    async def close(self) -> None:
        """Ends the connection."""
        self._forget_probe_timer()
        await super().close()

    def ask(self, question: Message) -> None:
        """Sends the question by which the upstream is judged."""
        self._probe = question.id_token
        self._probe_timer = self._loop.call_later(PROBE_SECONDS, self._settle, None)
        self._send(question)

    def decide(self, answer: Message | None) -> None:
        """Chooses the face by the answer; None when there was none."""
        raise NotImplementedError

    def _settle(self, answer: Message | None) -> None:
        self._forget_probe_timer()
        self._probe = None
        held, self._held = self._held, []
        self.decide(answer)
        for message in held:
            self.send(message)

    def _forget_probe_timer(self) -> None:
        if self._probe_timer is not None:
            self._probe_timer.cancel()
            self._probe_timer = None


class LegacyClientLink(ProbingLink):
    """For a legacy client whose `initialize` the upstream has refused: it may speak only the modern era."""

    def __init__(
        self,
        inner: UpstreamLink,
        receiver: UpstreamReceiver,
        opening: Message,
        refusal: Message | None = None,
    ) -> None:
        """`opening` is the client's initialize, `refusal` what the upstream answered, if it was asked."""
        from penstock.bridge.legacy_face import LegacyFace  # modern clients pass by here too

        super().__init__(inner)
        self.receiver = receiver
        self._refusal = None if refusal is None else refusal.raw
        self._opening_id = opening.id_token or b"null"
        self._is_asked_again = False
        self._headers_of(opening)
        self._legacy_face = LegacyFace(opening, own_id, inner.facts.transport not in ("stdio", "sse"))
        self.ask(self._legacy_face.discovery())

    def decide(self, answer: Message | None) -> None:
        """Answers the handshake, or passes the refusal on."""
        assert self.receiver is not None
        if answer is not None and answer.has_result and names_modern(answer):
            log.info("The upstream speaks only the newer era of MCP: what the client says is translated.")
            self._face = self._legacy_face
            self.receiver.from_upstream(self._legacy_face.discovered(answer))
        elif answer is not None and names_modern(answer) and not self._is_asked_again:
            self._is_asked_again = True  # it refuses the version that it names: perhaps not the next time
            self.ask(self._legacy_face.discovery())
        elif self._refusal is not None:
            self.receiver.from_upstream(self._refusal)
        elif answer is not None and "error" in answer.envelope:
            said = answer.raw
            raw = with_members(said, {"id": self._opening_id})
            self.receiver.from_upstream(said.reworded(raw) if isinstance(said, HttpRefusal) else raw)
        else:
            reason = "The upstream does not name the newer era of MCP"
            self.receiver.from_upstream(error_reply(self._opening_id, INTERNAL_ERROR, reason))


def names_modern(answer: Message) -> bool:
    """Whether an answer to server/discover names a modern version."""
    if codes.names_modern(answer, MODERN_VERSIONS):
        return True
    result = maybe_members(answer.envelope.get("result"))
    versions = maybe_value((result or {}).get("supportedVersions"))
    return isinstance(versions, list) and any(version in versions for version in MODERN_VERSIONS)


def says_nothing(answer: Message) -> bool:
    """Whether an error is about credentials or trouble, and not about eras."""
    if isinstance(answer.raw, HttpRefusal):
        return True
    data = maybe_members((maybe_members(answer.envelope.get("error")) or {}).get("data")) or {}
    status = maybe_value(data.get("status"))
    return isinstance(status, int) and status >= 500


def maybe_response(raw: bytes) -> Message | None:
    """A response; None when it is anything else."""
    try:
        message = read_upstream_message(raw)
    except ProtocolError:
        return None
    return message if isinstance(message, Message) and message.kind is Kind.RESPONSE else None
