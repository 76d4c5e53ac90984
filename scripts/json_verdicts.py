"""Writes docs/json-verdicts.md: what the gate makes of every file of the JSONTestSuite corpus."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from json_corpus import DOCUMENT, judge, maybe_missing, read_corpus, report


def main() -> int:
    missing = maybe_missing()
    if missing is not None:
        print(f"The corpus cannot be read: {missing}.", file=sys.stderr)
        return 3
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
    DOCUMENT.write_text(report([judge(case) for case in read_corpus()]), encoding="utf-8")
    print(f"wrote {DOCUMENT.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
