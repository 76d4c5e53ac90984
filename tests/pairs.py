"""Upstreams and proxies as processes, for every pair of transports."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from doors import Client, LegacyDoor, SseDoor, StdioDoor
from gate import DEADLINE, ROOT, wait_until

EVERY_TRANSPORT = ROOT / "tests" / "upstreams" / "every_transport.py"
TRANSPORTS = ("stdio", "sse", "streamable")
PAIRS = [(client, upstream) for client in TRANSPORTS for upstream in TRANSPORTS]
CELLS = [(client, upstream, era) for client, upstream in PAIRS for era in ("legacy", "modern")]
DENY = "^(write|delete)_"


class Upstream:
    """The scripted upstream: a process if it is HTTP, a command if it is stdio."""

    def __init__(self, transport: str, work: Path, *options: str, port: int = 0) -> None:
        self.transport = transport
        self.work = Path(tempfile.mkdtemp(dir=work))
        self.record = self.work / "record"
        self.heads_file = self.work / "heads"
        self.record.touch()
        self.heads_file.touch()
        self.command = [sys.executable, "-S", str(EVERY_TRANSPORT), "--transport", transport]
        self.command += ["--record", str(self.record), *options]
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        if transport != "stdio":
            self.start(port)

    def start(self, port: int = 0) -> None:
        with (self.work / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                [*self.command, "--heads", str(self.heads_file), "--port", str(port)], stderr=errors
            )
        self.url = said(self.work / "stderr", rb"listening on (\S+)", self.process)

    def words(self) -> list[str]:
        """How Penstock is told of it."""
        return ["--", *self.command] if self.transport == "stdio" else ["--upstream", self.url]

    def reached(self) -> list[bytes]:
        """Every message that reached it, as bytes."""
        return self.record.read_bytes().split(b"\n")[:-1]

    def calls_of(self, *names: str) -> list[bytes]:
        """The tool calls that reached it which mention one of these names."""
        found = [line for line in self.reached() if b"tools" in line and b"call" in line]
        return [line for line in found if any(name.encode() in line for name in names)]

    def heads(self) -> list[dict[str, str]]:
        """Every HTTP request that reached it, and every client that went before its answer."""
        return [json.loads(line) for line in self.heads_file.read_bytes().split(b"\n")[:-1]]

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Upstream:
        return self

    def __exit__(self, *why: object) -> None:
        self.stop()


class Proxy:
    """A listening Penstock."""

    def __init__(
        self, work: Path, words: list[str], *options: str, listen: str = "0", wait: bool = True
    ) -> None:
        self.errors = Path(tempfile.mkdtemp(dir=work)) / "stderr"
        self.port = 0
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "--listen", listen, *options, *words],
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )
        if wait:
            self.find_port()

    def find_port(self) -> None:
        """Waits until it listens."""
        self.port = int(said(self.errors, rb"Listening on https?://\S+:(\d+)/mcp", self.process))

    @property
    def stderr(self) -> str:
        return self.errors.read_text("utf-8", "replace")

    def connect(self, kind: str, era: str, **more: Any) -> Any:
        """A client over HTTP, not yet begun."""
        return {"sse": SseDoor, "streamable": LegacyDoor}[kind](self.port, era, **more)

    def end(self, within: float = DEADLINE) -> int:
        """Asks it to end; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if kind is None:
            assert "Traceback" not in self.stderr, self.stderr


class Halls:
    """What most tests share: one upstream of each kind, and a listening Penstock in front of it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        (work / "stdio-errors").touch()
        self._upstreams: dict[str, Upstream] = {}
        self._proxies: dict[str, Proxy] = {}
        self._stdio: dict[tuple[str, str], StdioDoor] = {}

    def upstream(self, transport: str) -> Upstream:
        if transport not in self._upstreams:
            self._upstreams[transport] = Upstream(transport, self.work)
        return self._upstreams[transport]

    def proxy(self, transport: str) -> Proxy:
        if transport not in self._proxies:
            self._proxies[transport] = Proxy(self.work, self.upstream(transport).words(), "--deny", DENY)
        return self._proxies[transport]

    def connect(self, client: str, upstream: str, era: str, fresh: bool = False, **more: Any) -> Any:
        """A client of this kind before that upstream, begun in this era. One over stdio is a whole proxy of
        its own, so it is used again for the next test, unless that wants a `fresh` one."""
        door: Client
        if client == "stdio" and not fresh:
            if (upstream, era) not in self._stdio:
                self._stdio[upstream, era] = self.connect("stdio", upstream, era, fresh=True)
            door = self._stdio[upstream, era]
            door.heard.clear()
            return door
        if client == "stdio":
            words = [
                sys.executable,
                "-m",
                "penstock",
                "--stdio",
                "--deny",
                DENY,
                *self.upstream(upstream).words(),
            ]
            with (self.work / "stdio-errors").open("ab") as errors:
                door = StdioDoor(words, era, errors)
        else:
            door = self.proxy(upstream).connect(client, era, **more)
        door.begin()
        return door

    def release(self, door: Client) -> None:
        """A test is done with this client."""
        if door not in self._stdio.values():
            door.close()

    def close(self) -> None:
        for door in self._stdio.values():
            door.close()
        assert b"Traceback" not in (self.work / "stdio-errors").read_bytes()
        for proxy in self._proxies.values():
            proxy.__exit__(None, None, None)
        for upstream in self._upstreams.values():
            upstream.stop()


def said(errors: Path, pattern: bytes, process: subprocess.Popen[bytes]) -> str:
    """What a process says on stderr that matches."""

    def found() -> Any:
        return re.search(pattern, errors.read_bytes()) or process.poll() is not None

    assert wait_until(found), f"{pattern!r} was not said: {errors.read_text()}"
    match = re.search(pattern, errors.read_bytes())
    assert match is not None, f"exit code {process.poll()}: {errors.read_text()}"
    return match[1].decode()
