"""Gates around gates have everything that doors and links look at."""

from __future__ import annotations

import pytest

from memory_doors import CHOICE
from penstock.gate.gate import Gate
from penstock.gate.gate_around import GateAround
from penstock.gate.observed import ObservedGate
from penstock.gate.ruled import RuledGate, Rules
from penstock.observe.watched_gate import WatchedGate
from penstock.policy.exchange import Session
from penstock.policy.tools.schema import SchemaCheck
from penstock.policy.tools.tool_filter import ToolFilter


class Disk:
    """Takes everything at once."""

    is_crowded = False

    def refusing(self) -> str | None:
        return None

    async def written(self) -> bool:
        return True


def _around(inner: Gate) -> list[GateAround]:
    observed = ObservedGate(inner, [], Session(id="own"))
    return [observed, WatchedGate(observed, Disk(), is_synced=False, injects=False)]


@pytest.mark.parametrize(
    "inner",
    [
        Gate(CHOICE, SchemaCheck("strict")),
        Gate(ToolFilter()),
        RuledGate(CHOICE, None, Rules(None)),
    ],
)
@pytest.mark.parametrize("is_otherwise", [False, True])
def test_whoever_looks_at_the_outer_gate_sees_what_the_inner_one_is(inner: Gate, is_otherwise: bool) -> None:
    inner.takes_batches = inner.answers_losses = is_otherwise
    public = [name for name in vars(Gate(CHOICE)) if not name.startswith("_")]
    assert {"choice", "takes_batches", "answers_losses"} <= set(public)
    for gate in _around(inner):
        for name in public:
            assert getattr(gate, name) == getattr(inner, name), name
        assert gate.is_ruled is inner.is_ruled
        assert gate.keeps_requests
        hidden = b'{"tools":[{"name":"delete_file","inputSchema":{"type":"object"}}]}'
        assert gate.lists_hidden_tools(hidden) == inner.lists_hidden_tools(hidden)
        assert gate.shown_error(b'{"code":1}') == inner.shown_error(b'{"code":1}')
