"""A machine that has run out: of descriptors, of processes, of disk, of anybody who reads stderr.

New sessions are refused, old ones live, nothing spins; and what cannot be written costs nothing but itself.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from doors import INITIALIZED, Client, StdioDoor
from gate import children_of, cpu_seconds, is_running, request, wait_until
from pairs import DENY, Proxy, Upstream
from trials.faults.kills import PENSTOCK, _family, _kill, _quietly_close, _tracebacks
from trials.table import Row, Table

PATIENCE = 20.0
FILES = 64
PROCESSES = 4
NOBODY = "64321"  # a user of our own: the limit on processes does not hold for root


def try_shortages(table: Table, work: Path) -> None:
    """Every shortage that can be made here."""
    for client, upstream in (
        ("streamable", "stdio"),
        ("sse", "stdio"),
        ("streamable", "streamable"),
        ("sse", "sse"),
    ):
        _row(
            table,
            "RLIMIT_NOFILE",
            "proxy",
            f"{client} -> {upstream}",
            lambda c=client, u=upstream: _files(work, c, u),
        )
    for client in ("streamable", "sse"):
        _row(table, "RLIMIT_NPROC", "proxy", f"{client} -> stdio", lambda c=client: _processes(work, c))
    for what in ("/dev/full", "closed", "a pipe nobody reads"):
        for way in ("stdio", "streamable"):
            _row(
                table,
                f"stderr is {what}",
                "proxy",
                f"{way} -> stdio",
                lambda w=what, c=way: _stderr(work, w, c),
            )
    _row(table, "stdout is /dev/full", "client-proxy", "stdio -> stdio", lambda: _stdout(work))
    for what in ("emptied", "cut short"):
        _row(
            table,
            f"disk full, rules {what}",
            "config file",
            "streamable -> stdio",
            lambda w=what: _disk(work, w),
        )
    _row(table, "stderr full and SIGTERM", "proxy", "streamable -> stdio", lambda: _second_fault(work))


def _row(
    table: Table, fault: str, where: str, transport: str, trial: Callable[[], tuple[list[str], str]]
) -> None:
    began = time.monotonic()
    try:
        wrong, how = trial()
    except (AssertionError, OSError, subprocess.TimeoutExpired) as why:
        wrong, how = [f"{type(why).__name__}: {why}"[:300]], ""
    table.add(Row(fault, where, transport, "; ".join(wrong) or how, not wrong, time.monotonic() - began))


# --- descriptors and processes ----------------------------------------------------------------------------


def _files(work: Path, client: str, upstream: str) -> tuple[list[str], str]:
    with Upstream(upstream, work) as there, contextlib.ExitStack() as stack:
        proxy = _StartedBy(work, ["prlimit", f"--nofile={FILES}"], there.words())
        stack.callback(_kill, proxy.process)
        old = _KeptClient(proxy.port)
        stack.callback(old.close)
        assert old.is_served(), "it is not even served alone"
        doors, refused = _crowd(proxy, client, 60, stack)
        wrong = [] if refused else ["nobody was refused"]
        wrong += _is_calm(proxy.process.pid)
        time.sleep(4.5)  # kept connections to the upstream have been closed by now, and new ones are needed
        wrong += [] if old.is_served() else ["the old session is not served"]
        wrong += _recovers(proxy, client, doors)
        how = f"{len(doors)} more taken, {refused} refused, the old one lives"
        return wrong + _tracebacks(proxy.stderr), how


class _KeptClient:
    """A session of Streamable HTTP on one connection, as most clients have it."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        answer = self._post(request(b"1", "initialize", _HELLO))
        self._headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        self._post(INITIALIZED)

    def is_served(self) -> bool:
        raw = request(b"2", "tools/call", b'{"name":"echo","arguments":{}}')
        try:
            return b'"called" : "echo"' in self._post(raw).text  # type: ignore[attr-defined]
        except (OSError, http.client.HTTPException):
            return False

    def _post(self, raw: bytes) -> http.client.HTTPResponse:
        self._connection.request("POST", "/mcp", raw, self._headers)
        response = self._connection.getresponse()
        response.text = response.read()  # type: ignore[attr-defined]
        return response

    def close(self) -> None:
        self._connection.close()


def _processes(work: Path, client: str) -> tuple[list[str], str]:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return [], "skipped: needs root and setpriv"
    caps = "+dac_override,+dac_read_search"
    drop = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    drop += ["--inh-caps", caps, "--ambient-caps", caps]
    # Itself, the shell that guards its children, and those.
    drop += ["prlimit", f"--nproc={2 + PROCESSES}"]
    with Upstream("stdio", work) as there, contextlib.ExitStack() as stack:
        proxy = _StartedBy(work, drop, there.words())
        stack.callback(_kill, proxy.process)
        pid = proxy.process.pid
        old = proxy.connect(client, "legacy")
        old.begin()
        stack.callback(_quietly_close, old)
        doors, refused = _crowd(proxy, client, 12, stack)
        wrong = [] if refused else ["nobody was refused"]
        wrong += _is_calm(pid)
        wrong += [] if _is_served(old) else ["the old session is not served"]
        wrong += _recovers(proxy, client, doors)
        if any(is_running(one) and one not in _family(pid) for one in children_of(pid)):
            wrong.append("a child was lost")
        return wrong + _tracebacks(
            proxy.stderr
        ), f"{len(doors)} more taken, {refused} refused, the old one lives"


class _StartedBy(Proxy):
    """A listening Penstock that another command starts."""

    def __init__(self, work: Path, starter: list[str], words: list[str]) -> None:
        self.errors = work / f"started-{time.monotonic_ns()}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*starter, *PENSTOCK, "--listen", "0", "--deny", DENY, *words],
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )
        from pairs import said

        self.port = int(said(self.errors, rb"Listening on http://\S+:(\d+)/mcp", self.process))


def _crowd(proxy: Proxy, client: str, count: int, stack: contextlib.ExitStack) -> tuple[list[Client], int]:
    """So many clients at once; those that got in, and how many did not."""
    doors: list[Client] = []
    refused = 0
    for _ in range(count):
        try:
            door = proxy.connect(client, "legacy")
            stack.callback(_quietly_close, door)
        except (AssertionError, OSError, IndexError):
            refused += 1
            continue
        try:
            answer = _begin(door)
        except (AssertionError, OSError):
            answer = None
        if answer is not None and "result" in answer:
            doors.append(door)
        else:
            refused += 1
            _quietly_close(door)
    return doors, refused


_HELLO = b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}'


def _begin(door: Client) -> dict[str, object] | None:
    """The handshake with little patience; None when it was refused."""
    door.request(b"1", "initialize", _HELLO)
    if door.kind == "sse" and door.last.status != 202:  # type: ignore[attr-defined]
        return None
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        for heard in door.heard:
            if b'"id":1,' in heard.raw:
                if door.kind == "streamable":
                    door.session = door.posts[b"1"].headers.get("mcp-session-id")  # type: ignore[attr-defined]
                    door.version = "2025-11-25"  # type: ignore[attr-defined]
                return {"result": {}} if b'"result"' in heard.raw else None
        if not [source for source in door.sources if not source.is_over]:
            return None
        door.pump(0.1)
    return None


def _is_served(door: Client) -> bool:
    for _ in range(5):  # a connection of its own may have to wait for room
        try:
            if door.call("echo", within=3.0).get("result"):
                return True
        except (AssertionError, OSError):
            time.sleep(0.3)
    return False


def _is_calm(pid: int) -> list[str]:
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(1.0)
    share = (cpu_seconds(pid) - before) / (time.monotonic() - began)
    return [] if share < 0.25 else [f"it spins: {share:.0%} of a processor"]


def _recovers(proxy: Proxy, client: str, doors: list[Client]) -> list[str]:
    """Whether a newcomer is served once the crowd has left."""
    for door in doors:
        with contextlib.suppress(AssertionError, OSError):
            if client == "streamable" and getattr(door, "session", None):
                door.whole("DELETE", "/mcp", door.headers())  # type: ignore[attr-defined]
        _quietly_close(door)

    def is_served() -> bool:
        try:
            door = proxy.connect(client, "legacy")
        except (AssertionError, OSError, IndexError):
            return False
        try:
            return _begin(door) is not None
        except (AssertionError, OSError):
            return False
        finally:
            _quietly_close(door)

    end = time.monotonic() + 15.0
    while not is_served():
        if time.monotonic() > end:
            return ["a newcomer is not served afterwards"]
        time.sleep(0.3)
    code = proxy.end()
    return [] if code == 0 else [f"exit code {code}"]


# --- nobody to write to -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _bad_stderr(what: str) -> Iterator[tuple[list[str], int | None]]:
    """A prefix for a command and a descriptor, which together are a stderr of that kind."""
    if what == "/dev/full":
        with open("/dev/full", "wb") as full:
            yield [], full.fileno()
    elif what == "closed":
        yield ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh"], None
    else:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        yield [], writing
        os.close(writing)
        os.close(reading)


def _stderr(work: Path, what: str, client: str) -> tuple[list[str], str]:
    with Upstream("stdio", work) as there, _bad_stderr(what) as (prefix, descriptor):
        if client == "stdio":
            words = [*prefix, *PENSTOCK, "--stdio", "--deny", DENY, *there.words()]
            door: Client = StdioDoor(words, "legacy", descriptor)
            process = door.process  # type: ignore[attr-defined]
        else:
            port = _free_port()
            words = [*prefix, *PENSTOCK, "--listen", str(port), "--deny", DENY, *there.words()]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=descriptor)
            door = _once_listening(port, process)
        try:
            door.begin()
            wrong = []
            for _ in range(20):
                # Each of these is a line for stderr.
                door.say(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}')
            wrong += [] if door.is_alive() else ["it is not served"]
            if client == "stdio":
                process.stdin.close()  # type: ignore[union-attr]
            else:
                process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE)
            return wrong + ([] if code == 0 else [f"exit code {code}"]), "served as ever, exit 0"
        finally:
            _kill(process)
            _quietly_close(door)


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _once_listening(port: int, process: subprocess.Popen[bytes]) -> Client:
    from doors import LegacyDoor

    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        door = LegacyDoor(port, "legacy")
        try:
            if door.whole("GET", "/healthz").status == 200:
                return door
        except (OSError, AssertionError):
            time.sleep(0.05)
    raise AssertionError("it does not listen")


def _stdout(work: Path) -> tuple[list[str], str]:
    """What cannot be written to the client is the end of the client."""
    with Upstream("stdio", work) as there, open("/dev/full", "wb") as full:
        errors = work / "stdout-errors"
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [*PENSTOCK, "--stdio", "--deny", DENY, *there.words()],
                stdin=subprocess.PIPE,
                stdout=full,
                stderr=file,
            )
        assert process.stdin is not None
        process.stdin.write(request(b"1", "ping") + b"\n")
        process.stdin.flush()
        code = process.wait(PATIENCE)
        process.stdin.close()
        return _tracebacks(errors.read_text()) + (
            [] if code == 0 else [f"exit code {code}"]
        ), "as if it had left, exit 0"


RULES = """
upstream: {command: %s}
interceptor:
  enabled: true
  rules:
    - id: no-echo
      name: no echo
      priority: 1
      conditions: [{method_equals: tools/call}]
      actions: [{block: not today}]
"""


def _disk(work: Path, what: str) -> tuple[list[str], str]:
    place = work / f"full-{what.replace(' ', '-')}"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        return [], "skipped: a small disk cannot be made here"
    try:
        import json

        with Upstream("stdio", work) as there:
            file = place / "rules.yaml"
            text = RULES % json.dumps(there.command)
            file.write_text(text)
            (place / "filler").write_bytes(b"x" * 4096)
            with contextlib.suppress(OSError), (place / "filler").open("ab") as filler:
                while True:
                    filler.write(b"x" * 4096)
                    filler.flush()
            with Proxy(work, ["--config", str(file)]) as proxy:
                door = proxy.connect("streamable", "legacy")
                door.begin()
                before = door.call("echo")
                # What an editor leaves behind that opens the file anew and finds the disk full.
                with file.open("w") as again:
                    again.write("" if what == "emptied" else text[: len(text) * 2 // 3])
                time.sleep(2.5)
                proxy.process.send_signal(signal.SIGHUP)
                time.sleep(0.5)
                after = door.call("echo")
                door.close()
                wrong = [] if "error" in before else ["the rule did not hold"]
                wrong += [] if after.get("error") == before.get("error") else ["the rule is gone"]
                return wrong, "the old rules stay in force"
    finally:
        subprocess.run(["umount", str(place)], check=False)


def _second_fault(work: Path) -> tuple[list[str], str]:
    with Upstream("stdio", work) as there, open("/dev/full", "wb") as full:
        port = _free_port()
        words = [*PENSTOCK, "--listen", str(port), "--deny", DENY, *there.words()]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=full)
        door = _once_listening(port, process)
        try:
            door.begin()
            door.begin_order("hold", b"9", mark="m")
            assert wait_until(lambda: any(b"x/hold" in line for line in there.reached()), PATIENCE)
            family = _family(process.pid)[1:]
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            for pid in family:
                os.kill(pid, signal.SIGKILL)  # the upstream, and the shell that guards it
            code = process.wait(PATIENCE)
            took = time.monotonic() - began
            wrong = [] if code == 0 else [f"exit code {code}"]
            wrong += [] if took < 10 else [f"it took {took:.0f} s"]
            return wrong, "still in time, exit 0"
        finally:
            _kill(process)
            _quietly_close(door)


if __name__ == "__main__":
    sys.exit("python -m trials.faults shortages")
