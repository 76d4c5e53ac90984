"""Real Redis servers on loopback, for tests: started, spoken to, killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gate import wait_until

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")
needs_redis = pytest.mark.skipif(
    PROGRAM is None, reason="there is no redis-server here (Debian: redis-server)"
)


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class RedisServer:
    """One redis-server, empty at its start."""

    def __init__(
        self, work: Path, *options: str, port: int | None = None, program: str | None = None
    ) -> None:
        self.work = Path(tempfile.mkdtemp(dir=work))
        self.options = options
        self.port = port or 0
        self._program = program or PROGRAM
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def log(self) -> str:
        return (self.work / "log").read_text("utf-8", "replace")

    def start(self) -> None:
        """Starts it, on the same port as before if there was one."""
        assert self._program is not None
        for _ in range(5):  # somebody else may take the port first
            port = self.port or free_port()
            listen = () if "--tls-port" in self.options else ("--port", str(port))
            words = [self._program, *listen, "--bind", "127.0.0.1", "--save", "", "--dir", str(self.work)]
            with (self.work / "log").open("wb") as log:
                self.process = subprocess.Popen(
                    [*words, "--appendonly", "no", *self.options], stdout=log, stderr=log
                )
            assert wait_until(lambda: "eady to accept" in self.log or self.is_over)
            if not self.is_over:
                self.port = port
                return
            assert not self.port, self.log
        raise AssertionError(self.log)

    @property
    def is_over(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def ask(self, *words: str | bytes) -> Any:
        """What it replies; a client of its own for every question."""
        import redis

        with redis.Redis(port=self.port, socket_timeout=10) as client:
            return client.execute_command(*words)

    def calls_of(self, command: str) -> int:
        """How often a command was run, by its own count."""
        stats = self.ask("INFO", "commandstats")
        return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))

    def kill(self) -> None:
        """SIGKILL, and nothing is left of its data."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """It is there and answers nobody."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(self, *why: object) -> None:
        self.kill()
