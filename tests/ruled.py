"""A proxy with rules, every way in: stdio to stdio, HTTP to HTTP, and each kind of HTTP client to stdio."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from doors import Client, StdioDoor
from gate import ROOT, wait_until
from pairs import Proxy, Upstream

PLUGINS = ROOT / "tests" / "e2e" / "rules"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PLUGINS), os.environ.get("PYTHONPATH", "")]))

WAYS = ("stdio", "passthrough", "modern", "legacy", "sse")
"""stdio to stdio (legacy era), HTTP to HTTP (legacy, with sessions), modern HTTP to stdio (shared link), and
clients of the two older HTTP transports to stdio (a link for each)."""


class Ruled:
    """One run of Penstock with a rule file, and a client that has begun."""

    def __init__(
        self,
        way: str,
        work: Path,
        interceptor: dict[str, Any] | None,
        *options: str,
        version: str = "2025-11-25",
        more: dict[str, Any] | None = None,
    ) -> None:
        self.way = way
        self.work = Path(tempfile.mkdtemp(dir=work))
        self.file = self.work / "penstock.yaml"
        self.more = more or {}
        self.write(interceptor)
        transport = "streamable" if way == "passthrough" else "stdio"
        self.upstream = Upstream(transport, self.work)
        self.proxy: Proxy | None = None
        self._clients: list[Client] = []
        self._errors = self.work / "stderr"
        self._options = ["--config", str(self.file), *options]
        self._version = version
        if way == "stdio":
            words = [sys.executable, "-m", "penstock", "--stdio", *self._options, *self.upstream.words()]
            with self._errors.open("wb") as errors:
                self.client: Any = StdioDoor(words, "legacy", errors)
            self._clients.append(self.client)
            self.process: subprocess.Popen[bytes] = self.client.process
            self.client.begin(version)
        else:
            self.proxy = Proxy(self.work, self.upstream.words(), *self._options)
            self.process = self.proxy.process
            self._errors = self.proxy.errors
            self.client = self.connect()

    def connect(self, **more: Any) -> Any:
        """One more client, over HTTP."""
        assert self.proxy is not None
        kind = "sse" if self.way == "sse" else "streamable"
        client = self.proxy.connect(kind, "modern" if self.way == "modern" else "legacy", **more)
        self._clients.append(client)
        client.begin() if self.way == "modern" else client.begin(self._version)
        return client

    def write(self, interceptor: dict[str, Any] | None, is_renamed: bool = False) -> None:
        """Writes the rule file, or renames a new one over it."""
        document = dict(self.more) if interceptor is None else {**self.more, "interceptor": interceptor}
        path = self.work / "new.yaml" if is_renamed else self.file
        path.write_text(json.dumps(document, indent=1))
        if is_renamed:
            path.replace(self.file)

    def hang_up(self) -> None:
        """SIGHUP: read the file now."""
        self.process.send_signal(signal.SIGHUP)

    def says(self, text: str, count: int = 1) -> None:
        """Waits until Penstock has said `text` on stderr."""
        assert wait_until(lambda: self.stderr.count(text) >= count), (text, self.stderr)

    def reload(self, interceptor: dict[str, Any] | None) -> None:
        """Puts other rules in force."""
        before = self.stderr.count("the new rules are in force")
        self.write(interceptor)
        self.hang_up()
        self.says("the new rules are in force", before + 1)

    @property
    def stderr(self) -> str:
        return self._errors.read_text("utf-8", "replace")

    def reached(self, mark: str = "") -> list[bytes]:
        """What reached the upstream and mentions `mark`."""
        return [line for line in self.upstream.reached() if mark.encode() in line]

    def wait_reached(self, mark: str, count: int = 1) -> list[bytes]:
        """The same, once there is so much of it."""
        assert wait_until(lambda: len(self.reached(mark)) >= count), (mark, self.reached(), self.stderr)
        return self.reached(mark)

    def is_settled(self) -> bool:
        """Whether a fresh question still comes through; what was said before it has been heard by then."""
        return self.client.ask("x/nothing") is not None

    def __enter__(self) -> Ruled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for client in self._clients:
                client.close()
        finally:
            if self.proxy is not None:
                self.proxy.__exit__(kind, error, trace)
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.upstream.stop()
        if kind is None:
            assert "Traceback" not in self.stderr, self.stderr
            assert "never awaited" not in self.stderr, self.stderr


class Hook:
    """A webhook's receiver: what it was told, and what it answers."""

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[int, bytes]] | None = None) -> None:
        self.told: list[dict[str, Any]] = []
        self.gate = threading.Event()
        self.gate.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.told.append(body)
                hook.gate.wait(30)
                status, raw = answer(body) if answer is not None else (200, b'{"decision":"allow"}')
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.send_header("Location", f"http://127.0.0.1:{hook.port}/other")
                self.end_headers()
                try:
                    self.wfile.write(raw)
                except OSError:
                    pass

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def action(self, **more: object) -> dict[str, Any]:
        """The action that asks or tells it."""
        url = f"http://127.0.0.1:{self.port}/hook"
        return {"webhook": {"url": url, "allow_http": True, "allow_private": True, "retries": 0, **more}}

    def wait(self, count: int = 1) -> list[dict[str, Any]]:
        """What it was told, once that is so much."""
        assert wait_until(lambda: len(self.told) >= count), self.told
        return self.told

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *why: object) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


def rule(id: str, conditions: list[Any], *actions: Any, **more: Any) -> dict[str, Any]:
    """A rule as a file says it."""
    return {"id": id, "conditions": conditions, "actions": list(actions), **more}


def tool(name: str) -> list[Any]:
    """The conditions for calls of one tool."""
    return [{"method_equals": "tools/call"}, {"param_equals": {"field": "name", "value": name}}]


def arguments(**values: object) -> bytes:
    return json.dumps(values).encode()
