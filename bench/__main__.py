"""python -m bench: measures, prints tables, and with --write leaves JSON, a page and plots."""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import plan
from bench.machine import machine
from bench.report import tables
from bench.rounds import run_group

PARTS = ("rounds",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and requests, under two minutes")
    parser.add_argument("--smoke", action="store_true", help="a few requests each: whether it works at all")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--scale", type=float, help="of the number of requests in a round")
    parser.add_argument("--pairs", help="only these, as in http-http,stdio-stdio")
    parser.add_argument("--steps", help="only these, as in 'call c=1,call c=16'")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"only these of {', '.join(PARTS)}")
    parser.add_argument("--peers", action="store_true", help="with the peers that make bench-peers installed")
    parser.add_argument("--json", type=Path, help="where to leave the results")
    options = parser.parse_args()
    effort = plan.SMOKE if options.smoke else plan.QUICK if options.quick else plan.FULL
    changes = {name: value for name in ("rounds", "scale") if (value := getattr(options, name)) is not None}
    effort = type(effort)(**{**vars(effort), **changes})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16_384)), hard))
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        work = Path(folder)
        work.chmod(0o755)  # nginx's worker is another user, when we are root
        results = measure(work, effort, options)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(tables(results))
    return 0


def measure(work: Path, effort: plan.Effort, options: argparse.Namespace) -> dict[str, Any]:
    begun = time.monotonic()
    parts = options.parts.split(",")
    results: dict[str, Any] = {"machine": machine(), "rounds": effort.rounds, "groups": {}}
    if "rounds" in parts:
        for group in plan.groups(work, effort, options.peers):
            if options.pairs and group.name not in options.pairs.split(","):
                continue
            if options.steps:
                wanted = options.steps.split(",")
                group = type(group)(**{**vars(group), "steps": [s for s in group.steps if s.key in wanted]})
            results["groups"][group.name] = run_group(group, effort.rounds, work, say)
    results["seconds"] = round(time.monotonic() - begun)
    return results


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
