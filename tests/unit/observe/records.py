"""Records for tests, as the gate would tell them."""

from __future__ import annotations

from typing import Any

from penstock.observe.record import Record, Session, Why

CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/a"}}}'
)
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'


def record(raw: bytes = CALL, **more: Any) -> Record:
    """A client's request that passed, unless `more` says otherwise."""
    facts: dict[str, Any] = {
        "received": 1_763_356_800.5,
        "session": Session(id="a1b2", client_name="tests"),
        "sender": "client",
        "kind": "request",
        "method": "tools/call",
        "id_token": b"1",
        "raw": raw,
        "verdict": "pass",
        "tool": "read_file",
    }
    return Record(**{**facts, **more})


def answer(request: Record, raw: bytes = ANSWER, **more: Any) -> Record:
    """The upstream's answer to it."""
    return record(raw, **{"sender": "upstream", "kind": "response", "request": request, "tool": None, **more})


def why(rule: str, reason: str = "no", code: int = -32001) -> Why:
    return Why(rule, "block", reason, code, (rule,))
