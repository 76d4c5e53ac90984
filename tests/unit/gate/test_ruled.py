"""The gate with rules: what it asks them about, what becomes of their answers, and what waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import hostile
from memory_doors import CHOICE, catalog
from penstock.gate.ruled import RuledGate, Rules
from penstock.policy.exchange import Exchange, Session
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import Kind, Message, read_client_message, read_upstream_message
from penstock.wire.mcp.replies import error_code

ALLOWED, DENIED = hostile.ALLOWED[0], hostile.DENIED[0]
Decide = Callable[[Message, Context], Any]


class Stub:
    """Rules that decide as a function does, and note what they were asked."""

    def __init__(self, decide: Decide, watched: tuple[str | None, ...] | None = None) -> None:
        self._decide = decide
        self._watched = watched
        self.watches_answers_of_clients = watched is None or "roots/list" in watched
        self.asked: list[tuple[str, bytes]] = []

    def watches(self, method: str | None, direction: str) -> bool:
        return self._watched is None or method in self._watched

    def on_client(self, message: Message, context: Context) -> Any:
        self.asked.append((context.direction, message.raw))
        return self._decide(message, context)

    on_upstream = on_client


def passes(message: Message, context: Context) -> Verdict:
    return FORWARD


def passed(raw: bytes, *rules: str) -> Callable[..., Verdict]:
    """Rules that make `raw` of every message."""
    message = Message(raw, Kind.REQUEST, b"1", None)
    why = Why(rules[-1] if rules else "", "change", "", rules=rules)
    return lambda *asked: Forward(message, "change", why)


def refused(raw: bytes | None, action: str = "block", word: Any = "block") -> Callable[..., Verdict]:
    """Rules that answer every message with `raw`, or drop it."""
    why = Why("r", action, "m", 0 if raw is None else error_code(raw), ("r",))
    return lambda *asked: Drop(why, word) if raw is None else Answer(raw, why.code, word=word, why=why)


def gate_of(decide: Decide, *watched: str | None) -> tuple[RuledGate, Stub]:
    stub = Stub(decide, watched or None)
    return RuledGate(CHOICE, None, Rules(stub)), stub  # type: ignore[arg-type]


def client(raw: bytes) -> Message:
    message = read_client_message(raw)
    assert isinstance(message, Message)
    return message


def upstream(raw: bytes) -> Message:
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    return message


def call(name: str = ALLOWED, token: bytes = b"1") -> Message:
    raw = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"%b","arguments":{}}}'
    return client(raw % (token, name.encode()))


def begun(message: Message, session: Session | None = None) -> Exchange:
    return Exchange(
        message.id_token or b"",
        message.method or "",
        session=session or Session(id="s"),
        catalog=catalog(),
    )


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
TOLD = b'{"jsonrpc":"2.0","method":"notifications/x"}'
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'


def test_what_no_rule_watches_passes_unasked_and_is_counted() -> None:
    gate, stub = gate_of(passes, "other")
    message, session = call(), Session(id="s")
    exchange = begun(message, session)
    assert gate.client_says(message, exchange) is FORWARD
    assert gate.upstream_says(upstream(RESULT), exchange) is FORWARD
    assert stub.asked == []
    assert session.message_count == 2


def test_an_exchange_keeps_request_response_and_both_times() -> None:
    gate, _ = gate_of(passes)
    message, answer = call(), upstream(RESULT)
    exchange = begun(message)
    gate.client_says(message, exchange)
    gate.upstream_says(answer, exchange)
    assert exchange.request is message
    assert exchange.response is answer
    assert exchange.answered is not None
    assert 0 < exchange.started <= exchange.answered


def test_the_rules_of_the_request_judge_the_answer_after_a_reload() -> None:
    gate, old = gate_of(passes)
    new = Stub(passes)
    message = call()
    exchange = begun(message)
    gate.client_says(message, exchange)
    gate._rules.current = new  # type: ignore[assignment]
    gate.upstream_says(upstream(RESULT), exchange)
    assert [direction for direction, _ in old.asked] == ["client", "upstream"]
    assert new.asked == []


def test_a_denied_call_is_not_shown_to_the_rules() -> None:
    gate, stub = gate_of(passes)
    verdict = gate.client_says(call(DENIED), begun(call(DENIED)))
    assert isinstance(verdict, Answer)
    assert verdict.word == "deny"
    assert stub.asked == []


def test_what_is_held_is_shown_to_the_rules_later_and_counted_then() -> None:
    gate, stub = gate_of(passes)
    message, session = call(), Session(id="s")
    exchange = begun(message, session)
    exchange.catalog = None
    assert gate.client_says(message, exchange) is HOLD
    assert (stub.asked, session.message_count) == ([], 0)
    exchange.catalog = catalog()
    assert gate.client_says(message, exchange) is FORWARD
    assert len(stub.asked) == 1


def test_no_rule_makes_a_hidden_tool_callable() -> None:
    gate, _ = gate_of(passed(call(DENIED).raw, "r"))
    verdict = gate.client_says(call(), begun(call()))
    assert isinstance(verdict, Answer)
    assert verdict.word == "deny"


def test_a_rule_that_makes_a_tool_call_of_something_else_before_a_catalog_fails_closed() -> None:
    gate, _ = gate_of(passed(call().raw, "r"))
    message = client(PING)
    exchange = begun(message)
    exchange.catalog = None
    verdict = gate.client_says(message, exchange)
    assert isinstance(verdict, Answer)
    assert json.loads(verdict.raw)["error"] == {"code": -32603, "message": "Internal error"}


def test_a_changed_message_goes_on_as_the_rules_made_it() -> None:
    changed = call(ALLOWED, b"1").raw.replace(b'"arguments":{}', b'"arguments":{"n":1}')
    gate, _ = gate_of(passed(changed, "a", "b"))
    verdict = gate.client_says(call(), begun(call()))
    assert isinstance(verdict, Forward)
    assert verdict.message is not None
    assert (verdict.message.raw, verdict.word) == (changed, "change")
    assert verdict.why is not None
    assert (verdict.why.rule, verdict.why.rules) == ("b", ("a", "b"))


def test_rules_that_held_and_changed_nothing_are_told_and_the_bytes_are_the_same() -> None:
    gate, _ = gate_of(lambda message, context: Forward(None, "pass", Why("log", "", "", rules=("log",))))
    verdict = gate.client_says(call(), begun(call()))
    assert isinstance(verdict, Forward)
    assert (verdict.message, verdict.word) == (None, "pass")
    assert verdict.why is not None
    assert verdict.why.rules == ("log",)


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}'])
def test_what_a_rule_spoils_does_not_pass_in_either_direction(raw: bytes) -> None:
    gate, _ = gate_of(passed(raw))
    verdict = gate.client_says(client(PING), begun(client(PING)))
    assert isinstance(verdict, Answer)
    assert (verdict.word, verdict.code) == ("block", -32603)
    assert isinstance(gate.client_says(client(TOLD), begun(client(TOLD))), Drop)
    message = call()
    exchange = begun(message)
    exchange.request, exchange.rules = message, gate._rules.current
    back = gate.upstream_says(upstream(RESULT), exchange)
    assert isinstance(back, Forward)
    assert back.message is not None
    assert json.loads(back.message.raw)["error"]["message"] == "Internal error"
    assert isinstance(gate.upstream_says(upstream(TOLD), Exchange(session=Session())), Drop)


def test_rules_that_raise_let_nothing_pass() -> None:
    def fail(message: Message, context: Context) -> Verdict:
        raise RuntimeError("a bug")

    gate, _ = gate_of(fail)
    verdict = gate.client_says(client(PING), begun(client(PING)))
    assert isinstance(verdict, Answer)
    assert json.loads(verdict.raw)["error"]["message"] == "Internal error"
    assert isinstance(gate.client_says(client(TOLD), begun(client(TOLD))), Drop)


@pytest.mark.parametrize(
    ("message", "code"), [(client(PING), -32700), (call(), 0)], ids=["another method", "a call"]
)
def test_a_refusal_has_the_code_of_its_error_but_for_a_call(message: Message, code: int) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"m"}}'
    gate, _ = gate_of(refused(raw, "inject_error"))
    verdict = gate.client_says(message, begun(message))
    assert isinstance(verdict, Answer)
    assert (verdict.raw, verdict.code, verdict.word) == (raw, code, "block")
    assert verdict.why is not None
    assert (verdict.why.rule, verdict.why.action, verdict.why.code) == ("r", "inject_error", -32700)
    assert not verdict.is_malformed


def test_an_answer_from_the_cache_is_an_answer() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    gate, _ = gate_of(refused(raw, "cache", "answer"))
    verdict = gate.client_says(call(), begun(call()))
    assert isinstance(verdict, Answer)
    assert (verdict.word, verdict.code) == ("answer", 0)


def test_a_list_from_the_catalog_is_a_response_like_any_other_to_the_rules() -> None:
    def decide(message: Message, context: Context) -> Verdict:
        if context.direction == "client":
            return passes(message, context)
        return passed(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}', "r")()

    gate, stub = gate_of(decide)
    session = Session(id="s")
    verdict = gate.client_says(client(LIST), begun(client(LIST), session))
    assert isinstance(verdict, Answer)
    assert (verdict.raw, verdict.is_list, verdict.word) == (
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}',
        True,
        "answer",
    )
    assert [direction for direction, _ in stub.asked] == ["client", "upstream"]
    assert session.message_count == 2
    unwatched, _ = gate_of(passes, "other")
    session = Session(id="s")
    plain = unwatched.client_says(client(LIST), begun(client(LIST), session))
    assert isinstance(plain, Answer)
    assert ALLOWED.encode() in plain.raw
    assert session.message_count == 2


def test_an_answer_to_a_request_that_nobody_knows_is_dropped_only_while_there_are_rules() -> None:
    gate, _ = gate_of(passes)
    assert isinstance(gate.upstream_says(upstream(RESULT), Exchange(session=Session())), Drop)
    complaint = upstream(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}')
    assert gate.upstream_says(complaint, Exchange(session=Session())) is FORWARD
    gate._rules.current = None
    assert not gate.is_ruled
    assert gate.upstream_says(upstream(RESULT), Exchange(session=Session())) is FORWARD


def test_a_blocked_request_of_the_upstream_is_answered_to_the_upstream() -> None:
    raw = b'{"jsonrpc":"2.0","id":"u","error":{"code":-32000,"message":"no"}}'
    gate, _ = gate_of(refused(raw))
    ask = upstream(b'{"jsonrpc":"2.0","id":"u","method":"roots/list"}')
    verdict = gate.upstream_says(ask, begun(ask))
    assert isinstance(verdict, Answer)
    assert (verdict.raw, verdict.word) == (raw, "block")
    silent, _ = gate_of(refused(None))
    tell = upstream(TOLD)
    dropped = silent.upstream_says(tell, begun(tell))
    assert isinstance(dropped, Drop)
    assert dropped.word == "block"


def test_a_clients_answer_is_judged_by_the_rules_of_the_upstreams_request() -> None:
    gate, stub = gate_of(passes, "roots/list")
    ask = upstream(b'{"jsonrpc":"2.0","id":"u","method":"roots/list"}')
    exchange = begun(ask)
    gate.upstream_says(ask, exchange)
    answer = client(b'{"jsonrpc":"2.0","id":"u","result":{"roots":[]}}')
    assert gate.client_says(answer, exchange) is FORWARD
    assert [direction for direction, _ in stub.asked] == ["upstream", "client"]
    assert exchange.response is answer


def test_an_answer_to_nothing_is_dropped_where_rules_look_at_answers_of_clients() -> None:
    """Servers convert ids before they look for the question: whose answer "0" is, nobody here can tell."""
    for token in (b'"0"', b"0", b'""', b"0.0"):
        answer = client(b'{"jsonrpc":"2.0","id":%b,"result":{"roots":[]}}' % token)
        gate, stub = gate_of(passes, "roots/list")
        assert isinstance(gate.client_says(answer, Exchange(session=Session())), Drop)
        assert stub.asked == []
        gate, stub = gate_of(passes, "tools/call")
        assert gate.client_says(answer, Exchange(session=Session())) is FORWARD


@pytest.mark.parametrize(
    ("conditions", "is_watching"),
    [
        ([{"method_equals": "elicitation/create"}], True),
        ([{"method_equals": "x/ask"}], True),
        ([{"method_starts_with": "sampling/"}], True),
        ([{"param_exists": "x"}], True),
        ([{"method_equals": "tools/call"}], False),
        ([{"method_in": ["resources/read", "prompts/get"]}], False),
    ],
)
def test_which_rules_look_at_answers_of_clients(conditions: list[dict[str, Any]], is_watching: bool) -> None:
    rule = {"id": "r", "direction": "client", "conditions": conditions, "actions": [{"block": "no"}]}
    config, faults = build({"rules": [rule]})
    assert config is not None, faults
    assert Interceptor(config, None).watches_answers_of_clients is is_watching  # type: ignore[arg-type]


class Gatekeeper:
    """Rules that take their time."""

    def __init__(self) -> None:
        self.may_go = asyncio.Event()

    async def decide(self, message: Message, context: Context) -> Verdict:
        await self.may_go.wait()
        return FORWARD


def waiting(scenario: Callable[[Gatekeeper, RuledGate, list[Verdict]], Any]) -> None:
    async def run() -> None:
        keeper, settled = Gatekeeper(), []
        gate, _ = gate_of(keeper.decide)
        await scenario(keeper, gate, settled)

    asyncio.run(run())


def test_a_message_that_waits_is_decided_when_the_rules_are_and_its_session_is_idle_then() -> None:
    async def scenario(keeper: Gatekeeper, gate: RuledGate, settled: list[Verdict]) -> None:
        session, idle = Session(id="s"), []
        session.on_idle = lambda: idle.append(True)
        wait = gate.client_says(call(), begun(call(), session))
        assert isinstance(wait, Wait)
        wait.then(settled.append)
        assert list(session.waiting) == [wait]
        keeper.may_go.set()
        await asyncio.sleep(0.01)
        assert settled == [FORWARD]
        assert not session.waiting
        assert idle == [True]
        wait.then(settled.append)
        assert settled == [FORWARD, FORWARD]

    waiting(scenario)


def test_a_cancel_ends_the_waiting_and_goes_no_further() -> None:
    async def scenario(keeper: Gatekeeper, gate: RuledGate, settled: list[Verdict]) -> None:
        session = Session(id="s")
        wait = gate.client_says(call(), begun(call(), session))
        assert isinstance(wait, Wait)
        wait.then(settled.append)
        raw = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
        verdict = gate.client_says(client(raw), begun(client(raw), session))
        assert isinstance(verdict, Drop)
        (dropped,) = settled
        assert isinstance(dropped, Drop)
        assert (dropped.word, dropped.why.action) == ("drop", "cancelled")
        keeper.may_go.set()
        await asyncio.sleep(0.01)
        assert len(settled) == 1

    waiting(scenario)


def test_where_clients_share_a_session_nobody_cancels_by_id() -> None:
    async def scenario(keeper: Gatekeeper, gate: RuledGate, settled: list[Verdict]) -> None:
        session = Session(id="s", is_shared=True)
        wait = gate.client_says(call(), begun(call(), session))
        assert isinstance(wait, Wait)
        wait.then(settled.append)
        raw = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
        cancel = gate.client_says(client(raw), begun(client(raw), session))
        assert isinstance(cancel, Wait)  # a message like any other
        assert settled == []
        session.end()

    waiting(scenario)


def test_when_the_session_ends_requests_are_answered_and_responses_become_errors() -> None:
    async def scenario(keeper: Gatekeeper, gate: RuledGate, settled: list[Verdict]) -> None:
        session = Session(id="s")
        message = call()
        exchange = begun(message, session)
        exchange.request, exchange.rules = message, gate._rules.current
        for wait in (
            gate.client_says(client(PING), begun(client(PING), session)),
            gate.client_says(client(TOLD), begun(client(TOLD), session)),
            gate.upstream_says(upstream(RESULT), exchange),
            gate.upstream_says(upstream(TOLD), begun(upstream(TOLD), session)),
        ):
            assert isinstance(wait, Wait)
            wait.then(settled.append)
        session.end("It is over")
        asked, told, answered, heard = settled
        assert isinstance(asked, Answer)
        assert json.loads(asked.raw)["error"]["message"] == "It is over"
        assert isinstance(told, Drop)
        assert isinstance(answered, Forward)
        assert answered.message is not None
        assert json.loads(answered.message.raw)["error"]["message"] == "It is over"
        assert isinstance(heard, Drop)
        assert not session.waiting

    waiting(scenario)


def test_rules_that_raise_after_a_while_let_nothing_pass() -> None:
    async def late(message: Message, context: Context) -> Verdict:
        raise RuntimeError("a bug")

    async def run() -> None:
        gate, _ = gate_of(late)
        settled: list[Verdict] = []
        wait = gate.client_says(client(PING), begun(client(PING)))
        assert isinstance(wait, Wait)
        wait.then(settled.append)
        await asyncio.sleep(0.01)
        (verdict,) = settled
        assert isinstance(verdict, Answer)
        assert json.loads(verdict.raw)["error"]["message"] == "Internal error"

    asyncio.run(run())


def test_the_client_is_called_what_it_calls_itself() -> None:
    gate, _ = gate_of(passes)
    session = Session(id="s")
    hello = client(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"raw","version":"1"}}}'
    )
    gate.client_says(hello, begun(hello, session))
    assert session.client_name == "raw"
    odd = client(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":5}}')
    gate.client_says(odd, begun(odd, session))
    assert session.client_name is None
    modern = client(
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":'
        b'{"io.modelcontextprotocol/clientInfo":{"name":"new"}}}}'
    )
    gate.client_says(modern, begun(modern, session))
    assert session.client_name == "new"
