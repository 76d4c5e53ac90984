"""`make soak`: three minutes of load; SOAK_SECONDS=7200 for longer, SOAK_MESSAGES=1000000 for a count.

It fails on what is exact: messages lost, doubled, out of order or changed, descriptors and children not back
where they were, memory that grows. Times are told as ratios and fail nothing: the machine may be busy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from trials.soak import abuses, loads
from trials.table import Row, Table

SHORT_SECONDS = 180.0
LONG_SECONDS = 1_800.0
"""From here on what goes by a count counts further, which takes `COUNTED`; `SHARES` is what the rest takes at
a scale of 1."""
COUNTED, SHARES = 1_000.0, 82.0


def plan(work: Path, seconds: float, messages: int | None) -> list[tuple[str, Callable[[], Awaitable[Row]]]]:
    """Every load, each with its share of the time."""
    long = seconds >= LONG_SECONDS
    scale = (seconds - COUNTED) / SHARES if long else seconds / SHORT_SECONDS
    pairs = [(client, upstream) for client in loads.TRANSPORTS for upstream in loads.TRANSPORTS]
    eras = [(False, 4.0), (True, 2.0)]  # whether it is the newer one, and its share of the time
    most = None if messages is None else -(-messages // (len(pairs) * len(eras)))

    def once(pair: tuple[str, str], is_modern: bool, share: float) -> partial[Awaitable[Row]]:
        lasts = share * scale if most is None else 86_400.0
        return partial(loads.exactly_once, work, *pair, is_modern, lasts, most)

    return [
        *(("once", once(pair, *era)) for era in eras for pair in pairs),
        ("sessions", partial(loads.many_sessions, work, 200, 1_000, 9.0 * scale)),
        ("children", partial(loads.many_children, work, 50, 4.0 * scale)),
        ("readers", partial(loads.slow_readers, work, 10, 50, 8.0 * scale)),
        ("fairness", partial(loads.fairness, work, 20, 7.0 * scale)),
        ("churn", partial(loads.churn, work, "streamable", "streamable", 10_000)),
        ("churn", partial(loads.churn, work, "sse", "sse", 10_000 if long else 2_000)),
        ("churn", partial(loads.churn, work, "sse", "stdio", 1_000 if long else 60)),
        ("crowd", partial(loads.too_many, work, 1_200)),
        ("drips", partial(loads.dripping, work, 900)),
        *(
            ("abuse", partial(abuses.abuse, work, *path, what, is_ruled, 1_000))
            for path in abuses.PATHS
            for what in abuses.ABUSES
            for is_ruled in (False, True)
        ),
        ("lives", partial(loads.starts_and_stops, work, 200 if long else 15)),
    ]


async def soak(table: Table, work: Path, seconds: float, messages: int | None, only: list[str]) -> None:
    """Runs what was planned, or those parts of it that are named."""
    for name, load in plan(work, seconds, messages):
        if not only or name in only:
            table.add(await load())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SHORT_SECONDS, help="about how long it may take")
    parser.add_argument("--messages", type=int, help="how many over the nine pairs, however long that takes")
    parser.add_argument("--only", action="append", default=[], help="a part of the plan; repeatable")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    chosen = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    table = Table()
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as work:
        asyncio.run(soak(table, Path(work), chosen.seconds, chosen.messages or None, chosen.only))
    counted = sum(row.count for row in table.rows)
    print(f"{counted:,} numbered messages each way over nine pairs, in both eras")
    if chosen.json is not None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        report = {"began": began, "seconds": chosen.seconds, "messages": counted, "rows": table.as_json()}
        chosen.json.write_text(json.dumps(report, indent=1) + "\n")
    return table.end()


if __name__ == "__main__":
    sys.exit(main())
