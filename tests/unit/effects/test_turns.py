"""Places to wait in are shared out by sender: nobody takes them all, and nobody is let in before others."""

from __future__ import annotations

import asyncio

from penstock import limits
from penstock.effects.pause import Pauses
from penstock.effects.turns import Shares, Turns
from penstock.errors import EffectFailed


def test_one_sender_alone_gets_half_and_a_newcomer_always_finds_a_place() -> None:
    shares = Shares(1_000)
    assert [shares.take("greedy") for _ in range(1_000)].count(True) == 500
    for newcomer in "abcdef":
        assert shares.take(newcomer)
    shares.give_back("greedy")
    assert not shares.take("greedy")  # it holds more than are free
    assert shares.held_count == 505


def test_what_is_given_back_is_free_again() -> None:
    shares = Shares(2)
    for _ in range(10):
        assert shares.take("a")
        shares.give_back("a")
    assert shares.held_count == 0


def test_a_batch_of_one_client_leaves_room_for_the_call_of_another() -> None:
    async def main() -> None:
        pauses = Pauses()
        batch = [asyncio.create_task(pauses.pause(60, "one")) for _ in range(limits.PAUSED_MESSAGES)]
        await asyncio.sleep(0)
        assert sum(task.done() for task in batch) == limits.PAUSED_MESSAGES // 2
        assert all(isinstance(task.exception(), EffectFailed) for task in batch if task.done())
        await pauses.pause(0.001, "other")
        for task in batch:
            task.cancel()
        await asyncio.gather(*batch, return_exceptions=True)
        assert pauses.held_count == 0

    asyncio.run(main())


def test_turns_go_round_among_senders() -> None:
    async def main() -> None:
        turns = Turns(2)
        order: list[str] = []

        async def work(sender: str) -> None:
            await turns.take(sender)
            order.append(sender)
            await asyncio.sleep(0)
            turns.give_back(sender)

        await asyncio.gather(*(work(sender) for sender in ("a", "a", "a", "a", "b", "b", "c")))
        assert sorted(order) == ["a", "a", "a", "a", "b", "b", "c"]
        assert "b" in order[:3]
        assert "c" in order[:5]

    asyncio.run(main())


def test_who_gives_up_waiting_takes_nobodys_turn() -> None:
    async def main() -> None:
        turns = Turns(2)
        await turns.take("a")
        waiting = [asyncio.create_task(turns.take(sender)) for sender in ("a", "a")]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        turns.give_back("a")
        await waiting[1]
        # One that is cancelled just when its turn has come passes it on.
        third, fourth = (asyncio.create_task(turns.take("a")) for _ in range(2))
        await asyncio.sleep(0)
        turns.give_back("a")
        third.cancel()
        await asyncio.gather(third, return_exceptions=True)
        await asyncio.wait_for(fourth, 5)
        turns.give_back("a")

    asyncio.run(main())
