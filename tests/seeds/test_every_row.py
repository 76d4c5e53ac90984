"""No promise is left without a test, but for those that say what they wait for."""

from __future__ import annotations

import re
from pathlib import Path

from seed_rows import ROWS


def test_every_row_is_shown_by_a_test_or_says_what_it_waits_for() -> None:
    named: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for words in re.findall(r"@row\(([^)]*)\)", path.read_text()):
            named.update(re.findall(r'"([A-Z]\d+)"', words))
    waiting = {name for name, row in ROWS.items() if row.waits}
    assert named == set(ROWS) - waiting
    assert len(ROWS) >= 192
