"""What the live view costs: nobody asked for it, nobody attends, a hub listens.

    python -m bench.watch_cost [--rounds N] [--calls N] [--pairs stdio-stdio,http-http]

All variants of a pair run at the same time and are measured in turn, one call at a time, in many short
rounds, so that whatever else the machine does befalls all of them alike. Shown are the median latency of the
calmer rounds (of ten the lowest), its ratio to the variant without a dashboard ("off again" is the same once
more, and says how far to trust it), private memory after the handshake, and what a start takes until the
first answer. The targets are those that the view was planned with.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.processes import Unfit
from bench.targets import Target, Upstream, penstock
from bench.workloads import CALL

OPTIONS: dict[str, list[str]] = {
    "off": [],
    "off again": [],
    "unattended": ["--dashboard", "auto"],
    "attended": ["--dashboard", "auto"],
}
TARGETS = {"unattended": 1.03, "attended": 1.10}
MEMORY_KIB = 1024
START_MS = 10
_STARTS = 15


@contextlib.contextmanager
def hub(folder: str) -> Iterator[None]:
    """A hub that listens to every proxy of this folder."""
    words = [sys.executable, "-m", "penstock", "watch", "--web", "0", "--no-browser"]
    env = {**os.environ, "XDG_RUNTIME_DIR": folder}
    process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def start(name: str, front: str, back: str, upstream: Upstream, work: Path, folder: str) -> Target:
    """The target of one variant, with its runtime folder."""
    os.environ["XDG_RUNTIME_DIR"] = folder  # inherited by what is started
    spec = penstock(front, back, *OPTIONS[name], name=name.replace(" ", "-"))
    return Target(spec, upstream, work)


def measure(front: str, back: str, rounds: int, calls: int) -> bool:
    """Measures one pair and prints its table; False when a target is missed."""
    folders = {name: tempfile.mkdtemp(prefix="pens-", dir="/tmp") for name in OPTIONS}
    targets: dict[str, Target] = {}
    starts: dict[str, list[float]] = {name: [] for name in OPTIONS}
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        upstream = Upstream(work)
        try:
            with hub(folders["attended"]):
                for _ in range(_STARTS):
                    for name in OPTIONS:
                        target = start(name, front, back, upstream, work, folders[name])
                        starts[name].append(target.start_seconds * 1000)
                        target.end()
                for name in OPTIONS:
                    targets[name] = start(name, front, back, upstream, work, folders[name])
                time.sleep(1.0)  # the hub looks for new proxies four times a second
                memory = {name: _private(target) for name, target in targets.items()}
                p50s: dict[str, list[float]] = {name: [] for name in OPTIONS}
                costs: dict[str, list[float]] = {name: [] for name in OPTIONS}
                for _ in range(rounds):
                    for name, target in targets.items():
                        sample, cpu, _ = target.measure(CALL, calls, 1)
                        p50s[name].append(sample.p50)
                        costs[name].append(cpu)
        finally:
            for target in targets.values():
                target.end()
            upstream.program.end()
            for folder in folders.values():
                shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{front} to {back}, {rounds} rounds of {calls} calls, one at a time")
    print(f"{'':<12} {'p50 us':>8} {'ratio':>7} {'target':>7} {'cpu':>6} {'private KiB':>12} {'start ms':>9}")
    is_met = True
    for name in OPTIONS:
        ratio, cpu = _calm(p50s[name]) / _calm(p50s["off"]), sum(costs[name]) / sum(costs["off"])
        more = memory[name] - memory["off"]
        later = _calm(starts[name]) - _calm(starts["off"])
        wanted = TARGETS.get(name)
        if wanted is not None:
            is_met &= ratio <= wanted
        if name == "unattended":
            is_met &= more <= MEMORY_KIB and later <= START_MS
        print(
            f"{name:<12} {_calm(p50s[name]):>8.0f} {ratio:>7.3f} {wanted or '':>7} {cpu:>6.2f} "
            f"{memory[name]:>6} {more:>+5} {later:>+9.1f}"
        )
    return is_met


def _private(target: Target) -> int:
    if target.program is None:
        raise Unfit("there is no process")
    return target.program.memory().private


def _calm(values: list[float]) -> float:
    """What was measured while the machine did little else."""
    return statistics.quantiles(values, n=10)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description="Latency with and without the live view, interleaved.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--pairs", default="stdio-stdio,http-http")
    options = parser.parse_args()
    met = [measure(*pair.split("-"), options.rounds, options.calls) for pair in options.pairs.split(",")]
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
