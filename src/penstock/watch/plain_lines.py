"""Rows as lines of text, for pipes and for people with a plain terminal."""

from __future__ import annotations

from datetime import datetime

import msgspec

from penstock.watch.row import HubRow
from penstock.watch.visible import visible

ARROWS = {"client": ">", "upstream": "<", "penstock": "="}
HEAD = "time          at            what                     name                       ms    tok  verdict"


def row_line(row: HubRow, width: int = 0) -> str:
    """One row; cut to `width` where there is one."""
    moment = datetime.fromtimestamp(row.time).strftime("%H:%M:%S.%f")[:-3]
    method = row.method or row.kind
    if row.kind == "response":
        method = f"{'error' if row.status == 'error' else 'answer'} {method}".rstrip()
    ms = "" if row.ms is None else f"{row.ms:.0f}"
    arrow = ARROWS.get(row.sender, "?")
    text = (
        f"{moment}  {cell_end(row.at, 12)}  {arrow} {cell(method, 22)} {cell(row.tool, 22)} "
        f"{ms:>6} {short(row.tokens):>6}  {row.verdict:<7}  {visible(row.rules[0]) if row.rules else ''}"
    ).rstrip()
    return text[:width] if width else text


def cell(text: str, width: int) -> str:
    """`text` in a column of this width."""
    text = visible(text)
    return f"{text[: width - 1]}…" if len(text) > width else f"{text:<{width}}"


def cell_end(text: str, width: int) -> str:
    """The same, cut at its beginning: upstreams are often called alike but for their last word."""
    text = visible(text)
    return f"…{text[1 - width :]}" if len(text) > width else f"{text:<{width}}"


def short(number: int) -> str:
    """A number as people read it: 1.4k."""
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def json_line(row: HubRow) -> str:
    """One row for programs, with its message, masked."""
    return msgspec.json.encode({**row.facts(), "text": row.masked_text()}).decode()
