"""A relay between two ends in memory, with as many rules as wanted: for counting and for timing."""

from __future__ import annotations

from typing import Any

from penstock.effects.real import RealEffects
from penstock.gate.gate import Gate
from penstock.gate.ruled import RuledGate, Rules
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.session_relay import SessionRelay

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":1.0}}}'
RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"called"}]}}'


class End:
    """A client's or an upstream's end: keeps what came last."""

    receiver: Any = None

    def __init__(self) -> None:
        self.last = b""

    def send(self, *what: Any) -> None:
        self.last = what[0] if isinstance(what[0], bytes) else what[0].raw

    def refuse(self, raw: bytes, route: Any = None) -> None:
        self.last = raw

    def pause(self, reason: str) -> None:
        """Nothing is paused here."""

    resume = pause


class Pair:
    """One session under `rules`, None for no configuration at all."""

    def __init__(self, rules: list[dict[str, Any]] | None) -> None:
        self.client, self.upstream = End(), End()
        gate = Gate(ToolFilter())
        if rules is not None:
            config, faults = build({"rules": rules})
            assert config is not None, faults
            gate = RuledGate(ToolFilter(), None, Rules(Interceptor(config, RealEffects())))
        self.relay = SessionRelay(self.client, self.upstream, gate)  # type: ignore[arg-type]

    def exchange(self) -> None:
        """One request there, and its answer back."""
        self.relay.from_client(REQUEST)
        self.relay.from_upstream(RESPONSE)


def others(count: int) -> list[dict[str, Any]]:
    """Rules that name other methods."""
    return [
        {
            "id": f"r{n}",
            "conditions": [{"method_equals": f"v/{n}"}],
            "actions": [{"block": "x"}],
            "direction": "both",
        }
        for n in range(count)
    ]


def same(count: int) -> list[dict[str, Any]]:
    """Rules that name the method, and do not hold."""
    return [
        {
            "id": f"r{n}",
            "conditions": [
                {"method_equals": "tools/call"},
                {"param_equals": {"field": "name", "value": f"t{n}"}},
            ],
            "actions": [{"block": "x"}],
        }
        for n in range(count)
    ]
