"""How far long work has come, for people at a terminal; nothing at all in a pipe.

Who runs a command for somebody else, as the live view does, asks for lines of JSON with PENSTOCK_PROGRESS.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from penstock.wire.mcp.replies import one_line

ASKED = "PENSTOCK_PROGRESS"


class Progress:
    """One line on stderr that is written over: count, rate, time left."""

    def __init__(
        self,
        what: str,
        total: int,
        is_shown: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
        every: int = 256,
    ) -> None:
        """`total` is in the unit that `add` is told of; 0 when nobody knows. The clock is looked at after
        `every` so many items."""
        self._every = every
        self._what = what
        self._total = total
        self._clock = clock
        self._started = self._said = clock()
        self._done = 0
        self._count = 0
        self._is_told = is_shown is None and os.environ.get(ASKED) == "json"
        self.is_shown = self._is_told or (sys.stderr.isatty() if is_shown is None else is_shown)

    def add(self, amount: int) -> None:
        """One more item is done, which took so much of the total."""
        self._done += amount
        self._count += 1
        if self.is_shown and self._count % self._every == 0 and self._clock() - self._said >= 0.2:
            self._said = self._clock()
            sys.stderr.write(self.facts() if self._is_told else f"\r\x1b[K{self.line()}")
            sys.stderr.flush()

    def facts(self) -> str:
        """A line for programs."""
        share = self._done / self._total if self._total else 0
        return f'{{"progress":"{self._what}","count":{self._count},"share":{min(share, 1):.3f}}}\n'

    def line(self) -> str:
        """The words of now."""
        took = max(self._clock() - self._started, 1e-6)
        text = f"{self._what}: {self._count:,}, {self._count / took:,.0f}/s"
        if self._total and self._done:
            left = took * max(0, self._total - self._done) / self._done
            text += f", {100 * self._done // self._total} %, {_spoken(left)} left"
        return one_line(text)

    def end(self) -> None:
        """Takes the line away."""
        if self.is_shown and self._said > self._started and not self._is_told:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def size_of(paths: list[str]) -> int:
    """How many bytes the files have together; 0 when that says nothing about how many will be read."""
    try:
        if any(path.endswith((".gz", ".zst")) for path in paths):
            return 0
        return sum(os.stat(path).st_size for path in paths)
    except OSError:
        return 0


def _spoken(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"
