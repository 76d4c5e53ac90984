"""What several upstreams behind one door cost, beside one upstream alone, over stdio.

    python -m bench.several_cost [--rounds N] [--calls N] [--fastmcp PYTHON]

All variants run at the same time and are measured in turn, round after round, so that whatever else the
machine does befalls all of them alike. 5 upstreams with 20 tools each; then the same with one that hangs, and
50 with 200 tools each. The bars are those that the feature was planned with. With --fastmcp, the composite of
a fastmcp that this Python has is measured beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.processes import cpu_seconds, memory_of
from bench.targets import ROOT

UPSTREAM = [sys.executable, "-S", "-E", str(ROOT / "bench" / "upstream.py"), "stdio"]
FASTMCP = (
    "import json, sys\n"
    "from fastmcp import FastMCP\n"
    "FastMCP.as_proxy(json.load(open(sys.argv[1]))).run(show_banner=False)\n"
)
OPENING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
BARS = {"call": 1.25, "cpu": 1.25, "list": 1.05, "hung": 1.05, "many": 1.05}


class Proxy:
    """One process that is measured, and a client that speaks with it."""

    def __init__(self, words: list[str], tool: str) -> None:
        self.tool = tool
        begun = time.perf_counter()
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self._process.stdout is not None
        self._lines = os.fdopen(os.dup(self._process.stdout.fileno()), "rb")
        self._last = 0
        self.ask("initialize", OPENING)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = len(self.ask("tools/list", {})["result"]["tools"])
        self.start_seconds = time.perf_counter() - begun

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The decoded answer to a request."""
        self._last += 1
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        while True:
            line = self._lines.readline()
            assert line, "the proxy has ended"
            answer = json.loads(line)
            if answer.get("id") == self._last:
                assert "result" in answer, answer
                return answer

    def measure(self, method: str, params: dict[str, Any], count: int) -> tuple[float, float]:
        """The median time of one request, and the processor time of each, in microseconds."""
        times = []
        before = cpu_seconds(self._process.pid)
        for _ in range(count):
            begun = time.perf_counter()
            self.ask(method, params)
            times.append(time.perf_counter() - begun)
        spent = cpu_seconds(self._process.pid) - before
        return statistics.median(times) * 1e6, spent / count * 1e6

    def private_mb(self) -> float:
        """Memory that is nobody else's."""
        return memory_of(self._process.pid).private / 1024

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")


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


def variants(work: Path, fastmcp: str | None) -> dict[str, tuple[list[str], str]]:
    """The command of each variant, and the tool that is called."""
    penstock = [sys.executable, "-m", "penstock", "--stdio", "--config"]
    found = {
        "direct": ([*UPSTREAM, "20"], "short"),
        "one upstream": ([*penstock, config(work, "one", 1, 20)], "short"),
        "one with 100 tools": ([*penstock, config(work, "hundred", 1, 100)], "short"),
        "5 x 20": ([*penstock, config(work, "five", 5, 20)], "short"),
        "5 x 20, renamed": ([*penstock, config(work, "renamed", 5, 20)], "m4__short"),
        "5 x 20 and a hung one": ([*penstock, config(work, "hung", 5, 20, hung=True)], "short"),
        "50 x 200": ([*penstock, config(work, "fifty", 50, 200)], "short"),
    }
    if fastmcp is not None:
        found["fastmcp 5 x 20"] = ([fastmcp, "-c", FASTMCP, config(work, "peer", 5, 20)], "m0_short")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Several upstreams beside one, interleaved.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--fastmcp", metavar="PYTHON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        proxies: dict[str, Proxy] = {}
        try:
            for name, (words, tool) in variants(Path(folder), options.fastmcp).items():
                proxies[name] = Proxy(words, tool)
            _show(proxies, options.rounds, options.calls)
        finally:
            for proxy in proxies.values():
                proxy.end()


def _show(proxies: dict[str, Proxy], rounds: int, calls: int) -> None:
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in proxies}
    for _ in range(rounds):
        for name, proxy in proxies.items():
            arguments = {"name": proxy.tool, "arguments": {"path": "a/b"}}
            time_of_call, cpu = proxy.measure("tools/call", arguments, calls)
            found[name].append((time_of_call, cpu, proxy.measure("tools/list", {}, max(1, calls // 20))[0]))
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in found.items()
    }
    direct, one = medians["direct"], medians["one upstream"]
    head = ("", "tools", "start ms", "call us", "added", "cpu us", "list us", "MB")
    print(f"{head[0]:<24}" + "".join(f"{word:>9}" for word in head[1:]))
    for name, (call, cpu, listed) in medians.items():
        proxy = proxies[name]
        start = proxy.start_seconds * 1000
        cells = (proxy.tools, start, call, call - direct[0], cpu, listed, proxy.private_mb())
        print(f"{name:<24}" + "".join(f"{cell:>9.0f}" for cell in cells))
    five, hung, many = medians["5 x 20"], medians["5 x 20 and a hung one"], medians["50 x 200"]
    ratios = {
        "call": (five[0] - direct[0]) / (one[0] - direct[0]),
        "cpu": five[1] / one[1] if one[1] else 0.0,
        "list": five[2] / medians["one with 100 tools"][2],
        "hung": hung[0] / five[0],
        "many": many[0] / five[0],
    }
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f} of what it is compared with, bar {BARS[name]:.2f}")


if __name__ == "__main__":
    main()
