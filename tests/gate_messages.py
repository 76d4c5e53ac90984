"""What tests of gates ask with: messages of either side, read as they are read there, and a session."""

from __future__ import annotations

from memory_doors import CHOICE
from penstock.gate.gate import Gate
from penstock.policy.exchange import Exchange, Session
from penstock.policy.verdict import Verdict
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message, read_client_message, read_upstream_message


def client(raw: bytes) -> Message:
    message = read_client_message(raw)
    assert isinstance(message, Message)
    return message


def upstream(raw: bytes) -> Message:
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    return message


def known_session() -> Session:
    return Session(id="s", client_name="tests", era=Era.LEGACY)


class Deciding(Gate):
    """A gate that says what it was told to say."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(CHOICE)
        self.verdict = verdict

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        return self.verdict

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        return self.verdict
