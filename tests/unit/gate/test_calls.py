"""Who wants calls and failures only hears by the short way of just those that the long way tells of."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import hostile
from gate_messages import Deciding, client, known_session, upstream
from memory_doors import CHOICE, catalog
from penstock.gate.calls import CallsGate
from penstock.gate.gate import Gate
from penstock.gate.observed import ObservedGate
from penstock.gate.record import CallSeen, Record
from penstock.learn.events import Event, called, event_of_record
from penstock.policy.exchange import Exchange, Session
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message

ALLOWED, DENIED = hostile.ALLOWED[0].encode(), hostile.DENIED[0].encode()
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{"a":[1]}}}'
SPACED_CALL = b'{"jsonrpc":"2.0","id":1, "method":"tools/call","params":{"name":"%b"}}' % ALLOWED
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
PING = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
PROMPT = b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
FINE = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false}}'
FAILED = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}'
SPELT_FAILED = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"\\u0069sError" : true}}'
TRUE_INSIDE = b'{"jsonrpc":"2.0","id":1,"result":{"content":["true"],"isError":false}}'
ERROR = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}'
BAD_ERROR = b'{"jsonrpc":"2.0","id":1,"error":5}'
LARGE = b'{"jsonrpc":"2.0","id":1,"result":{"content":["%b"],"isError":%b}}'
WHY = Why("r", "block", "because", -32000)


class Book:
    """An observer that makes events of what it hears, whichever way it comes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.senders: list[str] = []
        self.direct = 0
        self.records = 0

    def saw(self, record: Record) -> None:
        self.records += 1
        event = event_of_record(record)
        if event is not None and not (event.is_answer and not event.is_error and not event.is_stopped):
            event.time = 0.0
            self.events.append(event)
            self.senders.append(record.sender)

    def keep(self, seen: CallSeen) -> None:
        self.direct += 1
        session = seen.session
        tool, arguments = called(seen.raw)
        assert tool == seen.tool
        assert seen.received > 1_000_000_000
        name = session.client_name or ""
        self.events.append(Event(session.id, name, 0.0, 0, tool, False, arguments, len(seen.raw)))
        self.senders.append("client")


def exchanged(
    gate: ObservedGate, request: bytes, answer: bytes | None = None, session: Session | None = None
) -> tuple[Verdict, Verdict | None]:
    """One exchange through `gate`."""
    message = client(request)
    exchange = Exchange(
        message.id_token or b"", message.method or "", session=session or known_session(), catalog=catalog()
    )
    first = gate.client_says(message, exchange)
    assert exchange.request is message  # for whoever asks what was answered
    assert exchange.weight == len(request)
    return first, None if answer is None else gate.upstream_says(upstream(answer), exchange)


def both_ways(inner: Callable[[], Gate], drive: Callable[[ObservedGate], Any]) -> Book:
    """What the short way tells, after making sure that the long way tells the same and decides the same."""
    long, short = Book(), Book()
    said = drive(ObservedGate(inner(), [long], Session(id="own")))  # type: ignore[list-item]
    gate = CallsGate(inner(), [short], Session(id="own"), short.keep)  # type: ignore[list-item]
    assert drive(gate) == said
    assert (short.events, short.senders) == (long.events, long.senders)
    return short


@pytest.mark.parametrize(
    ("request_", "answer", "direct", "events"),
    [
        (CALL % ALLOWED, None, 1, 1),
        (CALL % ALLOWED, ANSWER, 1, 1),
        (CALL % ALLOWED, FINE, 1, 1),
        (CALL % ALLOWED, TRUE_INSIDE, 1, 1),
        (CALL % ALLOWED, FAILED, 1, 2),
        (CALL % ALLOWED, SPELT_FAILED, 1, 2),
        (CALL % ALLOWED, ERROR, 1, 2),
        (CALL % ALLOWED, BAD_ERROR, 1, 2),
        (CALL % ALLOWED, LARGE % (b"x" * 70_000, b"true"), 1, 2),
        (CALL % ALLOWED, LARGE % (b"x" * 70_000, b"false"), 1, 1),
        (SPACED_CALL, FAILED, 0, 2),
        (CALL % DENIED, None, 0, 1),
        (LIST, None, 0, 0),
        (PROMPT, ANSWER, 0, 0),  # it has a name too
        (PING, ANSWER, 0, 0),
        (PING, ERROR, 0, 0),
    ],
)
def test_both_ways_tell_the_same(request_: bytes, answer: bytes | None, direct: int, events: int) -> None:
    book = both_ways(lambda: Gate(CHOICE), lambda gate: exchanged(gate, request_, answer))
    assert (book.direct, len(book.events)) == (direct, events)


@pytest.mark.parametrize(
    "session",
    [
        lambda: Session(id="s"),
        lambda: Session(id="s", client_name="x"),
        lambda: Session(id="s", era=Era.MODERN),
    ],
)
def test_a_session_that_may_still_be_learned_about_goes_the_long_way(session: Callable[[], Session]) -> None:
    book = both_ways(lambda: Gate(CHOICE), lambda gate: exchanged(gate, CALL % ALLOWED, ANSWER, session()))
    assert (book.direct, len(book.events)) == (0, 1)


@pytest.mark.parametrize(
    "verdict",
    [
        Forward(None, "pass", WHY),
        Forward(client(CALL % DENIED), "change", WHY),
        Answer(b"no", word="block", why=WHY),
        Drop(WHY, "drop"),
    ],
)
def test_whatever_is_no_plain_pass_is_told_the_long_way(verdict: Verdict) -> None:
    book = both_ways(lambda: Deciding(verdict), lambda gate: exchanged(gate, CALL % ALLOWED, ANSWER))
    assert book.direct == 0
    assert [event.is_stopped for event in book.events] == (
        [False] if isinstance(verdict, Forward) else [True, True]
    )


def test_what_is_held_or_waits_is_told_once_when_it_is_decided() -> None:
    def drive_held(gate: ObservedGate) -> None:
        inner = gate._inner
        assert isinstance(inner, Deciding)
        message, exchange = client(CALL % ALLOWED), Exchange(b"1", "tools/call", session=known_session())
        gate.client_says(message, exchange)
        inner.verdict = FORWARD
        gate.client_says(message, exchange)

    held = both_ways(lambda: Deciding(HOLD), drive_held)
    assert (held.direct, len(held.events)) == (0, 1)  # it was asked about before
    waits: list[Wait] = []

    def inner() -> Gate:
        waits.append(Wait(client(PING), True))
        return Deciding(waits[-1])

    def drive_waiting(gate: ObservedGate) -> None:
        exchanged(gate, CALL % ALLOWED)
        waits[-1].settle(Drop(WHY))

    (event,) = both_ways(inner, drive_waiting).events
    assert event.is_stopped


def test_arrays_go_the_long_way() -> None:
    def drive(gate: ObservedGate) -> None:
        session = known_session()
        with gate.in_batch("client", b"[...]", session):
            exchanged(gate, CALL % ALLOWED, FAILED, session)
            exchanged(gate, CALL % ALLOWED, ANSWER, session)

    book = both_ways(lambda: Gate(CHOICE), drive)
    assert (book.direct, len(book.events), book.records) == (0, 3, 5)  # the array itself, and all in it


def test_who_keeps_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    def fail(seen: CallSeen) -> None:
        raise RuntimeError("no space left")

    gate = CallsGate(Gate(CHOICE), [], Session(id="own"), fail)
    assert exchanged(gate, CALL % ALLOWED, ANSWER) == (FORWARD, FORWARD)
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("penstock", "An observer failed.")
    ]


@pytest.mark.parametrize(
    "answer",
    [ANSWER, FINE, b'{"jsonrpc":"2.0","id":1,"result":{"content":["true"]}}'],
    ids=["plain", "isError", "true"],
)
def test_of_an_answer_that_has_plainly_not_failed_nothing_is_told(answer: bytes) -> None:
    book = both_ways(lambda: Gate(CHOICE), lambda gate: exchanged(gate, CALL % ALLOWED, answer))
    assert (book.direct, book.records) == (1, 0)


class Starting(Deciding):
    """One that notes when an exchange began, as rules do."""

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        exchange.started = 5.0
        return self.verdict


def test_what_is_stopped_began_when_it_came() -> None:
    """By the clock that never goes back, unless somebody has noted it already."""
    for inner, least, most in (
        (Deciding(Drop(WHY)), time.monotonic() - 600, time.monotonic() + 600),
        (Starting(Drop(WHY)), 5.0, 5.0),
    ):
        book = Book()
        gate = CallsGate(inner, [book], Session(id="own"), book.keep)  # type: ignore[list-item]
        exchange = Exchange(b"1", "tools/call", session=known_session(), catalog=catalog())
        gate.client_says(client(CALL % ALLOWED), exchange)
        assert least <= exchange.started <= most
