"""Several instances of Penstock with one Redis, and a client that asks all of them at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate import DEADLINE, META, ROOT, wait_until
from pairs import Proxy
from redis_server import free_port

DEPLOY = ROOT / "deploy"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/bin")

SECRET = "fleet-test-" + "0123456789abcdef" * 2
SLOW = "5s"  # of a Redis that answers: a busy machine is no fault of it


def shared(url: str, **more: Any) -> dict[str, Any]:
    """The section that instances share."""
    return {"url": url, "secret": SECRET, "timeout": SLOW, **more}


def limit_rule(limit: int, window: str, key: str = "all", **more: Any) -> dict[str, Any]:
    """A rule that limits the calls of every client together."""
    return {
        "id": "limit",
        "conditions": [{"method_equals": "tools/call"}],
        "actions": [{"rate_limit": {"limit": limit, "window": window, "key": key}}],
        **more,
    }


class Instances:
    """So many instances with the same configuration."""

    def __init__(self, work: Path, words: list[str], document: dict[str, Any], count: int = 2) -> None:
        self.file = work / "fleet.json"
        self.file.write_text(json.dumps(document))
        self.all: list[Proxy] = []
        try:
            starting = [Proxy(work, words, "--config", str(self.file), wait=False) for _ in range(count)]
            self.all = starting
            for proxy in starting:
                proxy.find_port()
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise

    @property
    def ports(self) -> list[int]:
        return [proxy.port for proxy in self.all]

    def __enter__(self) -> Instances:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for proxy in self.all:
            proxy.process.terminate()
        for proxy in self.all:
            with contextlib.suppress(subprocess.TimeoutExpired):  # a second signal would cut its end short
                proxy.process.wait(DEADLINE)
            proxy.__exit__(kind, error, trace)


class Balancer:
    """nginx as deploy/ has it, round robin before the instances at `ports`."""

    def __init__(self, work: Path, ports: Sequence[int]) -> None:
        assert NGINX is not None
        self.port = free_port()
        text = (DEPLOY / "nginx.conf").read_text().replace("listen 8080", f"listen 127.0.0.1:{self.port}")
        servers = "".join(f"server 127.0.0.1:{one};" for one in ports)
        text = text.replace("server penstock:8808;", servers)
        text = text.replace("worker_processes auto", "worker_processes 1")
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
            text = text.replace("http {\n", f"http {{ {name}_temp_path {work}/{name};\n", 1)
        text = text.replace("http {", "http { access_log off;", 1)
        file = work / "nginx.conf"
        file.write_text(f"pid {work}/nginx.pid; error_log {work}/nginx.log; daemon off;\n{text}")
        self._process = subprocess.Popen([NGINX, "-c", str(file), "-p", str(work)])
        assert wait_until(self._is_up)

    def _is_up(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self) -> Balancer:
        return self

    def __exit__(self, *why: object) -> None:
        self._process.terminate()
        self._process.wait(DEADLINE)


class Call(NamedTuple):
    """One call: when it was sent and answered, and what with."""

    sent: float
    answered: float
    answer: dict[str, Any]
    port: int
    status: int = 200

    @property
    def passed(self) -> bool:
        return "result" in self.answer


def call_body(number: int, name: str = "echo", more: bytes = b"{}") -> bytes:
    """A call of the modern era."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":%b,%b}}' % (
        number,
        name.encode(),
        more,
        META,
    )


def head_for(port: int, body: bytes, more: dict[str, str] | None = None, name: str = "echo") -> bytes:
    """The head of a POST of the modern era."""
    fields = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        "Content-Length": str(len(body)),
        **(more or {}),
    }
    lines = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
    return f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode()


class Connection:
    """One connection of a client, asked one thing after the other."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, head: bytes, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        writer.write(head + body)
        block = await reader.readuntil(b"\r\n\r\n")
        first, *lines = block.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if fields.get("transfer-encoding") == "chunked":
            out = b""
            while size := int(await reader.readuntil(b"\r\n"), 16):
                out += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        else:
            out = await reader.readexactly(int(fields.get("content-length", 0)))
        if fields.get("connection") == "close":
            self.close()
        return int(first.split()[1]), fields, out

    async def call(self, number: int, more: bytes = b"{}", extra: dict[str, str] | None = None) -> Call:
        body = call_body(number, more=more)
        sent = time.monotonic()
        status, _, raw = await self.post(head_for(self.port, body, extra), body)
        return Call(sent, time.monotonic(), json.loads(message_in(raw)), self.port, status)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def message_in(raw: bytes) -> bytes:
    """The last message of a body, whether it is JSON or events."""
    if raw.lstrip()[:1] == b"{":
        return raw
    return [line[5:].strip() for line in raw.splitlines() if line.startswith(b"data:")][-1]


async def flood_async(ports: Sequence[int], count: int, connections: int, **more: Any) -> list[Call]:
    numbers = iter(range(count))
    calls: list[Call] = []

    async def work(port: int) -> None:
        connection = Connection(port)
        try:
            for number in numbers:
                calls.append(await connection.call(number, **more))
        finally:
            connection.close()

    await asyncio.gather(*(work(ports[place % len(ports)]) for place in range(connections)))
    return calls


def flood(ports: Sequence[int], count: int, connections: int = 64, **more: Any) -> list[Call]:
    """So many calls, over so many connections at once, to all ports alike."""
    return asyncio.run(flood_async(ports, count, connections, **more))


def run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
    )


def refused(work: Path, **more: Any) -> str:
    """What is said of a configuration that cannot be: two lines, exit code 1."""
    file = work / "refused.json"
    document = {"upstream": {"command": ["true"]}, "listen": "0", **more}
    file.write_text(json.dumps(document))
    done = run("--config", str(file))
    assert done.returncode == 1, done
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if "Serving clients" not in line]
    assert len(lines) == 2, done.stderr
    assert "pass-word" not in done.stderr
    assert SECRET not in done.stderr
    return "\n".join(lines)
