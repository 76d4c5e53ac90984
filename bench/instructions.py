"""How many instructions one exchange costs: a measure that does not depend on how busy the machine is.

    python -m bench.instructions            compares with bench/instructions.json, fails above 10 % more
    python -m bench.instructions --write    takes what is measured as the new base

The whole of Penstock runs under callgrind, once with few exchanges and once with more; the difference is what
the exchanges cost, start and end left out. A base holds for one build of Python, so each has its own.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.messages import DENY
from bench.targets import ROOT, upstream_command

BASE = Path(__file__).with_name("instructions.json")
FEW, MANY = 100, 600
GROWTH = 1.10
START_SECONDS = 120
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
NO_VALGRIND = 3


def call(number: int) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"short","arguments":{"path":"a/b"}}}'
        % (100_000 + number)
    )


def records(number: int) -> bytes:
    """A call whose answer is 100 kB of structuredContent."""
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sized","arguments":{"bytes":100000,'
        b'"kind":"structured"}}}' % (100_000 + number)
    )


def stream(number: int) -> bytes:
    """A call with ten progress notifications before its answer, all of them events."""
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"stream","arguments":{},'
        b'"_meta":{"progressToken":%d}}}' % (100_000 + number, number)
    )


def listing(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}' % (100_000 + number)


PROGRAM = ("-m", "penstock")


@contextmanager
def penstock(
    arguments: list[str], counted: Path, program: tuple[str, ...] = PROGRAM
) -> Iterator[subprocess.Popen[bytes]]:
    """Penstock under callgrind, which leaves what it counted in `counted`."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={counted}"]
    command += [sys.executable, *program, "--deny", DENY, *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        # On one core Penstock does not look twice before it sleeps: how often it does is a matter of time.
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def over_stdio(
    ask: Callable[[int], bytes],
    count: int,
    counted: Path,
    *words: str,
    after: Callable[[int], None] = lambda pid: None,
) -> None:
    """`count` exchanges, one after another, from a client on stdio to a command; `after` is called with the
    process before it is asked to end."""
    with penstock([*words, "--", *upstream_command("stdio")], counted) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE + b"\n")
        assert process.stdout.readline()
        process.stdin.write(INITIALIZED + b"\n")
        for number in range(count):
            process.stdin.write(ask(number) + b"\n")
            answer = process.stdout.readline()
            assert b'"result"' in answer[:200], answer
        after(process.pid)
        process.stdin.close()
        process.wait(START_SECONDS)


def over_http(ask: Callable[[int], bytes], count: int, counted: Path) -> None:
    """The same over HTTP, to an upstream on HTTP."""
    upstream = subprocess.Popen(upstream_command("http"), stdout=subprocess.PIPE)
    try:
        assert upstream.stdout is not None
        url = f"http://127.0.0.1:{int(upstream.stdout.readline())}/mcp"
        exchanged(["--upstream", url], counted, [ask(number) for number in range(count)])
    finally:
        upstream.kill()
        upstream.wait()


def over_http_to_stdio(ask: Callable[[int], bytes], count: int, counted: Path) -> None:
    """The same from a legacy client over HTTP to a command."""
    exchanged(["--", *upstream_command("stdio")], counted, [ask(number) for number in range(count)])


def exchanged(
    arguments: list[str],
    counted: Path,
    messages: list[bytes],
    more: bytes = b"",
    program: tuple[str, ...] = PROGRAM,
) -> None:
    """These messages, one after another, from a client of a listener; `more` are header lines of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with penstock(["--listen", f"127.0.0.1:{port}", *arguments], counted, program):
        client = _connected(port)
        head, _ = _post(client, INITIALIZE, more)
        found = re.search(rb"(?i)mcp-session-id: *(\S+)", head)
        session = b"Mcp-Session-Id: %b\r\n" % found[1] if found else b""
        _post(client, INITIALIZED, session + more)
        for message in messages:
            _, body = _post(client, message, session + more)
            assert b'"result":' in body, body[:200]
        client.close()


def _connected(port: int) -> socket.socket:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _post(client: socket.socket, body: bytes, session: bytes) -> tuple[bytes, bytes]:
    client.sendall(
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\n%bContent-Length: %d\r\n\r\n%b"
        % (session, len(body), body)
    )
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(client)
    head, _, rest = data.partition(b"\r\n\r\n")
    if b"chunked" in head:
        while not rest.endswith(b"0\r\n\r\n"):
            rest += _more(client)
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    while length is not None and len(rest) < int(length[1]):
        rest += _more(client)
    return head, rest


def _more(client: socket.socket) -> bytes:
    data = client.recv(1 << 20)
    if not data:
        raise ConnectionError("Penstock has closed the connection")
    return data


RULE = """
interceptor:
  rules:
    - id: no-secrets
      conditions: [{param_matches: {field: arguments.path, pattern: "^/etc/"}}]
      actions: [{block: Not there}]
"""


def ruled(count: int, counted: Path) -> None:
    """Calls that one rule looks into and lets pass."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rules.yaml")
        file.write_text(RULE)
        over_stdio(call, count, counted, "--config", str(file))


class Way(NamedTuple):
    """What is counted, and with how few and how many exchanges: more where one is small."""

    run: Callable[[int, Path], None]
    few: int = FEW
    many: int = MANY


WAYS = {
    "allowed call, stdio to stdio": Way(lambda count, counted: over_stdio(call, count, counted)),
    "allowed call, HTTP to HTTP": Way(lambda count, counted: over_http(call, count, counted)),
    "allowed call, HTTP to stdio": Way(lambda count, counted: over_http_to_stdio(call, count, counted)),
    "tools/list, HTTP to HTTP": Way(lambda count, counted: over_http(listing, count, counted)),
    "100 kB of structuredContent, HTTP to HTTP": Way(
        lambda count, counted: over_http(records, count, counted), 20, 70
    ),
    "10 progress events and a result, HTTP to HTTP": Way(
        lambda count, counted: over_http(stream, count, counted), 50, 250
    ),
    "ruled call, stdio to stdio": Way(ruled),
}


def count(way: Way) -> int:
    """Instructions for one exchange."""
    with tempfile.TemporaryDirectory() as folder:
        run, few, many = way
        totals = []
        for exchanges in (few, many):
            counted = Path(folder, str(exchanges))
            run(exchanges, counted)
            found = re.search(r"Collected : (\d+)", counted.read_text())
            if found is None:
                raise SystemExit(f"callgrind counted nothing: {counted.read_text()}")
            totals.append(int(found[1]))
    return (totals[1] - totals[0]) // (many - few)


def build() -> str:
    """Which Python this is, and which msgspec: whatever runs in the hot path and is not ours."""
    is_optimised = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python} {'optimised' if is_optimised else 'plain'}, msgspec {msgspec.__version__}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--write", action="store_true", help="take what is measured as the new base")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("Instructions are not counted: valgrind is not here.", file=sys.stderr)
        return NO_VALGRIND
    compileall.compile_dir(str(ROOT / "src"), quiet=1)  # as pip does when it installs
    bases = json.loads(BASE.read_text()) if BASE.exists() else {}
    base = bases.get(build(), {})
    print(f"Instructions for one exchange, {build()}:")
    measured: dict[str, int] = {}
    has_grown = False
    for way in WAYS:
        measured[way] = found = count(WAYS[way])
        before = base.get(way)
        grown = before is not None and found > before * GROWTH
        has_grown |= grown
        compared = f"{found / before:.3f} x the base of {before:,}" if before else "no base for this build"
        print(f"  {way}: {found:,} ({compared}){'  MORE THAN 10 % ABOVE' if grown else ''}", flush=True)
    if options.write:
        bases[build()] = measured
        BASE.write_text(json.dumps(bases, indent=2) + "\n")
        return 0
    if has_grown:
        print("The hot path has grown. If it must, run python -m bench.instructions --write and say why.")
    return 1 if has_grown else 0


if __name__ == "__main__":
    sys.exit(main())
