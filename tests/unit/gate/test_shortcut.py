"""The short way to the live view tells what the long way tells, to the letter, and keeps little."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

import hostile
from gate_messages import Deciding, client, known_session, upstream
from memory_doors import CHOICE, catalog
from penstock.gate.gate import Gate
from penstock.gate.observed import ObservedGate
from penstock.gate.record import Passed, Record, Shortcut, told
from penstock.gate.shortcut import ShortcutGate
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message

MOST = 300
ALLOWED, DENIED = hostile.ALLOWED[0].encode(), hostile.DENIED[0].encode()
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{}}}'
ODD_CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b", "x":1}}' % ALLOWED
PROMPT = b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}'
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
PING = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
TOLD = b'{"jsonrpc":"2.0","method":"notifications/x"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
TOOLS = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'
BAD_ERROR = b'{"jsonrpc":"2.0","id":1,"error":5}'
LARGE_CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{"a":"%b"}}}'
    % (
        ALLOWED,
        b"x" * MOST,
    )
)
LARGE_ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":["%b"]}}' % (b"x" * MOST)
WHY = Why("r", "block", "because", -32000)


class Book:
    """An observer that numbers and keeps everything, whichever way it comes."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.passed: list[Passed] = []
        self.direct = 0
        self._number = itertools.count(1).__next__

    def saw(self, record: Record) -> None:
        record.index = self._number()
        self.records.append(record)

    def keep(self, passed: Passed) -> None:
        self.direct += 1
        self.passed.append(passed)
        self.records.append(told(passed))

    @property
    def shortcut(self) -> Shortcut:
        return Shortcut(self._number, self.keep, MOST)

    @property
    def told(self) -> list[dict[str, Any]]:
        """Everything but times."""
        rows = []
        for record in self.records:
            row = structs.asdict(record) | {"session": record.session.id}
            for name in ("request", "batch"):
                row[name] = row[name].index if row[name] is not None else None
            del row["received"], row["micros"]
            rows.append(row)
        return rows


def exchanged(
    gate: ObservedGate, request: bytes, answer: bytes | None = None, session: Session | None = None
) -> tuple[Verdict, Verdict | None]:
    """One exchange through `gate`."""
    message = client(request)
    exchange = Exchange(
        message.id_token or b"",
        message.method or "",
        session=session or known_session(),
        catalog=catalog(),
        headers=((b"mcp-name", b"x"),),
    )
    first = gate.client_says(message, exchange)
    assert exchange.request is message
    assert exchange.weight == len(request)
    if answer is None:
        return first, None
    exchange.status = 200
    return first, gate.upstream_says(upstream(answer), exchange)


def both_ways(inner: Callable[[], Gate], drive: Callable[[ObservedGate], Any]) -> tuple[Book, Any]:
    """What the short way tells, after making sure that the long way tells the same and decides the same."""
    long, short = Book(), Book()
    said = drive(ObservedGate(inner(), [long], Session(id="own")))  # type: ignore[list-item]
    gate = ShortcutGate(inner(), [short], Session(id="own"), short.shortcut)  # type: ignore[list-item]
    assert drive(gate) == said
    assert short.told == long.told
    assert [one.index for one in short.records] == list(range(1, len(short.records) + 1))
    return short, said


@pytest.mark.parametrize(
    ("request_", "answer", "direct"),
    [
        (CALL % ALLOWED, ANSWER, 2),
        (ODD_CALL, ANSWER, 2),
        (PROMPT, ANSWER, 2),
        (PING, None, 1),
        (TOLD, None, 1),
        (CALL % DENIED, None, 0),
        (LIST, TOOLS, 0),  # what an upstream lists is looked into
        (LIST[:-1] + b',"params":{"name":"x"}}', TOOLS, 0),
        (CALL % ALLOWED, BAD_ERROR, 1),
        (LARGE_CALL, ANSWER, 0),
        (CALL % ALLOWED, LARGE_ANSWER, 1),
        (CALL % ALLOWED, TOLD, 1),
    ],
)
def test_both_ways_tell_the_same(request_: bytes, answer: bytes | None, direct: int) -> None:
    book, _ = both_ways(lambda: Gate(CHOICE), lambda gate: exchanged(gate, request_, answer))
    assert book.direct == direct


def test_a_list_goes_the_long_way_also_where_it_is_asked_of_the_upstream() -> None:
    book, said = both_ways(lambda: Gate(ToolFilter()), lambda gate: exchanged(gate, LIST, TOOLS))
    assert said[0] is FORWARD
    assert book.direct == 0


@pytest.mark.parametrize(
    "session",
    [
        lambda: Session(id="s"),
        lambda: Session(id="s", client_name="x"),
        lambda: Session(id="s", era=Era.MODERN),
    ],
)
def test_a_session_that_may_still_be_learned_about_goes_the_long_way(
    session: Callable[[], Session],
) -> None:
    book, _ = both_ways(lambda: Gate(CHOICE), lambda gate: exchanged(gate, PING, None, session()))
    assert book.direct == 0


def test_a_client_is_learned_by_its_handshake_and_then_goes_the_short_way() -> None:
    hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"n"}}}'
    sessions: list[Session] = []

    def drive(gate: ObservedGate) -> None:
        session = Session(id="s")
        sessions.append(session)
        exchanged(gate, hello, ANSWER, session)
        exchanged(gate, PING, None, session)

    book, _ = both_ways(lambda: Gate(CHOICE), drive)
    assert [(one.client_name, one.era) for one in sessions] == [("n", Era.LEGACY)] * 2
    assert book.direct == 1  # what came after


@pytest.mark.parametrize(
    "verdict",
    [
        Forward(None, "pass", WHY),
        Forward(Message(b"new", upstream(ANSWER).kind, b"1", None), "change", WHY),
        Answer(b"no", word="block", why=WHY),
        Drop(WHY, "drop"),
    ],
)
def test_whatever_is_no_plain_pass_is_told_with_its_reasons(verdict: Verdict) -> None:
    book, said = both_ways(lambda: Deciding(verdict), lambda gate: exchanged(gate, PING, ANSWER))
    assert said == (verdict, verdict)
    assert book.direct == 0
    assert [one.why for one in book.records] == [WHY, WHY]


def test_what_is_held_is_told_once_and_its_waiting_counts() -> None:
    book = Book()
    inner = Deciding(HOLD)
    gate = ShortcutGate(inner, [book], Session(id="own"), book.shortcut)  # type: ignore[list-item]
    message = client(PING)
    exchange = Exchange(b"2", "ping", session=known_session())
    gate.client_says(message, exchange)
    assert book.records == []
    exchange.started -= 2
    inner.verdict = FORWARD
    gate.client_says(message, exchange)
    assert [one.raw for one in book.records] == [PING]
    assert book.records[0].micros >= 2_000_000
    assert abs(book.records[0].received - (time.time() - 2)) < 1


def test_what_waits_is_told_when_it_is_decided() -> None:
    waits: list[Wait] = []

    def inner() -> Gate:
        waits.append(Wait(client(PING), True))
        return Deciding(waits[-1])

    def drive(gate: ObservedGate) -> None:
        exchanged(gate, PING)
        waits[-1].settle(FORWARD)

    assert both_ways(inner, drive)[0].direct == 0


def test_arrays_and_answers_of_clients_go_the_long_way() -> None:
    def drive(gate: ObservedGate) -> None:
        session = known_session()
        with gate.in_batch("client", b"[...]", session):
            exchanged(gate, PING, ANSWER, session)
        asked = Exchange(b"1", "sampling/createMessage", session=session)
        gate.upstream_says(upstream(b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}'), asked)
        gate.client_says(client(ANSWER), asked)

    assert both_ways(lambda: Gate(CHOICE), drive)[0].direct == 0


def test_an_answer_in_an_array_goes_the_long_way_however_its_request_went() -> None:
    def drive(gate: ObservedGate) -> None:
        exchange = Exchange(b"2", "ping", session=known_session())
        gate.client_says(client(PING), exchange)
        with gate.in_batch("upstream", b"[...]", exchange.session):
            gate.upstream_says(upstream(ANSWER), exchange)

    book, _ = both_ways(lambda: Gate(CHOICE), drive)
    assert (book.direct, len(book.records)) == (1, 3)


def test_an_answer_keeps_nothing_of_its_exchange_but_the_record_of_what_was_asked() -> None:
    book, _ = both_ways(lambda: Gate(CHOICE), lambda gate: exchanged(gate, CALL % ALLOWED, ANSWER))
    request, answer = book.records
    assert answer.request == request
    assert (request.tool, answer.tool) == (ALLOWED.decode(), ALLOWED.decode())
    asked, answered = book.passed
    assert asked in answered
    kept = [*asked, *answered]
    assert not {Exchange, Message} & set(map(type, kept))
    assert sum(len(value) for value in kept if isinstance(value, bytes)) < 2 * MOST + 10
    assert 0 <= request.micros < 5_000_000


def test_what_the_long_way_says_of_an_exchange_refers_to_the_whole_record_of_its_request() -> None:
    def drive(gate: ObservedGate) -> None:
        exchange = Exchange(b"2", "ping", session=known_session())
        gate.client_says(client(PING), exchange)
        gate.said("upstream", "skip", b"{", WHY, exchange)
        gate.said("penstock", "answer", ANSWER, None, exchange, status=502)
        assert type(exchange.record) is Record

    book, _ = both_ways(lambda: Gate(CHOICE), drive)
    assert book.direct == 1
    assert [one["request"] for one in book.told] == [None, 1, 1]


def test_who_keeps_may_change_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    book = Book()
    shortcut = book.shortcut
    gate = ShortcutGate(Gate(CHOICE), [book], Session(id="own"), shortcut)  # type: ignore[list-item]
    exchanged(gate, PING)
    other: list[Passed] = []
    shortcut.keep = other.append
    exchanged(gate, PING)
    assert (len(book.records), len(other)) == (1, 1)

    def fail(passed: Passed) -> None:
        raise RuntimeError("no space left")

    shortcut.keep = fail
    assert exchanged(gate, CALL % ALLOWED, ANSWER) == (FORWARD, FORWARD)
    assert [record.getMessage() for record in caplog.records] == ["An observer failed."] * 2


def padded(raw: bytes, size: int) -> bytes:
    """The message with blanks before its end, so that it has just so many bytes."""
    return raw[:-1] + b" " * (size - len(raw)) + b"}"


def test_what_is_just_small_enough_goes_the_short_way() -> None:
    request, answer = padded(CALL % ALLOWED, MOST), padded(ANSWER, MOST)
    short, _ = both_ways(lambda: Gate(CHOICE), lambda gate: exchanged(gate, request, answer))
    assert short.direct == 2
    short, _ = both_ways(
        lambda: Gate(CHOICE),
        lambda gate: exchanged(gate, padded(CALL % ALLOWED, MOST + 1), padded(ANSWER, MOST + 1)),
    )
    assert short.direct == 0


def test_what_belongs_to_no_request_that_was_told_goes_the_long_way() -> None:
    def drive(gate: ObservedGate) -> list[Verdict]:
        complaint = upstream(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}')
        answer = client(ANSWER)
        return [
            gate.upstream_says(complaint, Exchange(session=known_session())),
            gate.client_says(answer, Exchange(session=known_session())),
        ]

    short, _ = both_ways(lambda: Gate(CHOICE), drive)
    assert short.direct == 0


class Clock:
    """Two clocks that go on by a quarter of a second whenever one of them is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 0.0
        monkeypatch.setattr("penstock.gate.shortcut._time", lambda: 1_000.0 + self._tick())
        monkeypatch.setattr("penstock.gate.shortcut._monotonic", lambda: 50.0 + self._tick())

    def _tick(self) -> float:
        self._now += 0.25
        return self._now


def test_the_short_way_tells_when_a_message_came_and_how_long_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Clock(monkeypatch)
    book = Book()
    gate = ShortcutGate(Gate(CHOICE), [book], Session(id="own"), book.shortcut)  # type: ignore[list-item]
    exchanged(gate, CALL % ALLOWED, ANSWER)
    assert [(one.received, one.micros) for one in book.records] == [(1_000.25, 250_000), (1_000.75, 250_000)]


def test_what_was_decided_otherwise_began_when_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    since: list[float] = []
    book = Book()
    gate = ShortcutGate(Deciding(Drop(WHY)), [book], Session(id="own"), book.shortcut)  # type: ignore[list-item]
    monkeypatch.setattr(gate, "_follow", lambda *what: since.append(what[-1]))
    message = client(CALL % ALLOWED)
    exchange = Exchange(b"1", "tools/call", session=known_session())
    gate.client_says(message, exchange)
    assert since == [exchange.started] == [50.0]  # 50.5 - 1000.75 + 1000.25
    exchange.record = (b"", b"1", 0.0, 0.0, 1, exchange.session, None, None, ())
    gate.upstream_says(upstream(ANSWER), exchange)
    assert since[1] == 50.75  # 51.25 - 1001.5 + 1001.0


def test_an_observer_that_fails_is_told_of_as_penstocks(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Book):
        def keep(self, passed: Passed) -> None:
            raise RuntimeError

        def saw(self, record: Record) -> None:
            raise RuntimeError

    book = Failing()
    gate = ShortcutGate(Gate(CHOICE), [book], Session(id="own"), book.shortcut)  # type: ignore[list-item]
    assert exchanged(gate, CALL % ALLOWED, ANSWER) == (FORWARD, FORWARD)
    gate.said("client", "refuse", b"{")
    assert [(one.name, one.getMessage()) for one in caplog.records] == [
        ("penstock", "An observer failed.")
    ] * 3
