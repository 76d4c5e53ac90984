"""Several upstreams that write down what they hear, behind a real Penstock, over any door."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from doors import DEADLINE, Client, LegacyDoor, SseDoor, StdioDoor

ROOT = Path(__file__).resolve().parent.parent
MEMBER = ROOT / "tests" / "upstreams" / "member.py"
PENSTOCK = [sys.executable, "-m", "penstock"]


def member_entry(name: str, *tools: str, record: Path | None = None) -> dict[str, Any]:
    """An entry of mcpServers for an upstream with these tools."""
    spec: dict[str, Any] = {"name": name, "tools": list(tools)}
    if record is not None:
        spec["record"] = str(record)
    return {"command": sys.executable, "args": ["-S", str(MEMBER), json.dumps(spec)]}


class Several:
    """A configuration with upstreams that are told how to be, and what each of them heard."""

    def __init__(self, work: Path, **rest: Any) -> None:
        self.work = work
        self.rest = rest
        self.servers: dict[str, dict[str, Any]] = {}
        self.errors = work / "stderr"
        self.path = work / "several.json"

    def add(self, name: str, entry: dict[str, Any] | None = None, **spec: Any) -> Several:
        """One more upstream; `entry` are keys of its own in the file."""
        spec = {"name": name, "record": str(self.work / f"record-{name}"), **spec}
        words = ["-S", str(MEMBER), json.dumps(spec)]
        self.servers[name] = {"command": sys.executable, "args": words, **(entry or {})}
        return self

    def add_entry(self, name: str, entry: dict[str, Any]) -> Several:
        """One more upstream as it stands."""
        self.servers[name] = entry
        return self

    def write(self) -> Path:
        """Writes the file."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps({"mcpServers": self.servers, **self.rest}))
        os.replace(fresh, self.path)
        return self.path

    def heard(self, name: str) -> list[dict[str, Any]]:
        """Every message that an upstream got."""
        return [json.loads(line) for line in self.lines(name)]

    def lines(self, name: str) -> list[bytes]:
        """The same, as bytes."""
        path = self.work / f"record-{name}"
        found = path.read_bytes().splitlines() if path.exists() else []
        return [line for line in found if not line.startswith(b"#")]

    def starts(self, name: str) -> list[int]:
        """The processes of an upstream, in order."""
        path = self.work / f"record-{name}"
        found = path.read_bytes().splitlines() if path.exists() else []
        return [int(line[2:]) for line in found if line.startswith(b"#")]

    def calls(self, name: str) -> list[str]:
        """The tools that an upstream was asked to run."""
        return [one["params"]["name"] for one in self.heard(name) if one.get("method") == "tools/call"]

    def words(self, *options: str) -> list[str]:
        return [*PENSTOCK, "--config", str(self.write()), *options]

    @contextmanager
    def stdio(self, *options: str, era: str = "legacy", capabilities: bytes = b"{}") -> Iterator[StdioDoor]:
        """One client over stdio, after its handshake."""
        with self.errors.open("ab") as errors:
            client = StdioDoor(self.words("--stdio", *options), era, errors)
        try:
            client.begin(capabilities=capabilities)
            yield client
        finally:
            client.close()

    @contextmanager
    def listening(self, *options: str) -> Iterator[int]:
        """A listener; gives its port."""
        with self.errors.open("ab") as errors:
            process = subprocess.Popen(
                self.words("--listen", "0", *options), stdin=subprocess.DEVNULL, stderr=errors
            )
        self.process = process
        try:
            yield int(self.said(r"Listening on http://127\.0\.0\.1:(\d+)/mcp", process)[1])
        finally:
            process.terminate()
            try:
                process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def said(self, pattern: str, process: subprocess.Popen[bytes] | None = None) -> re.Match[str]:
        """Waits until something is said on stderr."""

        def found() -> re.Match[str] | None:
            text = self.errors.read_text()
            assert process is None or process.poll() is None or re.search(pattern, text), text
            return re.search(pattern, text)

        return wait_until(found)


@contextmanager
def over_http(port: int, era: str = "legacy", **options: Any) -> Iterator[LegacyDoor]:
    """A client over Streamable HTTP, after its handshake."""
    capabilities = options.pop("capabilities", b"{}")
    with LegacyDoor(port, era, **options) as client:
        assert isinstance(client, LegacyDoor)
        client.begin(capabilities=capabilities)
        yield client


@contextmanager
def over_sse(port: int) -> Iterator[Client]:
    """A client over legacy SSE, after its handshake."""
    with SseDoor(port, "legacy") as client:
        client.begin()
        yield client


def wait_until(holds: Callable[[], Any], within: float = DEADLINE) -> Any:
    """Waits until something is so; gives what `holds` gave."""
    end = time.monotonic() + within
    while not (found := holds()):
        assert time.monotonic() < end, "it does not come to be so"
        time.sleep(0.02)
    return found


def names(client: Client) -> list[str]:
    """The tools that a client sees."""
    return [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]


def says(answer: Any) -> str:
    """Which upstream and tool a call came to."""
    assert "result" in answer, answer
    text: str = answer["result"]["content"][0]["text"]
    return text
