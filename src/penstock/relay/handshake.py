"""How far the handshake of a session has come, as somebody sees it who only passes it on."""

from __future__ import annotations

from penstock.policy.exchange import Session
from penstock.relay.server_info import ServerInfo, maybe_server_info
from penstock.wire.mcp.eras import BATCH_VERSION
from penstock.wire.mcp.message import Message


class Handshake:
    """The handshake of the legacy era; in the modern one nothing of this ever happens."""

    __slots__ = ("_is_kept", "_opening", "_session", "has_tools", "is_answered", "is_begun", "is_confirmed")

    def __init__(self, session: Session, is_kept: bool = False) -> None:
        """`is_kept`: the client's initialize is remembered until it is answered."""
        self._session = session
        self.is_begun = False  # initialize went upstream
        self.is_answered = False  # and was answered with a result
        self.is_confirmed = False  # the client has said that it is initialized
        self.has_tools = True  # unless the upstream says otherwise
        self._is_kept = is_kept
        self._opening: Message | None = None

    def begin(self, message: Message) -> None:
        """The client's initialize goes upstream."""
        self.is_begun = True
        if self._is_kept:
            self._opening = message

    def take_opening(self) -> Message | None:
        """The client's initialize, if it was kept; once."""
        opening, self._opening = self._opening, None
        self._is_kept = False
        return opening

    @property
    def has_batches(self) -> bool:
        """Whether arrays of messages are part of the protocol."""
        return self._session.version == BATCH_VERSION

    def take_answer(self, message: Message) -> bool:
        """Takes the upstream's answer to initialize; False when it refuses, and the client may try again."""
        result = message.envelope.get("result")
        if result is None:
            self.is_begun = False
            return False
        answer = maybe_server_info(result) or ServerInfo()
        self.is_answered = True
        self._session.version = answer.version
        self.has_tools = answer.has_tools
        return True
