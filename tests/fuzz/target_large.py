"""The readers of large messages, on short ones: they see what the strict one sees, and count every level."""

from __future__ import annotations

import json

import msgspec

from arrivals import check_arrival
from penstock.wire.http import sse
from penstock.wire.json import nesting
from penstock.wire.json.ambiguity import members
from penstock.wire.json.large_result import maybe_large_result
from penstock.wire.mcp import message as reading
from penstock.wire.mcp.message import Message
from penstock.wire.mcp.ndjson import LineSplitter
from two_readings import outcome

_SLICES = (1, 2, 3, 5, 8, 64, 64 * 1024)


def check(data: bytes) -> None:
    """The first byte says how small the slices are, the second how many levels there may be."""
    slices, levels = (*data[:2], 0, 0)[:2]
    raw = data[2:]
    _check_readings(raw)
    _check_depth(raw, _SLICES[slices % len(_SLICES)], levels % 8)
    _check_events(raw, slices % 16 + 1)
    _check_lines(raw, slices % 16 + 1)
    check_arrival(raw, levels % 32 + 1, slices % 64 + 2, 64 << levels % 7)


def _check_readings(raw: bytes) -> None:
    strict = outcome(reading._read_upstream_strictly, raw)
    assert outcome(reading.read_upstream_message, raw) == strict, raw
    assert outcome(reading._read_large, raw) == strict, raw
    found = maybe_large_result(raw)
    if found is not None:
        message = reading._read_upstream_strictly(raw)
        assert isinstance(message, Message), raw
        assert bytes(message.envelope["id"]) == bytes(found.id), raw
        assert set(found.names) == set(members(message.envelope["result"])), raw


def _check_depth(raw: bytes, scan: int, levels: int) -> None:
    text = raw
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
        is_json = True
        json.loads(raw)
    except (ValueError, UnicodeDecodeError) as why:
        is_json = False
        if isinstance(why, json.JSONDecodeError) and raw.isascii():
            text = raw[: why.pos]
        elif not isinstance(why, msgspec.DecodeError):
            return
        else:
            text = b""
    seen = _depth(text)
    kept, nesting._SCAN_BYTES = nesting._SCAN_BYTES, scan
    try:
        for form in (raw, memoryview(raw)):
            counted = nesting.nests_deeper(form, levels)
            assert counted or seen <= levels, (raw, seen)
            assert not is_json or counted == (seen > levels), (raw, seen)
    finally:
        nesting._SCAN_BYTES = kept


def _depth(raw: bytes) -> int:
    deepest = depth = 0
    in_string = is_escaped = False
    for byte in raw:
        if in_string:
            is_escaped, in_string = byte == 0x5C and not is_escaped, is_escaped or byte != 0x22
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _check_events(raw: bytes, step: int) -> None:
    whole = sse.SseReader(1 << 20).feed(raw)
    for event in whole:
        assert isinstance(event, sse.SseEvent)
        assert event == sse._read_fields(event.raw, event is whole[0]), raw
    kept = sse._SMALL_BYTES, sse._FEW_LINES
    sse._SMALL_BYTES, sse._FEW_LINES = step, step % 3 + 1
    try:
        reader = sse.SseReader(1 << 20)
        again = [event for at in range(0, len(raw), step) for event in reader.feed(raw[at : at + step])]
    finally:
        sse._SMALL_BYTES, sse._FEW_LINES = kept
    assert again == whole, raw


def _check_lines(raw: bytes, step: int) -> None:
    splitter = LineSplitter(1 << 20, 1 << 20)
    found = [line for at in range(0, len(raw), step) for line in splitter.feed(raw[at : at + step])]
    lines = [line.removesuffix(b"\r") for line in raw.split(b"\n")[:-1] if line.strip(b" \t\r\n\0")]
    assert found == lines, raw
