"""Measures what Penstock adds; prints tables, and with --write leaves JSON, a page and plots."""

from __future__ import annotations

import argparse
import compileall
import dataclasses
import gc
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import page, plan
from bench.growth import run_growth
from bench.machine import machine
from bench.memory import MemoryLook, bare_interpreter
from bench.peers import versions
from bench.report import tables
from bench.rounds import Group, run_group
from bench.start import run_starts
from bench.targets import ROOT
from bench.verdicts import FULL_PAIRS

PARTS = ("rounds", "start", "memory", "growth")


def main() -> int:
    options = _options()
    effort = plan.SMOKE if options.smoke else plan.QUICK if options.quick else plan.FULL
    changes = {name: value for name in ("rounds", "scale") if (value := getattr(options, name)) is not None}
    effort = dataclasses.replace(effort, **changes)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16_384)), hard))
    compileall.compile_dir(str(ROOT / "src"), quiet=1)  # as pip does when it installs
    gc.freeze()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything that was started is ended
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        work.chmod(0o755)  # nginx's worker is another user, when we are root
        results = measure(work, effort, options)
    if options.write:
        page.RESULTS.write_text(page.as_json(results))
        page.write(results)
    print(tables(results))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and requests, about two minutes")
    parser.add_argument("--smoke", action="store_true", help="a few requests each: whether it works at all")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--scale", type=float, help="of the number of requests in a round")
    parser.add_argument("--pairs", help="only these, as in http-http,stdio-stdio")
    parser.add_argument("--steps", help="only these, as in 'call c=1,call c=16'")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"only these of {','.join(PARTS)}")
    parser.add_argument("--no-peers", action="store_true", help="without the peers of make bench-peers")
    parser.add_argument("--million", action="store_true", help="look at the memory over 1,000,000 calls")
    parser.add_argument("--json", type=Path, help="where to leave the results")
    parser.add_argument(
        "--write", action="store_true", help="leave bench/results.json and docs/performance.md"
    )
    return parser.parse_args()


def measure(work: Path, effort: plan.Effort, options: argparse.Namespace) -> dict[str, Any]:
    begun = time.monotonic()
    parts = options.parts.split(",")
    has_peers = not options.no_peers
    pairs = tuple(options.pairs.split(",")) if options.pairs else effort.pairs
    groups = [
        _narrowed(group, options.steps)
        for group in plan.groups(work, effort, has_peers)
        if not pairs or group.name in pairs
    ]
    full = [group for group in groups if group.name in FULL_PAIRS]
    results: dict[str, Any] = {
        "machine": machine(),
        "peer versions": versions() if has_peers else {},
        "rounds": effort.rounds,
        "load before": round(os.getloadavg()[0], 2),
        "groups": {},
    }

    def keep() -> None:
        """A run is long: what it has found so far is not lost with it."""
        results["seconds"] = round(time.monotonic() - begun)
        if options.json is not None:
            options.json.write_text(page.as_json(results))

    if "rounds" in parts:
        for group in groups:
            results["groups"][group.name] = run_group(group, effort.rounds, work, say)
            keep()
    if "start" in parts:
        results["start"] = {group.name: run_starts(group, effort.starts, work, say) for group in full}
        keep()
    if "memory" in parts:
        long = 200_000 if options.million else 0  # five times as many in all
        results["memory"] = {"bare": bare_interpreter(work), "pairs": {}}
        for group in full:
            look = MemoryLook(group, work, say, effort.calls, effort.sessions, effort.settle)
            results["memory"]["pairs"][group.name] = look.run(long)
            keep()
    if "growth" in parts:
        results["growth"] = run_growth(effort.places, effort.growth_rounds, effort.growth, work, say)
    keep()
    return results


def _narrowed(group: Group, steps: str | None) -> Group:
    if not steps:
        return group
    wanted = steps.split(",")
    return dataclasses.replace(group, steps=[step for step in group.steps if step.key in wanted])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
