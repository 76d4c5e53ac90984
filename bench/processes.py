"""Processes that are measured: started in a session of their own, seen through /proc, ended for certain."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

UPSTREAM = b"bench/upstream.py"
END_SECONDS = 5.0


class Unfit(Exception):
    """A target that cannot be measured, with the reason in one sentence."""


def reason(why: Exception) -> str:
    """Why something failed, short, and without the folders of this machine: it is kept and shown."""
    return re.sub(r"(/[\w.+-]+)+/", "", str(why) or repr(why))[:200]


@dataclass
class Memory:
    """KiB of a process tree: private (USS), proportional (PSS), resident (RSS), and the highest resident."""

    private: int = 0
    proportional: int = 0
    resident: int = 0
    peak: int = 0


class Program:
    """A running command and everything that it starts."""

    def __init__(
        self,
        command: list[str],
        work: Path,
        name: str,
        has_pipes: bool,
        cwd: Path | None = None,
        home: Path | None = None,
    ) -> None:
        self.log = work / f"{name}.log"
        self._errors: IO[bytes] = self.log.open("wb")
        pipe = subprocess.PIPE if has_pipes else subprocess.DEVNULL
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe if has_pipes else self._errors,
            stderr=self._errors,
            start_new_session=True,
            cwd=cwd,
            env=os.environ if home is None else {**os.environ, "HOME": str(home)},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        """Raises when it has ended."""
        if self.process.poll() is not None:
            raise Unfit(f"ended with code {self.process.returncode}: {self.last_words()}")

    def last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return " / ".join(lines[-2:])[-300:] or "it said nothing"

    def own_pids(self) -> list[int]:
        """The processes of its tree, without upstreams."""
        return [pid for pid in tree(self.pid) if not is_upstream(pid)]

    def cpu(self) -> float:
        """Seconds of processor time that the tree, without upstreams, has used so far."""
        return sum(cpu_seconds(pid) for pid in self.own_pids())

    def cpu_of_upstreams(self) -> float:
        """The same of the upstreams among them."""
        return sum(cpu_seconds(pid) for pid in tree(self.pid) if is_upstream(pid))

    def memory(self) -> Memory:
        total = Memory()
        for pid in self.own_pids():
            part = memory_of(pid)
            total.private += part.private
            total.proportional += part.proportional
            total.resident += part.resident
            total.peak += part.peak
        return total

    def end(self) -> None:
        """Closes its stdin or asks it to end; then nothing of its tree is left."""
        everyone = {pid: born(pid) for pid in tree(self.pid)}
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass
        else:
            self._signal([self.pid], signal.SIGTERM)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal([self.pid], signal.SIGTERM)
            try:
                self.process.wait(1.0)
            except subprocess.TimeoutExpired:
                pass
        # A number that has gone to another process since then was born at another time.
        self._signal([pid for pid, when in everyone.items() if when and born(pid) == when], signal.SIGKILL)
        self.process.wait(END_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._errors.close()

    @staticmethod
    def _signal(pids: list[int], number: int) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def born(pid: int) -> str:
    """When the process was started, in the kernel's ticks; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def tree(root: int) -> list[int]:
    """The process and its descendants."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                todo += [int(child) for child in task.read_text().split()]
            except OSError:
                pass
    return found


def is_upstream(pid: int) -> bool:
    """Whether the process is an upstream itself, not one that only names it among its arguments."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[1:3] == [b"-S", b"-E"] and words[3].endswith(UPSTREAM)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process: from its own clock, or in ticks where there is none."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) makes of a process id
    except OSError:
        pass
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def memory_of(pid: int) -> Memory:
    def kib(path: str) -> dict[str, int]:
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            return {}
        pairs = [line.split() for line in lines if line.endswith("kB")]
        return {pair[0].rstrip(":"): int(pair[-2]) for pair in pairs}

    rollup, status = kib(f"/proc/{pid}/smaps_rollup"), kib(f"/proc/{pid}/status")
    return Memory(
        private=rollup.get("Private_Clean", 0) + rollup.get("Private_Dirty", 0),
        proportional=rollup.get("Pss", 0),
        resident=rollup.get("Rss", 0),
        peak=status.get("VmHWM", 0),
    )
