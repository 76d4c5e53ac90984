"""SIGTERM, SIGINT and SIGHUP, once and twice, at every moment that matters.

The first ends in order, with exit code 0; the second at once, with 128 and its number. Nobody is left behind.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from doors import Client, StdioDoor
from gate import is_running, wait_until
from pairs import DENY, Proxy, Upstream
from trials.faults.kills import PENSTOCK, _family, _kill, _quietly_close, _tracebacks
from trials.table import Row, Table

PATIENCE = 20.0
_OURS = re.compile(r"penstock/(?!__main__|__init__)\w+.*line \d+")
NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def try_signals(table: Table, work: Path, numbers: tuple[signal.Signals, ...] = NUMBERS) -> None:
    """Each signal, once and twice, on stdio and on a listener."""
    for client, upstream in (("stdio", "stdio"), ("streamable", "stdio"), ("streamable", "streamable")):
        for number in numbers:
            for when in ("during a call", "at the start"):
                for times in (1, 2):
                    began = time.monotonic()
                    try:
                        wrong, how = _signal(work, client, upstream, number, when, times)
                    except (AssertionError, OSError, subprocess.TimeoutExpired) as why:
                        wrong, how = [f"{type(why).__name__}: {why}"[:200]], ""
                    table.add(
                        Row(
                            number.name + (" twice" if times == 2 else ""),
                            when,
                            f"{client} -> {upstream}",
                            "; ".join(wrong) or how,
                            not wrong,
                            time.monotonic() - began,
                        )
                    )


def _signal(
    work: Path, client: str, upstream: str, number: signal.Signals, when: str, times: int
) -> tuple[list[str], str]:
    with Upstream(upstream, work) as there:
        if when == "at the start":
            return _at_the_start(client, there, number, times)
        door: Client
        errors = work / f"signal-errors-{time.monotonic_ns()}"
        if client == "stdio":
            with errors.open("wb") as file:
                door = StdioDoor([*PENSTOCK, "--stdio", "--deny", DENY, *there.words()], "legacy", file)
            process = door.process
        else:
            proxy = Proxy(work, there.words(), "--deny", DENY)
            process, errors = proxy.process, proxy.errors
            door = proxy.connect(client, "legacy")
        try:
            door.begin()
            if times == 1:
                door.begin_order("nap", b"9", seconds=0.5)
            else:
                door.begin_order("hold", b"9", mark="m")
            word = b"x/nap" if times == 1 else b"x/hold"
            assert wait_until(lambda: any(word in line for line in there.reached()), PATIENCE)
            family = _family(process.pid)[1:]
            process.send_signal(number)
            wrong = []
            if times == 1:
                wrong += [] if b'"result"' in door.answer(b"9", PATIENCE) else ["the call was not answered"]
            else:
                assert wait_until(lambda: b"ending" in errors.read_bytes(), PATIENCE), "it was not heard"
                process.send_signal(number)
            code = process.wait(PATIENCE)
            expected = 0 if times == 1 else 128 + number
            wrong += [] if code == expected else [f"exit code {code}, not {expected}"]
            if not wait_until(lambda: not any(map(is_running, family)), 7.0):
                wrong.append("somebody was left behind")
            return wrong + _tracebacks(errors.read_text()), f"exit {code}, nobody left behind"
        finally:
            _kill(process)
            _quietly_close(door)


def _heed_interrupts() -> None:
    """Whoever is started in the background is started deaf to SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _at_the_start(client: str, there: Upstream, number: signal.Signals, times: int) -> tuple[list[str], str]:
    """Before it is known how far it has got."""
    way = ["--stdio"] if client == "stdio" else ["--listen", "0"]
    wrong: list[str] = []
    codes = set()
    for pause in (0.02, 0.1, 0.2, 0.4):
        process = subprocess.Popen(
            [*PENSTOCK, *way, "--deny", DENY, *there.words()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=_heed_interrupts,
        )
        time.sleep(pause)
        family = _family(process.pid)[1:]
        for _ in range(times):
            if process.poll() is None:
                process.send_signal(number)
        try:
            code = process.wait(PATIENCE)
        finally:
            _kill(process)  # a trial that fails must not leave anybody behind either
        assert process.stderr is not None
        said = process.stderr.read().decode()
        codes.add(code)
        # Before a line of ours runs, or while Python takes itself down, a signal does what Python does.
        if code not in (0, 128 + number, -number) and "KeyboardInterrupt" not in said:
            wrong.append(f"exit code {code}")
        if not wait_until(lambda pids=family: not any(map(is_running, pids)), 7.0):  # type: ignore[misc]
            wrong.append("somebody was left behind")
        if _OURS.search(said.partition("Traceback")[2]):
            wrong.append("a traceback")
        for pipe in (process.stdin, process.stderr):
            assert pipe is not None
            pipe.close()
    return wrong, f"exit {', '.join(map(str, sorted(codes)))}, nobody left behind"


if __name__ == "__main__":
    sys.exit("python -m trials.faults signals")
