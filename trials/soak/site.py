"""An upstream and a Penstock before it, as processes, and what the system says of them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trials.soak.clients import HttpLine, Sse, Stdio, Streamable

PENSTOCK = [sys.executable, "-m", "penstock"]
DENY = ["--deny", "^tool_9"]


def uss(pid: int) -> int:
    """Private memory of a process, in bytes: what would be free again if it ended."""
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:")):
            total += int(line.split()[1]) * 1024
    return total


def files(pid: int) -> int:
    """Open descriptors."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid: int) -> list[int]:
    """Living children."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def until(holds: Any, seconds: float) -> bool:
    """Waits for something to become true; whether it did."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.05)
    return True


class Site:
    """One upstream of a kind, and a listening Penstock, unless the clients bring their own."""

    def __init__(
        self,
        work: Path,
        upstream: str,
        listens: bool = True,
        options: tuple[str, ...] = (),
        is_collected: bool = True,
    ) -> None:
        """Without `is_collected` the collector of that Penstock is switched off: whatever is tied in a cycle
        stays."""
        self.kind = upstream
        self._is_collected = is_collected
        self.command = [sys.executable, "-S", "-m", "trials.soak.upstream", upstream]
        self.upstream: subprocess.Popen[bytes] | None = None
        self.upstream_port = 0
        self.port = 0
        self.pid = 0
        self.process: subprocess.Popen[bytes] | None = None
        mark = time.monotonic_ns()
        self.errors = work / f"penstock-{mark}"
        self.probe = work / f"probe-{mark}"
        self.probe.touch()
        self.words = ["--", *self.command]
        if upstream != "stdio":
            said = work / f"upstream-{mark}"
            with said.open("wb") as errors:
                self.upstream = subprocess.Popen(self.command, stderr=errors)
            url = _said(said, rb"listening on (\S+)", self.upstream)
            self.upstream_port = urlsplit(url).port or 0
            self.words = ["--upstream", url]
        if listens:
            with self.errors.open("wb") as errors:
                self.process = subprocess.Popen(
                    [*PENSTOCK, "--listen", "0", *DENY, *options, *self.words],
                    stdin=subprocess.DEVNULL,
                    stderr=errors,
                    env=self._env(),
                )
            self.port = int(_said(self.errors, rb"Listening on http://\S+:(\d+)/mcp", self.process))
            self.pid = self.process.pid

    def client(self, kind: str, is_modern: bool = False) -> Any:
        """A client of a kind, not yet begun."""
        if kind == "stdio":
            command = [*PENSTOCK, "--stdio", *DENY, *self.words]
            return Stdio(command, self.errors.open("ab"), self._env(), is_modern)
        return {"streamable": Streamable, "sse": Sse}[kind](self.port, is_modern)

    def direct(self) -> Streamable:
        """A client of the upstream itself: what it has to wait is not Penstock's doing."""
        return Streamable(self.upstream_port)

    async def stats(self) -> dict[str, int]:
        """What an upstream at a URL has seen, asked directly."""
        line = await HttpLine.open(self.upstream_port)
        _, _, body = await line.ask(b"GET /stats HTTP/1.1\r\nHost: x\r\n\r\n")
        line.close()
        told: dict[str, int] = json.loads(body)
        return told

    def _env(self) -> dict[str, str]:
        env = {**os.environ, "PYTHONPATH": _path(), "PENSTOCK_PROBE": str(self.probe)}
        return env if self._is_collected else {**env, "PENSTOCK_UNCOLLECTED": "1"}

    async def inside(self, pid: int = 0) -> tuple[int, int]:
        """How many objects and unfinished tasks there are in a Penstock: the listening one, or `pid`."""
        before = len(self.probe.read_text())
        os.kill(pid or self.pid, signal.SIGUSR1)
        await until(lambda: self.probe.read_text()[before:].endswith("\n"), 10)
        objects, tasks = self.probe.read_text()[before:].split()
        return int(objects), int(tasks)

    def end(self) -> int | None:
        """Ends both; the exit code of Penstock."""
        code = None
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                code = self.process.wait()
        if self.upstream is not None:
            self.upstream.kill()
            self.upstream.wait()
        return code

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *why: object) -> None:
        if self.process is None or self.process.poll() is None:
            self.end()
        elif self.upstream is not None:
            self.upstream.kill()
            self.upstream.wait()


def _path() -> str:
    """Where the interpreter looks first: at the probe, then where it looked before."""
    here = Path(__file__).resolve().parent
    known = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(here / "probe"), str(here.parent.parent), *([known] if known else [])])


def _said(errors: Path, pattern: bytes, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = re.search(pattern, errors.read_bytes())
        if found:
            return found[1].decode()
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"{pattern!r} was not said: {errors.read_text()[-500:]}")
