"""What watching costs: calls a second with recording, audit, metrics and traces, as a ratio to none of them.

    python -m bench.observe_cost [--rounds N] [--calls N] [--pairs stdio-stdio,http-http]

All variants of a pair run at the same time and are measured in turn, round after round, so that whatever else
the machine does befalls all of them alike. Shown are the median ratio of rates and of processor time to the
variant without any option. The targets are those that the feature was planned with.
"""

from __future__ import annotations

import argparse
import http.server
import statistics
import tempfile
import threading
from pathlib import Path

from bench.targets import Target, Upstream, free_port, penstock
from bench.workloads import BIG_10, CALL

TARGETS = {"off again": 0.99, "record": 0.92, "audit": 0.92, "metrics": 0.98, "traces": 0.92, "all": 0.80}
BIG_TARGET = 0.85


class _Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans and throws them away."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


def variants(work: Path, url: str) -> dict[str, list[str]]:
    """The options of each variant."""

    def options(kind: str, name: str) -> list[str]:
        if kind == "traces":
            return ["--otel", url]
        if kind == "metrics":
            return ["--metrics", str(free_port())]
        return [f"--{kind}", str(work / f"{name}-{kind}.jsonl")]

    kinds = ("record", "audit", "metrics", "traces")
    every = [word for kind in kinds for word in options(kind, "all")]
    return {"off": [], "off again": [], **{kind: options(kind, "one") for kind in kinds}, "all": every}


def measure(front: str, back: str, rounds: int, calls: int, url: str) -> None:
    """Measures one pair and prints its table."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        upstream = Upstream(work)
        targets: dict[str, Target] = {}
        try:
            for name, words in variants(work, url).items():
                targets[name] = Target(
                    penstock(front, back, *words, name=name.replace(" ", "-")), upstream, work
                )
            rates: dict[str, list[float]] = {name: [] for name in targets}
            costs: dict[str, list[float]] = {name: [] for name in targets}
            big: dict[str, list[float]] = {"off": [], "record": []}
            for _ in range(rounds):
                for name, target in targets.items():
                    sample, cpu, _ = target.measure(CALL, calls, 16)
                    rates[name].append(sample.rate)
                    costs[name].append(cpu)
                for name, found in big.items():
                    found.append(targets[name].measure(BIG_10, 3, 1)[0].rate)
        finally:
            for target in targets.values():
                target.end()
            upstream.program.end()
    print(f"\n{front} to {back}, {rounds} rounds of {calls} calls, 16 at once")
    print(f"{'':<12} {'calls/s':>9} {'ratio':>7} {'target':>7} {'cpu':>6}")
    for name in targets:
        ratio = _median_ratio(rates[name], rates["off"])
        cpu = _median_ratio(costs[name], costs["off"])
        target = f"{TARGETS[name]:.2f}" if name in TARGETS else ""
        print(f"{name:<12} {statistics.median(rates[name]):>9.0f} {ratio:>7.2f} {target:>7} {cpu:>6.2f}")
    print(f"10 MB results, recorded: {_median_ratio(big['record'], big['off']):.2f} (target {BIG_TARGET})")


def _median_ratio(values: list[float], base: list[float]) -> float:
    return statistics.median(one / zero for one, zero in zip(values, base, strict=True) if zero)


def main() -> None:
    parser = argparse.ArgumentParser(description="Rates with and without what watches, interleaved.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--pairs", default="stdio-stdio,http-http")
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for pair in options.pairs.split(","):
        front, back = pair.split("-")
        measure(front, back, options.rounds, options.calls, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()


if __name__ == "__main__":
    main()
