"""What people read cannot be made endless by whoever we speak of."""

from __future__ import annotations

import logging

import pytest

from penstock import limits
from penstock import logs as say


def test_one_wording_is_said_so_often_in_a_second_and_then_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    now = [7.5]
    monkeypatch.setattr(say, "write_stderr", written.append)
    handler = say._StderrHandler(lambda: now[0])
    handler.setFormatter(say._TextFormatter())
    log = logging.Logger("a log of its own")
    log.addHandler(handler)
    for number in range(limits.LOG_LINES + 50):
        log.warning("Skipped %d.", number)
    log.warning("Something else.")
    assert len(written) == limits.LOG_LINES + 1
    for number in range(limits.LOG_LINES + 50):
        log.info("Rule %d.", number, extra={"is_wanted": True})
    assert len(written) == 2 * limits.LOG_LINES + 51
    del written[limits.LOG_LINES + 1 :]
    assert written[0] == "penstock: warning: Skipped 0."
    assert written[-1] == "penstock: warning: Something else."
    written.clear()
    now[0] += 1
    log.warning("Skipped %d.", 1_000)
    assert written == [
        "penstock: warning: 50 more like this were not written: Skipped %d.",
        "penstock: warning: Skipped 1000.",
    ]
    written.clear()
    now[0] += 1
    log.info("Quiet.")
    assert written == ["penstock: Quiet."]
