"""What observers are told, under the names that this room uses."""

from penstock.gate.record import Record
from penstock.policy.exchange import Session
from penstock.policy.verdict import Why

__all__ = ["Record", "Session", "Why"]
