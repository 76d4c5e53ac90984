"""What people read on stderr, a line at a time, whatever is quoted in it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator

import pytest

from penstock.logs import set_up_log

FORGED = "a\npenstock: all is well\x1b[31m\ud800"


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """Our log, put back afterwards as it was."""
    ours, root = logging.getLogger("penstock"), logging.getLogger()
    before = [(one, one.handlers[:], one.level) for one in (ours, root)]
    propagates = ours.propagate
    yield ours
    for one, handlers, level in before:
        one.handlers[:] = handlers
        one.setLevel(level)
    ours.propagate = propagates


def _said(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return capfd.readouterr().err.split(os.linesep)[:-1]


def _say(log: logging.Logger) -> None:
    log.error("Told: %s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("Failed")


def test_no_quotation_looks_like_a_line_of_ours(
    log: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    set_up_log("info", "text")
    _say(log)
    lines = _said(capfd)
    assert [line for line in lines if line.startswith("penstock:")] == [
        r"penstock: Told: a\x0apenstock: all is well\x1b[31m\xd800",
        "penstock: Failed",
    ]
    assert "\x1b" not in "".join(lines)


def test_as_json_every_line_is_written_and_is_one(
    log: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    set_up_log("info", "json")
    _say(log)
    told, failed = map(json.loads, _said(capfd))
    assert told["message"] == "Told: a\npenstock: all is well\x1b[31m\\ud800"
    assert "ValueError" in failed["traceback"]
