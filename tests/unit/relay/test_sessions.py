"""The register of sessions: room for so many, and an end for those that are idle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.relay import sessions as module
from penstock.relay.sessions import Sessions


class Fake:
    """A session that only remembers whether it was ended."""

    def __init__(
        self,
        name: bytes,
        *,
        busy: bool = False,
        waiting: bool = False,
        shy: bool = True,
        patience: float = 1000.0,
    ) -> None:
        self.id = name
        self.is_busy = busy
        self.is_waiting = waiting
        self.is_shy = shy
        self.patience = patience
        self.was_ended = False
        self.ended = asyncio.Event()

    def end(self) -> None:
        self.was_ended = True
        self.ended.set()


def in_loop(test: Callable[[], None]) -> None:
    async def run() -> None:
        test()

    asyncio.run(run())


def test_the_longest_idle_makes_room():
    def test() -> None:
        register = Sessions(capacity=2)
        old, new = Fake(b"old"), Fake(b"new")
        register.add(old)
        register.add(new)
        assert register.find(b"old") is old  # so it is the other that was idle longest
        assert register.make_room()
        assert (old.was_ended, new.was_ended) == (False, True)
        assert register.find(b"new") is None
        register.end_all()

    in_loop(test)


def test_what_somebody_uses_does_not_fall_to_a_newcomer():
    def test() -> None:
        register = Sessions(capacity=3)
        used, hello, other = Fake(b"used", shy=False), Fake(b"hello"), Fake(b"other", shy=False)
        for session in (used, hello, other):
            register.add(session)
        assert register.make_room()
        assert (used.was_ended, hello.was_ended, other.was_ended) == (False, True, False)
        register.add(Fake(b"new", shy=False))
        assert not register.make_room()
        assert (used.was_ended, other.was_ended) == (False, False)
        register.end_all()

    in_loop(test)


def test_there_is_no_room_while_all_are_busy():
    def test() -> None:
        register = Sessions(capacity=2)
        crowd = [Fake(b"a", busy=True), Fake(b"b", busy=True)]
        for session in crowd:
            register.add(session)
        assert not register.make_room()
        assert not any(session.was_ended for session in crowd)
        register.end_all()

    in_loop(test)


def test_the_idle_are_ended_and_the_busy_are_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)

    async def run() -> None:
        register = Sessions()
        idle, busy, patient = Fake(b"i", patience=0.0), Fake(b"b", busy=True, patience=0.0), Fake(b"p")
        for session in (idle, busy, patient):
            register.add(session)
        await asyncio.wait_for(idle.ended.wait(), 10)
        assert (busy.was_ended, patient.was_ended, len(register)) == (False, False, 2)
        register.end_all()
        assert (busy.was_ended, len(register)) == (True, 0)

    asyncio.run(run())


def test_who_waits_for_an_answer_is_not_ended_with_the_rest():
    def test() -> None:
        register = Sessions()
        waiting, done = Fake(b"w", waiting=True), Fake(b"d")
        register.add(waiting)
        register.add(done)
        register.end_settled()
        assert (waiting.was_ended, done.was_ended) == (False, True)
        register.end_all()

    in_loop(test)


def test_ids_cannot_be_guessed():
    def test() -> None:
        register = Sessions()
        ids = {register.new_id() for _ in range(1000)}
        assert len(ids) == 1000
        assert all(len(one) == 48 for one in ids)  # 192 bits in hexadecimal

    in_loop(test)
