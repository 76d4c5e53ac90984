"""Messages that wait for a person: what ends the waiting, what follows behind, and what edits may do."""

from __future__ import annotations

import json
from typing import Any

import pytest

import hostile
from gate_messages import client, upstream
from memory_doors import CHOICE, catalog
from penstock.gate.gate import Gate
from penstock.gate.held import (
    BLOCKED,
    Behind,
    CannotEdit,
    Edited,
    HeldGate,
    HumanWait,
    blocked,
    edited_message,
    with_edit,
)
from penstock.gate.holdable import HoldableGate
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import Kind, Message

ALLOWED, DENIED = hostile.ALLOWED[0], hostile.DENIED[0]
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
TOLD = b'{"jsonrpc":"2.0","method":"notifications/x"}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,"progress":%d}}'
WITHDRAWN = "it was withdrawn while it waited for a person"


class Person:
    """Somebody with breakpoints, who keeps what is held until a test decides about it."""

    def __init__(self, *methods: str | None, senders: tuple[str, ...] = ("client", "upstream")) -> None:
        self.methods = list(methods)
        self.senders = senders
        self.is_watching = True
        self.held: list[tuple[HumanWait, str]] = []
        self.looked: list[tuple[str, bytes]] = []

    def maybe_breakpoint(self, sender: str, message: Message, exchange: Exchange) -> str | None:
        self.looked.append((sender, message.raw))
        wanted = sender in self.senders and (message.method or exchange.method) in self.methods
        wanted = wanted and self.is_watching
        return "b1" if wanted else None

    def hold(self, wait: HumanWait, kind: str, approval: Any = None) -> None:
        self.held.append((wait, kind))


class Listening(Gate):
    """The plain gate, and what it was told of messages that it was not asked about."""

    def __init__(self, choice: ToolFilter = CHOICE) -> None:
        super().__init__(choice)
        self.heard: list[tuple[Any, ...]] = []

    def said(self, *told: Any, **named: Any) -> None:
        sender, word, raw, why, *rest = told
        exchange, session, sent = [*rest, None, None, None][:3]
        self.heard.append((sender, word, raw, why, exchange, named.get("session", session), sent))


def call(name: str = ALLOWED, token: bytes = b"1", more: bytes = b"") -> Message:
    raw = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"%b","arguments":{}%b}}'
    return client(raw % (token, name.encode(), more))


def begun(message: Message, session: Session | None = None) -> Exchange:
    return Exchange(
        message.id_token or b"",
        message.method or "",
        session=session or Session(id="s"),
        catalog=catalog(),
    )


def held_gate(*methods: str | None, **named: Any) -> tuple[HeldGate, Person, Listening]:
    inner, person = Listening(), Person(*methods, **named)
    return HeldGate(inner, person), person, inner


def settled(wait: Verdict) -> list[Verdict]:
    """The verdicts that the waiting has ended with, so far: none or one."""
    assert isinstance(wait, Wait)
    out: list[Verdict] = []
    wait.then(out.append)
    return out


def the(verdicts: list[Verdict]) -> Any:
    (verdict,) = verdicts
    return verdict


def waiting_call(
    message: Message | None = None, session: Session | None = None
) -> tuple[HumanWait, list[tuple[str, Any]], list[tuple[Message, Verdict]]]:
    """A call that waits for a person, with how it ended and what was told of it."""
    message = message or call()
    ended: list[tuple[str, Any]] = []
    told: list[tuple[Message, Verdict]] = []
    wait = HumanWait(
        message,
        message.kind is not Kind.RESPONSE,
        begun(message, session),
        "r",
        lambda passed: FORWARD if passed is message else Forward(passed, "change"),
        lambda held, verdict: told.append((held, verdict)),
    )
    wait.on_over = lambda one, how: ended.append((how, one))
    return wait, ended, told


# --- waiting for a person ----------------------------------------------------------------------------------


def test_a_message_that_waits_is_its_sessions_until_it_is_released() -> None:
    session, idle = Session(id="s"), []
    session.on_idle = lambda: idle.append(True)
    wait, ended, told = waiting_call(session=session)
    assert list(session.waiting) == [wait]
    assert not wait.is_over
    verdicts = settled(wait)
    wait.release()
    assert verdicts == [FORWARD]
    assert wait.is_over
    assert ended == [("released", wait)]
    assert told == []  # the gate behind has been asked, and tells itself
    assert (session.waiting, idle) == ({}, [True])


def test_an_edited_message_goes_on_in_the_place_of_the_one_that_waited() -> None:
    wait, ended, _ = waiting_call()
    verdicts, edited = settled(wait), call(token=b"1", more=b',"x":1')
    wait.release(edited)
    assert the(verdicts).message is edited
    assert ended == [("edited", wait)]


@pytest.mark.parametrize("data", [None, {"more": 1}, 0])
def test_who_is_denied_hears_a_persons_words(data: object) -> None:
    wait, ended, told = waiting_call()
    verdicts = settled(wait)
    wait.deny("Not today", data)
    verdict = the(verdicts)
    assert verdict.why == Why("r", "deny", "Not today", BLOCKED)
    shown = {"rule": "r", "action": "deny"} if data is None else data
    assert json.loads(verdict.raw)["error"] == {"code": -32001, "message": "Not today", "data": shown}
    assert ended == [("denied", wait)]
    assert told == [(wait.message, verdict)]


@pytest.mark.parametrize("passes", [True, False])
def test_when_time_is_up_it_passes_only_where_that_was_said(passes: bool) -> None:
    wait, ended, told = waiting_call()
    verdicts = settled(wait)
    wait.time_out(passes)
    assert ended == [("timed out", wait)]
    if passes:
        assert verdicts == [FORWARD]
        assert told == []
    else:
        assert the(verdicts).why == Why("r", "timeout", "Blocked: nobody has released it", BLOCKED)
        assert told == [(wait.message, the(verdicts))]


def test_what_is_asked_no_more_is_blocked() -> None:
    wait, ended, _ = waiting_call()
    verdicts = settled(wait)
    wait.void("The rules have changed")
    assert the(verdicts).why == Why("r", "void", "The rules have changed", BLOCKED)
    assert ended == [("voided", wait)]


def test_who_withdraws_a_message_gets_no_answer() -> None:
    wait, ended, told = waiting_call()
    verdicts = settled(wait)
    wait.cancel()
    assert verdicts == [Drop(Why("r", "withdrawn", WITHDRAWN))]
    assert ended == [("withdrawn", wait)]
    assert told == [(wait.message, verdicts[0])]


def test_what_will_not_pass_is_answered_with_the_reason() -> None:
    wait, ended, _ = waiting_call()
    verdicts = settled(wait)
    wait.fail("The upstream is gone")
    assert the(verdicts).why == Why("r", "withdrawn", "The upstream is gone", BLOCKED)
    assert ended == [("withdrawn", wait)]


def test_only_what_the_client_sent_is_withdrawn_when_it_leaves() -> None:
    ours, _, _ = waiting_call()
    theirs, _, _ = waiting_call(upstream(RESULT))
    verdicts = settled(ours)
    ours.client_left()
    theirs.client_left()
    assert the(verdicts).why == Why("r", "withdrawn", "The client has left", BLOCKED)
    assert not theirs.is_over


VERBS: dict[str, Any] = {
    "release": lambda wait: wait.release(),
    "deny": lambda wait: wait.deny("no"),
    "time out": lambda wait: wait.time_out(True),
    "time out, closed": lambda wait: wait.time_out(False),
    "void": lambda wait: wait.void("no"),
    "cancel": lambda wait: wait.cancel(),
    "fail": lambda wait: wait.fail("no"),
}


@pytest.mark.parametrize("first", VERBS)
@pytest.mark.parametrize("second", VERBS)
def test_exactly_one_verb_ends_the_waiting(first: str, second: str) -> None:
    wait, ended, told = waiting_call()
    verdicts = settled(wait)
    VERBS[first](wait)
    before = (list(verdicts), list(ended), list(told))
    VERBS[second](wait)
    assert (verdicts, ended, told) == before
    assert (len(verdicts), len(ended)) == (1, 1)


def test_waiting_ends_where_nobody_asked_to_hear_of_it() -> None:
    wait, _, _ = waiting_call()
    wait.on_over = None
    verdicts = settled(wait)
    wait.release()
    assert verdicts == [FORWARD]


@pytest.mark.parametrize("verb", ["cancel", "fail"])
def test_what_was_released_into_another_waiting_is_withdrawn_from_that(verb: str) -> None:
    next_one, _, _ = waiting_call()
    message = call()
    wait = HumanWait(message, True, begun(message), "r", lambda passed: next_one, lambda *told: None)
    verdicts = settled(wait)
    wait.release()
    assert verdicts == []
    VERBS[verb](wait)
    assert next_one.is_over
    assert the(verdicts).why.action == "withdrawn"


@pytest.mark.parametrize(
    ("message", "kind"),
    [(call(), Answer), (upstream(RESULT), Forward), (client(TOLD), Drop)],
)
def test_a_block_answers_requests_replaces_answers_and_drops_the_rest(message: Message, kind: type) -> None:
    verdict: Any = blocked(message, "r", "deny", "No")
    assert isinstance(verdict, kind)
    assert verdict.word == "block"
    assert verdict.why == Why("r", "deny", "No", BLOCKED)
    raw = verdict.raw if isinstance(verdict, Answer) else None
    if isinstance(verdict, Forward):
        assert verdict.message is not None
        assert (verdict.message.kind, verdict.message.id_token) == (Kind.RESPONSE, b"1")
        raw = verdict.message.raw
    if raw is not None:
        assert json.loads(raw) == {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {"code": BLOCKED, "message": "No", "data": {"rule": "r", "action": "deny"}},
        }


def test_a_blocked_call_has_no_http_status_of_its_own() -> None:
    verdict = blocked(call(), "r", "deny", "No")
    assert isinstance(verdict, Answer)
    assert verdict.code == 0


# --- the gate with breakpoints -----------------------------------------------------------------------------


def test_what_no_breakpoint_names_goes_straight_through() -> None:
    gate, person, _ = held_gate("other")
    message = call()
    exchange = begun(message)
    assert gate.client_says(message, exchange) is FORWARD
    assert gate.upstream_says(upstream(RESULT), exchange) is FORWARD
    assert person.held == []
    assert [sender for sender, _ in person.looked] == ["client", "upstream"]


def test_without_breakpoints_nobody_looks() -> None:
    gate, person, _ = held_gate("tools/call")
    person.is_watching = False
    message = call()
    exchange = begun(message)
    assert gate.client_says(message, exchange) is FORWARD
    assert gate.upstream_says(upstream(RESULT), exchange) is FORWARD
    assert (person.held, person.looked) == ([], [])


def test_a_call_is_held_and_judged_when_it_is_released() -> None:
    gate, person, inner = held_gate("tools/call")
    for name, kind in ((ALLOWED, Forward), (DENIED, Answer)):
        message = call(name)
        verdicts = settled(gate.client_says(message, begun(message)))
        wait, why = person.held.pop()
        assert (why, wait.rule, wait.is_from_client, wait.message) == (
            "breakpoint",
            "breakpoint b1",
            True,
            message,
        )
        wait.release()
        assert isinstance(the(verdicts), kind)
    assert inner.heard == []


def test_what_waits_for_the_tool_list_is_held_once_it_is_there() -> None:
    gate, person, _ = held_gate("tools/call", "ping")
    message = call()
    exchange = begun(message)
    exchange.catalog = None
    assert gate.client_says(message, exchange) is HOLD
    assert person.looked == []
    ping = client(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')
    assert isinstance(gate.client_says(ping, exchange), HumanWait)
    exchange.catalog = catalog()
    assert isinstance(gate.client_says(message, exchange), HumanWait)


def test_without_a_filter_a_call_is_held_before_any_list_is_there() -> None:
    person = Person("tools/call")
    gate = HeldGate(Listening(ToolFilter()), person)
    message = call()
    exchange = begun(message)
    exchange.catalog = None
    assert isinstance(gate.client_says(message, exchange), HumanWait)


def test_what_a_person_blocks_is_told_to_who_listens() -> None:
    gate, person, inner = held_gate("tools/call")
    message = call()
    exchange = begun(message)
    verdicts = settled(gate.client_says(message, exchange))
    person.held[0][0].deny("no")
    verdict = the(verdicts)
    assert inner.heard == [
        ("client", "block", message.raw, verdict.why, exchange, exchange.session, verdict.raw)
    ]


def test_what_a_person_blocks_on_the_way_back_is_told_with_what_went_in_its_place() -> None:
    gate, person, inner = held_gate("tools/call", senders=("upstream",))
    message = call()
    exchange = begun(message)
    verdicts = settled(gate.upstream_says(upstream(RESULT), exchange))
    wait, _ = person.held[0]
    assert (wait.is_from_client, wait.rule) == (False, "breakpoint b1")
    wait.deny("no")
    verdict = the(verdicts)
    assert inner.heard == [
        ("upstream", "block", RESULT, verdict.why, exchange, exchange.session, verdict.message.raw)
    ]


def test_what_is_withdrawn_is_told_and_nothing_went_in_its_place() -> None:
    gate, person, inner = held_gate("tools/call")
    message = call()
    exchange = begun(message)
    gate.client_says(message, exchange)
    person.held[0][0].cancel()
    why = Why("breakpoint b1", "withdrawn", WITHDRAWN)
    assert inner.heard == [("client", "drop", message.raw, why, exchange, exchange.session, None)]


def cancellation(token: bytes) -> Message:
    raw = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
    return client(raw % token)


def test_who_cancels_what_is_held_is_not_passed_on() -> None:
    gate, _, inner = held_gate("tools/call")
    session, message = Session(id="s"), call(token=b"7")
    verdicts = settled(gate.client_says(message, begun(message, session)))
    inner.heard.clear()
    cancel = cancellation(b"7")
    verdict = gate.client_says(cancel, begun(cancel, session))
    why = Why("breakpoint", "drop", "it cancels a request that never went upstream")
    assert verdict == Drop(why)
    assert inner.heard[-1] == ("client", "drop", cancel.raw, why, None, session, None)
    assert the(verdicts).why.action == "withdrawn"


@pytest.mark.parametrize(
    "other",
    [
        cancellation(b"8"),
        client(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}'),
        client(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}'),
        client(b'{"jsonrpc":"2.0","method":"notifications/x","params":{"requestId":7}}'),
    ],
)
def test_a_cancellation_of_something_else_passes(other: Message) -> None:
    gate, person, _ = held_gate("tools/call")
    session, message = Session(id="s"), call(token=b"7")
    gate.client_says(message, begun(message, session))
    assert gate.client_says(other, begun(other, session)) is FORWARD
    assert not person.held[0][0].is_over


def test_where_clients_share_a_session_nobody_cancels_what_another_waits_for() -> None:
    gate, person, _ = held_gate("tools/call")
    session, message = Session(id="s", is_shared=True), call(token=b"7")
    gate.client_says(message, begun(message, session))
    cancel = cancellation(b"7")
    assert gate.client_says(cancel, begun(cancel, session)) is FORWARD
    assert not person.held[0][0].is_over


# --- order of what the upstream says -----------------------------------------------------------------------


def with_progress(token: bytes) -> tuple[Message, Exchange]:
    message = call(more=b',"_meta":{"progressToken":%b}' % token)
    exchange = begun(message)
    exchange.request = message
    return message, exchange


def test_what_follows_a_held_message_of_its_request_waits_behind_it_in_order() -> None:
    gate, person, _ = held_gate("notifications/progress", senders=("upstream",))
    _, exchange = with_progress(b'"p"')
    session = exchange.session
    told = Exchange("", "", session=session)
    passed: list[str] = []
    first = gate.upstream_says(upstream(PROGRESS % (b'"p"', 1)), told)
    first.then(lambda verdict: passed.append("first"))  # type: ignore[union-attr]
    person.methods.clear()
    second = gate.upstream_says(upstream(PROGRESS % (b'"p"', 2)), told)
    answer = gate.upstream_says(upstream(RESULT), exchange)
    assert isinstance(second, Behind)
    assert isinstance(answer, Behind)
    second.then(lambda verdict: passed.append("second"))
    answer.then(lambda verdict: passed.append("answer"))
    assert set(session.waiting) == {first, second, answer}
    assert not second.is_from_client
    assert passed == []
    person.held[0][0].release()
    assert passed == ["first", "second", "answer"]
    assert session.waiting == {}


def test_another_requests_messages_do_not_wait() -> None:
    gate, person, _ = held_gate("notifications/progress", senders=("upstream",))
    _, exchange = with_progress(b'"p"')
    other = Session(id="t")
    gate.upstream_says(upstream(PROGRESS % (b'"p"', 1)), Exchange("", "", session=exchange.session))
    person.methods.clear()
    for message, one in (
        (upstream(PROGRESS % (b'"q"', 1)), Exchange("", "", session=exchange.session)),
        (upstream(PROGRESS % (b'"p"', 1)), Exchange("", "", session=other)),
        (upstream(TOLD), Exchange("", "", session=exchange.session)),
        (upstream(RESULT), begun(call(), exchange.session)),
    ):
        assert gate.upstream_says(message, one) is FORWARD


def test_what_has_no_progress_token_waits_only_behind_its_own_exchange() -> None:
    gate, person, _ = held_gate("tools/call", senders=("upstream",))
    message = call()
    exchange = begun(message)
    assert isinstance(gate.upstream_says(upstream(RESULT), exchange), HumanWait)
    assert isinstance(gate.upstream_says(upstream(TOLD), exchange), Behind)
    assert isinstance(
        gate.upstream_says(upstream(PROGRESS.replace(b'"progressToken":%b,', b"") % 1), exchange), Behind
    )
    person.is_watching = False
    assert isinstance(gate.upstream_says(upstream(RESULT), exchange), Behind)
    assert gate.upstream_says(upstream(RESULT), begun(message, exchange.session)) is FORWARD


def test_whatever_tells_of_a_request_keeps_its_place_before_the_answer() -> None:
    gate, _, _ = held_gate("notifications/x", senders=("upstream",))
    plain = client(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    for message in (call(more=b',"_meta":{"progressToken":"p"}'), call(), plain):
        exchange = begun(message)
        exchange.request = message
        assert isinstance(gate.upstream_says(upstream(TOLD), exchange), HumanWait)
        assert isinstance(gate.upstream_says(upstream(RESULT), exchange), Behind)
    progress = gate.upstream_says(upstream(PROGRESS % (b'"p"', 1)), Exchange("", "", session=Session(id="s")))
    assert isinstance(progress, Behind)


@pytest.mark.parametrize("meta", [b',"_meta":3', b',"_meta":{"progressToken":3}', b',"_meta":{}'])
def test_a_request_whose_meta_says_no_such_token_keeps_its_own_order(meta: bytes) -> None:
    gate, person, _ = held_gate("notifications/progress", senders=("upstream",))
    message = call(more=meta)
    exchange = begun(message)
    exchange.request = message
    gate.upstream_says(upstream(PROGRESS % (b'"3"', 1)), Exchange("", "", session=exchange.session))
    person.methods.clear()
    assert gate.upstream_says(upstream(RESULT), exchange) is FORWARD


def test_one_that_waited_behind_may_be_held_in_its_turn_and_the_rest_behind_it() -> None:
    gate, person, inner = held_gate("tools/call", senders=("upstream",))
    message = call()
    exchange = begun(message)
    passed: list[int] = []
    waits = [gate.upstream_says(upstream(RESULT), exchange) for _ in range(3)]
    for place, wait in enumerate(waits):
        wait.then(lambda verdict, place=place: passed.append(place))  # type: ignore[union-attr]
    assert len(person.held) == 1
    for place in range(3):
        assert passed == list(range(place))
        assert len(person.held) == place + 1
        person.held[place][0].release()
    assert passed == [0, 1, 2]
    assert exchange.session.waiting == {}
    gate.upstream_says(upstream(RESULT), exchange)
    gate.upstream_says(upstream(RESULT), exchange)
    person.held[3][0].release()
    person.held[4][0].deny("no")
    assert [sender for sender, *_ in inner.heard] == ["upstream"]
    person.is_watching = False
    assert gate.upstream_says(upstream(RESULT), exchange) is FORWARD


def test_one_behind_that_nobody_wants_is_dropped_once() -> None:
    session, asked = Session(id="s"), []
    behind = Behind(upstream(TOLD), session, lambda: asked.append(1) or FORWARD)  # type: ignore[func-returns-value]
    verdicts = settled(behind)
    behind.cancel()
    assert verdicts == [Drop(Why("breakpoint", "withdrawn", "nobody waits for it any more"))]
    assert session.waiting == {}
    behind.cancel()
    behind.fail("x")
    behind.go()
    assert (len(verdicts), asked) == (1, [])


def test_one_behind_that_will_not_pass_is_blocked_with_the_reason() -> None:
    session = Session(id="s")
    behind = Behind(upstream(RESULT), session, lambda: FORWARD)
    verdicts = settled(behind)
    behind.fail("The session has ended")
    assert the(verdicts).why == Why("breakpoint", "withdrawn", "The session has ended", BLOCKED)
    assert session.waiting == {}


def test_one_behind_goes_once() -> None:
    session, asked = Session(id="s"), []
    behind = Behind(upstream(TOLD), session, lambda: asked.append(1) or FORWARD)  # type: ignore[func-returns-value]
    verdicts = settled(behind)
    behind.go()
    behind.go()
    behind.cancel()
    assert (verdicts, asked, session.waiting) == ([FORWARD], [1], {})


# --- edits -------------------------------------------------------------------------------------------------


def test_an_edited_call_is_judged_and_goes_on_as_a_change_with_both_versions_told() -> None:
    gate, person, inner = held_gate("tools/call")
    message = call()
    exchange = begun(message)
    exchange.modified = ("before",)
    verdicts = settled(gate.client_says(message, exchange))
    edited = call(more=b',"x":1')
    person.held[0][0].release(edited)
    why = Why("breakpoint b1", "edit", "a person has changed it")
    assert the(verdicts) == Forward(edited, "change", why)
    assert exchange.modified == ("before", "breakpoint b1")
    assert exchange.request is edited
    assert inner.heard == [("client", "change", message.raw, why, exchange, exchange.session, edited.raw)]


def test_no_edit_makes_a_hidden_tool_callable() -> None:
    gate, person, _ = held_gate("tools/call")
    message = call()
    verdicts = settled(gate.client_says(message, begun(message)))
    person.held[0][0].release(call(DENIED))
    assert isinstance(the(verdicts), Answer)
    assert the(verdicts).why.rule == "tool filter"


def test_an_edited_answer_leaves_the_request_as_it_was() -> None:
    gate, person, _ = held_gate("tools/call", senders=("upstream",))
    message = call()
    exchange = begun(message)
    exchange.request = message
    verdicts = settled(gate.upstream_says(upstream(RESULT), exchange))
    edited = upstream(b'{"jsonrpc":"2.0","id":1,"result":{"content":[1]}}')
    person.held[0][0].release(edited)
    assert the(verdicts).message is edited
    assert (exchange.request, exchange.modified) == (message, ())


def test_an_edited_word_of_the_upstreams_changes_no_request() -> None:
    gate, person, _ = held_gate("notifications/x", senders=("upstream",))
    message = call()
    exchange = begun(message)
    exchange.request = message
    verdicts = settled(gate.upstream_says(upstream(TOLD), exchange))
    edited = upstream(TOLD[:-1] + b',"params":{}}')
    person.held[0][0].release(edited)
    assert the(verdicts).message is edited
    assert (exchange.request, exchange.modified) == (message, ())


def test_an_edited_answer_of_the_clients_changes_no_request() -> None:
    gate, person, _ = held_gate("roots/list")
    asked = upstream(b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}')
    exchange = begun(asked)
    exchange.request = asked
    answer = client(b'{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}')
    verdicts = settled(gate.client_says(answer, exchange))
    edited = client(b'{"jsonrpc":"2.0","id":1,"result":{"roots":[1]}}')
    person.held[0][0].release(edited)
    assert the(verdicts).message is edited
    assert (exchange.request, exchange.modified) == (asked, ())


def test_an_edit_whose_verdict_waits_passes_as_the_edit_when_that_is_there() -> None:
    edited, why = call(more=b',"x":1'), Why("r", "edit", "a person has changed it")
    for verdict, wanted in ((FORWARD, Forward(edited, "change", why)), (Drop(why), Drop(why))):
        inside, _, _ = waiting_call(edited)
        outside = Edited(inside, edited, why)
        verdicts = settled(outside)
        assert (outside.message, outside.is_from_client) == (edited, True)
        assert verdicts == []
        inside.settle(verdict)
        assert verdicts == [wanted]


def test_an_edited_call_that_is_held_again_by_rules_waits_as_the_edit() -> None:
    gate, person, inner = held_gate("tools/call")
    message, edited = call(), call(more=b',"x":1')
    inside, _, _ = waiting_call(edited)
    inner.client_says = lambda message, exchange: inside  # type: ignore[method-assign]
    verdicts = settled(gate.client_says(message, begun(message)))
    person.held[0][0].release(edited)
    assert verdicts == []
    inside.settle(FORWARD)
    assert the(verdicts).message is edited


@pytest.mark.parametrize("verb", ["cancel", "fail"])
def test_an_edit_that_waits_is_withdrawn_where_it_waits(verb: str) -> None:
    inside, ended, _ = waiting_call()
    outside = Edited(inside, call(), Why("r", "edit", ""))
    verdicts = settled(outside)
    VERBS[verb](outside)
    assert ended == [("withdrawn", inside)]
    assert the(verdicts).why.action == "withdrawn"


def test_what_the_rules_made_of_an_edit_is_what_passes() -> None:
    edited, changed = call(), call(more=b',"x":1')
    why, theirs = Why("r", "edit", ""), Why("rule", "change", "")
    assert with_edit(Forward(changed, "change", theirs), edited, why) == Forward(changed, "change", theirs)
    assert with_edit(Forward(None, "pass", theirs), edited, why) == Forward(edited, "change", theirs)
    assert with_edit(FORWARD, edited, why) == Forward(edited, "change", why)


def test_an_edit_that_would_wait_for_the_tool_list_is_blocked() -> None:
    # The original would be asked about again, and not what a person made of it.
    verdict = with_edit(HOLD, call(), Why("r", "edit", ""))
    assert isinstance(verdict, Answer)
    assert verdict.why == Why("r", "edit", "Blocked: the tool list is not there", BLOCKED)


@pytest.mark.parametrize(
    ("message", "part", "value", "raw"),
    [
        (
            call(),
            "params",
            b'{"name":"x"}',
            call().raw.replace(b'{"name":"echo","arguments":{}}', b'{"name":"x"}'),
        ),
        (call(), "params", b'{\n "name": "x"\r\n}', None),
        (upstream(RESULT), "result", b'{"a":1}', b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}'),
        (
            upstream(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}'),
            "error",
            b'{"code":2,"message":"n"}',
            b'{"jsonrpc":"2.0","id":1,"error":{"code":2,"message":"n"}}',
        ),
    ],
)
def test_params_result_and_error_can_be_edited(
    message: Message, part: str, value: bytes, raw: bytes | None
) -> None:
    edited = edited_message(message, part, value, message.kind is Kind.REQUEST)
    assert json.loads(edited.raw)[part] == json.loads(value)
    assert b"\n" not in edited.raw
    assert b"\r" not in edited.raw
    if raw is not None:
        assert edited.raw == raw


@pytest.mark.parametrize(
    ("message", "part", "value", "words"),
    [
        (call(), "method", b'"x"', "This message has no method that could be changed"),
        (call(), "result", b"{}", "This message has no result that could be changed"),
        (client(TOLD), "params", b"{}", "This message has no params that could be changed"),
        (call(), "params", b'{"a":1},"id":2', None),
        (call(), "params", b'{},"more":1', "It would have other members"),
        (upstream(RESULT), "result", b'{},"more":1', None),
        (upstream(RESULT), "result", b'{},"id":2', None),
        (call(), "params", b'{"a":1,"a":2}', "Invalid request: in params, a member name stands twice"),
        (
            client(b'{"jsonrpc":"2.0","method":"n","params":{}}'),
            "params",
            b'{},"id":5',
            "It would be another message: id, method and kind stay",
        ),
        (call(), "params", b"nonsense", None),
        (call(), "params", b"{\n nonsense", "It is no JSON: "),
        (call(), "params", b"{\r nonsense", "It is no JSON: "),
        (call(), "params", b'{"a":\n"\xff"}', None),
        (call(), "params", b"[\n" * 100_000, None),
    ],
)
def test_no_edit_makes_another_message(message: Message, part: str, value: bytes, words: str | None) -> None:
    with pytest.raises(CannotEdit) as raised:
        edited_message(message, part, value, message.kind is not Kind.RESPONSE)
    said = str(raised.value)
    assert said[:1].isupper()
    if words is not None:
        assert said.startswith(words)


# --- a gate that can be made to hold -----------------------------------------------------------------------


def test_a_holdable_gate_is_the_gate_inside_until_somebody_holds() -> None:
    inner = Listening()
    gate = HoldableGate(inner)
    for name in ("client_says", "upstream_says", "said", "in_batch"):
        assert getattr(gate, name) == getattr(inner, name)
    person = Person("tools/call")
    gate.hold_for(person)
    message = call()
    exchange = begun(message)
    assert isinstance(gate.client_says(message, exchange), HumanWait)
    assert isinstance(gate.upstream_says(upstream(RESULT), exchange), HumanWait)
    assert gate.said == inner.said
    assert gate.in_batch == inner.in_batch
