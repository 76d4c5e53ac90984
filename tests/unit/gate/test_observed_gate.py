"""The observed gate asked directly: whose record, which words, in which array, and what is said beside it."""

from __future__ import annotations

import time
from typing import Any

import pytest

import hostile
from gate_messages import Deciding, client, upstream
from memory_doors import CHOICE, catalog
from penstock.gate.gate import Gate
from penstock.gate.observed import ObservedGate
from penstock.gate.record import Record
from penstock.policy.exchange import Exchange, Session
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message

ALLOWED = hostile.ALLOWED[0]
OWN = Session(id="own")
WHY = Why("r", "block", "because", -32000)


class Book:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def saw(self, record: Record) -> None:
        self.records.append(record)


def gate_and_book(verdict: Verdict = FORWARD) -> tuple[ObservedGate, Book]:
    book = Book()
    return ObservedGate(Deciding(verdict), [book], OWN), book  # type: ignore[list-item]


def asked(raw: bytes, session: Session | None = None, **more: Any) -> tuple[Message, Exchange]:
    message = client(raw)
    exchange = Exchange(message.id_token or b"", message.method or "", session=session or Session(), **more)
    return message, exchange


CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{}}}'
PING = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
TOLD = b'{"jsonrpc":"2.0","method":"notifications/x"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


def test_a_request_is_kept_for_its_answer_with_its_weight_and_time() -> None:
    gate, book = gate_and_book()
    message, exchange = asked(CALL % ALLOWED.encode(), catalog=catalog())
    before = time.monotonic()
    assert gate.client_says(message, exchange) is FORWARD
    assert exchange.request is message
    assert exchange.weight == len(message.raw)
    assert before <= exchange.started <= time.monotonic()
    assert exchange.record is book.records[0]
    answer = upstream(ANSWER)
    exchange.status = 200
    gate.upstream_says(answer, exchange)
    assert exchange.response is answer
    assert exchange.answered is not None
    assert exchange.started <= exchange.answered <= time.monotonic()
    assert book.records[1].request is book.records[0]
    assert (book.records[0].status, book.records[1].status) == (None, 200)
    assert book.records[1].batch is None


def test_an_answer_to_no_request_that_we_know_has_no_method() -> None:
    gate, book = gate_and_book()
    gate.upstream_says(upstream(ANSWER), Exchange(b"1"))
    assert (book.records[0].method, book.records[0].request) == (None, None)


def test_times_are_told_in_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, book = gate_and_book()
    message, exchange = asked(PING)
    exchange.started = time.monotonic() - 2
    gate.client_says(message, exchange)
    assert 2_000_000 <= book.records[0].micros < 2_000_000 + 900_000
    assert abs(book.records[0].received - (time.time() - 2)) < 1


@pytest.mark.parametrize(
    ("raw", "tool"),
    [
        (CALL % b"echo", "echo"),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"long", "x":1}}', "long"),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":1, "y":2}}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5, "y":2}}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"long", "x":1}}', None),
    ],
)  # fmt: skip
def test_a_call_is_told_with_its_tool_however_it_is_spelt(raw: bytes, tool: str | None) -> None:
    gate, book = gate_and_book()
    message, exchange = asked(raw, catalog=catalog())
    gate.client_says(message, exchange)
    assert book.records[0].tool == tool


@pytest.mark.parametrize(
    ("verdict", "word", "sent"),
    [
        (FORWARD, "pass", None),
        (Forward(None, "flag", WHY), "flag", None),
        (Forward(Message(b"new", upstream(ANSWER).kind, b"1", None), "change", WHY), "change", b"new"),
        (Answer(b"no", word="block", why=WHY), "block", b"no"),
        (Drop(WHY, "drop"), "drop", None),
    ],
)
def test_what_was_sent_in_its_place_is_told_beside_the_verdict(
    verdict: Verdict, word: str, sent: bytes | None
) -> None:
    gate, book = gate_and_book(verdict)
    assert gate.client_says(*asked(PING)) is verdict
    assert [(one.verdict, one.sent) for one in book.records] == [(word, sent)]
    assert book.records[0].why == (None if verdict is FORWARD else WHY)


def test_what_waits_is_told_once_when_it_is_decided_and_in_the_array_that_it_came_in() -> None:
    message, exchange = asked(PING)
    wait = Wait(message, True)
    gate, book = gate_and_book(wait)
    with gate.in_batch("client", b"[...]", exchange.session):
        assert gate.client_says(message, exchange) is wait
    assert [one.raw for one in book.records] == [b"[...]"]
    wait.settle(FORWARD)
    assert [one.raw for one in book.records] == [b"[...]", PING]
    assert book.records[1].batch is book.records[0]


def test_what_was_held_is_told_of_the_array_that_it_came_in_though_it_is_asked_about_later() -> None:
    message, exchange = asked(PING)
    gate, book = gate_and_book(HOLD)
    with gate.in_batch("client", b"[...]", exchange.session):
        gate.client_says(message, exchange)
    assert [one.raw for one in book.records] == [b"[...]"]
    gate._inner.verdict = FORWARD  # type: ignore[attr-defined]
    gate.client_says(message, exchange)
    assert book.records[1].batch is book.records[0]
    assert exchange.record is book.records[1]
    other, alone = asked(PING)
    gate.client_says(other, alone)
    assert book.records[2].batch is None


@pytest.mark.parametrize("sender", ["client", "upstream"])
def test_an_array_is_told_first_and_its_messages_refer_to_it(sender: str) -> None:
    gate, book = gate_and_book()
    session = Session(id="s")
    with gate.in_batch(sender, b"[x]", session):
        gate.client_says(*asked(PING, session))
        gate.said(sender, "skip", b"[]")
        gate.said("penstock", "answer", ANSWER)
    gate.client_says(*asked(PING, session))
    batch, inside, skipped, ours, outside = book.records
    assert (batch.sender, batch.kind, batch.verdict, batch.raw) == (sender, "other", "pass", b"[x]")
    assert batch.session is session
    assert inside.batch is batch
    assert skipped.batch is batch
    assert ours.batch is None
    assert outside.batch is None


def test_a_client_is_called_by_what_it_says_at_its_handshake_and_not_later() -> None:
    gate, _ = gate_and_book()
    session = Session()
    hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"%b"}}}'
    gate.client_says(
        *asked(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"clientInfo":{"name":"no"}}}', session)
    )
    assert session.client_name is None
    gate.client_says(*asked(hello % b"first", session))
    assert (session.client_name, session.era) == ("first", Era.LEGACY)
    gate.client_says(*asked(hello % b"second", session))
    assert session.client_name == "first"


def test_a_modern_client_is_called_by_what_each_request_says() -> None:
    gate, _ = gate_and_book()
    session = Session()
    meta = (
        b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientInfo":{"name":"modern"}}'
    )
    gate.client_says(
        *asked(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":%b}}' % meta, session)
    )
    assert (session.client_name, session.era) == ("modern", Era.MODERN)
    old = Session(era=Era.LEGACY)
    gate.client_says(*asked(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":%b}}' % meta, old))
    assert (old.client_name, old.era) == (None, Era.LEGACY)


def test_what_is_said_beside_the_gate_is_told_of_the_session_that_it_belongs_to() -> None:
    gate, book = gate_and_book()
    session, other = Session(id="s"), Session(id="o")
    message, exchange = asked(CALL % b"echo", session)
    gate.client_says(message, exchange)
    gate.said("penstock", "answer", ANSWER, WHY, exchange, sent=b"x", status=502)
    gate.said("penstock", "pass", PING, exchange=exchange)
    gate.said("penstock", "pass", TOLD)
    gate.said("upstream", "drop", ANSWER, session=other, exchange=exchange)
    gate.said("somebody", "drop", ANSWER)
    answer, request, told, strange, odd = book.records[1:]
    assert (answer.session, answer.sender, answer.kind, answer.method) == (
        session,
        "penstock",
        "response",
        "tools/call",
    )
    assert (answer.request, answer.why, answer.sent, answer.status) == (book.records[0], WHY, b"x", 502)
    assert (request.kind, request.method, request.request) == ("request", "ping", None)
    assert (told.session, told.kind, told.method, told.id_token) == (
        OWN,
        "notification",
        "notifications/x",
        None,
    )
    assert (strange.session, strange.sender) == (other, "upstream")
    assert odd.sender == "penstock"


def test_what_cannot_be_read_is_other_and_keeps_the_id_that_could_be() -> None:
    gate, book = gate_and_book()
    gate.said("client", "refuse", b'{"jsonrpc":"2.0","id":7,"method":5}')
    gate.said("client", "refuse", b"nonsense")
    gate.said("client", "refuse", b"[%b]" % PING)
    gate.said("upstream", "skip", b'{"jsonrpc":"2.0","id":7,"result":{},"error":{}}')
    assert [one.kind for one in book.records] == ["other"] * 4
    assert [one.id_token for one in book.records] == [b"7", None, None, b"7"]
    assert [one.method for one in book.records] == [None] * 4
    method = Exchange(b"1", "")
    gate.said("upstream", "skip", b"nonsense", exchange=method)
    assert book.records[-1].method is None


def test_a_client_is_read_more_strictly_than_an_upstream() -> None:
    gate, book = gate_and_book()
    twice = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}'
    gate.said("client", "refuse", twice)
    gate.said("upstream", "pass", twice)
    assert [one.kind for one in book.records] == ["other", "request"]


def test_an_observer_that_fails_is_told_on_stderr(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Book):
        def saw(self, record: Record) -> None:
            raise RuntimeError("no space left")

    book = Book()
    gate = ObservedGate(Gate(CHOICE), [Failing(), book], OWN)  # type: ignore[list-item]
    gate.client_says(*asked(PING))
    assert [record.getMessage() for record in caplog.records] == ["An observer failed."]
    assert "no space left" in caplog.text
    assert {record.name for record in caplog.records} == {"penstock"}
    assert len(book.records) == 1
