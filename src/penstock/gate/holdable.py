"""A gate before which messages can be made to wait for a person. Until somebody does, it costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gate.gate import Gate
from penstock.gate.gate_around import GateAround

if TYPE_CHECKING:  # loaded with the first breakpoint, or the first question to a person
    from penstock.gate.held import Holder


class HoldableGate(GateAround):
    """Is the wrapped gate, and after `hold_for` the one with breakpoints before it."""

    def __init__(self, inner: Gate) -> None:
        super().__init__(inner)
        self._be(inner)

    def hold_for(self, holder: Holder) -> None:
        """From now on, what `holder` wants held is held."""
        from penstock.gate.held import HeldGate

        self._be(HeldGate(self._inner, holder))

    def _be(self, gate: Gate) -> None:
        """Its methods become ours: a call goes straight there."""
        self.client_says = gate.client_says  # type: ignore[method-assign]
        self.upstream_says = gate.upstream_says  # type: ignore[method-assign]
        self.said = gate.said  # type: ignore[method-assign]
        self.in_batch = gate.in_batch  # type: ignore[method-assign]
