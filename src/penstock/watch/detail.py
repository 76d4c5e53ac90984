"""One message in full: its text as who asks may see it, what was sent in its place, and how it came about."""

from __future__ import annotations

import time

from penstock.watch.logins import Login
from penstock.watch.masked_text import masked_text
from penstock.watch.row import HubRow


def is_revealed(row: HubRow, login: Login) -> bool:
    """Whether this login sees the message unmasked, for the moment."""
    until = login.revealed.get(row.seq, 0.0)
    if until < time.monotonic():
        login.revealed.pop(row.seq, None)
        return False
    return True


def shown_bytes(row: HubRow, login: Login) -> bytes:
    """The message as this login may have it."""
    if is_revealed(row, login):
        return row.raw
    return row.masked_text().encode("utf-8", "surrogatepass")


def detail_of(row: HubRow, login: Login) -> dict[str, object]:
    """Everything about a message."""
    revealed = is_revealed(row, login)
    text = row.text() if revealed else row.masked_text()
    sent = None
    if row.sent is not None:
        sent = row.sent.decode("utf-8", "replace") if revealed else masked_text(row.sent, row.masker)
    return {
        **row.facts(),
        "index": row.index,
        "text": text,
        "sent": sent,
        "why": row.masker.text(row.why),
        "rules": row.rules,
        "us": row.us,
        "request": row.request,
        "answer": row.answer,
        "cut": row.is_cut,
        "kept": len(row.raw),
        "masked": not revealed and row.masked_text() != row.text(),
        "revealed_for": round(max(0.0, login.revealed.get(row.seq, 0.0) - time.monotonic()))
        if revealed
        else 0,
    }
