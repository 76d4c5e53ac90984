"""What observers are told, under the names that this room uses."""

from penstock.gate.record import Record
from penstock.policy.exchange import Session
from penstock.policy.verdict import Why

__all__ = ["Record", "Session", "Why", "is_answered"]


def is_answered(record: Record) -> bool:
    """Whether what was sent went back to the sender: then it is a message of its own."""
    return record.sent is not None and record.kind != "response" and record.verdict != "change"
