"""What observers are told: every message that comes by, once, with what became of it and why."""

from __future__ import annotations

import asyncio
from typing import Any

import hostile
from in_memory import End
from memory_doors import CHOICE, catalog
from penstock.errors import UpstreamLost
from penstock.gate.gate import Gate
from penstock.gate.observed import ObservedGate
from penstock.gate.record import Record
from penstock.gate.ruled import RuledGate, Rules
from penstock.policy.exchange import Session
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build
from penstock.relay.session_relay import SessionRelay
from penstock.wire.mcp.eras import Era

ALLOWED, DENIED = hostile.ALLOWED[0].encode(), hostile.DENIED[0].encode()
CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":{}}}'
ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}'
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
HELLO_BACK = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}'


class Notebook:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def saw(self, record: Record) -> None:
        self.records.append(record)

    def close(self) -> None:
        """Nothing to write."""

    @property
    def words(self) -> list[tuple[str, str, str]]:
        return [(record.sender, record.kind, record.verdict) for record in self.records]


class Failing(Notebook):
    """One that cannot."""

    def saw(self, record: Record) -> None:
        raise RuntimeError("no space left")


class Observed:
    """A relay that is observed."""

    def __init__(self, *observers: Notebook, inner: Gate | None = None, knows: bool = True) -> None:
        self.book = Notebook()
        self.client, self.upstream = End(), End()
        self.session = Session(id="s1")
        gate = ObservedGate(inner or Gate(CHOICE), [*observers, self.book], Session(id="own"))
        self.relay = SessionRelay(
            self.client,  # type: ignore[arg-type]
            self.upstream,  # type: ignore[arg-type]
            gate,
            self.session,
            catalogs={era: catalog() for era in Era} if knows else None,
        )
        self.relay.from_client(HELLO)
        self.relay.from_upstream(HELLO_BACK)

    def said(self) -> list[tuple[str, str, str]]:
        """What was told since the handshake."""
        return self.book.words[2:]


def ruled(*rules: dict[str, Any]) -> RuledGate:
    config, faults = build({"rules": list(rules)})
    assert config is not None, faults
    return RuledGate(CHOICE, None, Rules(Interceptor(config, None)))  # type: ignore[arg-type]


def test_an_exchange_is_two_records_and_the_answer_knows_its_request() -> None:
    run = Observed()
    run.relay.from_client(CALL % (1, ALLOWED), headers=[(b"X-Who", b"me")])
    run.relay.from_upstream(ANSWER % 1)
    assert run.said() == [("client", "request", "pass"), ("upstream", "response", "pass")]
    request, response = run.book.records[2:]
    assert request.raw == CALL % (1, ALLOWED)
    assert request.sent is None
    assert request.why is None
    assert (request.method, request.id_token, request.tool) == ("tools/call", b"1", ALLOWED.decode())
    assert list(request.headers) == [(b"X-Who", b"me")]
    assert response.raw == ANSWER % 1
    assert (response.method, response.request) == ("tools/call", request)
    assert response.session_id == "s1"
    assert response.session.era is Era.LEGACY
    assert response.received >= request.received > 1e9
    assert 0 <= request.micros < 10_000_000


def test_a_denied_call_tells_the_answer_and_why() -> None:
    run = Observed()
    run.relay.from_client(CALL % (1, DENIED))
    (record,) = run.book.records[2:]
    assert record.verdict == "deny"
    assert record.sent == run.client.last
    assert record.why is not None
    assert record.why.action == "deny"
    assert record.tool == DENIED.decode()


def test_a_list_that_we_answer_is_an_answer() -> None:
    run = Observed()
    run.relay.from_client(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert run.said() == [("client", "request", "answer")]
    assert run.book.records[-1].sent == run.client.last


def test_what_cannot_be_read_is_refused_or_skipped() -> None:
    run = Observed()
    run.relay.from_client(b"{nonsense")
    run.relay.from_upstream(b"nonsense}")
    assert run.said() == [("client", "other", "refuse"), ("upstream", "other", "skip")]
    refused, skipped = run.book.records[2:]
    assert refused.raw == b"{nonsense"
    assert refused.sent == run.client.last
    assert refused.why is not None
    assert refused.why.code == -32700
    assert skipped.raw == b"nonsense}"


def test_answers_that_nobody_asked_for_are_dropped_on_either_side() -> None:
    run = Observed()
    run.relay.from_client(b'{"jsonrpc":"2.0","id":9,"result":{}}')
    run.relay.from_upstream(ANSWER % 9)
    assert run.said() == [("client", "response", "drop"), ("upstream", "response", "drop")]


def test_a_withheld_answer_is_blocked_and_both_forms_are_told() -> None:
    run = Observed()
    run.relay.from_client(b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}')
    leak = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"%b"}]}}' % DENIED
    run.relay.from_upstream(leak)
    record = run.book.records[-1]
    assert (record.verdict, record.raw, record.sent) == ("block", leak, run.client.last)
    assert DENIED not in run.client.last


def test_a_lost_upstream_makes_replies_of_ours() -> None:
    run = Observed()
    run.relay.from_client(CALL % (1, ALLOWED))
    run.relay.upstream_lost(UpstreamLost())
    assert run.said() == [("client", "request", "pass"), ("penstock", "response", "answer")]
    assert run.book.records[-1].raw == run.client.last
    assert run.book.records[-1].request is run.book.records[-2]


def test_our_own_list_is_told_and_a_held_call_once_with_the_time_it_came() -> None:
    async def go() -> None:
        run = Observed(knows=False)
        run.relay.from_client(CALL % (1, ALLOWED))
        assert run.said() == [("penstock", "request", "pass")]
        await asyncio.sleep(0.02)
        asked = run.book.records[-1]
        assert asked.method == "tools/list"
        token = asked.id_token or b""
        page = b'{"tools":[{"name":"%b","inputSchema":{"type":"object"}}]}' % ALLOWED
        run.relay.from_upstream(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (token, page))
        assert run.said()[1:] == [("upstream", "response", "answer"), ("client", "request", "pass")]
        held = run.book.records[-1]
        assert held.micros >= 20_000
        assert held.received <= asked.received + 0.01
        run.relay.end()

    asyncio.run(go())


def test_what_rules_change_and_block_is_told_with_the_rule() -> None:
    gate = ruled(
        {
            "id": "stop",
            "conditions": [{"method_equals": "prompts/get"}],
            "actions": [{"block": "not today"}],
        }
    )
    run = Observed(inner=gate)
    run.relay.from_client(b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}')
    record = run.book.records[-1]
    assert record.verdict == "block"
    assert record.why is not None
    assert (record.why.rule, record.why.action, record.why.reason) == ("stop", "block", "not today")
    assert record.why.rules == ("stop",)
    assert record.sent == run.client.last


def test_an_observer_that_fails_changes_nothing_and_the_next_one_still_hears() -> None:
    run = Observed(Failing())
    run.relay.from_client(CALL % (1, ALLOWED))
    run.relay.from_upstream(ANSWER % 1)
    assert run.upstream.last == CALL % (1, ALLOWED)
    assert run.client.last == ANSWER % 1
    assert len(run.said()) == 2


def test_to_observe_is_not_to_decide() -> None:
    inner = Gate(CHOICE)
    gate = ObservedGate(inner, [], Session())
    assert (gate.is_filtering, gate.may_object, gate.is_ruled) == (inner.is_filtering, True, False)
    assert gate.keeps_requests
    assert gate.choice is inner.choice
    assert gate.lists_hidden_tools(b'{"tools":[{"name":"%b"}]}' % DENIED)
    assert gate.shown_error(b'{"code":1}') == b'{"code":1}'


def test_the_era_is_learnt_from_the_first_message_that_tells_it() -> None:
    run = Observed()
    run.session.era = None
    run.relay.from_client(b'{"jsonrpc":"2.0","method":"notifications/x"}')
    assert run.session.era is None
    meta = b'{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}'
    run.relay.from_client(b'{"jsonrpc":"2.0","id":5,"method":"ping","params":%b}' % meta)
    assert run.session.era is Era.MODERN
