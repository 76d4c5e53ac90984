"""A modern upstream as a legacy client sees it, message by message and without a clock."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from gate_messages import client as said
from gate_messages import upstream as heard
from penstock import limits
from penstock.bridge.legacy_face import LegacyFace
from penstock.bridge.steps import Step, Tell, ToClient, ToUpstream

VERSION = "io.modelcontextprotocol/protocolVersion"
LEVEL = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES = b'{"elicitation": {"form":{}},"sampling":{}}'
ASK = {"who": {"method": "elicitation/create", "params": {"message": "who?", "n": 1.0}}}


def opened(
    capabilities: bytes = CAPABILITIES, offers: bytes = b'{"tools":{"listChanged":true},"logging":{}}'
) -> LegacyFace:
    """A face whose handshake is through."""
    numbers = itertools.count(1)
    opening = said(
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":%b,"clientInfo":{"name" : "old","version":"1"}}}' % capabilities
    )
    face = LegacyFace(opening, lambda: b'"own-%d"' % next(numbers))
    question = face.discovery()
    assert question.id_token == b'"own-1"'
    face.discovered(
        heard(
            b'{"jsonrpc":"2.0","id":"own-1","result":{"supportedVersions":["2026-07-28"],"capabilities":%b}}'
            % offers
        )
    )
    return face


def up(steps: list[Step]) -> list[dict[str, Any]]:
    return [json.loads(step.raw) for step in steps if isinstance(step, ToUpstream)]


def down(steps: list[Step]) -> list[dict[str, Any]]:
    return [json.loads(step.raw) for step in steps if isinstance(step, ToClient)]


def call(face: LegacyFace, token: bytes = b"7", now: float = 0.0) -> list[Step]:
    raw = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"t","arguments":{"n" : 1e400}}}'
    return face.client_says(said(raw % token), now)


def ask(face: LegacyFace, token: bytes = b"7", questions: Any = ASK, state: bytes = b'"st\\u00e4te"') -> Any:
    raw = (
        b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"input_required","inputRequests":%b,'
        b'"requestState":%b}}'
    )
    return face.upstream_says(heard(raw % (token, json.dumps(questions).encode(), state)), 1.0)


def test_the_handshake_is_answered_from_discovery() -> None:
    opening = said(
        b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{},"clientInfo":{"name":"old","version":"1"}}}'
    )
    face = LegacyFace(opening, lambda: b'"own"')
    asked = json.loads(face.discovery().raw)
    assert asked["method"] == "server/discover"
    assert asked["params"]["_meta"][VERSION] == "2026-07-28"
    raw = face.discovered(
        heard(
            b'{"jsonrpc":"2.0","id":"own","result":{"supportedVersions":["2026-07-28"],'
            b'"instructions":"be \\u65e5",'
            b'"capabilities":{"tools" : {},"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}}},'
            b'"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}}}'
        )
    )
    assert raw == (
        b'{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{"tools" : {},"extensions":{"x/y":{}}},'
        b'"serverInfo":{"name":"new","version":"2"},"instructions":"be \\u65e5"}}'
    )


def test_a_request_is_stamped_and_every_other_byte_stays() -> None:
    (step,) = call(opened())
    assert isinstance(step, ToUpstream)
    assert b'"arguments":{"n" : 1e400},"_meta":{' in step.raw
    meta = json.loads(step.raw)["params"]["_meta"]
    assert meta[VERSION] == "2026-07-28"
    assert meta[LEVEL] == "info"
    assert meta["io.modelcontextprotocol/clientInfo"] == {"name": "old", "version": "1"}
    assert b'"io.modelcontextprotocol/clientCapabilities":' + CAPABILITIES in step.raw


def test_a_requests_own_meta_stays_beside_the_stamp_and_cannot_forge_it() -> None:
    face = opened()
    raw = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken" : 5,'
        b'"io.modelcontextprotocol/protocolVersion":"1999"},"name":"t","inputResponses":{"a":1},"requestState":"x"}}'
    )
    (sent,) = up(face.client_says(said(raw), 0.0))
    assert sent["params"]["_meta"]["progressToken"] == 5
    assert sent["params"]["_meta"][VERSION] == "2026-07-28"
    assert "inputResponses" not in sent["params"]
    assert "requestState" not in sent["params"]


def test_ping_and_levels_are_answered_here() -> None:
    face = opened()
    ping = said(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert down(face.client_says(ping, 0.0)) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    for level, is_known in (("debug", True), ("loud", False)):
        raw = b'{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"%b"}}' % level.encode()
        (answer,) = down(face.client_says(said(raw), 0.0))
        assert ("result" in answer) is is_known
    (sent,) = up(call(face))
    assert sent["params"]["_meta"][LEVEL] == "debug"


def test_without_logging_there_is_no_level() -> None:
    face = opened(offers=b"{}")
    raw = b'{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}'
    assert down(face.client_says(said(raw), 0.0))[0]["error"]["code"] == -32601
    (sent,) = up(call(face))
    assert LEVEL not in sent["params"]["_meta"]


def test_tasks_are_not_there_and_what_the_newer_era_lacks_is_dropped() -> None:
    face = opened()
    raw = b'{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t"}}'
    assert down(face.client_says(said(raw), 0.0))[0]["error"]["code"] == -32601
    for method in ("roots/list_changed", "progress", "elicitation/complete"):
        raw = b'{"jsonrpc":"2.0","method":"notifications/%b"}' % method.encode()
        assert face.client_says(said(raw), 0.0) == []


def test_an_answer_comes_back_as_it_is() -> None:
    face = opened()
    call(face)
    raw = b'{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[ ],"n":1.0}}'
    assert face.upstream_says(heard(raw), 0.0) == [ToClient(raw)]


def test_a_question_reaches_the_client_and_its_answer_goes_up_with_the_state() -> None:
    face = opened()
    call(face)
    (question,) = ask(face)
    token = json.loads(question.raw)["id"]
    assert question.raw == (
        b'{"jsonrpc":"2.0","id":"%b","method":"elicitation/create","params":{"message": "who?", "n": 1.0}}'
        % token.encode()
    )
    answer = (
        b'{"jsonrpc":"2.0","id":"%b","result":{"action":"accept","content":{"n" : 1e400}}}' % token.encode()
    )
    (again,) = face.client_says(said(answer), 2.0)
    assert isinstance(again, ToUpstream)
    sent = json.loads(again.raw)
    assert sent["id"] not in (7, token)
    assert b'"inputResponses":{"who":{"action":"accept","content":{"n" : 1e400}}}' in again.raw
    assert b'"requestState":"st\\u00e4te"' in again.raw
    assert b'"arguments":{"n" : 1e400}' in again.raw
    done = b'{"jsonrpc":"2.0","id":"%b","result":{"content":[ ]}}' % sent["id"].encode()
    assert face.upstream_says(heard(done), 3.0) == [
        ToClient(b'{"jsonrpc":"2.0","id":7,"result":{"content":[ ]}}')
    ]


def test_several_questions_are_one_round() -> None:
    face = opened()
    call(face)
    both = {**ASK, "what": {"method": "sampling/createMessage", "params": {}}}
    questions = down(ask(face, questions=both))
    assert [question["method"] for question in questions] == ["elicitation/create", "sampling/createMessage"]
    first, second = (json.dumps(question["id"]).encode() for question in questions)
    assert face.client_says(said(b'{"jsonrpc":"2.0","id":%b,"result":{"a":1}}' % second), 2.0) == []
    (sent,) = up(face.client_says(said(b'{"jsonrpc":"2.0","id":%b,"result":{"b":2}}' % first), 2.0))
    assert sent["params"]["inputResponses"] == {"what": {"a": 1}, "who": {"b": 2}}


def test_what_the_client_does_not_offer_ends_the_call() -> None:
    for question in (
        {"method": "roots/list"},
        {"method": "elicitation/create", "params": {"mode": "url", "url": "https://a"}},
        {"method": "sampling/createMessage", "params": {"tools": []}},
        {"method": "x/other"},
    ):
        face = opened()
        call(face)
        (answer,) = down(ask(face, questions={"k": question}))
        assert answer["id"] == 7
        assert answer["error"]["code"] == -32603
        assert face.next_due() == 0


def test_a_refused_elicitation_is_a_cancel_and_a_refused_sampling_ends_the_call() -> None:
    face = opened()
    call(face)
    token = json.dumps(down(ask(face))[0]["id"]).encode()
    error = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-1,"message":"no"}}'
    (sent,) = up(face.client_says(said(error % token), 2.0))
    assert sent["params"]["inputResponses"] == {"who": {"action": "cancel"}}
    face = opened()
    call(face)
    token = json.dumps(
        down(ask(face, questions={"k": {"method": "sampling/createMessage"}}))[0]["id"]
    ).encode()
    assert face.client_says(said(error % token), 2.0) == [
        ToClient(b'{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}')
    ]


def test_a_cancel_goes_to_the_leg_under_way_or_ends_the_questions() -> None:
    cancel = said(
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"r"}}'
    )
    face = opened()
    call(face)
    (sent,) = up(face.client_says(cancel, 0.0))
    assert sent["params"] == {"requestId": 7, "reason": "r"}
    face = opened()
    call(face)
    token = down(ask(face))[0]["id"]
    (withdrawn,) = down(face.client_says(cancel, 2.0))
    assert withdrawn["params"]["requestId"] == token
    late = b'{"jsonrpc":"2.0","id":%b,"result":{}}' % json.dumps(token).encode()
    assert face.client_says(said(late), 3.0) == []


def test_a_state_alone_is_shown_again_later_and_not_for_ever() -> None:
    face = opened()
    call(face)
    now, legs = 1.0, 0
    token = b"7"
    while legs < 1000:
        raw = b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"input_required","requestState":"s"}}' % token
        steps = face.upstream_says(heard(raw), now)
        if steps:
            break
        now = face.next_due()
        (sent,) = up(face.tick(now))
        assert sent["params"]["requestState"] == "s"
        token = json.dumps(sent["id"]).encode()
        legs += 1
    assert down(steps)[0]["error"]["code"] == -32603
    assert 60 <= now <= 63


def test_a_client_that_never_answers_ends_the_call() -> None:
    face = opened()
    call(face)
    ask(face)
    assert face.tick(600.0) == []
    withdrawn, failed = down(face.tick(602.0))
    assert withdrawn["method"] == "notifications/cancelled"
    assert failed["id"] == 7


def test_an_upstream_that_asks_for_ever_is_stopped() -> None:
    face = opened()
    call(face)
    token = b"7"
    for _ in range(10):
        question = json.dumps(down(ask(face, token))[0]["id"]).encode()
        (sent,) = up(face.client_says(said(b'{"jsonrpc":"2.0","id":%b,"result":{}}' % question), 2.0))
        token = json.dumps(sent["id"]).encode()
    assert down(ask(face, token))[0]["error"]["code"] == -32603


def test_changes_come_over_one_listen_request() -> None:
    face = opened()
    (listen,) = up(face.client_says(said(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'), 0.0))
    assert listen["method"] == "subscriptions/listen"
    assert listen["params"]["notifications"] == {"toolsListChanged": True}
    acknowledged = (
        b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%b}}'
    )
    assert face.upstream_says(heard(acknowledged % b"{}"), 0.0) == []
    changed = (
        b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed",'
        b'"params":{"_meta":{"%b":"%b"}, "x" : 1}}'
    )
    told = face.upstream_says(heard(changed % (SUBSCRIPTION.encode(), listen["id"].encode())), 0.0)
    assert told == [
        ToClient(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"x" : 1}}')
    ]
    assert face.upstream_says(heard(changed % (SUBSCRIPTION.encode(), b"another")), 0.0) == []
    subscribe = said(b'{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"a:b"}}')
    (again,) = up(face.client_says(subscribe, 1.0))
    assert again["params"]["notifications"]["resourceSubscriptions"] == ["a:b"]
    steps = face.upstream_says(heard(acknowledged % b'{"resourceSubscriptions":["a:b"]}'), 1.0)
    assert down(steps) == [{"jsonrpc": "2.0", "id": 3, "result": {}}]
    assert up(steps)[0]["params"] == {"requestId": listen["id"]}


def test_a_subscription_that_is_not_granted_is_refused() -> None:
    face = opened()
    subscribe = said(b'{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"a:b"}}')
    face.client_says(subscribe, 1.0)
    acknowledged = (
        b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}'
    )
    assert down(face.upstream_says(heard(acknowledged), 1.0))[0]["error"]["code"] == -32602
    assert down(face.client_says(subscribe, 2.0)) == []
    assert down(face.tick(12.5))[0]["error"]["code"] == -32603


def test_a_lost_listen_is_opened_again_and_the_client_looks_again() -> None:
    face = opened()
    (listen,) = up(face.client_says(said(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'), 0.0))
    ended = b'{"jsonrpc":"2.0","id":%b,"result":{}}' % json.dumps(listen["id"]).encode()
    assert face.upstream_says(heard(ended), 5.0) == []
    assert face.tick(5.5) == []
    (again,) = up(face.tick(face.next_due()))
    assert again["id"] != listen["id"]
    acknowledged = (
        b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}'
    )
    assert down(face.upstream_says(heard(acknowledged), 7.0)) == [
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    ]


def test_a_resource_that_is_not_there_has_the_code_of_the_era() -> None:
    face = opened()
    face.client_says(said(b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}'), 0.0)
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"uri":"a:b"}}}'
    assert face.upstream_says(heard(error), 0.0) == [ToClient(error.replace(b"-32602", b"-32002"))]


def test_results_that_legacy_clients_refuse_are_wrapped_or_left_out() -> None:
    face = opened()
    call(face)
    raw = b'{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":[1.0, 2]}}'
    (answer,) = face.upstream_says(heard(raw), 0.0)
    assert answer.raw == raw.replace(b"[1.0, 2]", b'{"result":[1.0, 2]}')
    face.client_says(said(b'{"jsonrpc":"2.0","id":8,"method":"tools/list"}'), 0.0)
    raw = (
        b'{"jsonrpc":"2.0","id":8,"result":{"tools":[{"name":"a" ,"outputSchema":{"type":"object"}},'
        b'{"name":"b","outputSchema":{"type":"array"}}]}}'
    )
    (answer,) = face.upstream_says(heard(raw), 0.0)
    assert answer.raw == raw.replace(b',"outputSchema":{"type":"array"}', b"")


# --- edges -----------------------------------------------------------------------------------------------

URLS = b'{"elicitation":{"form":{},"url":{}},"sampling":{}}'


def result(face: LegacyFace, token: bytes, body: bytes = b"{}", now: float = 1.0) -> list[Step]:
    return face.upstream_says(heard(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (token, body)), now)


def failed(face: LegacyFace, token: bytes, error: bytes) -> list[Step]:
    return face.upstream_says(heard(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (token, error)), 1.0)


def cancelled(face: LegacyFace, token: bytes = b"7") -> list[Step]:
    raw = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
    return face.client_says(said(raw % token), 1.0)


def answered(face: LegacyFace, token: str, answer: bytes = b'{"action":"accept"}') -> list[Step]:
    return face.client_says(said(b'{"jsonrpc":"2.0","id":"%b","result":%b}' % (token.encode(), answer)), 1.0)


def test_only_what_may_be_asked_about_loses_what_only_we_carry() -> None:
    for method, is_taken in (
        ("tools/call", True),
        ("prompts/get", True),
        ("resources/read", True),
        ("tools/list", False),
    ):
        raw = '{"jsonrpc":"2.0","id":1,"method":"%s","params":{"inputResponses":{},"requestState":"s"}}'
        (sent,) = up(opened().client_says(said((raw % method).encode()), 0.0))
        assert ("inputResponses" not in sent["params"]) is is_taken
        assert ("requestState" not in sent["params"]) is is_taken


def test_a_client_that_says_nothing_of_itself_is_unknown_and_offers_nothing() -> None:
    for params in (b"", b',"params":{"capabilities":5}'):
        opening = said(b'{"jsonrpc":"2.0","method":"initialize"%b}' % params)
        face = LegacyFace(opening, itertools.repeat(b'"own-1"').__next__)
        question = face.discovery()
        assert question.method == "server/discover"
        meta = json.loads(question.raw)["params"]["_meta"]
        assert meta["io.modelcontextprotocol/clientInfo"] == {"name": "unknown", "version": "unknown"}
        assert meta["io.modelcontextprotocol/clientCapabilities"] == ({} if not params else 5)
        reply = json.loads(
            face.discovered(heard(b'{"jsonrpc":"2.0","id":"own-1","result":{"capabilities":1}}'))
        )
        assert reply["id"] is None
        call(face)
        (refused,) = down(ask(face))
        assert refused["error"]["message"].endswith("does not offer: elicitation")
    odd = LegacyFace(said(b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'), lambda: b'"own-1"')
    assert json.loads(odd.discovered(heard(b'{"jsonrpc":"2.0","id":"own-1","result":5}')))["id"] == 0


def test_what_is_answered_here_is_answered_in_the_words_of_the_era() -> None:
    unknown = {"code": -32601, "message": "Method not found"}
    for method in ("initialize", "tasks/list"):
        raw = b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % method.encode()
        assert opened().client_says(said(raw), 0.0) == [
            ToClient(
                json.dumps({"jsonrpc": "2.0", "id": 1, "error": unknown}, separators=(",", ":")).encode()
            )
        ]
    level = said(b'{"jsonrpc":"2.0","id":1,"method":"logging/setLevel"}')
    (refused,) = down(opened().client_says(level, 0.0))
    assert refused["error"] == {"code": -32602, "message": "Invalid params: unknown level"}
    (refused,) = down(opened(offers=b"{}").client_says(level, 0.0))
    assert refused["error"] == unknown
    (told,) = up(opened().upstream_says(heard(b'{"jsonrpc":"2.0","id":"u","method":"x/y"}'), 0.0))
    assert told == {"jsonrpc": "2.0", "id": "u", "error": unknown}


def test_to_unsubscribe_is_not_passed_on() -> None:
    face = opened()
    raw = b'{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"u"}}'
    assert down(face.client_says(said(raw), 0.0)) == [{"jsonrpc": "2.0", "id": 3, "result": {}}]


def test_a_cancel_names_the_leg_under_way_and_one_of_nothing_goes_nowhere() -> None:
    face = opened()
    assert face.client_says(said(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}'), 0.0) == []
    call(face)
    (asked,) = down(ask(face))
    (again,) = up(answered(face, asked["id"]))
    (gone,) = up(cancelled(face))
    assert gone["params"] == {"requestId": again["id"]}
    result(face, json.dumps(again["id"]).encode())
    assert cancelled(face) == []
    call(face)
    result(face, b"7")
    assert cancelled(face) == []
    call(face)
    ask(face, questions={"r": {"method": "roots/list"}})
    assert cancelled(face) == []  # it has ended


def test_a_meta_that_is_none_is_replaced() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":5}}'
    (sent,) = up(opened().client_says(said(raw), 0.0))
    assert sent["params"]["_meta"][VERSION] == "2026-07-28"


def test_why_a_call_ends_is_said_in_a_sentence() -> None:
    face = opened()
    call(face)
    (ended,) = down(ask(face, questions={"r": {"method": "roots/list"}}))
    assert ended["error"]["message"] == "The upstream asks for what the client does not offer: roots"
    call(face)
    leg = b"7"
    for _ in range(10):
        (asked,) = down(ask(face, leg))
        (again,) = up(answered(face, asked["id"]))
        leg = json.dumps(again["id"]).encode()
    (ended,) = down(ask(face, leg))
    assert ended["error"]["message"] == "The upstream asked more than 10 times"
    call(face, b"8")
    call(face, b"9")
    ask(face, b"8")
    ask(face, b"9")
    late = [one for one in down(face.tick(face.next_due())) if "error" in one]
    assert [one["id"] for one in late] == [8, 9]
    assert {one["error"]["message"] for one in late} == {"The client did not answer in time"}


def test_a_url_that_was_accepted_is_not_shown_twice() -> None:
    url = {"method": "elicitation/create", "params": {"mode": "url", "url": "https://x/", "message": "go"}}
    for action, is_shown_again in (("accept", False), ("decline", True)):
        face = opened(URLS)
        call(face)
        first, second = down(ask(face, questions={"u": url, **ASK}))
        assert first["params"]["elicitationId"] == first["id"]
        assert "elicitationId" not in second["params"]
        answered(face, first["id"], b'{"action":"%b"}' % action.encode())
        (again,) = up(answered(face, second["id"]))
        assert again["params"]["inputResponses"]["u"] == {"action": action}
        steps = ask(face, json.dumps(again["id"]).encode(), {"u": url, **ASK})
        assert len(down(steps)) == 1 + is_shown_again
        if not is_shown_again:
            (again,) = up(answered(face, down(steps)[0]["id"]))
            assert again["params"]["inputResponses"]["u"] == {"action": "accept"}
            (alone,) = up(ask(face, json.dumps(again["id"]).encode(), {"u": url}))
            assert alone["params"]["inputResponses"] == {"u": {"action": "accept"}}
    face = opened(URLS)
    call(face)
    (form,) = down(ask(face))
    (again,) = up(answered(face, form["id"]))  # accepted, and no URL: it is shown whenever it is asked
    assert len(down(ask(face, json.dumps(again["id"]).encode()))) == 1
    face = opened(URLS)
    call(face)
    (odd,) = down(ask(face, questions={"u": url}))
    assert up(answered(face, odd["id"], b"5"))


def test_a_state_alone_has_a_minute_from_when_it_came() -> None:
    face = opened()
    call(face)
    only = b'{"resultType":"input_required","requestState":"s"}'
    assert result(face, b"7", only, 100.0) == []
    now = 100.0
    ended: list[dict[str, Any]] = []
    while not ended:
        now = min(face.next_due(), 160.0)
        (again,) = up(face.tick(face.next_due()))
        ended = down(result(face, json.dumps(again["id"]).encode(), only, now))
    assert now == 160.0
    assert ended[0]["error"]["message"] == "The upstream was not ready in time"


def test_notifications_keep_all_but_the_subscription() -> None:
    face = opened()
    face.client_says(said(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'), 0.0)
    for params in (b"", b',"params":5', b',"params":{"a":1}', b',"params":{"_meta":{"k":1}}'):
        raw = b'{"jsonrpc":"2.0","method":"notifications/x"%b}' % params
        assert face.upstream_says(heard(raw), 0.0) == [ToClient(raw)]
    for more, kept in ((b"", {"a": 1}), (b',"k":2', {"a": 1, "_meta": {"k": 2}})):
        raw = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1,"_meta":{"%b":"own-2"%b}}}'
        (told,) = down(face.upstream_says(heard(raw % (SUBSCRIPTION.encode(), more)), 0.0))
        assert told["params"] == kept


def test_answers_to_nothing_and_to_what_is_parked_pass_as_they_are() -> None:
    face = opened()
    for raw in (b'{"jsonrpc":"2.0","id":null,"error":{"code":1}}', b'{"jsonrpc":"2.0","id":99,"result":{}}'):
        assert face.upstream_says(heard(raw), 0.0) == [ToClient(raw)]
    call(face)
    (asked,) = down(ask(face))
    assert down(result(face, b"7", b'{"early":1}')) == [{"jsonrpc": "2.0", "id": 7, "result": {"early": 1}}]
    assert up(answered(face, asked["id"]))


def test_a_version_that_is_refused_and_named_is_shown_once_more() -> None:
    face = opened()
    call(face)
    wrong = b'{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}'
    (again,) = up(failed(face, b"7", wrong))
    (told,) = down(failed(face, json.dumps(again["id"]).encode(), wrong))
    assert (told["id"], told["error"]["message"]) == (7, "no")
    call(face)
    assert up(failed(face, b"7", b'{"code":-32000,"message":"no"}')) == []
    call(face)
    assert up(result(face, b"7", b'{"code":-32022,"data":{"supported":["2026-07-28"]}}')) == []


def test_only_what_is_due_is_done_and_the_first_of_it_is_next() -> None:
    face = opened()
    call(face, b"7")
    assert face.tick(5.0) == []
    assert face.next_due() == 0.0
    call(face, b"8")
    face.upstream_says(
        heard(b'{"jsonrpc":"2.0","id":8,"result":{"resultType":"input_required","inputRequests":%b}}'
              % json.dumps(ASK).encode()), 5.0)  # fmt: skip
    call(face, b"9")
    ask(face, b"9")
    assert face.next_due() == 601.0
    assert face.tick(600.9) == []


def test_over_http_tools_that_mark_headers_wrongly_are_left_out_aloud() -> None:
    tools = (
        b'{"tools":[{"name":"b","inputSchema":{"properties":{"x":{"type":"array","x-mcp-header":"X"}}}},'
        b'{"name":"a","inputSchema":{},"outputSchema":{"type":"array"}}]}'
    )
    for is_http in (True, False):
        opening = said(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{}}}')
        face = LegacyFace(opening, lambda: b'"own-1"', is_http)
        face.discovered(heard(b'{"jsonrpc":"2.0","id":"own-1","result":{}}'))
        for method in ("tools/list", "x/list"):
            face.client_says(said(b'{"jsonrpc":"2.0","id":7,"method":"%b"}' % method.encode()), 0.0)
            steps = result(face, b"7", tools)
            names = [tool["name"] for tool in down(steps)[0]["result"]["tools"]]
            if is_http and method == "tools/list":
                (first, _) = steps
                assert first == Tell(
                    'The tool "b" is left out: it wants an argument in a header in a way that is not allowed.'
                )
                assert names == ["a"]
            else:
                assert names == ["b", "a"]
                assert len(steps) == 1
            has_schema = "outputSchema" in down(steps)[0]["result"]["tools"][-1]
            assert has_schema is (method != "tools/list")
    assert LegacyFace(opening, lambda: b'"own-1"')._is_http is False


def test_a_second_round_of_a_parked_call_is_nobodys() -> None:
    face = opened()
    call(face)
    ask(face)
    (step,) = ask(face)
    assert isinstance(step, ToClient)
    assert json.loads(step.raw)["result"]["resultType"] == "input_required"
    assert "method" not in json.loads(step.raw)


def test_a_read_without_an_address_keeps_its_error() -> None:
    for params in (b"", b',"params":{}'):
        face = opened()
        face.client_says(said(b'{"jsonrpc":"2.0","id":7,"method":"resources/read"%b}' % params), 0.0)
        (told,) = down(failed(face, b"7", b'{"code":-32602,"message":"no","data":{"uri":"u"}}'))
        assert told["error"]["code"] == -32602


def test_what_is_under_way_is_bounded_in_number_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRANSLATED_REQUESTS", 3)
    monkeypatch.setattr(limits, "PENDING_BYTES", 20_000)
    face = opened()

    def ask(number: int, size: int = 1) -> list[Step]:
        text = b'{"jsonrpc":"2.0","id":%d,"method":"prompts/list","params":{"x":"%b"}}'
        return face.client_says(said(text % (number, b"x" * size)), 0.0)

    refused = {"code": -32603, "message": "Too much is under way in this session"}
    assert [one["id"] for one in up(ask(1, 12_000))] == [1]
    assert [(one["id"], one["error"]) for one in down(ask(2, 12_000))] == [(2, refused)]
    assert [one["id"] for one in up(ask(3)) + up(ask(4))] == [3, 4]
    assert [(one["id"], one["error"]) for one in down(ask(5))] == [(5, refused)]
    face.upstream_says(heard(b'{"jsonrpc":"2.0","id":1,"result":{"prompts":[]}}'), 0.0)
    assert [one["id"] for one in up(ask(6, 12_000))] == [6]
