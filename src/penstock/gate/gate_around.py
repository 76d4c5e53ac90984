"""A gate around another one: what it does not say itself, the inner one does."""

from __future__ import annotations

from penstock.gate.gate import Gate


class GateAround(Gate):
    """Has everything of the wrapped gate that doors and links look at."""

    keeps_requests = True

    def __init__(self, inner: Gate) -> None:
        self._inner = inner
        self.choice = inner.choice
        self.is_filtering = inner.is_filtering
        self.list_check = inner.list_check
        self.takes_batches = inner.takes_batches
        self.answers_losses = inner.answers_losses
        self.may_object = inner.may_object

    @property
    def is_ruled(self) -> bool:
        """Whether rules are in force at the moment."""
        return self._inner.is_ruled
