"""What several upstreams behind one door cost, beside one upstream alone and beside peers.

    python -m bench.several_cost [--rounds N] [--calls N] [--fastmcp PYTHON] [--mcp-hub PROGRAM]
                                 [--write docs/several.md]

All variants run at the same time and are measured in turn, round after round, so that whatever else the
machine does befalls all of them alike. 5 upstreams with 20 tools each; then the same with one that hangs, and
50 with 200 tools each. Peers that `make bench-peers` has installed are measured beside them: fastmcp's
composite over stdio, mcp-hub over legacy SSE, which is all that it serves, beside Penstock over the same. The
bars are those that the feature was planned with. --write puts the tables into a page of the documentation.

Processor time is measured twice. Where there is a second core, Penstock looks for a moment whether more has
come before it sleeps (`net/poll_loop`), and that time counts as its own, as it does for whoever pays for it.
What the work takes is measured once more with each proxy alone and on one core, where it does not look.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.handshake import await_port, open_sse_session
from bench.lines import connect
from bench.processes import Unfit, cpu_seconds, memory_of, reason
from bench.targets import ROOT, free_port, upstream_command

UPSTREAM = [sys.executable, "-S", "-E", str(ROOT / "bench" / "upstream.py"), "stdio"]
PEERS = ROOT / ".peers" / "bench"
FASTMCP = (
    "import json, sys\n"
    "from fastmcp.server import create_proxy\n"
    "create_proxy(json.load(open(sys.argv[1]))).run(show_banner=False)\n"
)
OPENING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
START_SECONDS = 60.0
MOST_SECONDS = 4.0
"""For one proxy in one round."""

SECTION = "## What it costs"
BEFORE = "## Cookbook"


def spelt(message: dict[str, Any]) -> bytes:
    """A message as SDKs write it, without blanks: other spellings are read at more length everywhere."""
    return json.dumps(message, separators=(",", ":")).encode()


def _to_one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Proxy:
    """One process that is measured, and a client that speaks with it over stdio."""

    def __init__(self, words: list[str], tool: str, tools: int, is_on_one_core: bool = False) -> None:
        self.tool = tool
        self.tools = tools
        self._before = _to_one_core if is_on_one_core else None  # done in the new process
        self._last = 10
        self._begun = time.perf_counter()
        self._process = self._start(words)
        try:
            self._open()
            self._await_tools()
        except BaseException:
            self.end()
            raise
        self.start_seconds = time.perf_counter() - self._begun

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            preexec_fn=self._before,
        )

    def _open(self) -> None:
        assert self._process.stdout is not None
        self._lines = os.fdopen(os.dup(self._process.stdout.fileno()), "rb")
        self.ask("initialize", OPENING)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _await_tools(self) -> None:
        """Waits until all tools are there: some are open for clients before their servers are."""
        while len(self.ask("tools/list", {})["result"]["tools"]) < self.tools:
            if time.perf_counter() - self._begun > START_SECONDS:
                raise Unfit(f"not all tools after {START_SECONDS:.0f} s")
            time.sleep(0.01)

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The decoded answer to a request."""
        self._last += 1
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == self._last:
                assert "result" in answer, answer
                return answer

    def measure(self, method: str, params: dict[str, Any], count: int) -> tuple[float, float]:
        """The median time of one request, and the processor time of each, in microseconds. Whoever is so slow
        that `count` of them would take minutes is asked less often."""
        times: list[float] = []
        before = cpu_seconds(self._process.pid)
        until = time.perf_counter() + MOST_SECONDS
        while len(times) < count and (begun := time.perf_counter()) < until:
            self.ask(method, params)
            times.append(time.perf_counter() - begun)
        spent = cpu_seconds(self._process.pid) - before
        return statistics.median(times) * 1e6, spent / len(times) * 1e6

    def private_mb(self) -> float:
        """Memory that is nobody else's."""
        return memory_of(self._process.pid).private / 1024

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(spelt(message) + b"\n")

    def _read(self) -> bytes:
        line = self._lines.readline()
        assert line, "the proxy has ended"
        return line


class Together(Proxy):
    """Five servers and no proxy, started at once: nobody has all tools before the slowest has answered."""

    def __init__(self, words: list[str], tool: str, tools: int, is_on_one_core: bool = False) -> None:
        begun = time.perf_counter()
        self._before = _to_one_core if is_on_one_core else None
        self._others = [self._start(words) for _ in range(4)]
        asked = [("initialize", OPENING), ("tools/list", {})]
        lines = [
            {"jsonrpc": "2.0", "id": place, "method": method, "params": params}
            for place, (method, params) in enumerate(asked)
        ]
        for other in self._others:
            assert other.stdin is not None
            other.stdin.write(b"".join(spelt(line) + b"\n" for line in lines))
        super().__init__(words, tool, tools, is_on_one_core)
        for other in self._others:
            assert other.stdout is not None
            with os.fdopen(os.dup(other.stdout.fileno()), "rb") as answers:
                for _ in lines:
                    assert answers.readline(), "a server has ended"
        self.start_seconds = time.perf_counter() - begun

    def end(self) -> None:
        super().end()
        for other in self._others:
            other.kill()
            other.wait()


class SseProxy(Proxy):
    """One that is spoken with over legacy SSE, at the path that its words begin with. Where none of the
    others is PORT, it says itself on which port it listens."""

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        self._path, *words = words
        self._home = tempfile.TemporaryDirectory()  # what a program keeps in its user's home stays there
        self._port = free_port()
        says = "PORT" not in words
        process = subprocess.Popen(
            [str(self._port) if word == "PORT" else word for word in words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if says else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._home.name},
            preexec_fn=self._before,
        )
        if says:
            assert process.stdout is not None
            self._port = int(process.stdout.readline())
        return process

    def _open(self) -> None:
        await_port(self._port, None, START_SECONDS)
        while True:
            try:
                self._line = open_sse_session(self._port, self._path, START_SECONDS)
                return
            except Unfit:  # it listens, and serves nobody yet
                if time.perf_counter() - self._begun > START_SECONDS:
                    raise
                time.sleep(0.01)

    def measure(self, method: str, params: dict[str, Any], count: int) -> tuple[float, float]:
        """The same over a new connection for posting: some close one that is idle for a few seconds."""
        line = self._line
        line.up.close()
        line.up = connect(self._port)
        line.fds = [line.down.fileno(), line.up.fileno()]
        return super().measure(method, params, count)

    def _write(self, message: dict[str, Any]) -> None:
        self._line.ask([(message["id"], spelt(message))])

    def _read(self) -> bytes:
        while True:
            if not select.select(self._line.fds, [], [], START_SECONDS)[0]:
                raise Unfit("no answer")
            for _, answer in self._line.read():
                return bytes(answer)

    def end(self) -> None:
        super().end()
        self._home.cleanup()


def config(work: Path, name: str, members: int, tools: int, hung: bool = False, wait: str = "5s") -> str:
    """A file with so many upstreams."""
    servers: dict[str, Any] = {
        f"m{number}": {"command": UPSTREAM[0], "args": [*UPSTREAM[1:], str(tools)]}
        for number in range(members)
    }
    if hung:
        servers["hung"] = {"command": "sleep", "args": ["100000"]}
    path = work / f"{name}.json"
    whole: dict[str, Any] = {"mcpServers": servers}
    if name != "peer":
        whole["lists"] = {"wait": wait}
    path.write_text(json.dumps(whole))
    return str(path)


class Variant(NamedTuple):
    """What is measured: a command, the tool that is called, how many it lists, and going without it."""

    words: list[str]
    tool: str = "short"
    tools: int = 100
    direct: str = "direct"
    kind: type[Proxy] = Proxy


def variants(work: Path, fastmcp: str | None, mcp_hub: str | None) -> dict[str, Variant]:
    """What is measured, by its name."""
    penstock = [sys.executable, "-m", "penstock", "--config"]

    def over_stdio(name: str, members: int, tools: int, hung: bool = False) -> list[str]:
        return [*penstock, config(work, name, members, tools, hung), "--stdio"]

    found = {
        "direct": Variant([*UPSTREAM, "20"], tools=20),
        "five direct": Variant([*UPSTREAM, "20"], tools=20, kind=Together),
        "one upstream": Variant(over_stdio("one", 1, 20), tools=20),
        "one with 100 tools": Variant(over_stdio("hundred", 1, 100)),
        "5 x 20": Variant(over_stdio("five", 5, 20)),
        "5 x 20, renamed": Variant(over_stdio("renamed", 5, 20), "m4__short"),
        "5 x 20 and a hung one": Variant(over_stdio("hung", 5, 20, hung=True)),
        "50 x 200": Variant(over_stdio("fifty", 50, 200), tools=10_000),
    }
    peer = config(work, "peer", 5, 20)
    if fastmcp is not None:
        found["fastmcp 5 x 20"] = Variant([fastmcp, "-c", FASTMCP, peer], "m0_short")
    if mcp_hub is not None:
        direct = ["/sse", *upstream_command("http", 20)]
        found["direct, SSE"] = Variant(direct, tools=20, direct="direct, SSE", kind=SseProxy)
        own = ["/sse", *penstock, config(work, "sse", 5, 20), "--listen", "PORT"]
        found["5 x 20, SSE"] = Variant(own, direct="direct, SSE", kind=SseProxy)
        hub = ["/mcp", mcp_hub, "--port", "PORT", "--config", peer]
        found["mcp-hub 5 x 20, SSE"] = Variant(hub, "m0__short", direct="direct, SSE", kind=SseProxy)
    return found


class Row(NamedTuple):
    """What was found for one variant: times in microseconds, the start in milliseconds. `work` is what a call
    takes of the processor on one core."""

    tools: int
    start: float
    call: float
    added: float
    cpu: float
    work: float
    listed: float
    mb: float


Rows = dict[str, Row]


class Bar(NamedTuple):
    """What was planned, and how it is found; None where somebody it needs was not measured."""

    words: str
    most: float
    unit: str
    of: Callable[[Rows, float], float | None]


def _over(name: str, other: str, value: Callable[[Row], float]) -> Callable[[Rows, float], float | None]:
    def of(rows: Rows, bare: float) -> float | None:
        if name not in rows or other not in rows or value(rows[other]) <= 0:
            return None
        return value(rows[name]) / value(rows[other])

    return of


def _beyond(rows: Rows, name: str) -> float:
    """Milliseconds of a start that are not its upstreams' own: five of them need as long without a proxy."""
    return rows[name].start - rows["five direct"].start


def _beyond_over(name: str, other: str) -> Callable[[Rows, float], float | None]:
    def of(rows: Rows, bare: float) -> float | None:
        if name not in rows or other not in rows or _beyond(rows, other) <= 0:
            return None
        return _beyond(rows, name) / _beyond(rows, other)

    return of


def _of_smallest_peer(rows: Rows, bare: float) -> float | None:
    peers = [row.mb for name, row in rows.items() if name.startswith(("fastmcp", "mcp-hub"))]
    return rows["5 x 20"].mb / min(peers) if peers else None


FIVE, ONE, FASTMCP_5, SSE, HUB = (
    "5 x 20",
    "one upstream",
    "fastmcp 5 x 20",
    "5 x 20, SSE",
    "mcp-hub 5 x 20, SSE",
)
BARS = [
    Bar("call, added p50, of one upstream's", 1.25, "x", _over(FIVE, ONE, lambda row: row.added)),
    Bar("call, processor time, of one upstream's", 1.25, "x", _over(FIVE, ONE, lambda row: row.cpu)),
    Bar(
        "call, work on one core, of one upstream's",
        1.25,
        "x",
        _over(FIVE, ONE, lambda row: row.work),
    ),
    Bar("call, added p50, of mcp-hub's", 1 / 5, "x", _over(SSE, HUB, lambda row: row.added)),
    Bar("call, processor time, of mcp-hub's", 1 / 5, "x", _over(SSE, HUB, lambda row: row.cpu)),
    Bar("call, work on one core, of mcp-hub's", 1 / 5, "x", _over(SSE, HUB, lambda row: row.work)),
    Bar("call, added p50, of fastmcp's", 1 / 25, "x", _over(FIVE, FASTMCP_5, lambda row: row.added)),
    Bar("call, processor time, of fastmcp's", 1 / 25, "x", _over(FIVE, FASTMCP_5, lambda row: row.cpu)),
    Bar(
        "call, work on one core, of fastmcp's",
        1 / 25,
        "x",
        _over(FIVE, FASTMCP_5, lambda row: row.work),
    ),
    Bar(
        "list, of one upstream's with as many",
        1.05,
        "x",
        _over(FIVE, "one with 100 tools", lambda r: r.listed),
    ),
    Bar("start beyond the slowest of its upstreams", 150, " ms", lambda rows, _: _beyond(rows, FIVE)),
    Bar("start beyond the slowest, of mcp-hub's", 1 / 2, "x", _beyond_over(SSE, HUB)),
    Bar("start beyond the slowest, of fastmcp's", 1 / 8, "x", _beyond_over(FIVE, FASTMCP_5)),
    Bar("private memory over a bare interpreter's", 12, " MB", lambda rows, bare: rows[FIVE].mb - bare),
    Bar("private memory, of the smallest peer's", 1 / 5, "x", _of_smallest_peer),
    Bar("call with one upstream hung", 1.05, "x", _over("5 x 20 and a hung one", FIVE, lambda row: row.call)),
    Bar("call among 10,000 tools", 1.05, "x", _over("50 x 200", FIVE, lambda row: row.call)),
]


def bare_mb() -> float:
    """What an interpreter has to itself that does nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        return memory_of(process.pid).private / 1024
    finally:
        process.kill()
        process.wait()


def measured(chosen: dict[str, Variant], rounds: int, calls: int, starts: int) -> Rows:
    """All of them, in turn."""
    proxies: dict[str, Proxy] = {}
    begins: dict[str, list[float]] = {name: [] for name in chosen}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in chosen}
    try:
        for number in range(starts):
            for name, variant in chosen.items():
                proxy = _maybe_started(name, variant)
                if proxy is None:
                    continue
                begins[name].append(proxy.start_seconds * 1000)
                if number < starts - 1:
                    proxy.end()
                else:
                    proxies[name] = proxy
        for number in range(rounds):
            order = list(proxies) if number % 2 else list(reversed(proxies))
            for name in order:
                time_of_call, cpu = _calls(proxies[name], calls)
                listed = proxies[name].measure("tools/list", {}, max(1, calls // 20))[0]
                found[name].append((time_of_call, cpu, listed))
        memory = {name: proxy.private_mb() for name, proxy in proxies.items()}
    finally:
        for proxy in proxies.values():
            proxy.end()
    # Which core a process wakes on makes a call 27 us or 80, and others use the machine too: all of that only
    # adds, so the calmest round says most.
    columns = {
        name: [min(column) for column in zip(*rows, strict=True)] for name, rows in found.items() if rows
    }
    works = {name: work for name in columns if (work := _maybe_work(name, chosen[name], rounds, calls))}
    return {
        name: Row(
            one.tools,
            min(begins[name]),
            columns[name][0],
            columns[name][0] - columns[one.direct][0],
            columns[name][1],
            works[name],
            columns[name][2],
            memory[name],
        )
        for name, one in chosen.items()
        if name in works
    }


def _maybe_started(name: str, variant: Variant, is_on_one_core: bool = False) -> Proxy | None:
    """The proxy; None for a peer that does not start, which is said."""
    try:
        return variant.kind(variant.words, variant.tool, variant.tools, is_on_one_core)
    except (Unfit, AssertionError) as why:
        if name not in (FASTMCP_5, HUB):
            raise
        print(f"{name} is left out: {reason(why)}", file=sys.stderr)
        return None


def _maybe_work(name: str, variant: Variant, rounds: int, calls: int) -> float | None:
    """Microseconds of the processor for one call, alone and on one core; those of the first round do what is
    done once."""
    proxy = _maybe_started(name, variant, is_on_one_core=True)
    if proxy is None:
        return None
    try:
        return min([_calls(proxy, calls)[1] for _ in range(rounds + 1)][1:])
    finally:
        proxy.end()


def _calls(proxy: Proxy, count: int) -> tuple[float, float]:
    arguments = {"name": proxy.tool, "arguments": {"path": "a/b"}}
    return proxy.measure("tools/call", arguments, count)


def tables(rows: Rows, bare: float) -> str:
    """All that was found, in Markdown."""
    columns = "| | tools | start ms | call us | added us | CPU us | work us | list us | MB |"
    lines = [columns, "|---|" + "---:|" * 8]
    lines += [
        f"| {name} | " + " | ".join(f"{cell:,.0f}" for cell in row) + " |" for name, row in rows.items()
    ]
    lines += ["", "| planned | at most | found | |", "|---|---:|---:|---|"]
    for words, most, unit, of in BARS:
        found = of(rows, bare)
        shown = "" if found is None else f"{found:.3g}{unit}" if found < 100 else f"{found:,.0f}{unit}"
        verdict = "not measured" if found is None else "met" if found <= most else "missed"
        lines.append(f"| {words} | {most:.3g}{unit} | {shown} | {verdict} |")
    return "\n".join(lines)


def write(page: Path, text: str) -> None:
    """Puts the section into the page, in the place of the one before."""
    whole = page.read_text()
    before, _, rest = whole.partition(SECTION + "\n")
    if rest:
        after = rest[rest.index(BEFORE) :]
    else:
        before, _, after = whole.partition(BEFORE)
        after = BEFORE + after
    page.write_text(f"{before}{SECTION}\n\n{text}\n\n{after}")


EXPLAINED = """\
Written by `python -m bench.several_cost --write docs/several.md`. All run at the same time and are asked in
turn, round by round; every figure is that of the calmest round (a call's is the median of a thousand, or of
as many as take four seconds), as others on the machine only add to it. `N x M` are N servers on stdio with
M tools each behind one Penstock, `direct` is one of them alone, `five direct` are five without a proxy,
started at once, and `added` is over going direct.
`CPU` is what the system counts for the proxy alone for one call. In Penstock's there is time
in which it looks for 0.1 ms whether more has come before it sleeps. It does so only where there is a second
core and while one message follows another within 0.3 ms, but then this can be as long as the call. `work`
is the same with the proxy bound to one core, where it does not look. `MB` is memory that is nobody else's,
`start` is from exec to the whole list of tools. What does not depend on the machine is counted in
instructions by `python -m bench.several_instructions`."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Several upstreams beside one, interleaved.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--fastmcp", metavar="PYTHON", default=_maybe(PEERS / "fastmcp" / "bin" / "python"))
    hub = PEERS / "node" / "node_modules" / ".bin" / "mcp-hub"
    parser.add_argument("--mcp-hub", metavar="PROGRAM", default=_maybe(hub))
    parser.add_argument("--write", metavar="FILE", type=Path)
    options = parser.parse_args()
    compileall.compile_dir(str(ROOT / "src"), quiet=1)  # as pip does when it installs
    bare = bare_mb()
    with tempfile.TemporaryDirectory() as folder:
        chosen = variants(Path(folder), options.fastmcp, options.mcp_hub)
        rows = measured(chosen, options.rounds, options.calls, options.starts)
    text = tables(rows, bare)
    print(text)
    if options.write is not None:
        write(options.write, f"{EXPLAINED}\n\n{text}")


def _maybe(path: Path) -> str | None:
    return str(path) if path.exists() else None


if __name__ == "__main__":
    main()
