"""Published servers: how each is started, and what is asked of it with and without Penstock."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from mcp import Client
from mcp.client.sse import sse_client

from trials.real_world.place import install, maybe_version, node_home, python_home

PENSTOCK = [sys.executable, "-m", "penstock"]
CAPABILITIES = {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}
_START_SECONDS = 60.0


class Server(NamedTuple):
    """A published server. `{work}` in a word is a directory it may use, `{port}` a free port."""

    registry: str
    package: str
    words: tuple[str, ...]  # program and arguments
    transport: str = "stdio"  # else http or sse, with
    path: str = "/mcp"  # where on its port it is
    env: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """How the table calls it."""
        return self.package if self.transport == "stdio" else f"{self.package} ({self.transport})"

    def command(self, work: str, port: int = 0) -> list[str]:
        """The program and its arguments."""
        home = node_home(self.package) / "node_modules" / ".bin"
        if self.registry == "pypi":
            home = python_home(self.package) / "bin"
        program, *rest = (word.format(work=work, port=port) for word in self.words)
        return [str(home / program), *rest]

    def environment(self, port: int = 0) -> dict[str, str]:
        """What it runs with; nothing of ours but the path."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, **{name: value.format(port=port) for name, value in self.env}}


class Outcome(NamedTuple):
    """One row of the table."""

    label: str
    version: str
    tools: str
    same: str
    denied: str
    is_right: bool


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def stdio_tools(command: list[str], env: dict[str, str]) -> list[dict[str, Any]]:
    """The tools that a command on stdio lists to a client that can do everything, as they were written."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(_START_SECONDS, process.kill)
        timer.start()

        def say(**message: Any) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()

        def answer(number: int) -> Any:
            assert process.stdout is not None
            while line := process.stdout.readline():
                try:
                    message = json.loads(line)
                except ValueError:
                    continue  # some print what is no message
                if message.get("id") == number and "method" not in message:
                    return message["result"]
                if "method" in message and "id" in message:
                    say(id=message["id"], result={"roots": []})
            raise EOFError(f"{Path(command[0]).name} ended without an answer")

        try:
            client = {"name": "real-world", "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": client}
            say(id=1, method="initialize", params=params)
            answer(1)
            say(method="notifications/initialized")
            time.sleep(0.7)  # some add tools when they have heard what the client can do
            say(id=2, method="tools/list", params={})
            found: list[dict[str, Any]] = answer(2)["tools"]
            return found
        finally:
            timer.cancel()
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def url_tools(url: str, transport: str = "http") -> list[dict[str, Any]]:
    """The tools at an address, as the official SDK reads them."""

    async def ask() -> list[dict[str, Any]]:
        with anyio.fail_after(_START_SECONDS):
            async with Client(sse_client(url) if transport == "sse" else url, mode="legacy") as client:
                listed = await client.list_tools()
                return [tool.model_dump(mode="json", by_alias=True) for tool in listed.tools]

    return anyio.run(ask)


@contextmanager
def running(command: list[str], env: dict[str, str], port: int) -> Iterator[None]:
    """A server that listens on `port`."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
    )
    try:
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("localhost", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise EOFError(f"{Path(command[0]).name} does not listen") from None
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def listening(words: list[str], env: dict[str, str] | None = None) -> Iterator[str]:
    """Penstock on a port of its own; its address."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*PENSTOCK, "--listen", "0", *words], stdin=subprocess.DEVNULL, stderr=errors, env=env
        )
        try:
            until = time.monotonic() + _START_SECONDS
            while True:
                errors.seek(0)
                said = errors.read()
                found = re.search(rb"Listening on (http://\S+)", said)
                if found is not None:
                    yield found[1].decode()
                    return
                if process.poll() is not None or time.monotonic() > until:
                    raise EOFError(said.decode("utf-8", "replace").strip().splitlines()[-1])
                time.sleep(0.1)
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def try_server(server: Server, is_installing: bool = True) -> Outcome:
    """Asks it directly, through Penstock, and through a listening Penstock with its first tool denied."""
    why = install(server.registry, server.package) if is_installing else None
    version = maybe_version(server.registry, server.package)
    if why is not None or version is None:
        return Outcome(server.label, "", "not installed here", why or "", "", True)
    return compare(server, version)


def compare(server: Server, version: str) -> Outcome:
    """What a server shows with and without Penstock."""
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["git", "init", "-q", work], check=False)
        try:
            direct, through, words = _both(server, work)
        except (EOFError, OSError, KeyError, TimeoutError, BaseExceptionGroup) as error:
            return Outcome(server.label, version, "does not start here", _short(error), "", True)
        if direct is None:
            return Outcome(server.label, version, "none", "", "", True)
        return _judged(server, version, direct, through, words)


def _both(
    server: Server, work: str
) -> tuple[list[dict[str, Any]] | None, list[dict[str, Any]] | str, tuple[list[str], str]]:
    port = _free_port()
    command, env = server.command(work, port), server.environment(port)
    if server.transport == "stdio":
        direct = stdio_tools(command, env)
        if not direct:
            return None, "", ([], "")
        first = str(direct[0]["name"])
        through = _or_why(lambda: stdio_tools([*PENSTOCK, "--stdio", "--", *command], env))
        return direct, through, _denied(first, ["--", *command], env)
    url = f"http://localhost:{port}{server.path}"
    with running(command, env, port):
        direct = url_tools(url, server.transport)
        if not direct:
            return None, "", ([], "")
        first = str(direct[0]["name"])

        def listed() -> list[dict[str, Any]]:
            with listening(["--upstream", url]) as ours:
                return url_tools(ours)

        return direct, _or_why(listed), _denied(first, ["--upstream", url], None)


def _denied(first: str, words: list[str], env: dict[str, str] | None) -> tuple[list[str], str]:
    """The names that are left over HTTP when the first is denied, or why there are none."""
    try:
        with listening(["--deny", f"^{re.escape(first)}$", *words], env) as ours:
            return [str(tool["name"]) for tool in url_tools(ours)], ""
    except (EOFError, OSError, TimeoutError, BaseExceptionGroup) as error:
        return [], _short(error)


def _or_why(ask: Any) -> list[dict[str, Any]] | str:
    try:
        found: list[dict[str, Any]] = ask()
    except (EOFError, OSError, KeyError, TimeoutError, BaseExceptionGroup) as error:
        return _short(error)
    return found


def _judged(
    server: Server,
    version: str,
    direct: list[dict[str, Any]],
    through: list[dict[str, Any]] | str,
    left: tuple[list[str], str],
) -> Outcome:
    is_same = through == direct
    same = "same" if is_same else through if isinstance(through, str) else "DIFFERENT"
    kept, why = left
    first = str(direct[0]["name"])
    missing = [str(tool["name"]) for tool in direct[1:] if tool["name"] not in kept]
    is_hidden = not why and first not in kept and not missing
    words = f"{first} is gone, {len(kept)} left" if is_hidden else why or f"missing: {', '.join(missing)}"
    return Outcome(server.label, version, str(len(direct)), same, words, is_same and is_hidden)


def _short(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".splitlines()[0][:120]
