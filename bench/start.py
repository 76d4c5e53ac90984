"""How long from exec to the first answered request: each target started afresh, in turn."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from bench.processes import reason
from bench.rounds import Group, Say
from bench.targets import Target, Upstream


def run_starts(group: Group, rounds: int, work: Path, say: Say) -> dict[str, Any]:
    """Milliseconds for every target of a group. The first start fills caches and does not count."""
    upstream = Upstream(work)
    specs = [spec for spec in group.specs if spec.command is not None]
    times: dict[str, list[float]] = {spec.name: [] for spec in specs}
    failed: dict[str, str] = {}
    try:
        for number in range(rounds + 1 if rounds > 1 else 1):
            for spec in specs:
                if spec.name in failed:
                    continue
                try:
                    target = Target(spec, upstream, work)
                except Exception as why:
                    failed[spec.name] = reason(why)
                    say(f"  {group.name}: {spec.name} does not start: {why}")
                    continue
                if number or rounds == 1:
                    times[spec.name].append(target.start_seconds * 1000)
                target.end()
    finally:
        upstream.program.end()
    say(f"  {group.name}: starts timed")
    return {
        name: {"failed": failed[name]}
        if name in failed
        else {"ms": round(statistics.median(values), 1), "rounds": [round(value, 1) for value in values]}
        for name, values in times.items()
    }
