"""Holding messages back."""

from __future__ import annotations

import asyncio

import pytest

from penstock.effects.pause import Pauses
from penstock.errors import EffectFailed


def test_one_pause_holds_no_other():
    async def main() -> None:
        rests: dict[float, asyncio.Future[None]] = {}

        def rest(seconds: float) -> asyncio.Future[None]:
            rests[seconds] = asyncio.get_running_loop().create_future()
            return rests[seconds]

        pauses = Pauses(rest)
        long = asyncio.create_task(pauses.pause(60))
        short = asyncio.create_task(pauses.pause(1))
        await asyncio.sleep(0)
        assert pauses.held_count == 2
        rests[1].set_result(None)
        await short
        assert not long.done()
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)
        assert pauses.held_count == 0

    asyncio.run(main())


def test_too_many_are_refused_and_not_let_through():
    async def main() -> None:
        pauses = Pauses(most=1)
        held = asyncio.create_task(pauses.pause(60))
        await asyncio.sleep(0)
        with pytest.raises(EffectFailed):
            await pauses.pause(60)
        held.cancel()

    asyncio.run(main())


def test_no_time_is_no_pause():
    asyncio.run(Pauses(most=0).pause(0))
