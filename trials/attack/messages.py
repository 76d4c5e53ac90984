"""Firing the messages of the table at a cell, and saying what came of each."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from doors import MODERN, NAMED_BY, Lost
from gate import DEADLINE, is_answer_to
from trials.attack.cell import Cell, one_by_one
from trials.attack.client_bytes import ATTACKS, as_read_file, in_era
from trials.attack.judge import is_refusal
from trials.attack.rows import (
    ANSWERED,
    DEAD,
    DROP,
    DROPPED,
    FORWARD,
    INVALID,
    LISTED,
    NF,
    NOISE,
    PASSED,
    REFUSED,
    SILENT,
    UNKNOWN,
    ClientBytes,
    Result,
)

OUTCOMES = {
    NF: (REFUSED,),
    DROP: (REFUSED, DROPPED),
    SILENT: (DROPPED,),
    INVALID: (REFUSED,),
    UNKNOWN: (REFUSED,),
    FORWARD: (PASSED,),
    LISTED: (ANSWERED,),
}
CODES = {DROP: (-32700, -32600), INVALID: (-32602,), UNKNOWN: (-32601,)}
KEPT = ("echo", "read_file")


def attack_with_messages(cell: Cell, rows: list[ClientBytes] = ATTACKS) -> Iterator[Result]:
    """Every message of the table, one after another, in one session."""
    yield from one_by_one(cell, rows, one)


def one(cell: Cell, row: ClientBytes) -> tuple[str, str]:
    """What came of one attack."""
    raw = in_era(as_read_file(row.raw) if cell.ruled else row.raw, cell.era)
    expected = row.verdict if cell.client == "stdio" else row.in_body or row.verdict
    if (
        row.on_cable
        and not cell.cross
        and (cell.client, cell.transport, cell.era) == ("streamable", "streamable", "legacy")
    ):
        expected = row.on_cable
    status = 0
    try:
        for headers in _headers(cell, raw, expected):
            status = max(status, fire(cell, raw, headers))
        is_request = b'"id":' in raw[:30] and b'"method"' in raw and b'"result"' not in raw[:40]
        if expected == FORWARD and is_request and not cell.direct:
            cell.attacker.answer(row.token)  # toward HTTP, the next call would not wait for this one
    except (Lost, OSError, AssertionError) as lost:
        return DEAD, str(lost)[:300]
    if found := cell.faults():
        return found
    told, reached = cell.told(), cell.reached()
    if reached:
        verdict = PASSED
        if cell.cross:
            if [_translated(line) for line in reached] != [_translated(raw)]:
                return NOISE, f"reached the upstream as {reached[0][:200]!r}"
        elif [_same_id(line, row.token) for line in reached] != [_same_id(_one_line(raw), row.token)]:
            return NOISE, f"reached the upstream as {reached[0][:200]!r}"
    elif any(b'"result"' in message[:200] for message in told):
        verdict = ANSWERED
    else:
        verdict = REFUSED if told or status >= 400 else DROPPED
    if cell.direct:
        return verdict, ""
    if row.row in ("27", "28") and cell.version == "2025-03-26":
        return verdict, ""  # batches are taken apart there; that nothing leaked has been seen to
    return (NOISE, why) if (why := _objection(cell, row, expected, verdict, told)) else (verdict, "")


def _translated(raw: bytes) -> object:
    """What must stay of a message that was translated: all but its id and what an era adds to it."""
    message = json.loads(raw, strict=False, parse_int=str, parse_float=str)
    params = message.get("params")
    if isinstance(params, dict):
        params = {name: value for name, value in params.items() if name != "_meta"}
    return message.get("method"), params or None


def _objection(cell: Cell, row: ClientBytes, expected: str, verdict: str, told: list[bytes]) -> str:
    """What is wrong with the answer itself; empty when nothing is."""
    outcomes = OUTCOMES[expected]
    if cell.client != "stdio" and expected == SILENT:
        outcomes = (DROPPED, REFUSED)  # a POST always gets an answer
    if verdict not in outcomes:
        return f"{verdict}, not {expected}: {told[:1]}"[:300]
    answers = [json.loads(message, parse_int=_number) for message in told]
    is_mirrored = cell.client == "streamable" and cell.era == "modern"  # and a header cannot say everything
    if (
        expected == NF
        and not cell.ruled
        and not is_mirrored
        and not any(
            is_refusal(answer) and is_answer_to(message, row.token)
            for answer, message in zip(answers, told, strict=True)
        )
    ):
        return f"not the refusal: {told[:1]}"[:300]
    if expected == LISTED and [tool["name"] for tool in answers[0]["result"]["tools"]] != list(KEPT):
        return "not the filtered list"
    codes = CODES.get(expected)
    if codes and cell.era == "legacy":
        wrong = [answer for answer in answers if answer["error"]["code"] not in codes]
        return f"{wrong[0]}"[:300] if wrong else ""
    return ""


def _number(text: str) -> int | str:
    return int(text) if len(text) < 20 else text


def fire(
    cell: Cell,
    raw: bytes,
    headers: dict[str, str] | None = None,
    door: Any = None,
    within: float = DEADLINE,
) -> int:
    """Sends one message as these bytes; the status, where there is one."""
    door = door or cell.attacker
    headers = next(_headers(cell, raw, FORWARD, door)) if headers is None else headers
    if cell.client == "stdio":
        door.say(raw)
        return 0
    target = door.endpoint if cell.client == "sse" else "/mcp"
    response = door.http("POST", target, headers, raw, "attack")
    door.until(lambda: response.is_over, within)
    response.close()
    return int(response.status)


def _headers(cell: Cell, raw: bytes, expected: str, door: Any = None) -> Iterator[dict[str, str]]:
    """The headers to send it with. In the newer era those say what the body says, once truly and once not."""
    headers = {"Content-Type": "application/json"}
    if cell.client != "streamable":
        yield headers
        return
    headers["Accept"] = "application/json, text/event-stream"
    door = door or cell.attacker
    if cell.era == "legacy":
        if door.session:
            headers["Mcp-Session-Id"] = door.session
        yield {**headers, "MCP-Protocol-Version": cell.version}
        return
    headers["MCP-Protocol-Version"] = MODERN
    yield {**headers, **_mirrored(raw)}
    if expected != FORWARD:
        yield {**headers, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}


def _mirrored(raw: bytes) -> dict[str, str]:
    """What the headers of an honest client would say, as far as one can make out the message."""
    try:
        message = json.loads(raw.decode("utf-8", "replace"), strict=False, parse_int=str)
    except (ValueError, RecursionError):
        return {"Mcp-Method": "tools/call", "Mcp-Name": "write_file"}
    message = message if isinstance(message, dict) else {}
    method = message.get("method")
    mirrored = {"Mcp-Method": _plain(method)} if isinstance(method, str) else {}
    params = message.get("params")
    name = params.get(NAMED_BY.get(str(method), "name")) if isinstance(params, dict) else None
    if isinstance(name, str) and method in NAMED_BY:
        mirrored["Mcp-Name"] = _plain(name[:1000])
    return mirrored


def _plain(text: str) -> str:
    """A header value, in base64 where it could not travel otherwise."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    packed = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
    return f"=?base64?{packed}?="


def _one_line(raw: bytes) -> bytes:
    """As a message travels where a line is a message."""
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")


def _same_id(line: bytes, token: bytes) -> bytes:
    """The message under the client's own id: where one link serves many it travels under another."""
    return re.sub(rb'"id":[^,]+,', lambda _: b'"id":%b,' % token, line, count=1).strip()
