"""A legacy upstream as modern clients see it, message by message and without a clock."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from gate_messages import client, upstream
from penstock import limits
from penstock.bridge.listeners import UPDATED
from penstock.bridge.modern_face import ModernFace
from penstock.bridge.parked import HELD_PROGRESS_BYTES
from penstock.bridge.steps import Step, Tell, ToClient, ToUpstream
from penstock.wire.mcp.message import Message

META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":'
    '{"name":"new","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":'
    '{"listChanged":true}}%s}'
)


def said(text: str) -> Message:
    return client(text.encode())


def heard(text: str) -> Message:
    return upstream(text.encode())


def request(token: str, method: str, more: str = "", meta: str = "") -> Message:
    params = f"{{{more}{META % meta}}}"
    return said(f'{{"jsonrpc":"2.0","id":{token},"method":"{method}","params":{params}}}')


def call(face: ModernFace, token: str = "7", more: str = "", now: float = 0.0, meta: str = "") -> list[Step]:
    return face.client_says(
        request(token, "tools/call", f'"name":"t","arguments":{{"n" : 1e400}},{more}', meta), now
    )


def up(steps: list[Step]) -> list[dict[str, Any]]:
    return [json.loads(step.raw) for step in steps if isinstance(step, ToUpstream)]


def down(steps: list[Step]) -> list[dict[str, Any]]:
    return [json.loads(step.raw) for step in steps if isinstance(step, ToClient)]


OFFERS = '{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"tasks":{}}'


def opened(offers: str = OFFERS) -> ModernFace:
    """A face whose handshake is through."""
    numbers = itertools.count(1)
    face = ModernFace(lambda: b'"own-%d"' % next(numbers), b'{"name":"us","version":"1"}')
    (greeting,) = up(face.client_says(request("0", "server/discover"), 0.0))
    assert greeting["method"] == "initialize"
    assert greeting["params"]["capabilities"] == {"elicitation": {}, "roots": {}}
    steps = face.upstream_says(
        heard(
            '{"jsonrpc":"2.0","id":"own-1","result":{"protocolVersion":"2025-11-25",'
            '"serverInfo":{"name":"old","version":"1"},"instructions":"be \u65e5","capabilities":'
            + offers
            + "}}"
        ),
        0.0,
    )
    assert up(steps) == [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
    (discovered,) = down(steps)
    assert discovered["result"]["instructions"] == "be \u65e5"
    assert "tasks" not in discovered["result"]["capabilities"]
    return face


def question(
    face: ModernFace, token: str = '"who"', method: str = "elicitation/create", now: float = 1.0
) -> Any:
    raw = f'{{"jsonrpc":"2.0","id":{token},"method":"{method}","params":{{"message" : "who?"}}}}'
    return face.upstream_says(heard(raw), now)


def parked(face: ModernFace, token: str = "7") -> str:
    """A call that was answered with a question; the state to come back with."""
    call(face, token)
    assert question(face) == []
    (answer,) = down(face.tick(face.next_due()))
    assert answer["id"] == int(token)
    assert answer["result"]["resultType"] == "input_required"
    assert answer["result"]["inputRequests"] == {
        "who": {"method": "elicitation/create", "params": {"message": "who?"}}
    }
    state: str = answer["result"]["requestState"]
    return state


def back(state: str, answers: str = '{"who":{"action":"accept","content":{"n" : 1e400}}}') -> str:
    return f'"requestState":"{state}","inputResponses":{answers},'


def test_a_request_goes_up_without_what_only_the_newer_era_knows() -> None:
    (step,) = call(opened('{"tools":{}}'), meta=',"progressToken" : 5')
    assert isinstance(step, ToUpstream)
    assert step.raw == (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"n" : 1e400},'
        b'"_meta":{"progressToken" : 5}}}'
    )


def test_results_say_what_every_modern_result_says_and_cannot_forge_a_round() -> None:
    face = opened()
    call(face)
    raw = '{"jsonrpc":"2.0","id":7,"result":{"content":[ ],"resultType":"input_required"}}'
    assert face.upstream_says(heard(raw), 0.0) == [
        ToClient(b'{"jsonrpc":"2.0","id":7,"result":{"content":[ ],"resultType":"complete"}}')
    ]
    face.client_says(request("8", "resources/read", '"uri":"a:b",'), 0.0)
    (answer,) = down(face.upstream_says(heard('{"jsonrpc":"2.0","id":8,"result":{"contents":[]}}'), 0.0))
    assert answer["result"] == {
        "contents": [],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/get"]
)
def test_methods_that_the_newer_era_lacks_are_not_there(method: str) -> None:
    (answer,) = down(opened().client_says(request("1", method), 0.0))
    assert answer["error"]["code"] == -32601


def test_a_request_of_another_version_or_without_capabilities_is_refused() -> None:
    face = opened()
    other = said(
        '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":'
        '{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}}'
    )
    (answer,) = down(face.client_says(other, 0.0))
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"]["supported"] == ["2026-07-28"]
    bare = said(
        '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":'
        '{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}'
    )
    assert down(face.client_says(bare, 0.0))[0]["error"]["code"] == -32602


def test_a_question_parks_the_call_and_the_answer_takes_it_up_again() -> None:
    face = opened()
    state = parked(face)
    steps = call(face, "8", back(state), now=2.0)
    (answer,) = steps
    assert isinstance(answer, ToUpstream)
    assert answer.raw == (
        b'{"jsonrpc":"2.0","id":"who","result":{"action":"accept","content":{"n" : 1e400}}}'
    )
    done = face.upstream_says(heard('{"jsonrpc":"2.0","id":7,"result":{"content":[ ]}}'), 3.0)
    assert done == [ToClient(b'{"jsonrpc":"2.0","id":8,"result":{"content":[ ],"resultType":"complete"}}')]


def test_a_state_is_used_once_and_for_the_same_call_only() -> None:
    face = opened()
    state = parked(face)
    for more, name in ((back(state + "x"), "t"), (back(state), "other")):
        raw = request("9", "tools/call", f'"name":"{name}","arguments":{{"n" : 1e400}},{more}')
        (refused,) = down(face.client_says(raw, 2.0))
        assert refused["error"]["code"] == -32602
        assert refused["error"]["data"] == {"reason": "invalid_request_state"}
    assert up(call(face, "8", back(state), now=2.0))
    (refused,) = down(call(face, "9", back(state), now=2.0))
    assert refused["error"]["code"] == -32602


def test_a_missing_answer_is_asked_for_again_with_a_new_state() -> None:
    face = opened()
    state = parked(face)
    (again,) = down(call(face, "8", back(state, "{}"), now=2.0))
    assert again["id"] == 8
    assert again["result"]["inputRequests"].keys() == {"who"}
    assert again["result"]["requestState"] != state


def test_questions_close_together_are_one_round() -> None:
    face = opened()
    call(face)
    question(face, '"a"', now=1.0)
    question(face, '"b"', now=1.015)
    assert face.tick(1.02) == []
    (answer,) = down(face.tick(1.04))
    assert set(answer["result"]["inputRequests"]) == {"a", "b"}


def test_what_this_client_cannot_answer_is_refused_and_the_call_goes_on() -> None:
    face = opened()
    call(face)
    (refused,) = up(question(face, method="sampling/createMessage"))
    assert (refused["id"], refused["error"]["code"]) == ("who", -32601)
    assert face.next_due() == 0


def test_an_answer_that_comes_while_nobody_waits_is_kept() -> None:
    face = opened()
    state = parked(face)
    assert face.upstream_says(heard('{"jsonrpc":"2.0","id":7,"result":{}}'), 2.0) == []
    (answer,) = down(call(face, "8", back(state), now=3.0))
    assert answer == {"jsonrpc": "2.0", "id": 8, "result": {"resultType": "complete"}}


def test_a_client_that_never_returns_is_given_up() -> None:
    face = opened()
    state = parked(face)
    refused, cancelled = up(face.tick(face.next_due()))
    assert (refused["id"], refused["error"]["code"]) == ("who", -32603)
    assert cancelled["params"] == {"requestId": 7}
    assert down(call(face, "8", back(state), now=700.0))[0]["error"]["code"] == -32602


def test_a_cancel_reaches_the_upstream_under_the_id_that_it_knows() -> None:
    face = opened()
    state = parked(face)
    call(face, "8", back(state), now=2.0)
    cancel = said('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}')
    (told,) = up(face.client_says(cancel, 3.0))
    assert told["params"] == {"requestId": 7}


def test_progress_goes_to_the_leg_under_way() -> None:
    face = opened()
    call(face, "7", meta=',"progressToken":"p1"')
    question(face)
    (answer,) = down(face.tick(face.next_due()))
    progress = (
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p1","progress":%d}}'
    )
    assert face.upstream_says(heard(progress % 1), 2.0) == []
    steps = call(face, "8", back(answer["result"]["requestState"]), 3.0, meta=',"progressToken":"p2"')
    (held,) = down(steps)
    assert held["params"] == {"progressToken": "p2", "progress": 1}
    (later,) = down(face.upstream_says(heard(progress % 2), 4.0))
    assert later["params"] == {"progressToken": "p2", "progress": 2}


def test_a_question_before_any_call_is_asked_with_the_next_one() -> None:
    face = opened()
    assert question(face, '"roots"', "elicitation/create", now=1.0) == []
    (answer,) = down(call(face, "7", now=2.0))
    assert answer["result"]["inputRequests"].keys() == {"roots"}
    state = answer["result"]["requestState"]
    told, sent = up(call(face, "8", back(state, '{"roots":{"a":1}}'), now=3.0))
    assert told == {"jsonrpc": "2.0", "id": "roots", "result": {"a": 1}}
    assert (sent["method"], sent["id"]) == ("tools/call", 8)


def test_listening_is_acknowledged_and_changes_carry_its_id() -> None:
    face = opened()
    wants = (
        '"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"]},'
    )
    steps = face.client_says(request("5", "subscriptions/listen", wants), 0.0)
    (subscribe,) = up(steps)
    assert (subscribe["method"], subscribe["params"]) == ("resources/subscribe", {"uri": "a:b"})
    (acknowledged,) = down(steps)
    assert acknowledged["params"]["notifications"] == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["a:b"],
    }
    changed = heard('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    (told,) = down(face.upstream_says(changed, 1.0))
    assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 5}
    other = heard('{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"c:d"}}')
    assert face.upstream_says(other, 1.0) == []
    cancel = said('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}')
    assert up(face.client_says(cancel, 2.0))[0]["method"] == "resources/unsubscribe"
    assert face.upstream_says(changed, 3.0) == []


@pytest.mark.parametrize("params", ["5", "[1]", "null", '{"a":1,"a":2}'])
def test_a_change_of_a_list_is_told_whatever_its_params_are(params: str) -> None:
    face = opened()
    face.client_says(request("5", "subscriptions/listen", '"notifications":{"toolsListChanged":true},'), 0.0)
    assert told(face, "notifications/tools/list_changed", f',"params":{params}') == [
        ToClient(
            b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed",'
            b'"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5}}}'
        )
    ]


@pytest.mark.parametrize("uri", ["[]", "{}", "5", "null"])
def test_an_update_of_what_is_no_address_is_nobodys(uri: str) -> None:
    face = opened()
    wants = '"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},'
    face.client_says(request("5", "subscriptions/listen", wants), 0.0)
    assert told(face, UPDATED, f',"params":{{"uri":{uri}}}') == []
    assert told(face, UPDATED, ',"params":{"uri" : "a:b"}') == [
        ToClient(
            b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri" : "a:b",'
            b'"_meta":{"io.modelcontextprotocol/subscriptionId":5}}}'
        )
    ]


def test_the_upstream_logs_only_for_who_asked() -> None:
    face = opened()
    message = heard('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}')
    call(face, "7")
    assert face.upstream_says(message, 0.0) == []
    face.upstream_says(heard('{"jsonrpc":"2.0","id":7,"result":{}}'), 0.0)
    steps = call(face, "8", meta=',"io.modelcontextprotocol/logLevel":"info"')
    assert [one["method"] for one in up(steps)] == ["logging/setLevel", "tools/call"]
    assert face.upstream_says(message, 0.0) == [ToClient(message.raw)]
    debug = heard('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":1}}')
    assert face.upstream_says(debug, 0.0) == []


def test_errors_keep_what_they_say_and_change_only_codes_that_mean_something_else() -> None:
    face = opened()
    face.client_says(request("1", "resources/read", '"uri":"a:b",'), 0.0)
    raw = '{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no","data":{"n" : 1.0}}}'
    assert face.upstream_says(heard(raw), 0.0) == [ToClient(raw.replace("-32002", "-32602").encode())]


def test_a_refused_handshake_is_told_to_whoever_waits() -> None:
    face = ModernFace(lambda: b'"own"', b'{"name":"us","version":"1"}')
    call(face, "1")
    refusal = '{"jsonrpc":"2.0","id":"own","error":{"code":-32000,"message":"no"}}'
    assert down(face.upstream_says(heard(refusal), 0.0)) == [
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}}
    ]
    assert up(call(face, "2"))[0]["method"] == "initialize"


def test_a_question_belongs_to_the_call_whose_stream_brought_it() -> None:
    face = opened()
    call(face, "7")
    call(face, "8")
    raw = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"who?"}}'
    assert face.upstream_says(heard(raw), 1.0, b"8") == []
    (answer,) = down(face.tick(face.next_due()))
    assert answer["id"] == 8
    log = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}'
    call(face, "9", meta=',"io.modelcontextprotocol/logLevel":"info"')
    (step,) = face.upstream_says(heard(log), 1.0, b"9")
    assert isinstance(step, ToClient)
    assert step.to == b"9"
    assert face.upstream_says(heard(log), 1.0, b"7") == []  # which wants none
    assert face.upstream_says(heard(log), 1.0) == []  # nobody knows whose


def test_another_question_while_the_call_is_parked_is_the_next_round() -> None:
    face = opened()
    state = parked(face)
    assert question(face, '"more"') == []
    assert face.tick(2.0) == []
    (again,) = down(call(face, "8", back(state)))
    assert list(again["result"]["inputRequests"]) == ["more"]
    assert again["result"]["requestState"] != state


URL = (
    '{"jsonrpc":"2.0","id":7,"error":{"code":-32042,"message":"go","data":{"elicitations":'
    '[{"mode":"url","elicitationId":"e1","url":"https://x/","message":"log in"}]}}}'
)


def test_urls_that_must_be_visited_first_are_asked_and_nothing_is_parked() -> None:
    face = opened()
    can = META.replace('"elicitation":{}', '"elicitation":{"url":{}}') % ""
    asked = f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t",{can}}}}}'
    face.client_says(said(asked), 0.0)
    (answer,) = down(face.upstream_says(heard(URL), 0.0))
    assert answer["result"] == {
        "resultType": "input_required",
        "inputRequests": {
            "e1": {
                "method": "elicitation/create",
                "params": {
                    "mode": "url",
                    "elicitationId": "e1",
                    "url": "https://x/",
                    "message": "log in",
                },
            }
        },
    }
    retry = asked.replace('"id":7', '"id":8').replace(
        '"name"', '"inputResponses":{"e1":{"action":"accept"}},"name"'
    )
    (sent,) = up(face.client_says(said(retry), 0.0))
    assert sent["id"] == 8
    assert "inputResponses" not in sent["params"]


def test_who_cannot_go_to_a_url_hears_the_error() -> None:
    face = opened()
    call(face)
    (answer,) = down(face.upstream_says(heard(URL), 0.0))
    assert answer["error"]["code"] == -32042


def needs_urls(*elicitations: str) -> str:
    error = f'{{"code":-32042,"message":"go","data":{{"elicitations":[{",".join(elicitations)}]}}}}'
    return f'{{"jsonrpc":"2.0","id":7,"error":{error}}}'


def test_who_cannot_go_to_every_url_hears_the_error() -> None:
    face = opened()
    call(face)
    raw = needs_urls('{"mode":"form","url":"https://x/"}', '{"mode":"url","url":"https://y/"}')
    assert face.upstream_says(heard(raw), 0.0) == [ToClient(raw.encode())]


def test_no_url_takes_the_place_of_another() -> None:
    face = opened()
    can = META.replace('"elicitation":{}', '"elicitation":{"url":{}}') % ""
    asked = f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t",{can}}}}}'
    face.client_says(said(asked), 0.0)
    wanted = (
        '{"mode":"url","elicitationId":"url-1","url":"https://x/"}',
        '{"mode":"url","url" : "https://y/"}',
    )
    assert face.upstream_says(heard(needs_urls(*wanted)), 0.0) == [
        ToClient(
            b'{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{'
            b'"url-1":{"method":"elicitation/create","params":{"mode":"url","elicitationId":"url-1",'
            b'"url":"https://x/"}},'
            b'"url-1_":{"method":"elicitation/create","params":{"mode":"url","url" : "https://y/"}}}}}'
        )
    ]


def cancel(token: str) -> Message:
    return said(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{token}}}}}')


def test_before_the_handshake_is_through_everything_waits_and_may_be_cancelled() -> None:
    numbers = itertools.count(1)
    face = ModernFace(lambda: b'"own-%d"' % next(numbers), b'{"name":"us","version":"1"}')
    note = said('{"jsonrpc":"2.0","method":"v/note"}')
    assert face.client_says(note, 0.0) == []
    assert len(up(call(face, "1"))) == 1
    assert call(face, "2") == []
    assert face.client_says(cancel("1"), 0.0) == []
    answer = '{"jsonrpc":"2.0","id":"own-1","result":{"capabilities":{}}}'
    steps = up(face.upstream_says(heard(answer), 0.0))
    assert [one.get("id") for one in steps] == [None, 2]
    assert face.upstream_says(heard(answer), 0.0) == []  # once is enough
    assert face.client_says(note, 0.0) == [ToUpstream(note.raw)]


def test_what_nobody_asked_for_goes_nowhere() -> None:
    face = opened()
    assert face.client_says(said('{"jsonrpc":"2.0","id":1,"result":{}}'), 0.0) == []
    assert face.upstream_says(heard('{"jsonrpc":"2.0","id":99,"result":{}}'), 0.0) == []
    assert face.upstream_says(heard('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}'), 0.0) == []
    assert face.client_says(cancel("99"), 0.0) == []
    bare = said('{"jsonrpc":"2.0","method":"notifications/cancelled"}')
    assert face.client_says(bare, 0.0) == []
    complete = heard('{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}')
    assert face.upstream_says(complete, 0.0) == []
    other = heard('{"jsonrpc":"2.0","method":"v/other"}')
    assert face.upstream_says(other, 0.0) == [ToClient(other.raw)]
    (pong,) = up(face.upstream_says(heard('{"jsonrpc":"2.0","id":"p","method":"ping"}'), 0.0))
    assert pong == {"jsonrpc": "2.0", "id": "p", "result": {}}


def test_a_running_call_is_cancelled_and_its_questions_are_refused() -> None:
    face = opened()
    call(face, "7")
    question(face)
    refused, told = up(face.client_says(cancel("7"), 1.0))
    assert (refused["id"], refused["error"]["code"]) == ("who", -32603)
    assert (told["method"], told["params"]) == ("notifications/cancelled", {"requestId": 7})
    assert face.next_due() == 0
    state = parked(face, "8")
    assert face.client_says(cancel("8"), 2.0) == []  # it has its answer, and may come back
    assert call(face, "9", back(state), now=3.0)


def test_a_call_that_waits_for_the_first_answers_was_never_sent() -> None:
    face = opened()
    question(face, '"early"', now=1.0)
    (answer,) = down(call(face, "7", now=2.0))
    refused, *rest = up(face.tick(2.0 + 600.0))
    assert (refused["id"], rest) == ("early", [])
    assert down(call(face, "8", back(answer["result"]["requestState"]), now=603.0))[0]["error"]


def test_early_questions_wait_half_a_minute_and_only_for_who_can_answer() -> None:
    face = opened()
    question(face, '"a"', now=1.0)
    assert face.next_due() == 31.0
    assert face.tick(30.9) == []
    (refused,) = up(face.tick(31.0))
    assert (refused["id"], refused["error"]["code"]) == ("a", -32603)
    question(face, '"b"', "sampling/createMessage", now=40.0)
    question(face, '"c"', now=40.0)
    refused, *rest = up(call(face, "7", now=41.0))
    assert (refused["id"], refused["error"]["code"], rest) == ("b", -32601, [])
    question(face, '"d"', now=50.0)
    late = call(face, "8", now=80.0)
    assert [(one["id"], "error" in one) for one in up(late)] == [("d", True), (8, False)]
    question(face, '"e"', now=90.0)
    (read,) = up(face.client_says(request("9", "tools/list"), 91.0))
    assert read["method"] == "tools/list"  # which cannot be answered with a question


def test_a_question_of_a_call_that_ends_at_once_is_asked_with_the_next_one() -> None:
    face = opened()
    call(face, "7")
    question(face, now=1.0)
    (answer,) = down(face.upstream_says(heard('{"jsonrpc":"2.0","id":7,"result":{}}'), 1.01))
    assert answer["result"] == {"resultType": "complete"}
    assert face.tick(1.02) == []
    (asked,) = down(call(face, "8", now=2.0))
    assert list(asked["result"]["inputRequests"]) == ["who"]


def test_no_more_than_64_calls_wait_and_no_more_than_may_elsewhere() -> None:
    face = opened()
    for number in range(64):
        call(face, str(100 + number))
        question(face, f'"q{number}"')
        assert len(down(face.tick(face.next_due() if number == 0 else 2.0))) == 1
    assert face.parked == 64
    call(face, "200")
    (refused,) = up(question(face, '"more"'))
    assert (refused["id"], refused["error"]["code"]) == ("more", -32603)
    full = opened()
    full._is_full_elsewhere = lambda: True
    call(full, "7")
    assert up(question(full, '"more"'))[0]["error"]["code"] == -32603
    face = opened()
    for number in range(64):
        assert question(face, f'"q{number}"') == []
    assert up(question(face, '"more"'))[0]["error"]["message"] == "Too many questions"


def test_no_more_questions_are_kept_than_fit_however_few_calls_they_are_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "PENDING_BYTES", 12_000)
    face = opened()
    call(face)
    assert question(face, f'"{"a" * 5_000}"') == []
    assert question(face, f'"{"b" * 5_000}"') == []
    (refused,) = up(question(face, f'"{"c" * 5_000}"'))
    assert refused["error"] == {"code": -32603, "message": "Too much is under way in this session"}
    monkeypatch.setattr(limits, "UPSTREAM_REQUESTS", 3)
    assert question(face, '"small"') == []
    assert up(question(face, '"one too many"'))[0]["error"]["code"] == -32603
    (asked,) = down(face.tick(2.0))
    assert [len(key) for key in asked["result"]["inputRequests"]] == [5_000, 5_000, 5]
    outside = opened()
    monkeypatch.setattr(limits, "UPSTREAM_REQUESTS", 1)
    assert question(outside, '"of no call"') == []
    assert up(question(outside, '"nor this"'))[0]["error"]["code"] == -32603


def test_long_words_about_progress_do_not_wait_with_a_call() -> None:
    face = opened()
    call(face, meta=',"progressToken":"t"')
    question(face)
    (asked,) = down(face.tick(2.0))
    for text in ("a" * HELD_PROGRESS_BYTES, "short"):
        params = f'{{"progressToken":"t","progress":1,"message":"{text}"}}'
        notice = f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}'
        assert face.upstream_says(heard(notice), 2.0) == []
    state = asked["result"]["requestState"]
    more = f'"requestState":{json.dumps(state)},"inputResponses":{{"who":{{"action":"decline"}}}},'
    steps = call(face, "8", more, 3.0, ',"progressToken":"u"')
    told = [one["params"]["message"] for one in down(steps) if one.get("method") == "notifications/progress"]
    assert told == ["short"]


def test_what_the_upstream_takes_back_is_not_asked() -> None:
    face = opened()
    call(face, "7")
    question(face, '"a"')
    question(face, '"b"')
    assert (
        face.upstream_says(
            heard('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}'), 1.0
        )
        == []
    )
    (answer,) = down(face.tick(2.0))
    assert list(answer["result"]["inputRequests"]) == ["b"]
    call(face, "8")
    question(face, '"c"')
    face.upstream_says(
        heard('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}'), 1.0
    )
    face.upstream_says(heard('{"jsonrpc":"2.0","method":"notifications/cancelled"}'), 1.0)
    assert down(face.tick(5.0)) == []


def test_a_state_of_another_client_or_an_old_one_is_refused_by_one_sentence() -> None:
    face = opened()
    state = parked(face)
    for more, now in ((back("made-up"), 2.0), (back(state), 601.03), ('"requestState":5,', 2.0)):
        (answer,) = down(call(face, "8", more, now=now))
        assert answer["error"] == {
            "code": -32602,
            "message": "Invalid or expired requestState",
            "data": {"reason": "invalid_request_state"},
        }
    (sent,) = up(call(face, "9", '"inputResponses":{"who":{}},', now=2.0))
    assert (sent["id"], "inputResponses" in sent["params"]) == (9, False)  # a call of its own


def test_progress_without_an_owner_or_a_token_goes_nowhere_and_64_are_held() -> None:
    face = opened()
    text = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d}}'
    assert face.upstream_says(heard(text % 0), 0.0) == []
    call(face, "7", meta=',"progressToken":"p"')
    question(face)
    (answer,) = down(face.tick(face.next_due()))
    for number in range(70):
        assert face.upstream_says(heard(text % number), 2.0) == []
    state = answer["result"]["requestState"]
    told = down(call(face, "8", back(state), 3.0, meta=',"progressToken":"two"'))
    assert [one["params"]["progress"] for one in told] == list(range(6, 70))
    assert {one["params"]["progressToken"] for one in told} == {"two"}
    silent = opened()
    call(silent, "7", meta=',"progressToken":"p"')
    question(silent)
    (answer,) = down(silent.tick(silent.next_due()))
    silent.upstream_says(heard(text % 1), 2.0)
    assert down(call(silent, "8", back(answer["result"]["requestState"]), 3.0)) == []
    assert silent.upstream_says(heard(text % 2), 4.0) == []


def test_the_level_is_the_most_verbose_that_is_wanted_and_said_once() -> None:
    face = opened()
    wants = ',"io.modelcontextprotocol/logLevel":"%s"'
    first = up(call(face, "7", meta=wants % "warning"))
    assert [one["method"] for one in first] == ["logging/setLevel", "tools/call"]
    assert first[0]["params"] == {"level": "warning"}
    assert [one["method"] for one in up(call(face, "8", meta=wants % "error"))] == ["tools/call"]
    more = up(call(face, "9", meta=wants % "debug"))
    assert more[0]["params"] == {"level": "debug"}
    assert face.upstream_says(heard('{"jsonrpc":"2.0","id":"own-3","result":{}}'), 0.0) == []
    assert [one["method"] for one in up(call(face, "10", meta=wants % "loud"))] == ["tools/call"]
    quiet = opened('{"tools":{}}')
    assert [one["method"] for one in up(call(quiet, "7", meta=wants % "debug"))] == ["tools/call"]


def test_people_hear_of_a_call_that_is_given_up() -> None:
    face = opened()
    parked(face)
    due = face.next_due()
    assert face.tick(due - 0.01) == []
    told = [step.text for step in face.tick(due) if isinstance(step, Tell)]
    assert told == ["A call that asked its client something was given up. The client did not answer in time."]
    assert face.next_due() == 0


# --- edges -----------------------------------------------------------------------------------------------


def answer(face: ModernFace, token: str, body: str = "{}", now: float = 2.0) -> list[Step]:
    return face.upstream_says(heard(f'{{"jsonrpc":"2.0","id":{token},"result":{body}}}'), now)


def told(face: ModernFace, method: str, params: str = "", via: bytes | None = None) -> list[Step]:
    return face.upstream_says(heard(f'{{"jsonrpc":"2.0","method":"{method}"{params}}}'), 2.0, via)


def cancelled(face: ModernFace, token: str) -> list[Step]:
    params = f'{{"requestId":{token}}}'
    return face.client_says(
        said(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}'), 2.0
    )


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_three_requests_may_be_answered_with_questions(method: str) -> None:
    face = opened()
    face.client_says(request("7", method, '"name":"t",'), 0.0)
    question(face)
    (asked,) = down(face.tick(face.next_due()))
    more = f'"name":"t",{back(asked["result"]["requestState"])}'
    (reply,) = up(face.client_says(request("8", method, more), 3.0))
    assert reply["result"]["action"] == "accept"


def test_no_other_request_has_a_state() -> None:
    (sent,) = up(opened().client_says(request("7", "tools/list", '"requestState":"s",'), 0.0))
    assert sent["method"] == "tools/list"


@pytest.mark.parametrize("method", ["resources/unsubscribe", "resources/subscribe", "ping", "tasks/get"])
def test_what_is_not_there_is_said_in_the_words_of_the_protocol(method: str) -> None:
    (refused,) = down(opened().client_says(request("7", method), 0.0))
    assert refused["error"] == {"code": -32601, "message": "Method not found"}


def test_questions_that_nobody_could_be_asked_wait_while_it_is_full() -> None:
    numbers = itertools.count(1)
    full = [True]
    face = ModernFace(lambda: b'"own-%d"' % next(numbers), b"{}", 600.0, lambda: full[0])
    face.client_says(request("0", "server/discover"), 0.0)
    answer(face, '"own-1"', '{"capabilities":{}}')
    question(face, '"q"', now=1.0)
    (sent,) = up(call(face, "7", now=2.0))
    assert sent["method"] == "tools/call"
    assert face.next_due() == 31.0
    (refused,) = up(question(face, '"r"', now=3.0))
    assert refused["error"]["message"] == "Too many calls wait already"
    full[0] = False
    (asked,) = down(call(face, "8", now=4.0))
    assert list(asked["result"]["inputRequests"]) == ["q"]


def test_whom_nobody_could_be_asked_hears_so() -> None:
    face = opened()
    question(face, '"q"', now=1.0)
    (refused,) = up(face.tick(31.0))
    assert refused["error"]["message"] == "Nobody could be asked in time"


def test_a_cancel_of_another_id_ends_nothing() -> None:
    face = opened()
    call(face, "7")
    assert cancelled(face, "8") == []
    question(face, '"q"')
    refused, gone = up(cancelled(face, "7"))
    assert refused["error"]["message"] == "The client has cancelled"
    assert gone["params"] == {"requestId": 7}


def test_what_the_upstream_has_answered_is_not_cancelled() -> None:
    face = opened()
    parked(face)
    answer(face, "7")
    question(face, '"late"')  # asked for nobody: that call has its answer
    due = face.next_due()
    face.tick(due)
    assert [one for one in up(face.tick(700.0)) if one.get("method") == "notifications/cancelled"] == []
    assert face.parked == 0


def test_a_question_after_the_answer_waits_for_the_next_call() -> None:
    face = opened()
    state = parked(face)
    answer(face, "7")
    assert question(face, '"late"', now=3.0) == []
    assert call(face, "8", back(state), now=4.0) == [
        ToClient(b'{"jsonrpc":"2.0","id":8,"result":{"resultType":"complete"}}')
    ]
    (asked,) = down(call(face, "9", now=5.0))
    assert (asked["id"], list(asked["result"]["inputRequests"])) == (9, ["late"])


def test_a_client_has_its_time_from_when_it_was_asked() -> None:
    face = opened()
    call(face, "7", now=1000.0)
    question(face, now=1000.0)
    (asked,) = down(face.tick(1000.02))
    assert face.next_due() == 1600.02
    state = asked["result"]["requestState"]
    (refused,) = down(call(face, "8", back(state), now=1600.02))
    assert refused["error"]["code"] == -32602


def test_what_was_kept_is_given_once_and_forgotten() -> None:
    face = opened()
    state = parked(face)
    answer(face, "7", '{"kept":1}')
    (given,) = down(call(face, "8", back(state), now=3.0))
    assert (given["id"], given["result"]["kept"]) == (8, 1)
    assert cancelled(face, "8") == []
    question(face, '"x"', now=4.0)
    assert face.next_due() == 34.0  # it belongs to no call


@pytest.mark.parametrize("answers", ["5", "{}", '{"who":5}', "null"])
def test_answers_that_are_none_are_asked_for_again(answers: str) -> None:
    face = opened()
    (asked,) = down(call(face, "8", back(parked(face), answers), now=3.0))
    assert list(asked["result"]["inputRequests"]) == ["who"]


def test_a_call_that_had_to_wait_is_a_call_like_others_from_then_on() -> None:
    face = opened()
    question(face, '"early"', now=1.0)
    (asked,) = down(call(face, "7", now=2.0))
    more = back(asked["result"]["requestState"], '{"early":{"action":"accept"}}')
    said_up = up(call(face, "8", more, now=3.0))
    assert [one.get("method", one.get("id")) for one in said_up] == ["early", "tools/call"]
    assert question(face, '"more"', now=4.0) == []
    (again,) = down(face.tick(face.next_due()))
    assert (again["id"], list(again["result"]["inputRequests"])) == (8, ["more"])
    more = back(again["result"]["requestState"], '{"more":{"action":"accept"}}')
    call(face, "9", more, now=5.0)
    (done,) = down(answer(face, "8", '{"n":1}', now=6.0))
    assert (done["id"], done["result"]["n"]) == (9, 1)
    assert answer(face, "7") == []
    question(face, '"x"', now=7.0)
    assert face.next_due() == 37.0


def test_before_the_handshake_only_its_answer_counts() -> None:
    face = ModernFace(lambda: b'"own-1"', b"{}")
    face.client_says(request("0", "server/discover"), 0.0)
    assert answer(face, '"other"', '{"capabilities":{}}') == []
    steps = answer(face, '"own-1"')
    assert up(steps)[0]["method"] == "notifications/initialized"
    assert face.client_says(request("1", "server/discover"), 0.0)


def test_a_round_of_urls_is_the_answer_to_the_call() -> None:
    face = opened()
    meta = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/'
    more = 'clientCapabilities":{"elicitation":{"url":{}}}}'
    face.client_says(
        said(f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t",{meta}{more}}}}}'),
        0.0,
    )
    wanted = '[{"mode":"url","elicitationId":"e","url":"https://x/","message":"go"}]'
    error = f'{{"code":-32042,"message":"go","data":{{"elicitations":{wanted}}}}}'
    (asked,) = down(face.upstream_says(heard(f'{{"jsonrpc":"2.0","id":7,"error":{error}}}'), 1.0))
    assert (asked["id"], list(asked["result"]["inputRequests"])) == (7, ["e"])


def test_a_question_on_the_stream_of_what_cannot_ask_is_the_oldest_calls() -> None:
    face = opened()
    call(face, "7")
    face.client_says(request("8", "tools/list"), 0.0)
    raw = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}'
    assert face.upstream_says(heard(raw), 1.0, b"8") == []
    (asked,) = down(face.tick(face.next_due()))
    assert asked["id"] == 7


def test_a_question_while_only_lists_are_under_way_belongs_to_no_call() -> None:
    face = opened()
    face.client_says(request("8", "tools/list"), 0.0)
    question(face, now=1.0)
    assert face.next_due() == 31.0


def test_notifications_find_their_leg() -> None:
    face = opened()
    parked(face, "7")
    (step,) = told(face, "notifications/x", via=b"7")
    assert isinstance(step, ToClient)
    assert step.to is None
    line = ',"params":{"level":"info","data":1}'
    assert told(face, "notifications/message", line, b"7") == []
    call(face, "8", meta=',"io.modelcontextprotocol/logLevel":"debug"')
    (step,) = told(face, "notifications/x", via=b"8")
    assert isinstance(step, ToClient)
    assert step.to == b"8"
    assert len(told(face, "notifications/message", line)) == 1  # there is one that waits for it
    call(face, "9", meta=',"io.modelcontextprotocol/logLevel":"debug"')
    assert told(face, "notifications/message", line) == []


def test_a_parked_call_hears_no_log_lines() -> None:
    face = opened()
    call(face, "7", meta=',"io.modelcontextprotocol/logLevel":"debug"')
    question(face)
    face.tick(face.next_due())
    assert told(face, "notifications/message", ',"params":{"level":"info","data":1}', b"7") == []


def test_progress_finds_the_call_that_asked_for_it() -> None:
    face = opened()
    call(face, "6")
    call(face, "7", meta=',"progressToken":"a"')
    call(face, "8", meta=',"progressToken":"b"')
    for params in ("", ',"params":{}', ',"params":{"progressToken":"c"}'):
        assert told(face, "notifications/progress", params) == []
    (step,) = told(face, "notifications/progress", ',"params":{"progressToken":"b","progress":1}')
    assert isinstance(step, ToClient)
    assert json.loads(step.raw)["params"]["progressToken"] == "b"


def test_what_is_due_at_once_is_all_done() -> None:
    face = opened()
    for token in ("7", "8"):
        call(face, token)
        raw = f'{{"jsonrpc":"2.0","id":"q{token}","method":"elicitation/create","params":{{"message":"?"}}}}'
        face.upstream_says(heard(raw), 1.0 if token == "7" else 1.01, token.encode())
    assert face.next_due() == 1.02
    assert [one["id"] for one in down(face.tick(1.5))] == [7, 8]
    assert face.next_due() == 601.5
    steps = face.tick(601.5)
    assert sum(isinstance(step, Tell) for step in steps) == 2
    assert [one["params"]["requestId"] for one in up(steps) if "method" in one] == [7, 8]


@pytest.mark.parametrize(
    ("params", "is_asked"), [('{"mode":"url"}', False), ('{"mode":"form"}', True), ("5", True)]
)
def test_what_a_question_needs_is_read_from_it(params: str, is_asked: bool) -> None:
    face = opened()
    call(face)
    raw = f'{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{params}}}'
    steps = face.upstream_says(heard(raw), 1.0)
    assert (steps == []) is is_asked


def test_a_question_may_have_no_params() -> None:
    face = opened()
    call(face)
    assert face.upstream_says(heard('{"jsonrpc":"2.0","id":"q","method":"roots/list"}'), 1.0) == []
    (asked,) = down(face.tick(face.next_due()))
    assert asked["result"]["inputRequests"] == {"q": {"method": "roots/list"}}


def test_what_a_client_shows_to_go_on_may_be_given() -> None:
    states = iter((b"one", b"two"))
    face = ModernFace(lambda: b'"own-1"', b"{}", new_state=lambda: next(states))
    face.client_says(request("0", "server/discover"), 0.0)
    answer(face, '"own-1"', '{"capabilities":5}')
    assert parked(face) == "one"
    assert parked(opened("{}")).startswith("own-")
    face = ModernFace(lambda: b'"X-1"', b"{}")
    face.client_says(request("0", "server/discover"), 0.0)
    answer(face, '"X-1"', '{"capabilities":{}}')
    assert parked(face) == "X-1"  # an id as it is, without its quotes


def test_what_is_under_way_is_bounded_before_the_handshake_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRANSLATED_REQUESTS", 2)
    numbers = itertools.count(1)
    fresh = ModernFace(lambda: b'"own-%d"' % next(numbers), b'{"name":"us","version":"1"}')
    for face in (fresh, opened()):
        first, second, third = (face.client_says(request(one, "prompts/list"), 0.0) for one in "123")
        assert down(first) == down(second) == up(third) == []
        (refused,) = down(third)
        assert refused["error"] == {"code": -32603, "message": "Too much is under way in this session"}
        assert refused["id"] == 3
    face.upstream_says(heard('{"jsonrpc":"2.0","id":1,"result":{"prompts":[]}}'), 0.0)
    assert len(up(face.client_says(request("3", "prompts/list"), 0.0))) == 1
