"""What is learned of a message that comes by is what is learned of it from the recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.learn.events import event_of_record, read_events
from penstock.observe.record import Record, Session
from sessions import RecordingMaker

RESULTS: list[tuple[Any, bool]] = [
    ({"result": {"content": [], "isError": True}}, True),
    ({"result": {"content": [], "isError": False}}, False),
    ({"result": {"error": "a word of the tool's own", "content": []}}, False),
    ({"result": {"content": [{"type": "text", "text": '{"isError":true}'}]}}, False),
    ({"error": {"code": -32603, "message": "no"}}, True),
]


@pytest.mark.parametrize(("reply", "is_error"), RESULTS)
def test_a_failed_call_is_told_alike_live_and_from_a_recording(
    reply: Any, is_error: bool, tmp_path: Path
) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {"a": 1}}}
    answer = {"jsonrpc": "2.0", "id": 1, **reply}
    with RecordingMaker(tmp_path / "r.jsonl") as made:
        number = made.line("s", 1.0, "client", "request", call, client="c")
        made.line("s", 2.0, "upstream", "response", answer, re=number, client="c")
    recorded = list(read_events([str(tmp_path / "r.jsonl")]))
    session = Session(id="s", client_name="c")
    raw = [json.dumps(one, separators=(",", ":")).encode() for one in (call, answer)]
    asked = Record(1.0, session, "client", "request", "tools/call", b"1", raw[0], "pass", tool="t", index=1)
    told = Record(2.0, session, "upstream", "response", "tools/call", b"1", raw[1], "pass", index=2)
    told.request = asked
    live = [event_of_record(asked), event_of_record(told)]
    assert live == recorded
    assert recorded[1].is_error is is_error
    assert recorded[0].arguments == {"a": 1}
