"""Writes docs/seeds.md: every promise of the founding documents, and what its tests say of it just now."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "seeds")]

from seed_rows import DOCUMENTS, ROWS  # noqa: E402 - its folder had to be named first


class Verdicts:
    """What the tests of each row came to."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.held: set[str] = set()
        self._rows: dict[str, set[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            self._rows[item.nodeid] = {name for mark in item.iter_markers("seed") for name in mark.args}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        rows = self._rows.get(report.nodeid, set())
        if report.failed:
            self.failed |= rows
        elif report.when == "call" and report.passed:
            self.held |= rows


def page(verdicts: Verdicts) -> str:
    """The whole page."""
    lines = [
        "# Every word of the founding documents",
        "",
        "Penstock grew from five documents. Each of their promises is a row here, and each row is shown by a",
        "test in `tests/seeds`. This page is written by `make seeds`; do not edit it.",
    ]
    held = sum(1 for name in ROWS if verdict_of(name, verdicts) == "holds")
    waiting = sum(1 for row in ROWS.values() if row.waits)
    lines += ["", f"{len(ROWS)} rows: {held} hold, {waiting} wait for what is not built yet.", ""]
    for document, title in DOCUMENTS.items():
        lines += [f"## {title}", "", "| row | promise | verdict |", "|---|---|---|"]
        for name, row in ROWS.items():
            if row.document == document:
                lines.append(f"| {name} | {row.promise} | {verdict_of(name, verdicts)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def verdict_of(name: str, verdicts: Verdicts) -> str:
    """What is to be said of one row."""
    if ROWS[name].waits:
        return f"waits for: {ROWS[name].waits}"
    if name in verdicts.failed:
        return "**does not hold**"
    return "holds" if name in verdicts.held else "not tried"


def main() -> int:
    """Runs the tests, writes the page; 1 if a row does not hold."""
    verdicts = Verdicts()
    pytest.main(["-q", str(ROOT / "tests" / "seeds")], plugins=[verdicts])
    (ROOT / "docs" / "seeds.md").write_text(page(verdicts))
    return 1 if verdicts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
