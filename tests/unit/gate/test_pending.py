"""Requests that wait, found by their answers."""

from __future__ import annotations

import tracemalloc

import pytest

from penstock import limits
from penstock.gate.pending import ByteShare, PendingTable, RecentIds
from penstock.policy.exchange import Exchange


def test_an_answer_finds_its_request_once() -> None:
    table = PendingTable()
    exchange = Exchange(b"1", "ping")
    assert table.open(exchange)
    assert table.close(b"1") is exchange
    assert table.close(b"1") is None


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (b"1.0", b"1"),
        (b'"\\u0061"', b'"a"'),
        (b"12345678901234567890123456789012345678901", b"1.2345678901234568e+40"),
        (b"9007199254740993", b"9007199254740992"),
        (b"1e400", b"1e400"),
    ],
)
def test_an_answer_may_spell_the_id_as_its_sender_does(asked: bytes, answered: bytes) -> None:
    table = PendingTable()
    table.open(Exchange(asked, "ping"))
    found = table.close(answered)
    assert found is not None
    assert found.id_token == asked
    assert len(table) == 0


def test_an_id_that_waits_cannot_be_used_again() -> None:
    table = PendingTable()
    assert table.open(Exchange(b"1", "a"))
    assert not table.open(Exchange(b"1", "b"))
    assert not table.open(Exchange(b"1.0", "b"))
    assert table.open(Exchange(b'"1"', "b"))


def test_large_ids_that_a_double_cannot_tell_apart_are_apart() -> None:
    table = PendingTable()
    ids = [b"%d" % (1763200000000000000 + step) for step in range(20)]
    assert all(table.open(Exchange(token, "a")) for token in ids)
    for token in reversed(ids):
        found = table.close(token)
        assert found is not None
        assert found.id_token == token


def test_rounded_answers_to_large_ids_are_given_in_order() -> None:
    table = PendingTable()
    first, second = b"1763200000000000001", b"1763200000000000002"
    table.open(Exchange(first, "a"))
    table.open(Exchange(second, "a"))
    rounded = b"%d" % int(float(first))
    found = [table.close(rounded), table.close(rounded)]
    assert [exchange.id_token for exchange in found if exchange] == [first, second]


def test_the_oldest_request_is_forgotten_when_there_are_too_many() -> None:
    table = PendingTable(capacity=3)
    for number in range(5):
        table.open(Exchange(b"%d" % number, "a"))
        assert len(table) == min(number + 1, 3)
    assert table.close(b"1") is None
    assert table.close(b"4") is not None


def test_everything_that_waits_can_be_had_at_once() -> None:
    table = PendingTable()
    for number in range(3):
        table.open(Exchange(b"%d" % number, "a"))
    assert [exchange.id_token for exchange in table.close_all()] == [b"0", b"1", b"2"]
    assert len(table) == 0


def test_recent_ids_are_remembered_up_to_a_point() -> None:
    recent = RecentIds(capacity=2)
    for token in (b"1", b"2.0", b"3"):
        recent.add(token)
    assert b"1" not in recent
    assert b"2" in recent
    recent.discard(b"2")
    assert b"2" not in recent
    recent.add(b"4")
    assert b"3" in recent


def test_an_id_that_was_given_up_is_forgotten_in_every_spelling() -> None:
    table = PendingTable()
    table.open(Exchange(b"9007199254740993", "a"))
    table.close_all()
    assert table.close(b"9007199254740992") is None
    table.open(Exchange(b"9007199254740993", "b"))
    found = table.close(b"9007199254740992")
    assert found is not None
    assert found.method == "b"
    assert table.close(b"9007199254740992") is None


def test_what_was_answered_leaves_nothing_behind() -> None:
    """The table of rounded ids must not grow with every large id that a session ever used."""
    table = PendingTable()
    for step in range(100):
        token = b"%d" % (9007199254740993 + 1000 * step)
        table.open(Exchange(token, "a"))
        table.close(token)
    assert not table._rounded


def test_an_id_that_is_in_use_again_does_not_count_among_the_recent() -> None:
    recent = RecentIds(capacity=2)
    recent.add(b"1")
    recent.add(b"2")
    recent.discard(b"1")
    recent.add(b"1")
    recent.add(b"3")
    assert b"2" not in recent
    assert b"1" in recent
    assert b"3" in recent


def test_ids_and_methods_as_long_as_messages_do_not_pile_up() -> None:
    table = PendingTable()
    big = limits.PENDING_BYTES // 2 - 10
    ids = [b'"%d%b"' % (number, b"x" * (big - 10)) for number in range(3)]
    for token in ids:
        assert table.open(Exchange(token, "ping"))
    assert len(table) == 2
    assert table.close(ids[0]) is None
    for token in ids[1:]:
        assert table.close(token) is not None
    for number in range(3):
        assert table.open(Exchange(b"%d" % number, "x" * big))
    assert [exchange.id_token for exchange in table.close_all()] == [b"1", b"2"]
    for number in range(3):
        assert table.open(Exchange(b"%d" % number, "ping", meta=b"x" * big))
    assert [exchange.id_token for exchange in table.close_all()] == [b"1", b"2"]


def test_long_ids_and_requests_that_rules_remember_are_bounded_by_their_bytes() -> None:
    step = limits.PENDING_BYTES // 4
    for is_ruled in (False, True):
        table = PendingTable()
        for number in range(6):
            id_token = b"%d" % number if is_ruled else b'"%d%b"' % (number, b"x" * step)
            assert table.open(Exchange(id_token, "a", weight=step if is_ruled else 0))
        assert len(table) == 3
        assert [exchange.id_token[:2].strip(b'"') for exchange in table] == [b"3", b"4", b"5"]
        for exchange in tuple(table):
            table.close(exchange.id_token)
        for number in range(3):
            assert table.open(Exchange(b"%d" % number, "a", weight=step))
        assert len(table) == 3
        table.close_all()
        assert table.open(Exchange(b"9", "a", weight=(3 * step)))
        assert table.open(Exchange(b"8", "a"))
        assert len(table) == 2


@pytest.mark.parametrize("is_used_again", [False, True])
@pytest.mark.parametrize("over", [0, 1])
def test_what_waits_may_weigh_so_many_bytes_and_not_one_more(over: int, is_used_again: bool) -> None:
    table = PendingTable()
    if is_used_again:
        table.open(Exchange(b"9", "ping"))
        table.close_all()
    half = limits.PENDING_BYTES // 2
    weighed = [
        Exchange(b"1", "ping", meta=b"x" * (half - len(b"1" + b"ping"))),
        Exchange(b"2", "ping", weight=(half - len(b"2" + b"ping") + over)),
    ]
    for exchange in weighed:
        assert table.open(exchange)
    assert list(table) == weighed[over:]
    assert sum(exchange.weight for exchange in weighed) == limits.PENDING_BYTES + over


def test_no_more_is_forgotten_than_the_newest_needs() -> None:
    table = PendingTable()
    part = limits.PENDING_BYTES // 4
    for number in range(5):
        assert table.open(Exchange(b"%d" % number, "x" * (part - 1)))
        assert len(table) == min(number + 1, 4)


def test_one_request_heavier_than_all_may_be_waits_alone() -> None:
    table = PendingTable()
    table.open(Exchange(b"1", "ping"))
    heavy = Exchange(b"2", "ping", weight=(limits.PENDING_BYTES + 1))
    assert table.open(heavy)
    assert list(table) == [heavy]
    assert table.open(Exchange(b"3", "ping"))
    assert [exchange.id_token for exchange in table] == [b"3"]


def test_a_long_id_is_remembered_without_being_kept() -> None:
    recent = RecentIds()
    long = b'"%b"' % (b"x" * 1_000_000)
    tracemalloc.start()
    try:
        recent.add(long)
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()
    assert long in recent
    assert long[:-1] + b'x"' not in recent
    recent.discard(long)
    assert long not in recent


def _weighing(token: bytes, weight: int) -> Exchange:
    """An exchange that weighs so much in a table: with its id, and a method without a name."""
    return Exchange(token, "", weight=weight - len(token))


def test_what_all_sessions_keep_together_is_bounded_and_who_comes_later_is_not_remembered() -> None:
    share = ByteShare(100)
    assert (share.limit, share.used) == (100, 0)
    ours, theirs = PendingTable(share=share), PendingTable(share=share)
    assert ours.open(_weighing(b"1", 60))
    assert share.used == 60
    late = _weighing(b"2", 41)
    assert theirs.open(late)  # it passes, and its answer is nobody's
    assert (len(theirs), share.used, late.weight) == (0, 60, 0)
    assert theirs.open(_weighing(b"3", 40))
    assert (len(theirs), share.used) == (1, 100)


def test_what_is_answered_forgotten_or_closed_gives_its_share_back() -> None:
    share = ByteShare(100)
    table = PendingTable(capacity=2, share=share)
    one, other = _weighing(b"1", 10), _weighing(b"2", 20)
    table.open(one)
    table.open(other)
    table.open(_weighing(b"3", 30))
    assert share.used == 50  # the oldest is forgotten
    table.close(b"2")
    assert share.used == 30
    other_table = PendingTable(share=share)
    other_table.open(_weighing(b"1", 5))
    assert share.used == 35
    assert len(table.close_all()) == 1
    assert share.used == 5


def test_a_request_larger_than_a_session_may_keep_is_not_remembered_where_sessions_share() -> None:
    share = ByteShare(1000)
    table = PendingTable(most_bytes=50, share=share)
    table.open(_weighing(b"1", 51))
    assert (len(table), share.used) == (0, 0)
    table.open(_weighing(b"2", 50))
    assert (len(table), share.used) == (1, 50)
    table.open(_weighing(b"3", 20))  # the first makes room
    assert (table.find(b"2"), len(table), share.used) == (None, 1, 20)
    table.open(_weighing(b"4", 30))  # what was not remembered weighs nothing
    assert (len(table), share.used) == (2, 50)


def test_what_there_was_no_share_for_weighs_nothing_in_its_table() -> None:
    share = ByteShare(40)
    table = PendingTable(most_bytes=100, share=share)
    table.open(_weighing(b"1", 30))
    for token in (b"2", b"3", b"4"):
        table.open(_weighing(token, 30))
    assert table.find(b"1") is not None  # else three times 30 would have pushed it out
    assert share.used == 30


def test_only_the_very_exchange_is_dropped() -> None:
    table = PendingTable()
    first, again = Exchange(b"1", "a"), Exchange(b"1", "a")
    table.open(first)
    table.drop(again)
    assert table.find(b"1") is first
    table.drop(first)
    assert len(table) == 0
    table.drop(first)


def test_a_string_id_is_found_however_its_letters_are_spelt() -> None:
    table = PendingTable()
    table.open(Exchange(b'"a"', "ping"))
    assert table.close(b'"\\u0061"') is not None
    table.open(Exchange(b"1.5", "ping"))
    assert table.close(b"15e-1") is not None


def test_a_request_under_an_id_that_waits_takes_its_place() -> None:
    share = ByteShare(1000)
    table = PendingTable(share=share)
    first, again, other = _weighing(b"1", 30), _weighing(b"1.0", 20), _weighing(b"2", 10)
    for exchange in (first, other, again):
        table.open_anew(exchange)
    assert list(table) == [other, again]
    assert table.close(b"1") is again
    assert table.close(b"1") is None
    assert share.used == 10


def test_ids_of_digits_alone_are_found_however_many_there_are() -> None:
    table = PendingTable()
    near = b"9007199254740993", b"9007199254740992"
    for token in near:
        assert table.open(Exchange(token, "ping"))
        assert not table.open(Exchange(token, "ping"))
    for token in near:
        found = table.close(token)
        assert found is not None
        assert found.id_token == token
