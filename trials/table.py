"""Verdicts as a table that is printed row by row, and as JSON for whoever wants to compare."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass


@dataclass
class Row:
    """One trial: what was done, where, over which transports, and what came of it."""

    fault: str
    where: str
    transport: str
    verdict: str
    is_held: bool
    seconds: float = 0.0
    count: int = 0  # of messages, where they were counted


class Table:
    """Prints each row as soon as it is known."""

    def __init__(self, is_quiet: bool = False) -> None:
        self.rows: list[Row] = []
        self._is_quiet = is_quiet
        self._began = time.monotonic()
        if not is_quiet:
            print(f"{'fault':34} {'where':22} {'transport':30} {'s':>5}  verdict")

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if not self._is_quiet:
            mark = "" if row.is_held else "FAILED: "
            print(
                f"{row.fault:34} {row.where:22} {row.transport:30} {row.seconds:5.1f}  {mark}{row.verdict}",
                flush=True,
            )

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if not row.is_held]

    def end(self) -> int:
        """The last line; the exit code."""
        took = time.monotonic() - self._began
        print(f"{len(self.rows) - len(self.failed)} of {len(self.rows)} held, {took:.0f} s", file=sys.stdout)
        return 1 if self.failed else 0

    def as_json(self) -> list[dict[str, object]]:
        return [asdict(row) for row in self.rows]

    def as_markdown(self) -> str:
        lines = ["| fault | where | transport | verdict |", "|---|---|---|---|"]
        lines += [f"| {row.fault} | {row.where} | {row.transport} | {row.verdict} |" for row in self.rows]
        return "\n".join(lines) + "\n"
