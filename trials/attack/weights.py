"""What is heavy: ten megabytes of brackets, floods, a client that does not read. Memory is read in /proc."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from doors import Lost
from gate import META, peak_memory, request, wait_until
from trials.attack.cell import Cell, alive
from trials.attack.client_bytes import in_era
from trials.attack.messages import fire
from trials.attack.rows import DEAD, HELD, NOISE, Result, Weight

MIB = 1024 * 1024
LIMIT = 10 * MIB
ROOM = 1000  # for the newer era's `_meta`, and the longer id where one link serves many
TIMES = 2.25
"""How many times over a message may ever be there at once: gathered, and copied once to be counted, and some
room for pieces under way. What the process takes up at rest is no part of it: that grows with the code."""

AT_REST = 28 * MIB
"""What the process may take up before."""

UNREAD = 24 * MIB
"""What may be held for a client that does not read."""


def attack_with_weights(cell: Cell, weights: list[Weight]) -> Iterator[Result]:
    """Every heavy thing, one after another."""
    for weight in weights:
        cell.restart()
        cell.forget()
        try:
            verdict, why, figure = weight.play(cell)
        except (Lost, OSError, AssertionError, ValueError, KeyError) as lost:
            verdict, why, figure = DEAD, f"{type(lost).__name__}: {lost}"[:300], 0.0
        for door in (cell.attacker, cell.bystander):
            door.heard.clear()
        if verdict == HELD and (found := cell.faults()):
            verdict, why = found
        yield Result(weight.row, weight.what, cell.name, verdict, why, figure)


def _begin_peak(pid: int) -> int:
    """From here on the peak is counted anew; gives what is taken up now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_memory(pid)


def _meanwhile(cell: Cell, work: Callable[[], Any]) -> tuple[int, float]:
    """Does `work` while the bystander calls on and on; how often it was answered, and its longest wait."""
    faults: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except (Lost, OSError, AssertionError) as fault:
            faults.append(fault)

    thread = threading.Thread(target=watched)
    thread.start()
    answered, longest = 0, 0.0
    while thread.is_alive() or answered < 3:
        began = time.monotonic()
        alive(cell.bystander, 90.0)
        answered, longest = answered + 1, max(longest, time.monotonic() - began)
    thread.join()
    if faults:
        raise faults[0]
    return answered, longest


class _Pulse:
    """Asks Penstock itself for its health, on and on: the longest wait is how long it was deaf to everybody.

    In a process of its own, so that nothing of ours counts as a wait; and of no upstream, which may take its
    time over a message and hold up who waits for it, with and without us.
    """

    def __init__(self, cell: Cell) -> None:
        words = [sys.executable, "-S", "-c", _PULSE, str(cell.port)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.read(1)

    def stop(self) -> float:
        """Ends it; gives the longest wait in seconds."""
        said, _ = self._process.communicate(timeout=90)
        return float(said)


_PULSE = """
import select, socket, sys, time
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
longest = 0.0
sys.stdout.write(" ")
sys.stdout.flush()
while not select.select([0], [], [], 0.001)[0]:
    began = time.monotonic()
    line.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
    if not line.recv(65536):
        break
    longest = max(longest, time.monotonic() - began)
print(longest)
"""


def brackets(cell: Cell, frame: bytes, expected: bytes) -> tuple[str, str, float]:
    """A message of ten megabytes of `[],`, of which a tree would take thirty times as much."""
    frame = in_era(frame, cell.era)
    room = LIMIT - ROOM - len(frame)
    raw = frame.replace(b"<brackets>", b"[" + b"[]," * (room // 3) + b"[]]")
    if b"<members>" in raw:
        raw = frame.replace(b"<members>", b",".join(b'"%x":0' % n for n in range(room // 10))[:room])
    door = cell.attacker
    door.seen = None
    before = _begin_peak(cell.pid)
    status: list[int] = []
    pulse = _Pulse(cell) if cell.proxy is not None else None  # on stdio each session has a proxy of its own
    answered, longest = _meanwhile(cell, lambda: status.append(fire(cell, raw, within=90.0)))
    alive(door, 90.0)
    deaf = pulse.stop() if pulse is not None else None
    door.until(
        lambda: any(expected in one.raw[:200] and b"alive-" not in one.raw for one in door.heard), 90.0
    )
    peak = peak_memory(cell.pid)
    told = b"".join(heard.raw[:200] for heard in door.heard if b"alive-" not in heard.raw)
    if expected not in told:
        return NOISE, f"answered {status} {told[:200]!r}", 0.0
    times = (peak - before) / len(raw)
    said = f"{before / MIB:.0f} MiB at rest, and {times:.1f} times the message; {answered} calls of another session"
    said += f" meanwhile, the slowest {longest * 1000:.0f} ms, upstream included"
    if deaf is not None:
        said += f"; Penstock itself never silent for more than {deaf * 1000:.0f} ms"
    return (HELD if times <= TIMES and before <= AT_REST else NOISE), said, times


def a_flood_that_is_read(cell: Cell) -> tuple[str, str, float]:
    """A hundred thousand notifications to a client that reads them."""
    door = cell.attacker
    door.seen = None
    before = _begin_peak(cell.pid)
    _flood(cell, door, 100_000, 150)
    door.answer(b'"flood"', within=120)
    count = sum(b"notifications/" in heard.raw for heard in door.heard)
    grown = peak_memory(cell.pid) - before
    if count != 100_000:
        return NOISE, f"{count} of 100000 arrived", 0.0
    verdict = HELD if grown < UNREAD else NOISE
    return verdict, f"all arrived; {grown / MIB:.1f} MiB more than before", grown / MIB


def a_flood_that_is_not_read(cell: Cell) -> tuple[str, str, float]:
    """Two hundred megabytes to a client that does not read one of them."""
    slow = cell.connect()
    slow.seen = None
    pid = slow.process.pid if cell.client == "stdio" else cell.pid
    before = _begin_peak(pid)
    _flood(cell, slow, 200, MIB)
    assert wait_until(lambda: any(b"x/flood" in line for line in cell.there.reached()))
    for _ in range(20):
        alive(cell.bystander, 90.0)
        time.sleep(0.05)
    grown = peak_memory(pid) - before
    for source in slow.sources:
        if hasattr(source, "close"):
            source.close()
    if cell.client == "stdio":
        slow.process.kill()
        slow.process.wait()
    verdict = HELD if grown < UNREAD else NOISE
    return verdict, f"{grown / MIB:.1f} MiB held, another session answered meanwhile", grown / MIB


def _flood(cell: Cell, door: Any, count: int, size: int) -> None:
    params = json.dumps({"count": count, "bytes": size}).encode()
    if cell.era == "modern":
        params = b"{%b,%b" % (META[:-1] + b',"progressToken":"flood"}', params[1:])
    door.say(request(b'"flood"', "x/flood", params))


_CALL = (
    b'{"jsonrpc":"2.0","id":"t","method":"tools/call","params":{"name":"%b","arguments":{"a":<brackets>}}}'
)

WEIGHTS = [
    Weight("20", "10 MB of [], in an allowed call", partial(brackets, frame=_CALL % b"echo", expected=b'"called"')),
    Weight("20", "10 MB of [], in a denied call", partial(brackets, frame=_CALL % b"write_file", expected=b"Tool not found")),
    Weight("20", "10 MB of [], and nothing else", partial(brackets, frame=b"<brackets>", expected=b'"error"')),
    Weight("20", "10 MB of members in params", partial(brackets, frame=_CALL.replace(b'"arguments":{"a":<brackets>}', b"<members>") % b"write_file", expected=b'"error"')),
    Weight("20", "10 MB of members in the envelope", partial(brackets, frame=b'{"jsonrpc":"2.0","id":"t","method":"ping",<members>}', expected=b'"error"')),
    Weight("85", "100,000 notifications to a client that reads", a_flood_that_is_read),
    Weight("85", "200 MB to a client that does not read", a_flood_that_is_not_read),
]  # fmt: skip
