"""Questions in the middle of a call, for modern clients over an upstream of the older era.

The numbers are those of the rows that the bridge was accepted by.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from across import Asker, asking, back, question
from gate import wait_until

ACCEPT = {"action": "accept", "content": {"n": 1}}
INVALID = {"code": -32602, "message": "Invalid or expired requestState"}


@pytest.fixture(params=["stdio", "streamable"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(tmp_path: Path, kind: str) -> Iterator[Asker]:
    with asking(tmp_path, kind, "--deny", "^delete_") as asker:
        yield asker


def asked_of(answer: Any) -> list[str]:
    assert answer["result"]["resultType"] == "input_required", answer
    return list(answer["result"]["inputRequests"])


def test_05_elicitation_sampling_and_roots_in_the_middle_of_a_call(client: Asker) -> None:
    order = {
        "ask": [
            question("e"),
            question("s", "sampling/createMessage", messages=[], maxTokens=1),
            question("r", "roots/list"),
        ],
        "in_turn": True,
    }
    answers = {"e": ACCEPT, "s": {"role": "assistant", "model": "m"}, "r": {"roots": []}}
    answer = client.call(order)
    states = []
    for key, value in answers.items():
        assert asked_of(answer) == [key]
        states.append(answer["result"]["requestState"])
        answer = client.call(order, back(answer, **{key: value}))
    assert answer["result"]["structuredContent"] == answers
    assert len(set(states)) == 3
    assert client.count("tools/call") == 1


def test_06_questions_at_once_are_one_round(client: Asker) -> None:
    order = {"ask": [question("a"), question(2), question("2")]}
    answer = client.call(order)
    keys = asked_of(answer)
    assert keys[:2] == ["a", "2"]
    assert len(set(keys)) == 3
    done = client.call(order, back(answer, **dict.fromkeys(keys, ACCEPT)))
    assert done["result"]["structuredContent"] == {"a": ACCEPT, "2": ACCEPT}


def test_08_who_cannot_sample_is_not_asked_and_the_call_still_ends(client: Asker) -> None:
    client.capabilities = '{"elicitation":{}}'
    done = client.call({"ask": [question("s", "sampling/createMessage", messages=[], maxTokens=1)]})
    assert done["result"]["structuredContent"]["s"]["code"] == -32601
    for action in ("decline", "cancel"):
        order = {"ask": [question(action)]}
        done = client.call(order, back(client.call(order), **{action: {"action": action}}))
        assert done["result"]["structuredContent"] == {action: {"action": action}}


def test_09_a_state_is_good_once_for_the_same_call_of_the_same_client(client: Asker, kind: str) -> None:
    order = {"ask": [question("q")]}
    first = client.call(order)
    coming = back(first, q=ACCEPT)
    other = client.call({"ask": [question("q")], "x": 1}, coming)
    assert {**other["error"], "data": None} == {**INVALID, "data": None}
    assert other["error"]["data"] == {"reason": "invalid_request_state"}
    tampered = coming.replace('"requestState": "', '"requestState": "x').replace(
        '"requestState":"', '"requestState":"x'
    )
    assert client.call(order, tampered)["error"]["code"] == -32602
    if kind == "streamable":
        client.door.more = {"Authorization": "Bearer other"}  # type: ignore[attr-defined]
        assert client.call(order, coming)["error"]["code"] == -32602
        client.door.more = {}  # type: ignore[attr-defined]
    assert client.call(order, coming)["result"]["structuredContent"] == {"q": ACCEPT}
    assert client.call(order, coming)["error"]["message"] == INVALID["message"]
    assert client.count("tools/call") == 1


def test_09_a_state_does_not_outlive_the_process(tmp_path: Path, kind: str) -> None:
    order = {"ask": [question("q")]}
    with asking(tmp_path, kind) as client:
        coming = back(client.call(order), q=ACCEPT)
    before = client.count("tools/call")
    with asking(tmp_path, kind) as client:
        assert client.call(order, coming)["error"]["code"] == -32602
        assert client.count("tools/call") == before


def children_of(pid: int) -> list[str]:
    words = ["ps", "-ww", "-o", "pid=,ppid=,args=", "-A"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if line.split()[1] == str(pid) and "asking.py" in line]


def test_10_a_client_that_never_returns_is_given_up(tmp_path: Path, kind: str) -> None:
    with asking(tmp_path, kind, "--input-timeout", "300ms") as client:
        token = client.begin({"ask": [question("q")]})
        asked_of(json.loads(client.door.answer(token)))
        call = client.await_up(lambda one: one.get("method") == "tools/call")
        gone = client.await_up(lambda one: one.get("method") == "notifications/cancelled")
        assert gone["params"]["requestId"] == call["id"]
        refused = client.await_up(lambda one: one.get("id") == "q")
        assert refused["error"]["code"] == -32603
        assert client.ask("tools/list")["result"]["tools"]
        if kind == "streamable":
            # One for clients that are alike, and one that is started and not greeted; never one a call.
            pid = client.proxy.process.pid  # type: ignore[attr-defined]
            assert wait_until(lambda: len(children_of(pid)) <= 2), children_of(pid)
        assert "did not answer" in client.stderr


@pytest.mark.parametrize("leg", [1, 2])
def test_11_a_cancel_reaches_the_upstream_under_the_id_that_it_knows(
    client: Asker, kind: str, leg: int
) -> None:
    order: dict[str, object] = {"ask": [question("q")], "hold": True} if leg == 2 else {"hold": True}
    token = client.begin(order)
    if leg == 2:
        token = client.begin(order, back(json.loads(client.door.answer(token)), q=ACCEPT))
        client.await_up(lambda one: one.get("id") == "q")
    call = client.await_up(lambda one: one.get("method") == "tools/call")
    if kind == "stdio":
        client.door.say(
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % token
        )
    else:
        client.door.hang_up(token)
    gone = client.await_up(lambda one: one.get("method") == "notifications/cancelled")
    assert gone["params"]["requestId"] == call["id"]
    assert client.count("tools/call") == 1


def test_13_what_the_upstream_answers_meanwhile_is_kept_for_the_retry(client: Asker) -> None:
    order = {"ask": [question("q")], "early": True}
    first = client.call(order)
    asked_of(first)
    assert client.call(order, back(first, q=ACCEPT))["result"]["structuredContent"] == {}


def test_14_progress_in_the_second_leg_carries_the_second_legs_token(client: Asker) -> None:
    note = (
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":%d}}'
    )
    order = {"ask": [question("q")], "say": [note % 1], "then": [note % 2]}
    token = client.begin(order, meta=',"progressToken":"one"')
    first = json.loads(client.door.answer(token))
    client.door.answer(client.begin(order, back(first, q=ACCEPT), meta=',"progressToken":"two"'))
    heard = [json.loads(one.raw) for one in client.door.heard]
    told = [one["params"] for one in heard if one.get("method") == "notifications/progress"]
    assert told == [{"progressToken": "one", "progress": 1}, {"progressToken": "two", "progress": 2}]


def test_15_log_lines_come_to_who_asks_for_them(client: Asker) -> None:
    line = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'
    client.call({"say": [line % "quiet"]})
    client.call({"say": [line % "loud"]}, meta=',"io.modelcontextprotocol/logLevel":"debug"')
    client.call({"say": [line % "low"]}, meta=',"io.modelcontextprotocol/logLevel":"error"')
    heard = b"".join(one.raw for one in client.door.heard)
    assert b'"loud"' in heard
    assert b'"quiet"' not in heard
    assert b'"low"' not in heard
    levels = [one["params"]["level"] for one in client.reached() if one.get("method") == "logging/setLevel"]
    assert levels == ["debug", "error"]


def test_16_changes_reach_a_listener_until_it_hangs_up(client: Asker, kind: str) -> None:
    listened = client.send(
        "subscriptions/listen",
        '"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}',
    )
    client.door.message(lambda raw: b"subscriptions/acknowledged" in raw)
    client.await_up(lambda one: one.get("method") == "resources/subscribe")
    changed = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    updated = '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///%s"}}'
    client.call({"after": [changed, updated % "b", updated % "a"]})
    heard = json.loads(client.door.message(lambda raw: b"resources/updated" in raw).raw)
    assert heard["params"]["uri"] == "file:///a"
    assert heard["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": int(listened)}
    assert any(b"list_changed" in one.raw for one in client.door.heard)
    if kind == "stdio":
        client.door.say(
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % listened
        )
    else:
        client.door.hang_up(listened)
    client.await_up(lambda one: one.get("method") == "resources/unsubscribe")


def test_18_19_errors_have_the_codes_and_the_statuses_of_the_newer_era(client: Asker, kind: str) -> None:
    token = client.send("resources/read", '"uri":"file:///none"')
    error = json.loads(client.door.answer(token))["error"]
    assert (error["code"], error["data"]) == (-32602, {"uri": "file:///none"})
    other = client.send("v/unknown")
    assert json.loads(client.door.answer(other))["error"]["code"] == -32601
    if kind == "streamable":
        posts = client.door.posts  # type: ignore[attr-defined]
        assert (posts[token].status, posts[other].status) == (400, 404)


def test_23_arguments_and_answers_keep_their_bytes(client: Asker) -> None:
    params = '{"message" : "\\u65e5","x":1e400,"d":1234567890123456789012345678901234567890}'
    line = f'{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{params}}}'
    odd = f'{{"ask":[{json.dumps(line)}],"n" : 1e400,"u":"\\u65e5"}}'
    more = f'"name":"ask","arguments":{odd}'
    first = client.door.answer(client.send("tools/call", more))
    assert b'"params":' + params.encode() in first
    state = json.loads(first)["result"]["requestState"]
    said = '{"action":"accept","content":{"n" : 1e400,"d":1234567890123456789012345678901234567890}}'
    coming = f'"requestState":"{state}","inputResponses":{{"q":{said}}}'
    client.door.answer(client.send("tools/call", f"{more},{coming}"))
    reached = client.reached_raw()
    assert odd.encode() in reached
    assert b'"result":' + said.encode() in reached
    result = '{"content":[], "structuredContent" : {"n" : 1e400,"u":"\\u65e5"}}'
    answer = client.door.answer(client.begin({"result": result}))
    assert b'"result":' + result[:-1].encode() + b"," in answer  # what the era wants comes after it


def test_an_answer_that_cannot_be_read_is_an_error_in_every_leg(client: Asker) -> None:
    order = {"ask": [question("q")], "result": '{"content":[],"n":Infinity}'}
    first = client.call(order)
    assert client.call(order, back(first, q=ACCEPT))["error"]["code"] == -32603
    assert client.call({"result": '{"a":1,"a":2}'})["error"]["code"] == -32603


def test_24_a_denied_tool_is_not_called_on_a_retry_either(client: Asker) -> None:
    order = {"ask": [question("q")]}
    coming = back(client.call(order), q=ACCEPT)
    for more in ("", coming):
        token = client.begin(order, more, name="delete_file")
        assert json.loads(client.door.answer(token))["error"]["code"] in (-32601, -32602)
    assert "delete_file" not in json.dumps(client.ask("tools/list"))
    calls = [one["params"]["name"] for one in client.reached() if one.get("method") == "tools/call"]
    assert calls == ["ask"]


def test_25_a_rule_blocks_what_the_upstream_asks(tmp_path: Path, kind: str) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "interceptor:\n"
        "  rules:\n"
        "    - id: no-sampling\n"
        "      conditions: [{method_equals: sampling/createMessage}]\n"
        "      direction: upstream\n"
        '      actions: [{block: "not here"}]\n'
    )
    with asking(tmp_path, kind, "--config", str(rules)) as client:
        answer = client.call({"ask": [question("s", "sampling/createMessage", messages=[], maxTokens=1)]})
        assert "s" not in answer.get("result", {}).get("inputRequests", {}), answer


def test_26_twenty_calls_at_once_each_get_their_own_answer(client: Asker) -> None:
    orders = [{"ask": [question(f"q{number}")]} for number in range(20)]
    waiting = {client.begin(order): order for order in orders}
    done: list[Any] = []
    for _ in range(25):
        again: dict[bytes, dict[str, object]] = {}
        for token, order in waiting.items():
            answer = json.loads(client.door.answer(token))
            if answer["result"]["resultType"] == "complete":
                done.append((order, answer["result"]["structuredContent"]))
                continue
            told = {key: {"action": "accept", "content": {"key": key}} for key in asked_of(answer)}
            again[client.begin(order, back(answer, **told))] = order
        waiting = again
        if not waiting:
            break
    assert len(done) == 20
    for order, answers in done:
        (asked,) = order["ask"]
        assert answers == {asked["id"]: {"action": "accept", "content": {"key": asked["id"]}}}
    assert client.count("tools/call") == 20


def test_a_question_before_any_call_comes_with_the_first_one(tmp_path: Path, kind: str) -> None:
    early = '{"jsonrpc":"2.0","id":"roots-1","method":"roots/list"}'
    with asking(tmp_path, kind, early=early) as client:
        assert client.ask("server/discover")["result"]["supportedVersions"] == ["2026-07-28"]
        answer = client.call({})
        while answer["result"]["resultType"] == "complete":  # the question was still on its way
            answer = client.call({})
        assert asked_of(answer) == ["roots-1"]
        before = client.count("tools/call")
        assert client.call({}, back(answer, **{"roots-1": {"roots": []}}))["result"]["content"]
        assert client.count("tools/call") == before + 1
        heard = client.await_up(lambda one: one.get("id") == "roots-1")
        assert heard["result"] == {"roots": []}


def test_urls_to_visit_first_are_a_round_and_the_call_is_sent_anew(client: Asker) -> None:
    wanted = [{"mode": "url", "elicitationId": "e", "url": "https://x/", "message": "log in"}]
    error = {"code": -32042, "message": "go", "data": {"elicitations": wanted}}
    answer = client.call({"error": error})
    assert answer["result"]["inputRequests"] == {"e": {"method": "elicitation/create", "params": wanted[0]}}
    assert "requestState" not in answer["result"]
    client.capabilities = '{"elicitation":{"form":{}}}'
    assert client.call({"error": error})["error"]["code"] == -32042
