"""A client on raw bytes in front of a real Penstock process and a real scripted upstream."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCRIPTED = ROOT / "tests" / "upstreams" / "scripted.py"
SAMPLE = ROOT / "examples" / "sample_server.py"
DEADLINE = 20.0
"""Seconds until a test gives up waiting. Far more than anything needs on a busy machine."""

META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},'
    b'"io.modelcontextprotocol/clientCapabilities":{}}'
)


class Gate:
    """One run of Penstock (or, with `direct`, of the bare upstream) and everything that was said."""

    def __init__(
        self,
        work: Path,
        *options: str,
        upstream: list[str] | None = None,
        command: list[str] | None = None,
        direct: bool = False,
        env: dict[str, str] | None = None,
        stdin: Any = subprocess.PIPE,
        stderr: Any = None,
        pages: list[bytes] | None = None,
        cwd: Path | None = None,
    ) -> None:
        number = len(list(work.glob("record*")))
        self.record = work / f"record{number}"
        self.record.touch()
        self.errors = work / f"stderr{number}"
        self.errors.touch()
        if pages is not None:
            (work / f"pages{number}").write_bytes(b"".join(page + b"\n" for page in pages))
            upstream = [*(upstream or []), "--pages", str(work / f"pages{number}")]
        if command is None:
            command = [sys.executable, "-S", str(SCRIPTED), "--record", str(self.record), *(upstream or [])]
        words = command if direct else [sys.executable, "-m", "penstock", *options, "--", *command]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors if stderr is None else stderr,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                bufsize=0,
            )
        assert self.process.stdout is not None
        self._out = self.process.stdout.fileno()
        self._in = self.process.stdin.fileno() if self.process.stdin is not None else None
        if self._in is not None:
            os.set_blocking(self._in, False)
        self._pending = bytearray()
        self._lines: deque[bytes] = deque()
        self._is_over = False
        self._next_id = 1000
        self.unasked: list[bytes] = []
        self.heard: list[bytes] = []

    # --- talking ---------------------------------------------------------------------------------------

    def send(self, data: bytes, within: float = DEADLINE) -> None:
        """Writes exactly `data`, reading meanwhile so that nobody waits for anybody."""
        assert self._in is not None
        end = time.monotonic() + within
        view = memoryview(data)
        while view:
            readable, writable, _ = select.select(
                [] if self._is_over else [self._out], [self._in], [], max(0.0, end - time.monotonic())
            )
            if readable:
                self._read()
            if writable:
                view = view[os.write(self._in, view[:65536]) :]
            if not readable and not writable:
                raise AssertionError(f"{len(view)} bytes were not taken within {within} s. {self.state()}")

    def say(self, raw: bytes) -> None:
        """Writes `raw` as one line."""
        self.send(raw + b"\n")

    def line(self, within: float = DEADLINE) -> bytes:
        """The next line that Penstock wrote, without its end."""
        found = self.maybe_line(within)
        if found is None:
            raise AssertionError(f"nothing came within {within} s. {self.state()}")
        return found

    def maybe_line(self, within: float = DEADLINE) -> bytes | None:
        """The next line, or None at the end of the stream or of patience."""
        end = time.monotonic() + within
        while not self._lines:
            if self._is_over or not select.select([self._out], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            self._read()
        line = self._lines.popleft()
        self.heard.append(line)
        return line

    def rest(self, within: float = DEADLINE) -> list[bytes]:
        """Everything until the end of the stream."""
        lines = []
        while (line := self.maybe_line(within)) is not None:
            lines.append(line)
        assert self._is_over, f"the stream goes on. {self.state()}"
        return lines

    def answer(self, id_token: bytes, within: float = DEADLINE) -> bytes:
        """The answer to the request with this id; what comes before it goes to `unasked`."""
        end = time.monotonic() + within
        while True:
            line = self.line(max(0.0, end - time.monotonic()))
            if is_answer_to(line, id_token):
                return line
            self.unasked.append(line)

    def ask(self, method: str, params: bytes | None = None, within: float = DEADLINE) -> Any:
        """Sends a request with an id of its own; the decoded answer."""
        self._next_id += 1
        token = b"%d" % self._next_id
        self.say(request(token, method, params))
        return json.loads(self.answer(token, within))

    def order(self, what: str, within: float = DEADLINE, **params: object) -> Any:
        """Gives the scripted upstream an order; its decoded answer."""
        return self.ask(f"x/{what}", json.dumps(params).encode(), within)

    def handshake(self, version: str = "2025-11-25", then: tuple[bytes, ...] = ()) -> Any:
        """The legacy handshake; the decoded answer to initialize. `then` comes in one write with its end."""
        answer = self.ask(
            "initialize",
            b'{"protocolVersion":"%b","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}'
            % version.encode(),
        )
        self.say(b"\n".join((b'{"jsonrpc":"2.0","method":"notifications/initialized"}', *then)))
        return answer

    def is_alive(self) -> bool:
        """Whether an allowed call still comes through. Everything said before it has been heard by then."""
        self._next_id += 1
        mark = b"alive-%d" % self._next_id
        token = b'"%b"' % mark
        self.say(request(token, "tools/call", b'{"name":"echo","arguments":{"mark":"%b"}}' % mark))
        reply = self.answer(token)
        return b'"called" : "echo"' in reply and any(mark in line for line in self.reached())

    def reached(self) -> list[bytes]:
        """The lines that reached the upstream, byte for byte."""
        return self.record.read_bytes().split(b"\n")[:-1]

    def _read(self) -> None:
        data = os.read(self._out, 1 << 20)
        if not data:
            self._is_over = True
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._lines.append(bytes(self._pending) + line)
            self._pending.clear()
        self._pending += rest

    # --- ending ----------------------------------------------------------------------------------------

    def close_input(self) -> None:
        """The client has nothing more to say."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
            self._in = None

    def end(self, within: float = DEADLINE) -> int:
        """Closes stdin, reads to the end, gives the exit code."""
        self.close_input()
        self.rest(within)
        return self.process.wait(within)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def stderr(self) -> str:
        return self.errors.read_text("utf-8", "replace")

    def state(self) -> str:
        return f"exit code {self.process.poll()}; stderr: {self.stderr[-2000:]}"

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if kind is None:
            assert "Traceback" not in self.stderr, self.stderr


def request(token: bytes, method: str, params: bytes | None = None) -> bytes:
    """A request as most clients write it."""
    tail = b"" if params is None else b',"params":' + params
    return b'{"jsonrpc":"2.0","id":%b,"method":%b%b}' % (token, json.dumps(method).encode(), tail)


def call(name: str, token: bytes = b"1") -> bytes:
    """A plain tools/call."""
    return request(token, "tools/call", b'{"name":%b,"arguments":{}}' % json.dumps(name).encode())


def is_answer_to(line: bytes, id_token: bytes) -> bool:
    """Whether `line` is a response with exactly this id, as written."""
    try:
        message = json.loads(line, parse_int=str, parse_float=str, object_pairs_hook=_pairs)
    except RecursionError:
        # What a hostile upstream says where no proxy stands before it; its head is enough.
        return b'"id":%b,' % id_token in line[:200]
    wanted = json.loads(id_token, parse_int=str, parse_float=str)
    return (
        isinstance(message, dict)
        and "method" not in message
        and message.get("id") == wanted
        and type(message.get("id")) is type(wanted)
        and (id_token[:1] == b'"') == (b'"id":"' in line or b'"id": "' in line)
    )


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)


def children_of(pid: int) -> list[int]:
    """The processes that `pid` started and that still live."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_running(pid: int) -> bool:
    """Whether a process lives (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(holds: Any, within: float = DEADLINE) -> bool:
    """Waits for something to become true; whether it did."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def peak_memory(pid: int) -> int:
    """The most memory, in bytes, that a process ever had resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
