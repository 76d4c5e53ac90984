"""kill -9 of the client, the proxy and the upstream, at each stage of a conversation.

Promised: nobody is left behind after seven seconds, whoever was not concerned notices nothing, everybody who
waited is told, and the exit code and the message are the right ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doors import Client, Lost, StdioDoor
from gate import SCRIPTED, children_of, is_running, wait_until
from pairs import DENY, Proxy, Upstream
from trials.faults.lines import LOST
from trials.faults.stages import HELD, STAGES, half_an_answer, reach
from trials.table import Row, Table

ORPHAN_SECONDS = 7.0
NEVER_THERE = "It was ended by SIGKILL before it answered"
PATIENCE = 20.0
PENSTOCK = [sys.executable, "-m", "penstock"]


def try_kills(table: Table, work: Path, stages: tuple[str, ...] = STAGES) -> None:
    """Every victim at every stage, over pipes and over a listener."""
    for stage in stages:
        for victim, trial in (("client", _kill_client), ("proxy", _kill_proxy), ("upstream", _kill_upstream)):
            _row(table, victim, stage, "stdio -> stdio", lambda t=trial, s=stage: t(work, s))
    for client in ("streamable", "sse"):
        for upstream in ("stdio", client):
            for stage in stages:
                for victim in ("client", "proxy", "upstream"):
                    _row(
                        table,
                        victim,
                        stage,
                        f"{client} -> {upstream}, listening",
                        lambda v=victim, s=stage, c=client, u=upstream: _kill_one_of_many(work, c, u, v, s),
                    )


def _row(
    table: Table, victim: str, stage: str, transport: str, trial: Callable[[], tuple[list[str], str]]
) -> None:
    began = time.monotonic()
    try:
        wrong, how = trial()
    except (AssertionError, OSError) as why:
        wrong, how = [f"{type(why).__name__}: {why}"[:200]], ""
    verdict = "; ".join(wrong) or how
    table.add(Row(f"kill -9 {victim}", stage, transport, verdict, not wrong, time.monotonic() - began))


# --- one client on stdio, one child -----------------------------------------------------------------------


def _command(work: Path) -> list[str]:
    record = work / f"kill-record-{time.monotonic_ns()}"
    words = [sys.executable, "-S", str(SCRIPTED), "--record", str(record), "--ignore-eof"]
    return [*PENSTOCK, "--stdio", "--deny", DENY, "--", *words]


def _family(pid: int) -> list[int]:
    """A process and everybody it started, and so on."""
    return [pid, *(one for child in children_of(pid) for one in _family(child))]


def _upstream_of(penstock: int) -> int:
    """The child that is the upstream: the other one is the shell that guards it."""

    def found() -> list[int]:
        # Not a copy of Penstock that has yet to become it.
        return [pid for pid in children_of(penstock) if b"-S\0" + bytes(SCRIPTED) in _cmdline(pid)[:500]]

    assert wait_until(lambda: found() and len(children_of(penstock)) > 1, PATIENCE), "no upstream was started"
    # Killed in the very moment of starting a child, a proxy cannot have told the guard of it: then only the
    # end of its stdin tells the child, and this one does not listen.
    time.sleep(0.2)
    return found()[0]


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _left_behind(pids: list[int]) -> list[str]:
    if wait_until(lambda: not any(map(is_running, pids)), ORPHAN_SECONDS):
        return []
    return [f"{sum(map(is_running, pids))} left behind after {ORPHAN_SECONDS:.0f} s"]


def _kill_client(work: Path, stage: str) -> tuple[list[str], str]:
    errors = work / f"kill-errors-{time.monotonic_ns()}"
    words = [sys.executable, "-m", "trials.faults.stages", "--kind", "stdio", "--stage", stage]
    client = subprocess.Popen(
        [*words, "--errors", str(errors), "--", *_command(work)], stdout=subprocess.PIPE
    )
    assert client.stdout is not None
    penstock = json.loads(client.stdout.readline())["penstock"]
    _upstream_of(penstock)
    family = _family(penstock)
    client.kill()
    client.wait()
    client.stdout.close()
    wrong = _left_behind(family)
    return wrong + _tracebacks(errors.read_text()), f"{len(family)} processes gone"


def _open(work: Path, stage: str, errors: Path) -> StdioDoor:
    with errors.open("wb") as file:
        door = StdioDoor(_command(work), "legacy", file)
    reach(door, stage)
    return door


def _kill_proxy(work: Path, stage: str) -> tuple[list[str], str]:
    errors = work / f"kill-errors-{time.monotonic_ns()}"
    door = _open(work, stage, errors)
    _upstream_of(door.process.pid)
    family = _family(door.process.pid)[1:]
    door.process.kill()
    door.process.wait()
    wrong = _left_behind(family)
    _end(door)
    return wrong + _tracebacks(errors.read_text()), f"{len(family)} processes gone, the client sees the end"


def _kill_upstream(work: Path, stage: str) -> tuple[list[str], str]:
    errors = work / f"kill-errors-{time.monotonic_ns()}"
    is_half = stage == "big answer"
    door = _open(work, "initialized" if is_half else stage, errors)
    if is_half:
        half_an_answer(door)
    upstream = _upstream_of(door.process.pid)
    if stage in ("call", "big answer"):
        # What the proxy has not read yet when the upstream dies cannot get an error, only the end.
        record = Path(_cmdline(upstream).split(b"--record\0")[1].split(b"\0")[0].decode())
        assert wait_until(lambda: b"x/say" in record.read_bytes(), PATIENCE), "the call did not arrive"
    family = _family(door.process.pid)[1:]
    os.kill(upstream, signal.SIGKILL)
    wrong = []
    if stage in ("call", "big answer"):
        answer = json.loads(door.answer(HELD, PATIENCE))
        if answer.get("error", {}).get("message") != "Lost connection to upstream MCP":
            wrong.append(f"the call was answered {answer}")
    expected = 0 if stage == "shutdown" else 1
    code = door.process.wait(PATIENCE)
    wrong += [] if code == expected else [f"exit code {code}"]
    said = errors.read_text()
    if stage != "shutdown" and (NEVER_THERE if stage == "start" else LOST) not in said:
        wrong.append("nothing was said")
    wrong += _left_behind(family) + _tracebacks(said)
    _end(door)
    told = "the call got its error, " if stage in ("call", "big answer") else ""
    return wrong, f"{told}exit {code}"


def _end(door: StdioDoor) -> None:
    for pipe in (door.process.stdin, door.process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()


def _tracebacks(said: str) -> list[str]:
    return ["a traceback"] if "Traceback" in said else []


# --- many clients of one listener -------------------------------------------------------------------------


def _kill_one_of_many(
    work: Path, client: str, upstream: str, victim: str, stage: str
) -> tuple[list[str], str]:
    with Upstream(upstream, work) as there, contextlib.ExitStack() as stack:
        proxy = Proxy(work, there.words(), "--deny", DENY)
        stack.callback(_kill, proxy.process)
        survivor: Client = proxy.connect(client, "legacy")
        survivor.begin()
        stack.callback(_quietly_close, survivor)
        if victim == "client":
            wrong, how = _kill_http_client(proxy, client, stage, survivor)
        else:
            door = proxy.connect(client, "legacy")
            stack.callback(_quietly_close, door)
            reach(door, stage)
            if victim == "proxy":
                wrong, how = _kill_listener(work, proxy, there, stage)
            else:
                wrong, how = _kill_its_upstream(proxy, there, door, stage, survivor)
        return wrong + _tracebacks(proxy.stderr), how


def _begin_shutdown(proxy: Proxy) -> None:
    proxy.process.send_signal(signal.SIGTERM)
    assert wait_until(lambda: "ending" in proxy.stderr, PATIENCE), "SIGTERM was not heard"


def _kill_http_client(proxy: Proxy, client: str, stage: str, survivor: Client) -> tuple[list[str], str]:
    before = len(children_of(proxy.process.pid))
    reached = "call" if stage == "shutdown" else stage
    words = ["--kind", client, "--stage", reached, "--port", str(proxy.port)]
    process = subprocess.Popen([sys.executable, "-m", "trials.faults.stages", *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline(), "the client did not get so far"
    if stage == "shutdown":
        survivor.begin_order("nap", b"1", seconds=1.0)
        time.sleep(0.2)
        _begin_shutdown(proxy)
    _kill(process)
    process.stdout.close()
    if stage == "shutdown":
        wrong = [] if b'"result"' in survivor.answer(b"1") else ["the survivor's last call failed"]
        code = proxy.process.wait(PATIENCE)
        return wrong + (
            [] if code == 0 else [f"exit code {code}"]
        ), "the survivor's last call answered, exit 0"
    wrong = [] if survivor.is_alive() else ["the survivor is not served"]
    if client == "sse" and not wait_until(
        lambda: len(children_of(proxy.process.pid)) <= before, ORPHAN_SECONDS
    ):
        wrong.append("its child was left behind")
    code = proxy.end()
    return wrong + ([] if code == 0 else [f"exit code {code}"]), "the survivor is served, exit 0"


def _kill_listener(work: Path, proxy: Proxy, there: Upstream, stage: str) -> tuple[list[str], str]:
    if stage == "shutdown":
        _begin_shutdown(proxy)
    family = _family(proxy.process.pid)[1:]
    _kill(proxy.process)
    wrong = _left_behind(family)
    if there.transport == "stdio":
        return wrong, f"{len(family)} processes gone"
    with Proxy(work, there.words(), "--deny", DENY) as another:
        door = another.connect("streamable", "legacy")
        door.begin()
        wrong += [] if door.is_alive() else ["the upstream does not serve the next proxy"]
        door.close()
    return wrong, "the upstream serves the next proxy"


def _kill_its_upstream(
    proxy: Proxy, there: Upstream, door: Any, stage: str, survivor: Client
) -> tuple[list[str], str]:
    if there.transport != "stdio":
        if stage == "shutdown":
            _begin_shutdown(proxy)
        there.stop()
        wrong = []
        if stage == "call":
            answer = json.loads(door.answer(HELD, PATIENCE))
            wrong += [] if "error" in answer else [f"the call was answered {answer}"]
        elif stage in ("start", "initialized"):
            # Nothing is under way: it is found out with the next request.
            with contextlib.suppress(Lost, OSError, AssertionError):
                survivor.call("echo", within=5.0)
        code = proxy.process.wait(PATIENCE)
        expected = (0, 1) if stage == "shutdown" else (1,)
        wrong += [] if code in expected else [f"exit code {code}"]
        if code == 1 and LOST not in proxy.stderr:
            wrong.append("nothing was said")
        return wrong, f"everybody is told, exit {code}"
    pids = {pid for pid in children_of(proxy.process.pid) if b"every_transport" in _cmdline(pid)}
    spared = survivor.order("pid")["result"]["pid"]
    if stage == "shutdown":
        _begin_shutdown(proxy)
    for pid in pids - {spared}:
        os.kill(pid, signal.SIGKILL)
    wrong = []
    if stage in ("call", "shutdown"):
        answer = json.loads(door.answer(HELD, PATIENCE))
        wrong += [] if "error" in answer else [f"the call was answered {answer}"]
    if stage != "shutdown":
        wrong += [] if survivor.is_alive() else ["the survivor is not served"]
        proxy.process.send_signal(signal.SIGTERM)
    code = proxy.process.wait(PATIENCE)
    return wrong + ([] if code == 0 else [f"exit code {code}"]), "only its own session ended, exit 0"


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _quietly_close(door: Client) -> None:
    with contextlib.suppress(OSError, AssertionError, ValueError):
        door.close()
        for post in getattr(door, "posts", {}).values():
            post.close()
