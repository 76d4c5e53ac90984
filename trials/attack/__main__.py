"""`python -m trials.attack`: fires all, prints the table, exits with 1 when anything got through.

--cells 'streamable>stdio'   only cells whose name contains this (repeatable)
--rows 51,76                 only these rows
--short                      each client transport once in both eras, and no floods
--jobs 2                     so many cells at a time
--json FILE, --write FILE    the results for programs, and the page for people
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from trials.attack.campaign import cells_of, run
from trials.attack.report import page, summary, table
from trials.attack.rows import Result


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="trials.attack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", action="append", default=[])
    parser.add_argument("--rows", default="")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    rows = {row for row in chosen.rows.split(",") if row}
    results: list[Result] = []
    missing: list[str] = []
    plans = []
    for plan in cells_of(chosen.short, chosen.cells):
        if plan.maybe_missing:
            print(f"{plan.name} skipped: {plan.maybe_missing}", file=sys.stderr)
            missing.append(f"{plan.name} ({plan.maybe_missing})")
        else:
            plans.append(plan)
    with (
        tempfile.TemporaryDirectory(prefix="attack-") as work,
        ProcessPoolExecutor(chosen.jobs) as pool,
    ):
        for plan, found in zip(plans, pool.map(partial(run, work=Path(work), rows=rows), plans), strict=True):
            bad = [result for result in found if result.is_bad and not plan.direct]
            print(f"{plan.name} ... {len(found)} shots, {len(bad)} bad", file=sys.stderr)
            for result in bad:
                print(f"  {result.row} {result.what[:60]}: {result.verdict}. {result.why}", file=sys.stderr)
            results += found
    print(table(results))
    print()
    print(summary(results))
    if chosen.json:
        chosen.json.write_text(json.dumps([result._asdict() for result in results], indent=1))
    if chosen.write:
        chosen.write.write_text(page(results, missing), "utf-8")
    return int(any(result.is_bad and not result.cell.startswith("direct") for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
