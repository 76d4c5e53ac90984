"""Python that does not wait runs beside the loop: it stalls nobody, and its time ends for whoever asked."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.effects.real import RealEffects
from penstock.effects.threads import Threads


def test_a_function_that_hangs_stalls_nobody_and_ends_with_its_time() -> None:
    async def main() -> None:
        gate = threading.Event()
        effects = RealEffects()
        with pytest.raises(TimeoutError):
            await effects.within(0.05, effects.in_thread(gate.wait, 60, sender="a"))
        assert await effects.in_thread(lambda: "quick", sender="b") == "quick"
        gate.set()

    asyncio.run(main())


def test_what_it_raises_is_raised_and_what_would_end_the_process_does_not() -> None:
    async def main() -> None:
        threads = Threads()
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 / 0, (), "")

        def leave() -> None:
            raise SystemExit(3)

        with pytest.raises(Exception, match="SystemExit"):
            await threads.run(leave, (), "")

    asyncio.run(main())


def test_a_thread_reaches_the_effects_through_the_loop() -> None:
    async def main() -> None:
        effects = RealEffects()

        def review(given: RealEffects) -> list[bool]:
            given.count("seen", 2)
            return [given.may_pass("key", 1, 60.0), given.may_pass("key", 1, 60.0)]

        assert await effects.in_thread(review, effects.for_threads()) == [True, False]
        assert effects.metrics()["seen"].total == 2

    asyncio.run(main())
