"""How far long work has come, for people at a terminal; nothing at all in a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from penstock.wire.mcp.replies import one_line


class Progress:
    """One line on stderr that is written over: count, rate, time left."""

    def __init__(
        self,
        what: str,
        total: int,
        is_shown: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total` is in the unit that `add` is told of; 0 when nobody knows."""
        self._what = what
        self._total = total
        self._clock = clock
        self._started = self._said = clock()
        self._done = 0
        self._count = 0
        self.is_shown = sys.stderr.isatty() if is_shown is None else is_shown

    def add(self, amount: int) -> None:
        """One more item is done, which took so much of the total."""
        self._done += amount
        self._count += 1
        if self.is_shown and self._count % 256 == 0 and self._clock() - self._said >= 0.2:
            self._said = self._clock()
            sys.stderr.write(f"\r\x1b[K{self.line()}")
            sys.stderr.flush()

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
        if self.is_shown and self._said > self._started:
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
