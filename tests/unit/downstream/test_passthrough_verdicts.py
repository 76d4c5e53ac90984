"""Carrying out what the gate says about the messages of a response in pass-through."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from memory_doors import CHOICE
from penstock.downstream.passthrough_verdicts import judge, maybe_hidden
from penstock.gate.gate import Gate
from penstock.gate.ruled import RuledGate, Rules
from penstock.gate.session_table import TrackedSession
from penstock.policy.exchange import Exchange, Session
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import Kind, Message, read_upstream_message

WHY = Why("r", "block", "because", -32000)
ASK = b'{"jsonrpc":"2.0","id":"u","method":"roots/list"}'
TELL = b'{"jsonrpc":"2.0","method":"notifications/x"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


class Deciding:
    """A gate that says what it was told to say of each message, by its bytes."""

    def __init__(self, keeps: bool, verdicts: dict[bytes, Verdict]) -> None:
        self.keeps_requests = keeps
        self._verdicts = verdicts
        self.asked: list[tuple[Message, Exchange]] = []
        self.batches: list[tuple[str, bytes, Session]] = []

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        self.asked.append((message, exchange))
        return self._verdicts.get(message.raw, FORWARD)

    def in_batch(self, sender: str, raw: bytes, session: Session) -> AbstractContextManager[None]:
        self.batches.append((sender, raw, session))
        return nullcontext()


class Run:
    """One response on its way back."""

    def __init__(
        self,
        verdicts: dict[bytes, Verdict] | None = None,
        keeps: bool = True,
        is_known: bool = True,
        posted: Message | None = None,
        status: int = 200,
    ) -> None:
        self.gate = Deciding(keeps, verdicts or {})
        self.session = TrackedSession(id="s")
        # Where nobody asks whose a message is, there is a session without tables.
        own = self.session if is_known else Session()
        self.own = Exchange(b"1", "tools/call", session=own)
        self.up: list[tuple[bytes, Any]] = []
        self.stands_in = 0
        passthrough = SimpleNamespace(
            gate=self.gate,
            known=object() if is_known else None,
            answer_upstream=lambda raw, headers: self.up.append((raw, headers)),
        )
        self.response: Any = SimpleNamespace(
            passthrough=passthrough,
            message=posted,
            exchange=self.own,
            status=status,
            head=SimpleNamespace(version="2025-11-25"),
            upstream_headers=[(b"a", b"b")],
            stand_in_head=self._stand_in,
        )
        self.passed: list[bytes | None] = []

    def _stand_in(self) -> None:
        self.stands_in += 1

    def say(self, raw: bytes) -> list[bytes | None]:
        judge(self.response, read_upstream_message(raw), raw, self.passed.append)
        return self.passed

    @property
    def exchange(self) -> Exchange:
        return self.gate.asked[-1][1]


POSTED = Message(b"", Kind.REQUEST, b"1", "tools/call")


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("raw", [ASK, TELL, ANSWER])
def test_what_the_gate_has_nothing_against_passes_as_it_came(keeps: bool, raw: bytes) -> None:
    assert Run(keeps=keeps).say(raw) == [raw]


def test_an_answer_belongs_to_the_request_that_was_posted() -> None:
    run = Run(posted=POSTED, status=202)
    run.say(ANSWER)
    assert run.exchange is run.own
    assert run.own.status == 202
    plain = Run(posted=POSTED, keeps=False)
    plain.say(ANSWER)
    assert plain.exchange is plain.own
    assert plain.own.status is None  # nobody asks for it


def test_an_answer_on_another_stream_is_found_by_its_id_in_the_session() -> None:
    run = Run(status=200)
    asked = Exchange(b"1", "prompts/get", session=run.session)
    run.session.requests.open(asked)
    run.say(ANSWER)
    assert run.exchange is asked
    assert asked.status == 200
    run.say(ANSWER)  # only once
    assert run.exchange is not asked
    assert (run.exchange.id_token, run.exchange.method, run.exchange.status) == (b"1", "", None)


def test_what_begins_an_exchange_has_the_session_and_version_of_the_stream() -> None:
    for raw, token, method in ((ASK, b'"u"', "roots/list"), (TELL, b"", "notifications/x")):
        run = Run(posted=POSTED)
        run.say(raw)
        assert run.exchange is not run.own
        assert (run.exchange.id_token, run.exchange.method) == (token, method)
        assert run.exchange.session is run.session
        assert run.exchange.version == "2025-11-25"


def test_a_plain_gate_is_not_made_to_wait_for_an_exchange_that_nobody_keeps() -> None:
    run = Run(keeps=False, posted=POSTED)
    run.say(TELL)
    assert run.exchange is run.own
    run.say(ASK)
    assert run.exchange is not run.own
    alone = Run(keeps=False)
    alone.say(ANSWER)
    assert alone.exchange is not alone.own


@pytest.mark.parametrize(("status", "is_proven"), [(199, False), (200, True), (299, True), (300, False)])
def test_a_session_in_which_the_upstream_has_taken_something_is_proven(status: int, is_proven: bool) -> None:
    run = Run(status=status)
    run.say(TELL)
    assert run.session.is_proven is is_proven


def test_where_nobody_asks_whose_a_message_is_nothing_is_remembered() -> None:
    run = Run(is_known=False)
    run.say(ASK)
    run.say(ANSWER)
    assert run.passed == [ASK, ANSWER]
    assert not run.session.is_proven
    assert len(run.session.upstream_requests) == 0


def test_a_request_of_the_upstream_is_remembered_until_it_is_answered_and_once() -> None:
    run = Run()
    run.say(ASK)
    run.say(ASK)
    assert len(run.session.upstream_requests) == 1
    assert run.session.upstream_requests.close(b'"u"') is run.exchange
    told = Run()
    told.say(TELL)
    told.say(ANSWER)
    assert len(told.session.upstream_requests) == 0


def test_a_changed_message_passes_in_its_place_and_a_changed_request_is_remembered_by_its_own_id() -> None:
    changed = read_upstream_message(ASK.replace(b'"u"', b'"v"'))
    assert isinstance(changed, Message)
    run = Run({ASK: Forward(changed, "change", WHY)})
    assert run.say(ASK) == [changed.raw]
    assert run.stands_in == 0
    assert run.session.upstream_requests.close(b'"v"') is None  # it is opened under the id it began with
    assert run.session.upstream_requests.close(b'"u"') is run.exchange


def test_an_error_in_the_place_of_an_answer_has_a_head_of_its_own() -> None:
    error = read_upstream_message(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}')
    assert isinstance(error, Message)
    run = Run({ANSWER: Forward(error, "block", WHY)}, posted=POSTED)
    assert run.say(ANSWER) == [error.raw]
    assert run.stands_in == 1


def test_a_plain_gate_may_change_messages_too() -> None:
    error = read_upstream_message(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}')
    assert isinstance(error, Message)
    run = Run({ANSWER: Forward(error, "block", WHY)}, keeps=False, posted=POSTED)
    assert run.say(ANSWER) == [error.raw]
    assert run.stands_in == 1


def test_what_is_answered_goes_back_up_and_not_on_and_what_is_dropped_nowhere() -> None:
    run = Run({ASK: Answer(b"no", word="block", why=WHY), TELL: Drop(WHY, "block")})
    assert run.say(ASK) == [None]
    assert run.up == [(b"no", [(b"a", b"b")])]
    assert run.say(TELL) == [None, None]
    assert len(run.up) == 1
    assert len(run.session.upstream_requests) == 0


def test_what_waits_passes_when_it_is_decided() -> None:
    message = read_upstream_message(ASK)
    assert isinstance(message, Message)
    wait = Wait(message, False)
    run = Run({ASK: wait})
    assert run.say(ASK) == []
    assert len(run.session.upstream_requests) == 0
    wait.settle(FORWARD)
    assert run.passed == [ASK]
    assert len(run.session.upstream_requests) == 1


def batch(*parts: bytes) -> bytes:
    return b"[ %b ]" % b" , ".join(parts)


def test_an_array_that_nothing_was_taken_from_passes_as_it_came() -> None:
    run = Run()
    raw = batch(ASK, TELL)
    assert run.say(raw) == [raw]
    assert run.gate.batches == [("upstream", raw, run.session)]
    assert [message.raw for message, _ in run.gate.asked] == [ASK, TELL]


def test_an_array_without_messages_passes_and_nobody_is_asked() -> None:
    run = Run()
    assert run.say(b"[]") == [b"[]"]
    assert run.gate.asked == []


def test_what_is_left_of_an_array_passes_in_its_order_when_all_is_decided() -> None:
    message = read_upstream_message(ASK)
    assert isinstance(message, Message)
    wait = Wait(message, False)
    run = Run({ASK: wait, TELL: Drop(WHY, "block")})
    assert run.say(batch(ASK, TELL, ANSWER)) == []
    wait.settle(FORWARD)
    assert run.passed == [b"[%b,%b]" % (ASK, ANSWER)]


def test_nothing_passes_of_an_array_of_which_nothing_is_left() -> None:
    assert Run({TELL: Drop(WHY, "block")}).say(batch(TELL)) == [None]


def test_who_posted_one_message_gets_one_error_and_no_array_of_it() -> None:
    verdicts: dict[bytes, Verdict] = {TELL: Drop(WHY, "block")}
    assert Run(verdicts, posted=POSTED).say(batch(ANSWER, TELL)) == [ANSWER]
    assert Run(verdicts).say(batch(ANSWER, TELL)) == [b"[%b]" % ANSWER]
    assert Run(verdicts, posted=POSTED).say(batch(ANSWER, TELL, ASK)) == [b"[%b,%b]" % (ANSWER, ASK)]


def test_what_is_known_of_a_request_is_forgotten_with_its_answer() -> None:
    run = Run(posted=POSTED)
    run.session.requests.open(run.own)
    run.response.remembered = kept = (object(),)
    other = ANSWER.replace(b'"id":1', b'"id":2')
    run.say(other)
    assert run.response.remembered is kept
    run.say(ANSWER)
    assert run.response.remembered == ()
    assert run.exchange is run.own


def test_a_plain_gate_has_no_request_of_the_upstreams_remembered() -> None:
    run = Run(keeps=False)
    assert run.say(ASK) == [ASK]
    assert len(run.session.upstream_requests) == 0


def test_a_changed_answer_is_no_request_of_the_upstreams() -> None:
    changed = read_upstream_message(ANSWER.replace(b"{}", b'{"a":1}'))
    assert isinstance(changed, Message)
    run = Run({ANSWER: Forward(changed, "change", WHY)})
    assert run.say(ANSWER) == [changed.raw]
    assert len(run.session.upstream_requests) == 0


def ruled_gate() -> RuledGate:
    config, faults = build({})
    assert config is not None, faults
    return RuledGate(ToolFilter(), None, Rules(Interceptor(config, None)))  # type: ignore[arg-type]


def hidden_in(
    body: bytes,
    gate: Gate,
    is_answer: bool = True,
    is_stream: bool = False,
    is_endpoint: bool = True,
    method: bytes = b"POST",
) -> str | None:
    response: Any = SimpleNamespace(
        passthrough=SimpleNamespace(gate=gate), is_endpoint=is_endpoint, method=method, status=404
    )
    return maybe_hidden(response, body, is_answer, is_stream)


LISTED = b'oops {"tools":[{"name":"write_file","inputSchema":{"type":"object"}}]}'
EVENTS = b'data: {"x":1}\n\n'
MESSAGES = b"data: %b\n\n" % ANSWER
NEARLY = b"oops " + ANSWER


def test_what_is_no_answer_may_pass_where_no_client_finds_one_in_it() -> None:
    for gate in (Gate(CHOICE), Gate(ToolFilter()), ruled_gate()):
        assert hidden_in(b"not found", gate) is None
        assert hidden_in(b"not found", gate, method=b"GET") is None


def test_a_list_of_hidden_tools_is_kept_back_wherever_it_stands() -> None:
    body = LISTED.removeprefix(b"oops ")
    assert hidden_in(body, Gate(CHOICE)) == "It lists tools that are hidden"
    assert hidden_in(body.replace(b"write_file", b"echo"), Gate(CHOICE)) is None


def test_where_nobody_could_object_nothing_is_looked_for() -> None:
    for body in (MESSAGES, NEARLY, EVENTS):
        assert hidden_in(body, Gate(ToolFilter()), method=b"GET") is None


def test_events_that_a_get_brings_under_another_name_are_kept_back() -> None:
    text = "It is a stream of events that does not say so"
    gate = Gate(CHOICE)
    assert hidden_in(EVENTS, gate, method=b"GET") == text
    assert hidden_in(EVENTS, gate, method=b"POST") is None
    assert hidden_in(EVENTS, gate, method=b"GET", is_answer=False) is None
    assert hidden_in(EVENTS, gate, method=b"GET", is_endpoint=False) is None


def test_messages_in_events_that_are_no_stream_are_kept_back() -> None:
    assert hidden_in(MESSAGES, Gate(CHOICE)) == "It has messages in events, and is no stream (HTTP 404)"


def test_what_is_nearly_a_message_is_kept_back_only_where_there_are_rules() -> None:
    text = "It has a message with something around it (HTTP 404)"
    assert hidden_in(NEARLY, ruled_gate()) == text
    assert hidden_in(NEARLY, Gate(CHOICE)) is None


def test_a_complaint_that_names_no_request_begins_an_exchange_of_its_own() -> None:
    complaint = b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"what"}}'
    run = Run()
    assert run.say(complaint) == [complaint]
    assert (run.exchange.id_token, run.exchange.session) == (b"", run.session)
