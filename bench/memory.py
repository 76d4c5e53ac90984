"""Memory of a target's process tree without the upstream: at rest, after work, and with idle sessions."""

from __future__ import annotations

import socket
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.handshake import open_http_session
from bench.lines import connect
from bench.processes import Memory, Program, Unfit, reason
from bench.rounds import Group, Say
from bench.targets import Spec, Target, Upstream
from bench.workloads import BIG_1, BIG_10, CALL, Workload

LOOKS = 5  # after so many equal portions of calls
BIG_RESULTS = 5


def bare_interpreter(work: Path) -> dict[str, int]:
    """What the same Python takes that does nothing."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    program = Program(command, work, "bare-python", has_pipes=False)
    try:
        time.sleep(0.5)
        return asdict(program.memory())
    finally:
        program.end()


class MemoryLook:
    """How a target's memory is looked at in one group: after how many calls, with how many idle sessions."""

    def __init__(self, group: Group, work: Path, say: Say, calls: int, sessions: int, settle: float) -> None:
        self.group = group
        self.work = work
        self.say = say
        self.calls = calls  # in each of the portions
        self.sessions = sessions
        self.settle = settle  # seconds to wait before a look

    def run(self, long_calls: int = 0) -> dict[str, Any]:
        """Every target of the group that is a program, one after the other; Penstock perhaps for longer."""
        upstream = Upstream(self.work)
        found: dict[str, Any] = {}
        try:
            for spec in self.group.specs:
                if spec.command is None or spec.name == "direct":
                    continue
                portion = max(16, self.calls // 50 if spec.is_peer else self.calls)
                if spec.name == "penstock":
                    portion = long_calls or portion
                try:
                    found[spec.name] = self.life(spec, upstream, portion)
                    if (spec.front, spec.back) == ("http", "http"):
                        found[spec.name]["sessions"] = self.idle_sessions(spec, upstream)
                except Exception as why:
                    found.setdefault(spec.name, {})["failed"] = reason(why)
                    self.say(f"  {self.group.name}: {spec.name}: {why}")
        finally:
            upstream.program.end()
        self.say(f"  {self.group.name}: memory looked at")
        return found

    def life(self, spec: Spec, upstream: Upstream, portion: int) -> dict[str, Any]:
        """Rest, calls in portions, big results."""
        target = Target(spec, upstream, self.work)
        try:
            program = target.program
            assert program is not None
            target.measure(CALL, 1, 1)
            rest = self.look(program)
            looks, done = [], []
            for number in range(1, LOOKS + 1):
                target.measure(CALL, portion, 16)
                looks.append(self.look(program))
                done.append(number * portion)
            found: dict[str, Any] = {
                "rest": asdict(rest),
                "calls": done,
                "after calls": [asdict(look) for look in looks],
                "KiB per 1,000,000 calls": round(_slope(done, [look.private for look in looks]) * 1e6),
            }
            found.update(self.big(target, program, BIG_1, "1 MB"))
            found.update(self.big(target, program, BIG_10, "10 MB"))
            return found
        finally:
            target.end()

    def look(self, program: Program) -> Memory:
        time.sleep(self.settle)
        return program.memory()

    def big(self, target: Target, program: Program, workload: Workload, name: str) -> dict[str, Any]:
        """The highest resident memory while results of one size passed, and what stayed."""
        _forget_peaks(program)
        before = program.memory().resident
        try:
            target.measure(workload, BIG_RESULTS, 1)
        except (Unfit, ValueError) as why:
            return {f"{name} failed": reason(why)}
        peak = program.memory().peak
        return {
            f"peak of {name}": peak,
            f"peak of {name}, added": max(0, peak - before),
            f"after {name}": asdict(self.look(program)),
        }

    def idle_sessions(self, spec: Spec, upstream: Upstream) -> dict[str, Any]:
        """Sessions that were opened and say nothing, each on a connection that stays open."""
        target = Target(spec, upstream, self.work)
        held: list[socket.socket] = []
        try:
            assert target.program is not None
            target.measure(CALL, 1, 1)
            rest = self.look(target.program)
            for _ in range(self.sessions // 10 if spec.is_peer else self.sessions):
                held.append(connect(target.port))
                open_http_session(target.port, target.path, held[-1])
            full = self.look(target.program)
            return {
                "count": len(held),
                "memory": asdict(full),
                "KiB each": round((full.private - rest.private) / len(held), 2),
            }
        except Unfit as why:
            return {"count": len(held), "failed": reason(why)}
        finally:
            for sock in held:
                sock.close()
            target.end()


def _forget_peaks(program: Program) -> None:
    """Lets the kernel begin its record of the highest resident memory anew."""
    for pid in program.own_pids():
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        except OSError:
            pass


def _slope(calls: list[int], private: list[int]) -> float:
    """KiB a call, by least squares; the first portion fills what is filled once, and does not count."""
    return statistics.linear_regression(calls[1:], private[1:]).slope
