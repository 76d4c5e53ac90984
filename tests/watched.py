"""A Penstock that records, before every kind of client and upstream, and what its files hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from doors import Client, StdioDoor
from pairs import DENY, Proxy, Upstream

PENSTOCK = [sys.executable, "-m", "penstock"]


class Watched:
    """One proxy with options of its own, its upstream, and as many clients as a test wants."""

    def __init__(self, work: Path, client: str, upstream: str, *options: str, deny: str = DENY) -> None:
        self.work = work
        self.kind = client
        self.upstream = Upstream(upstream, work)
        self.options = ["--deny", deny, *options] if deny else list(options)
        self.errors = work / "penstock-errors"
        self.errors.touch()
        self.doors: list[Client] = []
        self.proxy: Proxy | None = None
        if client != "stdio":
            self.proxy = Proxy(work, self.upstream.words(), *self.options)

    def connect(self, era: str = "legacy", begins: bool = True) -> Any:
        """A client that has begun."""
        door: Any
        if self.proxy is None:
            words = [*PENSTOCK, "--stdio", *self.options, *self.upstream.words()]
            with self.errors.open("ab") as errors:
                door = StdioDoor(words, era, errors)
        else:
            door = self.proxy.connect(self.kind, era)
        self.doors.append(door)
        if begins:
            door.begin()
        return door

    @property
    def stderr(self) -> str:
        return self.errors.read_text("utf-8", "replace") if self.proxy is None else self.proxy.stderr

    def end(self) -> None:
        """All clients leave, then the proxy ends in good order."""
        for door in self.doors:
            door.close()
        if self.proxy is not None:
            assert self.proxy.end() == 0, self.proxy.stderr
        self.upstream.stop()
        assert "Traceback" not in self.stderr, self.stderr

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *why: object) -> None:
        for door in self.doors:
            door.close()
        if self.proxy is not None:
            self.proxy.__exit__(None, None, None)
        self.upstream.stop()


def penstock(*words: str, code: int = 0, stdin: bytes = b"") -> str:
    """What a command prints; it must end with this code."""
    done = run(*words, stdin=stdin)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode("utf-8", "replace")


def run(*words: str, stdin: bytes = b"", **more: Any) -> subprocess.CompletedProcess[bytes]:
    """A whole run of a command."""
    return subprocess.run(
        [*PENSTOCK, *words], input=stdin, capture_output=True, timeout=60, check=False, **more
    )


def raws(path: Path, *words: str) -> list[bytes]:
    """The recorded messages that a filter finds, as bytes."""
    done = run("show", str(path), "--format", "raw", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(b"\n")[:-1]


def rows(path: Path, *words: str) -> list[dict[str, Any]]:
    """The recorded messages that a filter finds, with what is known of each."""
    return [json.loads(line) for line in penstock("show", str(path), "--format", "json", *words).splitlines()]


def entries(path: Path) -> list[dict[str, Any]]:
    """The entries of an audit."""
    return [json.loads(line) for line in path.read_text().splitlines()]
