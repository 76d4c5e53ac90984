"""A real hub process and its API, for tests of the live view."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from penstock.watch import runtime
from penstock.watch.hub import ask_desk

DEADLINE = 20.0


class Hub:
    """`penstock watch --web` with a runtime folder of its own, where proxies of this process's tests join."""

    def __init__(
        self,
        *words: str,
        folder: str | None = None,
        port: int = 0,
        address: str = "127.0.0.1",
        authority: Path | None = None,
    ) -> None:
        """`authority` has signed the certificate that it serves with, if it speaks TLS."""
        self._authority = authority
        self.folder = folder or tempfile.mkdtemp(prefix="pens-", dir="/tmp")
        self.owns_folder = folder is None
        self._before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = self.folder
        before = set(runtime.hubs())
        self.errors = Path(self.folder) / f"hub-errors-{len(before)}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "penstock",
                    "watch",
                    *words,
                    "--web",
                    f"{address}:{port}",
                    "--no-browser",
                ],
                stderr=errors,
                stdin=subprocess.DEVNULL,
            )
        if port:
            self.desk = runtime.hub_path(port)
        else:
            self.desk = until(lambda: next(iter(set(runtime.hubs()) - before), None), self.said)
        self.port = int(self.desk.rpartition("hub.")[2].split(".")[0])
        self.host = f"127.0.0.1:{self.port}"
        self.token = ""
        self.log_in()

    def said(self) -> str:
        """What it says to people."""
        return self.errors.read_text()

    def code(self) -> str:
        """A code for a login, as its own user gets it."""
        found = until(lambda: ask_desk(self.desk, True))
        return str(found["code"])

    def log_in(self) -> None:
        """Logs in as its own user."""
        status, value = self.call("POST", "login", {"code": self.code()})
        assert status == 200, value
        self.token = value["token"]

    def call(
        self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and value of one request."""
        status, data = self.raw(method, f"/api/v1/{path}", body, token, **headers)
        return status, json.loads(data) if data[:1] in (b"{", b"[") else data

    def raw(
        self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Status and body of one request, whatever its path."""
        connection: http.client.HTTPConnection
        if self._authority is not None:
            trust = ssl.create_default_context(cafile=str(self._authority))
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=DEADLINE, context=trust)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        fields = {"Host": self.host}
        use = self.token if token is None else token
        if use:
            fields["Authorization"] = f"Bearer {use}"
        data = None if body is None and method == "GET" else json.dumps(body or {}).encode()
        if data is not None:
            fields["Content-Type"] = "application/json"
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in fields.items():
            connection.putheader(name, value)
        if data is not None:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def get(self, path: str) -> Any:
        """The value of a GET that must succeed."""
        status, value = self.call("GET", path)
        assert status == 200, value
        return value

    def held(self, count: int = 1) -> list[dict[str, Any]]:
        """What waits, once so much does."""
        return list(
            until(lambda: (found := self.get("held")["held"]) and len(found) >= count and found, self.said)
        )

    def decide(self, held: dict[str, Any], action: str, **more: str) -> tuple[int, Any]:
        """Clicks."""
        return self.call("POST", f"held/{held['id']}", {"action": action, "sha": held["sha"], **more})

    def breaks(self, words: str, name: str = "t") -> None:
        """Sets a breakpoint."""
        status, value = self.call("PUT", f"breakpoints/{name}", {"filter": words})
        assert status == 200, value

    def rows(self, words: str = "", count: int = 1) -> list[dict[str, Any]]:
        """Rows that a filter finds, once there are so many."""
        from urllib.parse import quote

        path = f"rows?rank=-500&limit=500&filter={quote(words)}"
        return list(
            until(lambda: (found := self.get(path)["rows"]) and len(found) >= count and found, self.said)
        )

    def instances(self, count: int = 1) -> list[dict[str, Any]]:
        """The proxies that are connected, once there are so many."""

        def connected() -> Any:
            found = [one for one in self.get("instances")["instances"] if one["connected"]]
            return found if len(found) >= count else None

        return list(until(connected, self.said))

    since = 0.0  # when the test began

    def joined(self) -> dict[str, Any]:
        """The proxy that has come since the test began; those of other tests may still be leaving."""

        def found() -> Any:
            return next((one for one in self.instances() if one["started"] >= self.since), None)

        return dict(until(found, self.said))

    def close(self) -> None:
        """Ends it."""
        self.process.terminate()
        self.process.wait(DEADLINE)
        if self._before is None:
            os.environ.pop("XDG_RUNTIME_DIR", None)
        else:
            os.environ["XDG_RUNTIME_DIR"] = self._before
        if self.owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()


def enough(found: list[Any], count: int) -> list[Any] | None:
    """The list, if it is so long."""
    return found if len(found) >= count else None


def until(found: Any, why: Any = None, within: float = DEADLINE) -> Any:
    """What `found` gives, once that is something."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"it never came; {why() if callable(why) else why or ''}")


def asked(pattern: str) -> str:
    """A path that a route takes."""
    return (
        pattern.replace(r"(\d{1,15})", "1")
        .replace("([A-Za-z0-9_.-]{1,80})", "x")
        .replace("([A-Za-z0-9_-]{1,40})", "x")
        .replace("(alerts|suggestions|variants)", "suggestions")
    )
