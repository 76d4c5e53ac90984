"""A message that was revealed is masked again after its minute, for the one login that saw it (13)."""

from __future__ import annotations

import pytest

from penstock.watch import bounds, detail
from penstock.watch.logins import Login


class Row:
    """As much of a row as its bytes need."""

    seq = 7
    raw = b'{"password":"hunter2"}'

    def masked_text(self) -> str:
        return '{"password":"[masked]"}'


def test_reveal_ends_after_a_minute_and_is_the_logins_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(detail.time, "monotonic", lambda: now)
    row, login, other = (
        Row(),
        Login("a", "approve", 1e9, revealed={}),
        Login("b", "approve", 1e9, revealed={}),
    )
    login.revealed[row.seq] = now + bounds.REVEAL_SECONDS
    assert bounds.REVEAL_SECONDS == 60
    assert detail.shown_bytes(row, login) == row.raw  # type: ignore[arg-type]
    assert b"hunter2" not in detail.shown_bytes(row, other)  # type: ignore[arg-type]
    now += 59.9
    assert detail.shown_bytes(row, login) == row.raw  # type: ignore[arg-type]
    now += 0.2
    assert b"hunter2" not in detail.shown_bytes(row, login)  # type: ignore[arg-type]
    assert login.revealed == {}
