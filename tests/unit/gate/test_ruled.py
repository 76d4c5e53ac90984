"""The gate with rules: what it asks them about, what becomes of their answers, and what waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import hostile
from gate_messages import client, upstream
from memory_doors import CHOICE, catalog
from penstock.gate.held import HumanWait
from penstock.gate.ruled import RuledGate, Rules
from penstock.policy.exchange import Exchange, Session
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.tool_lock import ToolLock
from penstock.policy.verdict import FORWARD, HOLD, Answer, Approval, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import Kind, Message
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


CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}'
UNASKED = "it answers a question that nobody asked"


class Noted(Wait):
    """A request that waits, and whether it was cancelled."""

    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def waiting_in(session: Session) -> Noted:
    wait = Noted(client(PING.replace(b"1,", b"7,", 1)), True)
    session.waiting[wait] = None
    return wait


def test_a_gate_with_rules_objects_and_keeps_requests_only_as_long_as_there_are_some() -> None:
    gate, _ = gate_of(passes)
    assert gate.may_object
    assert gate.keeps_requests
    assert gate.is_ruled
    gate._rules.current = None
    assert not gate.keeps_requests
    assert not gate.is_ruled
    assert RuledGate(ToolFilter(), None, Rules(None)).may_object


def test_who_cancels_what_the_rules_still_look_at_is_not_passed_on_and_the_verdict_says_why() -> None:
    gate, stub = gate_of(passes)
    session = Session(id="s")
    wait = waiting_in(session)
    message = client(CANCEL)
    verdict = gate.client_says(message, begun(message, session))
    assert isinstance(verdict, Drop)
    assert (verdict.why.rule, verdict.why.action) == ("rules", "drop")
    assert verdict.why.reason == "it cancels a request that never went upstream"
    assert wait.is_cancelled
    assert stub.asked == []


def test_only_a_cancellation_cancels() -> None:
    gate, stub = gate_of(passes)
    session = Session(id="s")
    wait = waiting_in(session)
    for raw in (
        CANCEL.replace(b"cancelled", b"progress"),
        CANCEL.replace(b"7", b"8"),
        CANCEL.replace(b"requestId", b"x"),
    ):
        assert gate.client_says(client(raw), begun(client(raw), session)) is FORWARD
    bare = client(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}')
    assert gate.client_says(bare, begun(bare, session)) is FORWARD
    session.is_shared = True  # an id may be another client's
    assert gate.client_says(client(CANCEL), begun(client(CANCEL), session)) is FORWARD
    assert not wait.is_cancelled
    assert len(stub.asked) == 5


def test_an_answer_to_nothing_is_dropped_but_a_complaint_passes_and_is_looked_at() -> None:
    for raw, is_dropped in (
        (RESULT, True),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}', True),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', True),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}', False),
    ):
        gate, stub = gate_of(passes)
        verdict = gate.upstream_says(upstream(raw), Exchange(session=Session(id="s")))
        assert isinstance(verdict, Drop) is is_dropped, raw
        assert len(stub.asked) == (not is_dropped)
        if isinstance(verdict, Drop):
            assert (verdict.why.rule, verdict.why.action, verdict.why.reason) == ("rules", "drop", UNASKED)


def test_without_rules_in_force_an_answer_to_nothing_is_nobodys_business() -> None:
    gate = RuledGate(CHOICE, None, Rules(None))
    exchange = Exchange(session=Session(id="s"))
    assert gate.upstream_says(upstream(RESULT), exchange) is FORWARD


@pytest.mark.parametrize(
    ("raw", "answers", "errors"),
    [(RESULT, 1, 0), (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}', 0, 1)],
)
def test_answers_and_errors_are_counted_apart_on_either_way(raw: bytes, answers: int, errors: int) -> None:
    gate, _ = gate_of(passes)
    session = Session(id="s")
    message = call()
    exchange = begun(message, session)
    gate.client_says(message, exchange)
    gate.upstream_says(upstream(raw), exchange)
    stats = session.stats["tools/call"]
    assert (stats.requests, stats.responses, stats.errors) == (1, answers, errors)
    ask = upstream(b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}')
    asked = begun(ask, session)
    gate.upstream_says(ask, asked)
    gate.client_says(client(raw), asked)
    stats = session.stats["roots/list"]
    assert (stats.requests, stats.responses, stats.errors) == (1, answers, errors)
    assert asked.response is not None
    assert asked.answered is not None


def test_an_answer_of_a_clients_to_nothing_is_dropped_where_rules_watch_such_answers() -> None:
    gate, stub = gate_of(passes, "roots/list")
    verdict = gate.client_says(client(RESULT), Exchange(session=Session(id="s")))
    assert isinstance(verdict, Drop)
    assert (verdict.why.rule, verdict.why.action, verdict.why.reason) == ("rules", "drop", UNASKED)
    lax, others = gate_of(passes, "tools/call")
    exchange = Exchange(session=Session(id="s"))
    assert lax.client_says(client(RESULT), exchange) is FORWARD
    assert exchange.request.raw == RESULT
    assert exchange.session.message_count == 1
    assert stub.asked == others.asked == []
    off = RuledGate(CHOICE, None, Rules(None))
    assert off.client_says(client(RESULT), Exchange(session=Session(id="s"))) is FORWARD


def test_rules_are_told_which_way_an_answer_of_a_clients_goes() -> None:
    gate, stub = gate_of(passes)
    ask = upstream(b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}')
    exchange = begun(ask)
    gate.upstream_says(ask, exchange)
    gate.client_says(client(RESULT), exchange)
    assert [direction for direction, _ in stub.asked] == ["upstream", "client"]


def test_each_way_has_its_own_rules() -> None:
    class TwoWays(Stub):
        def on_upstream(self, message: Message, context: Context) -> Any:
            self.asked.append(("back", message.raw))
            return FORWARD

    stub = TwoWays(passes)
    gate = RuledGate(CHOICE, None, Rules(stub))  # type: ignore[arg-type]
    message = call()
    exchange = begun(message)
    gate.client_says(message, exchange)
    gate.upstream_says(upstream(RESULT), exchange)
    assert [way for way, _ in stub.asked] == ["client", "back"]


def test_what_is_kept_of_a_request_has_its_weight_and_the_time_of_its_first_look() -> None:
    clock = iter([5.0, 6.0, 7.0, 8.0, 9.0])
    stub = Stub(passes)
    gate = RuledGate(CHOICE, None, Rules(stub), lambda: next(clock))  # type: ignore[arg-type]
    message = call()
    exchange = begun(message)
    gate.client_says(message, exchange)
    assert exchange.weight == len(message.raw)
    assert exchange.started == 5.0
    gate.client_says(message, exchange)  # once more, as after it was held
    assert exchange.started == 5.0


def test_what_a_lock_has_left_of_an_answer_is_what_the_rules_see() -> None:
    stub = Stub(passes)
    gate = RuledGate(ToolFilter(lock=ToolLock({}, {}, ())), None, Rules(stub))  # type: ignore[arg-type]
    ask = client(b'{"jsonrpc":"2.0","id":1,"method":"prompts/list"}')
    exchange = begun(ask)
    gate.client_says(ask, exchange)
    listed = upstream(b'{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"new"}]}}')
    verdict = gate.upstream_says(listed, exchange)
    assert isinstance(verdict, Forward)
    assert verdict.message is not None
    assert b"new" not in verdict.message.raw
    assert stub.asked[-1] == ("upstream", verdict.message.raw)
    assert exchange.response is verdict.message


def test_what_the_plain_gate_withholds_is_not_shown_to_the_rules() -> None:
    gate, stub = gate_of(passes)
    message = client(b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}')
    exchange = begun(message)
    gate.client_says(message, exchange)
    leak = upstream(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"%b"}]}}' % DENIED.encode())
    verdict = gate.upstream_says(leak, exchange)
    assert isinstance(verdict, Forward)
    assert verdict.word == "block"
    assert [way for way, _ in stub.asked] == ["client"]


def test_rules_that_fail_close_and_people_hear_of_it(caplog: pytest.LogCaptureFixture) -> None:
    def fails(message: Message, context: Context) -> Verdict:
        raise RuntimeError("out of order")

    gate, _ = gate_of(fails)
    verdict = gate.client_says(call(), begun(call()))
    assert isinstance(verdict, Answer)
    assert [(one.name, one.getMessage()) for one in caplog.records] == [("penstock", "The rules failed.")]
    assert "out of order" in caplog.text


def blocks_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "blocked" in one.getMessage()]


def test_people_hear_once_for_each_session_and_tool_of_a_block(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    gate, _ = gate_of(refused(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m"}}'))
    one, two = Session(id="0123456789"), Session(id="other")
    for session in (one, one, two):
        gate.client_says(call(), begun(call(), session))
    ping = client(PING)
    gate.client_says(ping, begun(ping, one))
    assert blocks_of(caplog) == [
        f"Rule r blocked tools/call {ALLOWED} in session 01234567.",
        f"Rule r blocked tools/call {ALLOWED} in session other.",
        "Rule r blocked ping in session 01234567.",
    ]


def test_what_has_no_name_is_a_message_and_a_long_one_is_cut_short(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    gate, _ = gate_of(refused(None))
    exchange = Exchange(session=Session(id="s"))
    complaint = upstream(b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}')
    gate.upstream_says(complaint, exchange)
    assert blocks_of(caplog) == ["Rule r blocked a message in session s."]
    for end in (b"a", b"b"):
        long = client(b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % (b"x" * 4_000 + end))
        gate.client_says(long, begun(long))
    assert len(blocks_of(caplog)) == 2


def test_what_is_told_is_forgotten_when_there_is_too_much_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    gate, _ = gate_of(refused(None))
    for number in range(1_002):
        gate.client_says(client(PING), begun(client(PING), Session(id=f"{number}")))
    assert len(gate._told) == 1_000
    first, last = Session(id="0"), Session(id="1001")
    before = len(blocks_of(caplog))
    gate.client_says(client(PING), begun(client(PING), last))
    assert len(blocks_of(caplog)) == before
    gate.client_says(client(PING), begun(client(PING), first))
    assert len(blocks_of(caplog)) == before + 1


def test_what_a_rule_lets_pass_is_not_told_as_blocked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    gate, _ = gate_of(passed(PING, "r"))
    gate.client_says(client(PING), begun(client(PING)))
    assert blocks_of(caplog) == []


def test_a_list_that_a_rule_drops_or_leaves_alone_is_the_catalogs() -> None:
    message = client(LIST)
    for decide in (passes, lambda *asked: Forward(None, "flag", Why("r", "flag", "m"))):
        gate, _ = gate_of(decide)
        verdict = gate.client_says(message, begun(message))
        assert isinstance(verdict, Answer)
        assert verdict.is_list
        assert json.loads(verdict.raw)["result"] == json.loads(catalog().result)


ASKED = Approval("ask", 60.0)


class Person:
    """Who is asked, and keeps what waits."""

    def __init__(self) -> None:
        self.held: list[tuple[HumanWait, str, Approval]] = []

    def hold(self, wait: HumanWait, why: str, asked: Approval) -> None:
        self.held.append((wait, why, asked))


def approving(decide: Decide, choice: ToolFilter = CHOICE) -> tuple[RuledGate, Stub, Person]:
    """A gate whose rules let everything pass that a person agrees to."""
    stub, person = Stub(decide), Person()
    gate = RuledGate(choice, None, Rules(stub))  # type: ignore[arg-type]
    gate.asker = person  # type: ignore[assignment]
    return gate, stub, person


def asks(message: Message, context: Context) -> Verdict:
    return Forward(None, "pass", None, ASKED)


def once(message: Message, context: Context) -> Verdict:
    """Asks about what no person has changed yet."""
    changed = context.exchange is not None and "ask" in context.exchange.modified
    return FORWARD if changed else asks(message, context)


def test_a_call_that_a_person_agrees_to_passes_as_the_bytes_that_came() -> None:
    gate, _, person = approving(asks)
    message = call()
    wait = gate.client_says(message, begun(message))
    ((held, why, asked),) = person.held
    assert held is wait
    assert (why, asked, held.rule, held.message, held.is_from_client) == (
        "approve",
        ASKED,
        "ask",
        message,
        True,
    )
    settled: list[Verdict] = []
    held.then(settled.append)
    held.release()
    assert settled == [FORWARD]


def test_an_answer_waits_for_a_person_on_its_way_back() -> None:
    gate, _, person = approving(
        lambda message, context: FORWARD if message.kind is Kind.REQUEST else asks(message, context)
    )
    message = call()
    exchange = begun(message)
    assert gate.client_says(message, exchange) is FORWARD
    gate.upstream_says(upstream(RESULT), exchange)
    ((held, _, _),) = person.held
    assert not held.is_from_client
    assert held.message.raw == RESULT


def test_what_a_rule_changed_is_what_a_person_is_shown_and_agrees_to() -> None:
    changed = client(call().raw.replace(b'"arguments":{}', b'"arguments":{"x":1}'))
    why = Why("r", "change", "", rules=("r",))
    gate, _, person = approving(lambda *asked: Forward(changed, "change", why, ASKED))
    message = call()
    gate.client_says(message, begun(message))
    ((held, _, _),) = person.held
    assert held.message.raw == changed.raw
    settled: list[Verdict] = []
    held.then(settled.append)
    held.release()
    (verdict,) = settled
    assert isinstance(verdict, Forward)
    assert (verdict.word, verdict.why, verdict.approval) == ("change", why, None)


def test_what_a_person_has_changed_is_judged_once_more_and_told_as_changed() -> None:
    gate, stub, person = approving(once)
    message = call()
    exchange = begun(message)
    exchange.modified = ("before",)
    gate.client_says(message, exchange)
    ((held, _, _),) = person.held
    settled: list[Verdict] = []
    held.then(settled.append)
    edited = call(ALLOWED, b"1")
    held.release(edited)
    (verdict,) = settled
    assert isinstance(verdict, Forward)
    assert verdict.message is edited
    assert verdict.why is not None
    assert (verdict.why.rule, verdict.why.action, verdict.why.reason) == (
        "ask",
        "edit",
        "a person has changed it",
    )
    assert exchange.modified == ("before", "ask")
    assert [way for way, _ in stub.asked] == ["client", "client"]


def test_no_person_makes_a_hidden_tool_callable() -> None:
    gate, _, person = approving(once)
    message = call()
    gate.client_says(message, begun(message))
    ((held, _, _),) = person.held
    settled: list[Verdict] = []
    held.then(settled.append)
    held.release(call(DENIED))
    (verdict,) = settled
    assert isinstance(verdict, Answer)
    assert verdict.why is not None
    assert verdict.why.rule == "tool filter"


def test_where_nobody_can_be_asked_nothing_passes(caplog: pytest.LogCaptureFixture) -> None:
    gate, _, _ = approving(asks)
    gate.asker = None
    verdict = gate.client_says(call(), begun(call()))
    assert isinstance(verdict, Answer)
    assert verdict.why is not None
    assert (verdict.word, verdict.why.rule, verdict.why.action) == ("block", "ask", "approve")
    assert [one.getMessage() for one in caplog.records] == [
        "Rule ask wants a person to be asked, and nobody can be."
    ]


def test_nobody_is_asked_about_what_does_not_pass_anyhow() -> None:
    gate, _, person = approving(lambda *asked: Forward(call(DENIED), "change", None, ASKED))
    message = client(PING)
    verdict = gate.client_says(message, begun(message))
    assert isinstance(verdict, Answer)
    assert person.held == []


def test_a_list_from_the_catalog_waits_for_a_person_too() -> None:
    gate, _, person = approving(
        lambda message, context: FORWARD if context.direction == "client" else asks(message, context)
    )
    message = client(LIST)
    gate.client_says(message, begun(message))
    ((held, _, _),) = person.held
    settled: list[Verdict] = []
    held.then(settled.append)
    held.release()
    (verdict,) = settled
    assert isinstance(verdict, Answer)
    assert verdict.is_list


def test_a_rule_that_spoils_a_message_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    gate, _ = gate_of(passed(b"{nonsense", "r"))
    gate.client_says(call(), begun(call()))
    assert any(
        one.getMessage().startswith("A rule made a message that must not be forwarded. ")
        for one in caplog.records
    )


def test_rules_are_replaced_as_a_whole() -> None:
    gate, stub = gate_of(passes)
    gate._rules.replace(None)
    assert not gate.is_ruled
    gate._rules.replace(stub)  # type: ignore[arg-type]
    assert gate.is_ruled


def test_the_reason_for_which_a_person_was_asked_stays_with_what_passes() -> None:
    why = Why("r", "log", "", rules=("r",))
    gate, _, person = approving(lambda *asked: Forward(None, "pass", why, ASKED))
    message = call()
    wait = gate.client_says(message, begun(message))
    assert isinstance(wait, Wait)
    settled: list[Verdict] = []
    wait.then(settled.append)
    person.held[0][0].release()
    assert settled == [Forward(None, "pass", why)]


def test_nobody_is_asked_about_an_answer_that_is_blocked() -> None:
    error = upstream(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}')
    why = Why("r", "block", "no")
    gate, _, person = approving(
        lambda message, context: (
            FORWARD if context.direction == "client" else Forward(error, "block", why, ASKED)
        )
    )
    message = call()
    exchange = begun(message)
    gate.client_says(message, exchange)
    verdict = gate.upstream_says(upstream(RESULT), exchange)
    assert isinstance(verdict, Forward)
    assert (verdict.word, person.held) == ("block", [])


@pytest.mark.parametrize("token", [b"", b'"id":null,'])
def test_rules_about_messages_without_a_method_look_at_complaints(token: bytes) -> None:
    complaint = upstream(b'{"jsonrpc":"2.0",%b"error":{"code":-32700,"message":"what"}}' % token)
    gate, stub = gate_of(passes, None)
    assert gate.upstream_says(complaint, Exchange(session=Session(id="s"))) is FORWARD
    assert stub.asked == [("upstream", complaint.raw)]


def test_a_list_that_rules_keep_back_is_not_shown() -> None:
    why = Why("r", "drop", "no")
    gate, _ = gate_of(lambda message, context: FORWARD if context.direction == "client" else Drop(why))
    message = client(LIST)
    assert gate.client_says(message, begun(message)) == Drop(why)


def test_an_answer_of_the_clients_is_judged_by_rules_about_clients() -> None:
    rule = {
        "id": "r",
        "direction": "client",
        "conditions": [{"method_equals": "roots/list"}],
        "actions": [{"block": "no"}],
    }
    config, faults = build({"rules": [rule]})
    assert config is not None, faults
    gate = RuledGate(CHOICE, None, Rules(Interceptor(config, None)))  # type: ignore[arg-type]
    question = upstream(b'{"jsonrpc":"2.0","id":5,"method":"roots/list"}')
    exchange = begun(question)
    assert gate.upstream_says(question, exchange) is FORWARD
    answer = client(b'{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}')
    verdict = gate.client_says(answer, exchange)
    assert isinstance(verdict, Forward)
    assert verdict.word == "block"
