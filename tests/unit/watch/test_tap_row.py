"""Rows of messages that came before anybody watched: of large ones only the beginning was kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from penstock.observe.masking import Masker
from penstock.observe.record import Record, Session
from penstock.observe.rows import Rows
from penstock.watch import bounds
from penstock.watch.ring import CutRecord, Ring
from penstock.watch.row import HubRow
from penstock.watch.tap_line import TapLine, cut_line_of, line_of, read_line
from penstock.watch.tap_row import tap_row

WORDS = "one two three four five. " * 400


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "a", **members}, separators=(",", ":")).encode()


def asked(text: str = WORDS) -> Record:
    params = {"name": "write_file", "arguments": {"text": text}}
    raw = message(method="tools/call", params=params)
    session = Session(id="s")
    made = Record(1.0, session, "client", "request", "tools/call", b'"a"', raw, "pass", tool="write_file")
    return structs.replace(made, index=1)


def answered(request: Record, **members: Any) -> Record:
    made = Record(
        1.25, request.session, "upstream", "response", "tools/call", b'"a"', message(**members), "pass"
    )
    return structs.replace(made, request=request, tool="write_file", index=2)


def shown(records: list[Record], is_watched: bool) -> list[HubRow]:
    """The rows of a hub that was there from the beginning, or came later."""
    ring = Ring()
    for record in records:
        ring.add(record)
    rows = Rows(tap_row)
    out = []
    for record in records if is_watched else ring:
        data = cut_line_of(record) if isinstance(record, CutRecord) else line_of(record)
        line = read_line(data)
        assert isinstance(line, TapLine)
        out.append(HubRow(line.i, "here", rows.row(line), Masker()))
    return out


@pytest.mark.parametrize("large", ["both", "request", "answer"])
def test_a_late_row_says_what_an_early_one_says(large: str) -> None:
    request = asked("short" if large == "answer" else WORDS)
    text = "short" if large == "request" else WORDS
    answer = answered(request, result={"content": [{"type": "text", "text": text}]})
    early, late = shown([request, answer], True), shown([request, answer], False)
    for there, here in zip(early, late, strict=True):
        assert there.facts() | {"tokens": 0} == here.facts() | {"tokens": 0}
        assert abs(there.tokens - here.tokens) < there.tokens / 20
    assert [row.ms for row in late] == [None, 250.0]
    assert [row.is_cut for row in late] == [large != "answer", large != "request"]
    assert any(len(row.raw) == bounds.RING_HEAD for row in late)


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"result": {"content": WORDS}}, "ok"),
        ({"result": {"content": WORDS, "isError": True}}, "error"),
        ({"result": {"isError": True, "content": WORDS}}, "error"),
        ({"result": {"content": WORDS, "isError": False}}, "ok"),
        ({"error": {"code": -1, "message": WORDS}}, "error"),
        ({"result": {"content": WORDS + ' "error": '}}, "ok"),
    ],
)
def test_a_late_row_says_whether_a_call_has_failed(members: dict[str, Any], status: str) -> None:
    request = asked("short")
    assert shown([request, answered(request, **members)], False)[1].status == status
