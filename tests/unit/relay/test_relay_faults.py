"""A fault of our own: the client hears that, and nothing more, and nothing passes."""

from __future__ import annotations

from penstock.gate.gate import Gate
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.session_relay import SessionRelay


class Side:
    """Either end of a relay, in memory."""

    receiver = None

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def send(self, message, route=None, read=None) -> None:
        self.heard.append(message if isinstance(message, bytes) else message.raw)

    def refuse(self, raw, route) -> None:
        self.heard.append(raw)

    def pause(self, reason) -> None: ...

    def resume(self, reason) -> None: ...


def test_a_fault_in_the_gate_lets_nothing_pass_and_tells_nothing(monkeypatch, caplog) -> None:
    client, upstream = Side(), Side()
    gate = Gate(ToolFilter(deny=(compile_pattern("x", "deny list"),)))
    relay = SessionRelay(client, upstream, gate)

    def broken(message, catalog):
        raise RuntimeError("/a/secret/path")

    monkeypatch.setattr(gate, "_judge", broken)
    relay.from_client(b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo"}}')
    assert client.heard == [b'{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"Internal error"}}']
    assert upstream.heard == []
    assert "/a/secret/path" in caplog.text
    monkeypatch.undo()
    relay.from_client(b'{"jsonrpc":"2.0","id":"b","method":"ping"}')
    assert upstream.heard == [b'{"jsonrpc":"2.0","id":"b","method":"ping"}']


def test_a_batch_within_a_batch_of_the_upstreams_is_not_taken_apart() -> None:
    client, upstream = Side(), Side()
    relay = SessionRelay(client, upstream, Gate(ToolFilter()))
    relay.from_client(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}')
    relay.from_upstream(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26"}}')
    client.heard.clear()
    note = b'{"jsonrpc":"2.0","method":"n"}'
    relay.from_upstream(b"[%b,[%b], [[%b]],%b]" % (note, note, note, note))
    assert client.heard == [note, note]
