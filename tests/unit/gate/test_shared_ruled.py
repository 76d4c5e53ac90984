"""Rules over several instances: what is read before they look, what is written before a message goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import hostile
from gate_messages import client, upstream
from memory_doors import CHOICE, catalog
from penstock.gate.ruled import Rules
from penstock.gate.session_table import TrackedSession
from penstock.gate.shared_ruled import UNKNOWN, CannotTell, SharedRuledGate
from penstock.policy.exchange import Exchange, Session
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build
from penstock.policy.rules.shared_actions import SharedUse, with_shared
from penstock.policy.verdict import FORWARD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import INTERNAL_ERROR, Message

ALLOWED, DENIED = hostile.ALLOWED[0], hostile.DENIED[0]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
ROOTS = b'{"jsonrpc":"2.0","id":5,"method":"roots/list"}'
ROOTS_ANSWER = b'{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}'
TASK_BEGINS = b'{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t1"}}}'
TASK_ASKED = b'{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t1"}}'

MARKS = {
    "id": "m",
    "conditions": [{"method_equals": "ping"}],
    "actions": [{"set_state": {"key": "seen", "value": True}}],
}
STOPS = {
    "id": "s",
    "conditions": [{"method_equals": "tools/call"}, {"state_equals": {"key": "seen", "value": True}}],
    "actions": [{"block": "seen elsewhere"}],
}
WATCHES_ANSWERS = {"id": "a", "conditions": [{"method_equals": "roots/list"}], "actions": [{"log": "info"}]}
CALLS_ONLY = {"id": "c", "conditions": [{"method_equals": "tools/call"}], "actions": [{"log": "info"}]}


class Records:
    """What all instances know, in one place; and what was asked of it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.tasks: dict[str, Message] = {}
        self.questions: dict[bytes, Message] = {}
        self.asked: list[tuple[Any, ...]] = []
        self.is_down = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def _ask(self, *what: Any) -> None:
        self.asked.append(what)
        await self.gate.wait()
        if self.is_down:
            raise CannotTell("down")

    async def load(self, session: Session, names: frozenset[str], tasks: list[str]) -> None:
        await self._ask("load", names, tasks)
        session.values.update({name: self.values[name] for name in names if name in self.values})
        session.tasks.update({task: self.tasks[task] for task in tasks if task in self.tasks})

    async def save(self, session: Session, changes: list[Any], tasks: dict[str, Message]) -> None:
        await self._ask("save", list(changes), dict(tasks))
        self.values.update({name: value for name, value, _ in changes})
        self.tasks.update(tasks)

    async def keep_request(self, session: Session, message: Message) -> None:
        await self._ask("keep", message.raw)
        self.questions[message.id_token or b""] = message

    async def take_request(self, session: Session, id_token: bytes) -> Message | None:
        await self._ask("take", id_token)
        return self.questions.pop(id_token, None)


def interceptor(*rules: Any) -> Interceptor:
    config, faults = build({"rules": list(rules)})
    assert config is not None, faults
    return Interceptor(with_shared(config, SharedUse(limits=True, caches=True, state=True)), None)  # type: ignore[arg-type]


def gate_with(*rules: Any, records: Records | None = None) -> tuple[SharedRuledGate, Records]:
    records = records or Records()
    gate = SharedRuledGate(CHOICE, None, Rules(interceptor(*rules)))
    gate.records = records
    return gate, records


def call(name: str = ALLOWED, more: bytes = b"") -> Message:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{}%b}}'
    return client(raw % (name.encode(), more))


def everywhere() -> TrackedSession:
    return TrackedSession(id="s", is_everywhere=True)


def begun(message: Message, session: Session | None = None) -> Exchange:
    session = everywhere() if session is None else session
    return Exchange(message.id_token or b"", message.method or "", session=session, catalog=catalog())


async def decided(verdict: Verdict) -> Any:
    """The verdict that the waiting ends with."""
    if not isinstance(verdict, Wait):
        return verdict
    done: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    verdict.then(done.set_result)
    return await done


def in_a_loop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        asyncio.run(scenario())

    test.__name__ = scenario.__name__
    return test


def why_of(verdict: Any) -> Why:
    assert verdict.why is not None
    return verdict.why  # type: ignore[no-any-return]


@in_a_loop
async def test_what_a_rule_sets_here_is_known_at_the_other_instance() -> None:
    here, records = gate_with(MARKS, STOPS)
    there, _ = gate_with(MARKS, STOPS, records=records)
    assert isinstance(await decided(there.client_says(call(), begun(call()))), Forward)
    ping = client(PING)
    verdict = here.client_says(ping, begun(ping))
    assert isinstance(verdict, Wait)
    assert verdict.is_from_client
    assert isinstance(await decided(verdict), Forward)
    assert ("load", frozenset({"seen"}), []) in records.asked
    assert ("save", [("seen", True, False)], {}) in records.asked
    said = await decided(there.client_says(call(), begun(call())))
    assert isinstance(said, Answer)
    assert why_of(said).rule == "s"


@in_a_loop
async def test_what_changes_nothing_is_not_written() -> None:
    gate, records = gate_with(MARKS, STOPS)
    await decided(gate.client_says(call(), begun(call())))
    assert [what for what, *_ in records.asked] == ["load"]


@in_a_loop
async def test_a_session_of_this_instance_alone_asks_nobody() -> None:
    gate, records = gate_with(MARKS, STOPS, WATCHES_ANSWERS)
    for session in (Session(id="s"), TrackedSession(id="s")):
        ping = client(PING)
        assert not isinstance(gate.client_says(ping, begun(ping, session)), Wait)
        question = upstream(ROOTS)
        assert not isinstance(gate.upstream_says(question, begun(question, session)), Wait)
        answer = client(ROOTS_ANSWER)
        assert isinstance(gate.client_says(answer, Exchange(session=session)), Drop)
    assert records.asked == []


@in_a_loop
async def test_rules_that_set_nothing_ask_nobody_about_calls() -> None:
    other = {**CALLS_ONLY, "id": "o", "conditions": [{"method_equals": "ask/x"}]}
    gate, records = gate_with(CALLS_ONLY, other)
    assert not isinstance(gate.client_says(call(), begun(call())), Wait)
    asking = client(b'{"jsonrpc":"2.0","id":1,"method":"ask/x"}')  # which is no call that may begin a task
    assert not isinstance(gate.client_says(asking, begun(asking)), Wait)
    assert records.asked == []


@in_a_loop
async def test_a_notification_that_rules_drop_is_dropped_here_too() -> None:
    drops = {"id": "d", "conditions": [{"method_equals": "notifications/x"}], "actions": [{"block": "no"}]}
    gate, _ = gate_with(MARKS, drops)
    told = client(b'{"jsonrpc":"2.0","method":"notifications/x"}')
    said = await decided(gate.client_says(told, begun(told)))
    assert isinstance(said, Drop)
    assert why_of(said).rule == "d"


@in_a_loop
async def test_a_question_that_a_rule_changed_is_known_as_it_went_on() -> None:
    changes = {
        **WATCHES_ANSWERS,
        "id": "e",
        "direction": "both",
        "actions": [{"set_param": {"field": "x", "value": 1}}],
    }
    gate, records = gate_with(WATCHES_ANSWERS, changes)
    question = upstream(ROOTS[:-1] + b',"params":{}}')
    said = await decided(gate.upstream_says(question, begun(question)))
    assert said.message is not None
    assert b'"x":1' in said.message.raw
    assert ("keep", said.message.raw) in records.asked


@in_a_loop
async def test_a_reload_changes_which_names_are_read() -> None:
    gate, records = gate_with(MARKS)
    ping = client(PING)
    await decided(gate.client_says(ping, begun(ping)))
    other = {**MARKS, "actions": [{"set_state": {"key": "other", "value": 1}}]}
    gate._rules.replace(interceptor(other))
    await decided(gate.client_says(ping, begun(ping)))
    gate._rules.replace(interceptor(CALLS_ONLY))
    assert not isinstance(gate.client_says(call(), begun(call())), Wait)
    assert [names for what, names, _ in records.asked if what == "load"] == [{"seen"}, {"other"}]


@in_a_loop
async def test_where_nobody_can_tell_what_was_set_nothing_passes() -> None:
    gate, records = gate_with(MARKS, STOPS)
    records.is_down = True
    said = await decided(gate.client_says(call(), begun(call())))
    assert isinstance(said, Answer)
    assert (said.word, said.code) == ("block", 0)  # a call has no HTTP status of its own
    text = "The state of the session cannot be checked now"
    assert why_of(said) == Why("rules", "error", text, INTERNAL_ERROR)


@in_a_loop
async def test_a_task_that_began_here_is_known_at_the_other_instance() -> None:
    both = {**CALLS_ONLY, "direction": "both"}
    here, records = gate_with(both)
    there, _ = gate_with(both, records=records)
    asked = call(more=b',"task":{}')
    exchange = begun(asked)
    assert isinstance(await decided(here.client_says(asked, exchange)), Forward)
    assert isinstance(await decided(here.upstream_says(upstream(TASK_BEGINS), exchange)), Forward)
    assert records.tasks == {"t1": exchange.request}
    later = client(TASK_ASKED)
    exchange = begun(later)
    assert isinstance(await decided(there.client_says(later, exchange)), Forward)
    records.asked.clear()
    result = upstream(RESULT.replace(b'"id":1', b'"id":2'))
    assert isinstance(await decided(there.upstream_says(result, exchange)), Forward)
    assert ("load", frozenset(), ["t1"]) in records.asked
    assert "t1" in exchange.session.tasks


@in_a_loop
async def test_a_task_that_was_known_before_is_not_written_again() -> None:
    gate, records = gate_with({**CALLS_ONLY, "direction": "both"})
    later = client(TASK_ASKED)
    exchange = begun(later)
    records.tasks["t1"] = call()
    await decided(gate.client_says(later, exchange))
    result = upstream(RESULT.replace(b'"id":1', b'"id":2'))
    await decided(gate.upstream_says(result, exchange))
    assert {what for what, *_ in records.asked} <= {"load"}


# --- questions of the upstream's ---------------------------------------------------------------------------


@in_a_loop
async def test_a_question_goes_on_when_the_others_know_of_it_and_any_of_them_may_take_the_answer() -> None:
    here, records = gate_with(WATCHES_ANSWERS)
    there, _ = gate_with(WATCHES_ANSWERS, records=records)
    question = upstream(ROOTS)
    records.gate.clear()
    verdict = here.upstream_says(question, begun(question))
    assert isinstance(verdict, Wait)
    assert not verdict.is_from_client
    out: list[Verdict] = []
    verdict.then(out.append)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert out == []
    records.gate.set()
    assert isinstance(await decided(verdict), Forward)
    assert ("keep", ROOTS) in records.asked
    answer = client(ROOTS_ANSWER)
    exchange = Exchange(session=everywhere())
    verdict = there.client_says(answer, exchange)
    assert isinstance(verdict, Wait)
    assert verdict.is_from_client
    assert isinstance(await decided(verdict), Forward)
    assert (exchange.request.raw, exchange.method) == (ROOTS, "roots/list")
    assert exchange.rules is there._rules.current


@in_a_loop
async def test_an_answer_that_two_instances_get_is_taken_by_one() -> None:
    gate, records = gate_with(WATCHES_ANSWERS)
    question, answer = upstream(ROOTS), client(ROOTS_ANSWER)
    await decided(gate.upstream_says(question, begun(question)))
    first = await decided(gate.client_says(answer, Exchange(session=everywhere())))
    second = await decided(gate.client_says(answer, Exchange(session=everywhere())))
    assert isinstance(first, Forward)
    assert isinstance(second, Drop)
    assert [what for what, *_ in records.asked] == ["keep", "take", "take"]


@in_a_loop
async def test_a_question_that_does_not_pass_is_told_to_nobody() -> None:
    blocks = {**WATCHES_ANSWERS, "direction": "upstream", "actions": [{"block": "no"}]}
    gate, records = gate_with(blocks, {**WATCHES_ANSWERS, "id": "b"})
    question = upstream(ROOTS)
    said = await decided(gate.upstream_says(question, begun(question)))
    assert isinstance(said, Answer)
    assert records.asked == []


@in_a_loop
async def test_what_is_no_question_is_told_to_nobody() -> None:
    gate, records = gate_with(WATCHES_ANSWERS)
    told = upstream(b'{"jsonrpc":"2.0","method":"notifications/x"}')
    assert not isinstance(gate.upstream_says(told, begun(told)), Wait)
    assert not isinstance(gate.upstream_says(upstream(RESULT), begun(call())), Wait)
    ping = client(PING)
    assert not isinstance(gate.client_says(ping, begun(ping)), Wait)
    assert records.asked == []


@in_a_loop
async def test_where_no_rule_looks_at_answers_of_clients_no_question_is_kept() -> None:
    gate, records = gate_with(CALLS_ONLY)
    question = upstream(ROOTS)
    assert not isinstance(gate.upstream_says(question, begun(question)), Wait)
    assert gate.client_says(client(ROOTS_ANSWER), Exchange(session=everywhere())) is FORWARD
    gate._rules.replace(None)
    assert not isinstance(gate.upstream_says(question, begun(question)), Wait)
    assert records.asked == []


@in_a_loop
async def test_an_answer_whose_question_was_asked_here_needs_nobody_else() -> None:
    gate, records = gate_with(WATCHES_ANSWERS)
    question = upstream(ROOTS)
    exchange = begun(question)
    await decided(gate.upstream_says(question, exchange))
    records.asked.clear()
    assert not isinstance(gate.client_says(client(ROOTS_ANSWER), exchange), Wait)
    assert records.asked == []


@in_a_loop
async def test_without_the_records_neither_question_nor_answer_passes() -> None:
    gate, records = gate_with(WATCHES_ANSWERS)
    records.is_down = True
    question = upstream(ROOTS)
    said = await decided(gate.upstream_says(question, begun(question)))
    assert isinstance(said, Answer)
    assert why_of(said).reason == UNKNOWN
    said = await decided(gate.client_says(client(ROOTS_ANSWER), Exchange(session=everywhere())))
    assert said == Drop(Why("rules", "drop", UNKNOWN))


async def _give_up_on_a_question() -> None:
    gate, records = gate_with({**MARKS, "direction": "both", "conditions": [{"method_equals": "roots/list"}]})
    records.gate.clear()
    question = upstream(ROOTS)
    exchange = begun(question)
    verdict = gate.upstream_says(question, exchange)
    assert isinstance(verdict, Wait)
    await asyncio.sleep(0)
    assert len(exchange.session.waiting) == 2
    verdict.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert exchange.session.waiting == {}
    assert isinstance(await decided(verdict), Drop)


def test_who_gives_up_on_a_question_gives_up_on_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(_give_up_on_a_question())
    assert caplog.records == []  # giving up is no failure


@pytest.mark.parametrize("name", [ALLOWED, DENIED])
def test_hidden_tools_stay_hidden(name: str) -> None:
    async def run() -> None:
        gate, _ = gate_with(MARKS, STOPS)
        said = await decided(gate.client_says(call(name), begun(call(name))))
        assert isinstance(said, Forward if name == ALLOWED else Answer)

    asyncio.run(run())


ASKS_AND_SETS = {**MARKS, "direction": "both", "conditions": [{"method_equals": "roots/list"}]}


@in_a_loop
async def test_a_question_and_its_answer_wait_for_rules_and_records_both() -> None:
    gate, records = gate_with(ASKS_AND_SETS)
    question, answer = upstream(ROOTS), client(ROOTS_ANSWER)
    assert isinstance(await decided(gate.upstream_says(question, begun(question))), Forward)
    assert [what for what, *_ in records.asked] == ["load", "save", "keep"]
    records.asked.clear()
    exchange = Exchange(session=everywhere())
    assert isinstance(await decided(gate.client_says(answer, exchange)), Forward)
    assert [what for what, *_ in records.asked] == ["take", "load", "save"]


@in_a_loop
async def test_what_was_given_up_while_rules_looked_is_told_to_nobody() -> None:
    gate, records = gate_with(ASKS_AND_SETS)
    records.gate.clear()
    question = upstream(ROOTS)
    verdict = gate.upstream_says(question, begun(question))
    assert isinstance(verdict, Wait)
    await asyncio.sleep(0)
    verdict.cancel()
    records.gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert "keep" not in [what for what, *_ in records.asked]


@in_a_loop
async def test_an_answer_to_a_call_is_known_by_what_was_asked() -> None:
    gate, records = gate_with({**CALLS_ONLY, "direction": "both"})
    asked = call(more=b',"x":1')
    exchange = begun(asked)
    await decided(gate.client_says(asked, exchange))
    records.asked.clear()
    await decided(gate.upstream_says(upstream(TASK_BEGINS), exchange))
    assert [what for what, *_ in records.asked] == ["load", "save"]
    told = upstream(b'{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t1"}}')
    records.asked.clear()
    await decided(gate.upstream_says(told, begun(told)))
    assert ("load", frozenset(), ["t1"]) in records.asked
