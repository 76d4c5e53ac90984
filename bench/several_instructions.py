"""What several upstreams and known callers cost in instructions, which a busy machine does not change.

    python -m bench.several_instructions

Everything runs under callgrind, once with few exchanges and once with more, as in `bench.instructions`; the
difference is what one exchange costs. Code 1 where a bar is missed, 3 without valgrind. About ten minutes.
"""

from __future__ import annotations

import compileall
import hashlib
import json
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.handshake import await_port, open_sse_session
from bench.instructions import (
    INITIALIZE,
    INITIALIZED,
    NO_VALGRIND,
    START_SECONDS,
    Way,
    build,
    call,
    count,
    exchanged,
    listing,
    penstock,
)
from bench.lines import SseLine
from bench.several_cost import UPSTREAM, config
from bench.targets import ROOT, free_port, upstream_command

TOKEN = "bench-token"  # not a secret: it opens this benchmark
# A file is looked at every second, and callers every five. On a busy machine as many exchanges take longer,
# and more of that would be counted with them.
UNWATCHED = (
    "-c",
    "import runpy; from penstock import limits\n"
    "limits.CONFIG_LOOK_SECONDS = limits.LAPSE_LOOK_SECONDS = 3600.0\n"
    "runpy.run_module('penstock', run_name='__main__', alter_sys=True)\n",
)
BARS = {
    "5 x 20 over one upstream, call": 1.25,
    "5 x 20 over one upstream, call over SSE": 1.25,
    "5 x 20 over one with 100 tools, list": 1.05,
    "50 x 200 over 5 x 20, call": 1.02,
    "5 x 20 and a hung one over 5 x 20, call": 1.05,
    "a static token over none, call": 1.03,
}


def over_stdio(members: int, tools: int, listed: bool = False, hung: bool = False) -> Way:
    """Calls or lists over stdio, with so many upstreams and perhaps one that never answers."""

    def run(exchanges: int, counted: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = config(Path(folder), "several", members, tools, hung, "60s" if hung else "10m")
            with penstock(["--stdio", "--config", file], counted, UNWATCHED) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                asked = [INITIALIZE, listing(-1), *(ask(number) for number in range(exchanges))]
                for number, message in enumerate(asked):
                    process.stdin.write(message + b"\n")
                    answer = _answer(process.stdout)
                    assert b'"result"' in answer[:200], answer[:200]
                    if not number:
                        process.stdin.write(INITIALIZED + b"\n")
                process.stdin.close()
                process.wait(START_SECONDS)

    ask = listing if listed else call
    return Way(run, 100, 300) if listed else Way(run)


def over_sse(members: int, tools: int) -> Way:
    """Calls over legacy SSE, with so many upstreams on stdio."""

    def run(exchanges: int, counted: Path) -> None:
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            file = config(Path(folder), "several", members, tools, wait="10m")
            with penstock(["--listen", f"127.0.0.1:{port}", "--config", file], counted, UNWATCHED):
                await_port(port, None, START_SECONDS)
                line = open_sse_session(port, "/sse", START_SECONDS)
                _ask(line, 1, listing(-99_999))
                for number in range(exchanges):
                    _ask(line, 100_000 + number, call(number))
                line.close()

    return Way(run)


def _ask(line: SseLine, number: int, message: bytes) -> None:
    """One request and its answer, with the receipt for it."""
    line.ask([(number, message)])
    answers = line.read()
    while not answers:
        select.select(line.fds, [], [], START_SECONDS)
        answers = line.read()
    assert b'"result"' in answers[0][1][:200], answers[0][1][:200]


def _answer(lines: Any) -> bytes:
    """The next response; notices of a late upstream are none."""
    while True:
        line: bytes = lines.readline()
        assert line, "Penstock has ended"
        if b'"id":' in line[:60]:
            return line


def over_http(token: str | None) -> Way:
    """Calls over HTTP to an upstream on HTTP, by a caller with a token or by anybody."""

    def run(exchanges: int, counted: Path) -> None:
        upstream = subprocess.Popen(upstream_command("http"), stdout=subprocess.PIPE)
        try:
            assert upstream.stdout is not None
            # On both sides alike no header of a client goes up: only who may come in differs.
            up = {"url": f"http://127.0.0.1:{int(upstream.stdout.readline())}/mcp", "auth": "strip"}
            whole: dict[str, Any] = {"upstream": up}
            if token is not None:
                digest = hashlib.sha256(token.encode()).hexdigest()
                whole["auth"] = {"tokens": [{"id": "bench", "sha256": digest}]}
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "callers.json")
                file.write_text(json.dumps(whole))
                more = b"" if token is None else b"Authorization: Bearer %b\r\n" % token.encode()
                asked = [call(number) for number in range(exchanges)]
                exchanged(["--config", str(file)], counted, asked, more, UNWATCHED)
        finally:
            upstream.kill()
            upstream.wait()

    return Way(run)


def main() -> int:
    if shutil.which("valgrind") is None:
        print("Instructions are not counted: valgrind is not here.", file=sys.stderr)
        return NO_VALGRIND
    compileall.compile_dir(str(ROOT / "src"), quiet=1)  # else the first run pays for all others
    ways = {
        "one upstream, call": over_stdio(1, 20),
        "5 x 20, call": over_stdio(5, 20),
        "50 x 200, call": over_stdio(50, 200),
        "5 x 20 and a hung one, call": over_stdio(5, 20, hung=True),
        "one upstream, call over SSE": over_sse(1, 20),
        "5 x 20, call over SSE": over_sse(5, 20),
        "one with 100 tools, list": over_stdio(1, 100, listed=True),
        "5 x 20, list": over_stdio(5, 20, listed=True),
        "no token, call": over_http(None),
        "a static token, call": over_http(TOKEN),
    }
    print(f"Instructions for one exchange, {build()}, upstreams as {UPSTREAM[-2]}:", flush=True)
    found = {}
    for name, way in ways.items():
        found[name] = count(way)
        print(f"  {name}: {found[name]:,}", flush=True)
    ratios = {
        "5 x 20 over one upstream, call": found["5 x 20, call"] / found["one upstream, call"],
        "5 x 20 over one upstream, call over SSE": (
            found["5 x 20, call over SSE"] / found["one upstream, call over SSE"]
        ),
        "5 x 20 over one with 100 tools, list": found["5 x 20, list"] / found["one with 100 tools, list"],
        "50 x 200 over 5 x 20, call": found["50 x 200, call"] / found["5 x 20, call"],
        "5 x 20 and a hung one over 5 x 20, call": (
            found["5 x 20 and a hung one, call"] / found["5 x 20, call"]
        ),
        "a static token over none, call": found["a static token, call"] / found["no token, call"],
    }
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.3f}, bar {BARS[name]:.2f}{'' if ratio <= BARS[name] else '  MISSED'}")
    return int(any(ratio > BARS[name] for name, ratio in ratios.items()))


if __name__ == "__main__":
    sys.exit(main())
