"""Nothing takes for ever: a measurement that hangs, wherever it hangs, becomes one that failed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bench.processes import Unfit


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises Unfit in what is running when the time is up. For the main thread, and not nested."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Unfit(f"took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
