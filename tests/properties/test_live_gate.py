"""The same hostile messages at a live Penstock, over real pipes; the upstream writes down all it gets."""

from __future__ import annotations

from pathlib import Path

import hostile
from claims import wrong_calls
from gate import Gate
from hostile import Choices, row_of
from readers import LINE_READERS
from readings import calls_in, folded

MESSAGES = [hostile.message(Choices(row_of(seed))) for seed in range(400)]


def _fire(gate: Gate) -> list[bytes]:
    """Sends all messages, in uneven pieces; what reached the upstream."""
    gate.handshake("2025-03-26")
    step = 1
    for first in range(0, len(MESSAGES), 8):  # few at once: they share ids, and an id that waits is refused
        stream = b"".join(message + b"\n" for message in MESSAGES[first : first + 8])
        place = 0
        while place < len(stream):
            gate.send(stream[place : place + step])
            place, step = place + step, step * 7 % 4093 + 1
        assert gate.is_alive()
    return [line for line in gate.reached() if b"alive-" not in line]


def test_no_hostile_message_makes_the_upstream_run_a_denied_tool(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", hostile.DENY) as gate:
        reached = _fire(gate)
        assert len(reached) > 20  # much of it is harmless, and passes
        for line in reached:
            assert not wrong_calls(line, LINE_READERS), line
        for line in gate.heard:
            assert hostile.UNSPOKEN.encode() not in line


def test_without_the_gate_they_do(tmp_path: Path) -> None:
    with Gate(tmp_path, direct=True) as bare:
        run = {name for line in _fire(bare) for name in calls_in(line)}
    assert {folded(name) for name in hostile.DENIED} <= run
