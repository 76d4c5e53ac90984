"""Starting a server as a client would and asking it who it is and what it has. It never calls a tool.

Blocking, with a deadline for everything; whatever was started is gone when it is over.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from penstock import __version__
from penstock.wire.mcp.eras import (
    LEGACY_VERSIONS,
    META_CAPABILITIES,
    META_CLIENT,
    META_VERSION,
    MODERN_VERSIONS,
)

_GRACE_SECONDS = 5.0
_LINE_BYTES = 10 * 1024 * 1024
_NOBODY = "penstock-doctor-asks-for-nobody"


class TrialFailed(Exception):
    """The server did not answer. `kind` is "exit", "silence" or "start"."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


class Trial:
    """One run of a server."""

    def __init__(self, words: list[str], env: Mapping[str, str], cwd: str | None, seconds: float) -> None:
        """Starts it; everything together may take `seconds`. Raises TrialFailed."""
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._began = time.monotonic()
        self._next = 0
        self._pending = b""
        self._meta: dict[str, Any] | None = None
        self.noise: list[bytes] = []  # lines on stdout that are no JSON
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as why:
            self._errors.close()
            raise TrialFailed("start", f"{words[0]} cannot be started: {why.strerror or why}") from None
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def handshake(self) -> tuple[str, dict[str, Any], float]:
        """Era, what the server says of itself, and the seconds it took. Raises TrialFailed."""
        client = {"name": "penstock-doctor", "version": __version__}
        params = {"protocolVersion": LEGACY_VERSIONS[-1], "capabilities": {}, "clientInfo": client}
        answer = self.ask("initialize", params)
        if "result" in answer:
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            return "legacy", answer["result"], time.monotonic() - self._began
        self._meta = {META_VERSION: MODERN_VERSIONS[-1], META_CLIENT: client, META_CAPABILITIES: {}}
        answer = self.ask("server/discover", {})
        if "result" in answer:
            return "modern", answer["result"], time.monotonic() - self._began
        raise TrialFailed("exit", f"it refuses every handshake: {answer.get('error')}")

    def tools(self) -> list[dict[str, Any]]:
        """All pages of its tools. Raises TrialFailed."""
        out: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(100):
            answer = self.ask("tools/list", {} if cursor is None else {"cursor": cursor})
            result = answer.get("result")
            if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
                return out
            out += [tool for tool in result["tools"] if isinstance(tool, dict)]
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str):
                break
        return out

    def code_for_nobody(self) -> object:
        """The error code for a call of a tool that nobody has. Only for a server behind Penstock."""
        answer = self.ask("tools/call", {"name": _NOBODY, "arguments": {}})
        error = answer.get("error")
        return error.get("code") if isinstance(error, dict) else None

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request. Raises TrialFailed."""
        self._next += 1
        if self._meta is not None:
            params = {**params, "_meta": self._meta}
        self._send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        while True:
            line = self._line()
            try:
                message = json.loads(line)
            except ValueError:
                self.noise.append(line)
                continue
            if not isinstance(message, dict):
                continue
            if message.get("id") == self._next and "method" not in message:
                return message
            if "method" in message and "id" in message:
                error = {"code": -32601, "message": "Method not found"}
                self._send({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def last_errors(self, count: int = 5) -> list[str]:
        """The last lines that it wrote to stderr."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 64 * 1024))
        lines = self._errors.read().decode("utf-8", "replace").splitlines()
        return [line for line in lines if line.strip()][-count:]

    def all_errors(self) -> str:
        """What it wrote to stderr, as far as one reads."""
        return "\n".join(self.last_errors(2000))

    def close(self, grace: float = _GRACE_SECONDS) -> None:
        """Ends it and everything that it started, after so many seconds to leave by itself."""
        process = self._process
        self._selector.close()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                self._signal(number)
            try:
                process.wait(_GRACE_SECONDS if number is not None else grace)
                break
            except subprocess.TimeoutExpired:
                continue
        self._signal(signal.SIGKILL)  # what it left behind
        self._errors.close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # it has ended; reading says so

    def _line(self) -> bytes:
        while b"\n" not in self._pending:
            left = self._deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise TrialFailed("silence", f"it does not answer within {self._seconds:g} s")
            assert self._process.stdout is not None
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise TrialFailed("exit", self._how_it_ended())
            self._pending += data
            if len(self._pending) > _LINE_BYTES:
                raise TrialFailed("silence", "it writes without an end")
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return "it has closed its stdout"
        return (
            f"it exited with status {code}" if code >= 0 else f"it was ended by {signal.Signals(-code).name}"
        )
