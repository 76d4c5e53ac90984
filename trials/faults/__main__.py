"""`make faults`: every fault, everywhere, and a table of what came of it."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from trials.faults.kills import try_kills
from trials.faults.lines import try_lines
from trials.faults.shortages import try_shortages
from trials.faults.signals import try_signals
from trials.table import Table

PARTS = {"lines": try_lines, "kills": try_kills, "signals": try_signals, "shortages": try_shortages}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which; all when none is named")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--markdown", type=Path, help="the same as a table for the documentation")
    chosen = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory(prefix="penstock-faults-") as work:
        for name in chosen.parts or PARTS:
            PARTS[name](table, Path(work))
    if chosen.json is not None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(table.as_json(), indent=1) + "\n")
    if chosen.markdown is not None:
        chosen.markdown.write_text(table.as_markdown())
    return table.end()


if __name__ == "__main__":
    sys.exit(main())
