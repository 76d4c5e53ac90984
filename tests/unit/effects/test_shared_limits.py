"""Limits whose counts are elsewhere: what is known of them here, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from penstock.effects.shared_limits import SharedLimits
from penstock.state.seals import Seals
from penstock.state.store import Admission, Store


class SlowStore:
    """Keeps whoever asks waiting until `answer`."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Admission | None], None]] = []

    def admit(
        self,
        name: bytes,
        limit: int,
        window: float,
        then: Callable[[Admission | None], None],
        lease: float,
        more: int,
    ) -> None:
        self.waiting.append(then)


def test_a_refusal_counts_from_when_it_was_asked_for_and_not_from_when_it_came() -> None:
    store, now, told = SlowStore(), [100.0], list[bool | None]()
    counts = SharedLimits(cast(Store, store), Seals(b"s" * 32), lambda: now[0])
    counts.ask("k", 5, 2.0, told.append)
    now[0] = 100.5  # the answer was half a second on its way: there is room at 101 at the latest
    store.waiting.pop()(Admission(False, 1.0))
    assert told == [False]
    for moment, is_known in ((100.9, True), (101.0, False), (101.4, False)):
        now[0] = moment
        assert counts.is_known_full("k", 5, 2.0) is is_known
    counts.ask("k", 5, 2.0, told.append)
    assert len(store.waiting) == 1  # it is asked again
