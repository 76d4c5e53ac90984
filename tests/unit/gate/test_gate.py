"""The plain gate: what clients may say, what they may be told, and who is asked about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import hostile
from gate_messages import client, upstream
from memory_doors import CHOICE, GATE, catalog
from penstock.gate.gate import Gate, error_message
from penstock.gate.observed import ObservedGate
from penstock.gate.ruled import RuledGate, Rules
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools.schema import SchemaCheck
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.tool_lists import USUAL_NAMES
from penstock.policy.tools.tool_lock import ToolLock
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Forward
from penstock.wire.mcp.message import Message

OPEN = Gate(ToolFilter())
ALLOWED, DENIED = hostile.ALLOWED[0], hostile.DENIED[0]


def call(name: str, token: bytes = b"1") -> Message:
    raw = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"%b","arguments":{}}}'
    return client(raw % (token, name.encode()))


def known(message: Message) -> Exchange:
    exchange = Exchange.of(message)
    exchange.catalog = catalog()
    return exchange


LISTED = (
    b'{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"%b","inputSchema":{"type":"object"}}]}}'
    % DENIED.encode()
)
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'


class Objecting:
    """A schema that objects to everything, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Any]] = []

    def maybe_objection(self, message: Message, method: str | None, version: object) -> str | None:
        self.asked.append((method, version))
        return "It breaks the schema"

    def faults_in_list(self, page: bytes, version: object) -> dict[int, str]:
        return {}


def test_an_allowed_call_passes_as_the_bytes_that_came() -> None:
    message = call(ALLOWED)
    assert GATE.client_says(message, known(message)) is FORWARD


def test_a_denied_call_is_answered_and_the_verdict_says_why() -> None:
    message = call(DENIED)
    verdict = GATE.client_says(message, known(message))
    assert isinstance(verdict, Answer)
    assert verdict.word == "deny"
    assert verdict.why is not None
    assert (verdict.why.rule, verdict.why.action, verdict.why.code) == ("tool filter", "deny", -32601)
    assert json.loads(verdict.raw)["error"]["message"] == f"Tool not found: {DENIED}" == verdict.why.reason
    assert not verdict.is_malformed


def test_a_call_waits_for_the_catalog() -> None:
    message = call(ALLOWED)
    assert GATE.client_says(message, Exchange.of(message)) is HOLD


def test_without_a_filter_nothing_waits_for_a_catalog() -> None:
    for message in (call(DENIED), client(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')):
        assert OPEN.client_says(message, Exchange.of(message)) is FORWARD


@pytest.mark.parametrize("gate", [GATE, OPEN], ids=["filter", "no filter"])
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_a_tool_request_with_an_id_of_null_is_malformed_with_and_without_a_filter(
    gate: Gate, method: str
) -> None:
    message = client(b'{"jsonrpc":"2.0","id":null,"method":"%b","params":{"name":"echo"}}' % method.encode())
    verdict = gate.client_says(message, known(message))
    assert isinstance(verdict, Answer)
    assert verdict.is_malformed
    assert verdict.word == "refuse"
    assert json.loads(verdict.raw)["id"] is None


def test_what_is_not_about_tools_passes_with_an_id_of_null_too() -> None:
    message = client(b'{"jsonrpc":"2.0","id":null,"method":"ping"}')
    assert OPEN.client_says(message, known(message)) is FORWARD
    assert GATE.client_says(message, known(message)) is FORWARD


def test_a_response_of_the_client_passes() -> None:
    message = client(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert GATE.client_says(message, Exchange()) is FORWARD


def test_a_plain_answer_passes_as_the_bytes_that_came() -> None:
    message = upstream(ANSWER)
    assert GATE.upstream_says(message, Exchange(b"1", "tools/call")) is FORWARD


def test_an_answer_that_lists_hidden_tools_becomes_an_error_with_the_id_that_the_client_wrote() -> None:
    verdict = GATE.upstream_says(upstream(LISTED), Exchange(b"7.0", "resources/list"))
    assert isinstance(verdict, Forward)
    assert verdict.word == "block"
    assert verdict.why is not None
    assert verdict.why.rule == "hidden tools"
    assert verdict.message is not None
    assert verdict.message.raw.startswith(b'{"jsonrpc":"2.0","id":7.0,"error":{"code":-32603')
    assert DENIED.encode() not in verdict.message.raw


def test_an_answer_to_no_request_that_we_know_keeps_its_own_id() -> None:
    verdict = GATE.upstream_says(upstream(LISTED), Exchange())
    assert isinstance(verdict, Forward)
    assert verdict.message is not None
    assert b'"id":7,' in verdict.message.raw


def test_a_notification_that_lists_hidden_tools_is_dropped() -> None:
    raw = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"tools":[{"name":"%b"}]}}'
    verdict = GATE.upstream_says(upstream(raw % DENIED.encode()), Exchange())
    assert isinstance(verdict, Drop)
    assert verdict.word == "block"


def test_without_a_filter_no_tool_is_hidden() -> None:
    assert OPEN.upstream_says(upstream(LISTED), Exchange(b"7", "tools/list")) is FORWARD
    assert not OPEN.lists_hidden_tools(LISTED)
    assert GATE.lists_hidden_tools(LISTED)


def test_the_schema_is_asked_with_the_method_of_the_request_and_its_version() -> None:
    schema = Objecting()
    gate = Gate(CHOICE, schema)  # type: ignore[arg-type]
    exchange = Exchange(b"1", "tools/call", version="2025-11-25")
    verdict = gate.upstream_says(upstream(ANSWER), exchange)
    assert isinstance(verdict, Forward)
    assert verdict.why is not None
    assert (verdict.why.rule, verdict.why.reason) == ("schema", "It breaks the schema")
    assert verdict.message is not None
    assert b"The upstream's answer is not valid" in verdict.message.raw
    gate.upstream_says(upstream(b'{"jsonrpc":"2.0","id":1,"result":{}}'), Exchange())
    assert schema.asked == [("tools/call", "2025-11-25"), (None, "2026-07-28")]


def test_a_request_of_the_upstream_that_breaks_the_schema_is_answered_to_the_upstream() -> None:
    gate = Gate(CHOICE, Objecting())  # type: ignore[arg-type]
    ask = upstream(b'{"jsonrpc":"2.0","id":"u","method":"roots/list"}')
    verdict = gate.upstream_says(ask, Exchange.of(ask))
    assert isinstance(verdict, Answer)
    assert json.loads(verdict.raw) == {
        "jsonrpc": "2.0",
        "id": "u",
        "error": {"code": -32602, "message": "Invalid params"},
    }
    tell = upstream(b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}')
    assert isinstance(gate.upstream_says(tell, Exchange.of(tell)), Drop)


def test_an_error_object_is_shown_unless_it_lists_hidden_tools() -> None:
    harmless = b'{"code":-32601,"message":"no"}'
    assert GATE.shown_error(harmless) == harmless
    telling = b'{"code":-32601,"message":"no","data":{"tools":[{"name":"%b"}]}}' % DENIED.encode()
    assert DENIED.encode() not in GATE.shown_error(telling)


def test_a_plain_gate_keeps_nothing_and_objects_only_where_it_filters() -> None:
    assert not GATE.keeps_requests
    assert GATE.may_object
    assert not OPEN.may_object
    assert not GATE.is_ruled
    message = call(ALLOWED)
    exchange = Exchange(b"1", "tools/call", catalog=catalog())
    GATE.client_says(message, exchange)
    assert exchange.request.raw == b""


def test_only_a_call_passes_by_the_name_in_its_params() -> None:
    for method, kind in ((b"tools/list", Answer), (b"prompts/get", Forward), (b"TOOLS/call", Answer)):
        raw = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"name":"%b"}}'
        message = client(raw % (method, ALLOWED.encode()))
        assert message.tool == ALLOWED
        assert isinstance(GATE.client_says(message, known(message)), kind)


def test_a_call_spelt_at_length_is_judged_by_its_name_too() -> None:
    for name, word in ((ALLOWED, "pass"), (DENIED, "deny")):
        raw = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "%b", "x": 1}}'
        message = client(raw % name.encode())
        assert message.tool is None
        verdict = GATE.client_says(message, known(message))
        assert isinstance(verdict, Answer | Forward)
        assert verdict.word == word


def test_what_is_withheld_is_told_on_stderr_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    GATE.upstream_says(upstream(LISTED), Exchange(b"7", "x"))
    assert "Withheld an answer of the upstream. It lists tools that are hidden." in caplog.text
    raw = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"tools":[{"name":"%b"}]}}'
    GATE.upstream_says(upstream(raw % DENIED.encode()), Exchange())
    assert "Dropped a message from the upstream. It lists tools that are hidden." in caplog.text


def test_a_request_of_the_upstream_that_lists_hidden_tools_is_dropped_unanswered() -> None:
    raw = b'{"jsonrpc":"2.0","id":5,"method":"x/ask","params":{"tools":[{"name":"%b"}]}}'
    verdict = GATE.upstream_says(upstream(raw % DENIED.encode()), Exchange())
    assert isinstance(verdict, Drop)
    assert (verdict.word, verdict.why.rule, verdict.why.code) == ("block", "hidden tools", -32603)


def test_a_lock_is_asked_about_prompts_and_changes_what_comes_back() -> None:
    gate = Gate(ToolFilter(lock=ToolLock({}, {}, ())))
    ask = client(b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"new"}}')
    denied = gate.client_says(ask, known(ask))
    assert isinstance(denied, Answer)
    assert denied.why is not None
    assert (denied.word, denied.why.rule) == ("deny", "lock")
    listed = upstream(b'{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"new"}]}}')
    changed = gate.upstream_says(listed, Exchange(b"1", "prompts/list"))
    assert isinstance(changed, Forward)
    assert changed.message is not None
    assert json.loads(changed.message.raw)["result"] == {"prompts": []}
    assert gate.upstream_says(upstream(ANSWER), Exchange(b"1", "tools/call")) is FORWARD
    doubtful = upstream(b'{"jsonrpc":"2.0","id":1,"result":{"prompts":[],"prompts":[{"name":"x"}]}}')
    withheld = gate.upstream_says(doubtful, Exchange(b"1", "prompts/list"))
    assert isinstance(withheld, Forward)
    assert withheld.why is not None
    assert (withheld.word, withheld.why.rule, withheld.why.action) == ("block", "lock", "block")


def test_what_is_withheld_is_an_action_of_its_check() -> None:
    hidden = GATE.upstream_says(upstream(LISTED), Exchange(b"7", "x"))
    broken = Gate(CHOICE, Objecting()).upstream_says(upstream(ANSWER), Exchange(b"1", "x"))  # type: ignore[arg-type]
    for verdict in (hidden, broken):
        assert isinstance(verdict, Forward)
        assert verdict.why is not None
        assert (verdict.why.action, verdict.why.code) == ("block", -32603)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (b'{"code":-32601,"message":"no"}', True),
        (b'{"code":-32000.0,"message":"\\ud800","data":{}}', True),
        (b'{"code":"-32601","message":"no"}', False),
        (b'{"code":-32000.5,"message":"no"}', False),
        (b'{"code":-32601}', False),
        (b'{"code":-32601,"message":null}', False),
        (b'{"message":"no"}', False),
        (b"{}", False),
        (b'"no"', False),
        (b"null", False),
        (b"[1]", False),
    ],
)
@pytest.mark.parametrize("gate", [OPEN, GATE], ids=["open", "filtering"])
@pytest.mark.parametrize("method", ["tools/call", "tools/list", "x"])
def test_an_error_that_is_none_never_reaches_the_client(
    gate: Gate, method: str, error: bytes, passes: bool
) -> None:
    verdict = gate.upstream_says(
        upstream(b'{"jsonrpc":"2.0","id":1,"error":%b}' % error), Exchange(b"1", method)
    )
    assert (verdict is FORWARD) is passes
    if not passes:
        assert isinstance(verdict, Forward)
        assert verdict.message is not None
        assert json.loads(verdict.message.raw) == {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {"code": -32603, "message": "The upstream's answer is not valid"},
        }


GOOD = b'{"name":"good","inputSchema":{"type":"object"}}'


def listed(*entries: bytes) -> Message:
    return upstream(
        b'{"jsonrpc":"2.0","id":1,"result":{"x":1,"tools":[%b],"nextCursor":"c"}}' % b", ".join(entries)
    )


def test_a_list_that_passes_unfiltered_loses_what_is_no_tool_and_nothing_else() -> None:
    gate = Gate(ToolFilter())
    page = listed(GOOD, GOOD)
    for _ in range(2):
        assert gate.upstream_says(page, Exchange(b"1", "tools/list")) is FORWARD
    bad = [b'{"name":"bad","inputSchema":{"type":"array"}}', b"5", b'{"name":"two","name":"two"}']
    for place in range(4):
        entries = [*bad[:place], GOOD, *bad[place:]]
        verdict = gate.upstream_says(listed(*entries), Exchange(b"1", "tools/list"))
        assert isinstance(verdict, Forward)
        assert (verdict.word, verdict.message.raw if verdict.message else b"") == ("change", listed(GOOD).raw)
    assert gate.upstream_says(listed(*bad), Exchange(b"1", "tools/call")) is FORWARD
    for odd in (b"{}", b'{"tools":5}', b'{"tools":[],"tools":[5]}', b"7"):
        raw = upstream(b'{"jsonrpc":"2.0","id":1,"result":%b}' % odd)
        assert gate.upstream_says(raw, Exchange(b"1", "tools/list")) is FORWARD


def test_people_hear_once_what_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(ToolFilter())
    for _ in range(3):
        gate.upstream_says(listed(b'{"name":"bad"}'), Exchange(b"1", "tools/list"))
    assert [record.getMessage() for record in caplog.records] == [
        'In the upstream\'s tool list the tool "bad" is left out: it has no inputSchema.'
    ]


def test_a_strict_schema_leaves_out_entries_and_withholds_what_is_no_list() -> None:
    odd = b'{"name":"odd","title":5,"inputSchema":{"type":"object"}}'
    gate = Gate(ToolFilter(), SchemaCheck("strict"))
    verdict = gate.upstream_says(listed(odd, GOOD), Exchange(b"1", "tools/list", version="2025-11-25"))
    assert isinstance(verdict, Forward)
    assert verdict.message is not None
    assert verdict.message.raw == listed(GOOD).raw
    cursor = upstream(listed(GOOD).raw.replace(b'"c"', b"5"))
    verdict = gate.upstream_says(cursor, Exchange(b"1", "tools/list", version="2025-11-25"))
    assert isinstance(verdict, Forward)
    assert verdict.word == "block"
    lenient = Gate(ToolFilter(), SchemaCheck("schema"))
    assert (
        lenient.upstream_says(listed(odd, GOOD), Exchange(b"1", "tools/list", version="2025-11-25"))
        is FORWARD
    )


def test_a_gate_takes_batches_and_answers_losses_unless_it_is_told_otherwise() -> None:
    assert OPEN.takes_batches
    assert OPEN.answers_losses


def test_a_text_is_looked_at_for_hidden_tools_only_where_some_are_hidden() -> None:
    everything = Gate(ToolFilter(strict_arguments=True))
    assert everything.is_filtering
    assert not everything.lists_hidden_tools(LISTED)
    assert not GATE.lists_hidden_tools(b'{"tools":[{"name":"%b"}]}' % ALLOWED.encode())
    assert not OPEN.lists_hidden_tools(b"[" * 100_000)  # not even looked at


def test_an_error_of_ours_has_the_id_of_what_it_stands_for() -> None:
    assert error_message(b"7.0", -1, "no").id_token == b"7.0"
    assert error_message(None, -1, "no").id_token == b"null"
    assert error_message(b"", -1, "no").id_token == b"null"
    assert json.loads(error_message(None, -1, "no").raw) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -1, "message": "no"},
    }


def test_what_is_withheld_is_said_by_penstock_and_answered_as_blocked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate(CHOICE, Objecting())  # type: ignore[arg-type]
    ask = upstream(b'{"jsonrpc":"2.0","id":"u","method":"roots/list"}')
    verdict = gate.upstream_says(ask, Exchange.of(ask))
    assert isinstance(verdict, Answer)
    assert (verdict.word, verdict.code) == ("block", -32602)
    assert verdict.why is not None
    assert verdict.why.rule == "schema"
    assert {record.name for record in caplog.records} == {"penstock"}
    assert caplog.records[0].getMessage() == "Dropped a message from the upstream. It breaks the schema."
    gate.upstream_says(upstream(ANSWER), Exchange(b"1", "x"))
    assert caplog.records[1].getMessage() == "Withheld an answer of the upstream. It breaks the schema."


def test_nobody_listens_to_what_is_said_beside_a_plain_gate() -> None:
    with OPEN.in_batch("client", b"[]", Session()):
        OPEN.said("client", "refuse", b"nonsense")


def test_an_error_that_is_none_is_blocked_by_the_protocol_and_people_hear_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    verdict = OPEN.upstream_says(upstream(b'{"jsonrpc":"2.0","id":1,"error":5}'), Exchange(b"1", "x"))
    assert isinstance(verdict, Forward)
    assert verdict.why is not None
    assert (verdict.why.rule, verdict.why.action) == ("protocol", "block")
    assert verdict.why.reason == "its error is no object with a code and a message"
    assert "Its error is no object with a code and a message." in caplog.text


def test_what_comes_by_while_a_list_is_on_its_way_is_no_list() -> None:
    told = upstream(b'{"jsonrpc":"2.0","method":"notifications/x","params":{"tools":[5]}}')
    assert Gate(ToolFilter()).upstream_says(told, Exchange(b"1", "tools/list")) is FORWARD


def test_the_plain_gate_keeps_no_request_and_passes_nothing_unread() -> None:
    gate = Gate(CHOICE)
    assert (gate.keeps_requests, gate.passes_unread, gate.is_ruled) == (False, False, False)


def test_only_a_gate_that_nobody_added_to_passes_progress_unasked():
    class Listening:
        def faults_in_list(self, *_: object) -> list[str]:
            return []

    assert OPEN.passes_progress
    assert Gate(CHOICE).passes_progress
    assert not Gate(CHOICE, Listening()).passes_progress  # type: ignore[arg-type]
    assert not Gate(ToolFilter(lock=ToolLock({}, {}, ()))).passes_progress
    assert not RuledGate(CHOICE, None, Rules(None)).passes_progress
    assert not ObservedGate(OPEN, [], Session()).passes_progress


def test_what_results_pass_unheard_is_a_matter_of_plain_gates() -> None:
    """Of a result with other members, or where rules, a schema or a lock look, nothing passes unheard."""
    assert Gate(CHOICE).unheard_names == USUAL_NAMES
    assert Gate(CHOICE, SchemaCheck("strict")).unheard_names == frozenset()
    assert RuledGate(CHOICE, None, Rules(None)).unheard_names == frozenset()
