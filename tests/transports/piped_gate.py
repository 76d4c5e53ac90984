"""Penstock as a process of its own, spoken to over its stdin and stdout."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from typing import Any

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
META = (
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{}}'
)


class Gate:
    """One running Penstock. Lines go in and come out as bytes."""

    def __init__(self, *options: str, is_read: bool = True, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        self.stderr = ""
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._threads = [threading.Thread(target=self._read_stderr, daemon=True)]
        if is_read:
            self._threads.append(threading.Thread(target=self._read_stdout, daemon=True))
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            try:
                stream.close()
            except OSError:
                pass

    def send(self, *messages: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(message + b"\n" for message in messages))
        self.process.stdin.flush()

    def read(self, seconds: float = 10.0) -> bytes:
        """The next line; fails when none comes."""
        line = self._lines.get(timeout=seconds)
        assert line is not None, f"stdout ended; stderr: {self.stderr}"
        return line

    def read_json(self, seconds: float = 10.0) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.read(seconds))
        return message

    def is_silent(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        try:
            self._lines.get(timeout=seconds)
        except queue.Empty:
            return True
        return False

    def ask(self, message: bytes, seconds: float = 10.0) -> bytes:
        self.send(message)
        return self.read(seconds)

    def shake_hands(self) -> None:
        """Initialize and initialized."""
        assert b'"result"' in self.ask(INITIALIZE)
        self.send(INITIALIZED)

    def leave(self, seconds: float = 10.0) -> int:
        """Closes stdin; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.wait(seconds)

    def wait(self, seconds: float = 10.0) -> int:
        """The exit code, once all that was said has been read."""
        code = self.process.wait(seconds)
        for thread in self._threads:
            thread.join(seconds)
        return code

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip(b"\n"))
        self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.stderr += line.decode()


def call(
    id_token: bytes, name: bytes = b"echo", arguments: bytes = b"{}", meta: bytes | None = None
) -> bytes:
    tail = b"" if meta is None else b',"_meta":' + meta
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"%b","arguments":%b%b}}' % (
        id_token,
        name,
        arguments,
        tail,
    )
