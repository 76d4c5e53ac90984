"""The rows of the table of ways, one by one, in both eras: where each message goes, and who fails of it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from doors import Client
from pairs import Upstream
from penstock import limits
from several import Several, names, over_http, says, wait_until

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
ABLE = b'{"sampling":{},"elicitation":{},"roots":{"listChanged":true}}'


def full(work: Path, era: str, **rest: Any) -> Several:
    """Two upstreams with something of everything; the second can be made to fail."""
    several = Several(work, **rest)
    for name in ("one", "two"):
        several.add(
            name,
            {"methods": [f"^{name}/"], "timeouts": {"list": "1s"}},
            era=era,
            tools=["echo", "die", "say"],
            prompts=[{"name": "ask"}],
            resources=[{"uri": f"{name}:x", "name": "x"}],
            templates=[{"uriTemplate": f"{name}:///{{a}}", "name": "t"}],
            instructions=f"about {name}",
            tasks=True,
            fails_if=str(work / f"{name}-fails"),
        )
    return several


def asked(several: Several, name: str, method: str) -> list[dict[str, Any]]:
    return [one for one in several.heard(name) if one.get("method") == method]


OWNED: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": "two__echo", "arguments": {}}),
    ("prompts/get", {"name": "two__ask"}),
    ("resources/read", {"uri": "two:x"}),
    ("resources/read", {"uri": "two:///q"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "two__ask"}, "argument": {}}),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "two:///{a}"}, "argument": {}}),
    ("tasks/get", {"taskId": "two+t1"}),
    ("tasks/cancel", {"taskId": "two+t1"}),
    ("two/vendor", {}),
]
OF_AN_ERA: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "legacy": [
        ("tasks/result", {"taskId": "two+t1"}),
        ("resources/subscribe", {"uri": "two:x"}),
        ("resources/unsubscribe", {"uri": "two:x"}),
    ],
    "modern": [("tasks/update", {"taskId": "two+t1", "inputResponses": {}})],
}


@ERAS
def test_what_has_an_owner_goes_there_and_fails_with_it_alone(tmp_path: Path, era: str) -> None:
    several = full(tmp_path, era)
    rows = [*OWNED, *OF_AN_ERA[era]]
    with several.stdio(era=era) as client:
        assert names(client) == ["echo", "die", "say", "two__echo", "two__die", "two__say"]
        for kind, field in (("resources", "uri"), ("resourceTemplates", "uriTemplate"), ("prompts", "name")):
            method = {"resourceTemplates": "resources/templates/list"}.get(kind, f"{kind}/list")
            assert [one[field] for one in client.ask(method)["result"][kind]] == {
                "uri": ["one:x", "two:x"],
                "uriTemplate": ["one:///{a}", "two:///{a}"],
                "name": ["ask", "two__ask"],
            }[field]
        for method, params in rows:
            answer = client.ask(method, json.dumps(params).encode())
            assert "result" in answer or method == "two/vendor", (method, answer)
            assert len(asked(several, "two", method)) > 0, method
            assert asked(several, "one", method) == [], method
        before = {method: client.ask(method)["result"] for method in ("tools/list", "prompts/list")}
        (tmp_path / "two-fails").touch()
        assert "error" in client.call("two__die")
        for method, params in rows:
            error = client.ask(method, json.dumps(params).encode())["error"]
            assert (error["code"], error["message"]) == (-32603, "two is not available"), method
            assert asked(several, "one", method) == [], method
        for method, result in before.items():  # what was known of it stays
            assert client.ask(method)["result"] == result
        assert [one["uri"] for one in client.ask("resources/list")["result"]["resources"]] == [
            "one:x",
            "two:x",
        ]
        if era == "legacy":
            assert [one["taskId"] for one in client.ask("tasks/list")["result"]["tasks"]] == ["one+t1"]
        assert says(client.call("echo")) == "one:echo"


@ERAS
def test_an_upstream_that_hangs_gives_its_last_known_resources(tmp_path: Path, era: str) -> None:
    several = full(tmp_path, era)
    with several.stdio(era=era) as client:
        listed = client.ask("resources/list")["result"]["resources"]
        (hung,) = several.starts("two")
        os.kill(hung, signal.SIGSTOP)
        try:
            assert client.ask("resources/list")["result"]["resources"] == listed
            assert says(client.call("echo")) == "one:echo"
        finally:
            os.kill(hung, signal.SIGCONT)


@ERAS
def test_the_greeting_is_ours_with_what_all_can_do(tmp_path: Path, era: str) -> None:
    several = full(tmp_path, era, server={"name": "gate"})
    several.add("three", era=era, tools=["third"], capabilities={"experimental": {"x": {}}})
    with several.stdio(era=era) as client:
        result = json.loads(client.heard[0].raw)["result"]
    assert result["instructions"] == "[one] about one\n\n[two] about two"
    assert result["capabilities"]["tools"] == {"listChanged": True}
    for name in ("prompts", "resources", "logging", "completions"):
        assert name in result["capabilities"], name
    if era == "legacy":
        assert (result["serverInfo"]["name"], result["protocolVersion"]) == ("gate", "2025-11-25")
        greeted = asked(several, "one", "initialize")[0]["params"]
        assert greeted["clientInfo"] == {"name": "raw", "version": "1"}


def test_roots_that_changed_are_told_to_open_links_that_may_ask_for_them(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["a"]).add("two", {"ask": ["sampling"]}, tools=["b"])
    with several.stdio(capabilities=ABLE) as client:
        assert [says(client.call(name)) for name in ("a", "b")] == ["one:a", "two:b"]
        client.say(b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}')
        wait_until(lambda: asked(several, "one", "notifications/roots/list_changed"))
        assert [says(client.call(name)) for name in ("a", "b")] == ["one:a", "two:b"]
    assert asked(several, "two", "notifications/roots/list_changed") == []
    assert len(asked(several, "one", "notifications/initialized")) == 1


def test_what_an_upstream_says_of_its_own_comes_as_it_is(tmp_path: Path) -> None:
    lines = [
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info", "data":1.0}}',
        '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"two:x"}}',
        '{"jsonrpc":"2.0","method":"notifications/vendor/x","params":{"a":1e2}}',
    ]
    several = full(tmp_path, "legacy")
    with several.stdio() as client:
        client.call("two__say", json.dumps({"lines": lines}).encode())
        heard = [one.raw.decode() for one in client.heard]
        assert [line for line in heard if line in lines] == lines


def test_a_question_that_nobody_knows_has_an_id_of_ours_and_its_answer_finds_back(tmp_path: Path) -> None:
    several = full(tmp_path, "legacy")
    question = '{"jsonrpc":"2.0","id":"q","method":"vendor/ask","params":{"x": 1.0}}'
    with several.stdio(capabilities=ABLE) as client:
        client.call("two__say", json.dumps({"lines": [question]}).encode())
        raw = client.message(lambda raw: b"vendor/ask" in raw).raw
        token = json.loads(raw)["id"]
        assert token.startswith("penstock:")
        assert raw.decode() == question.replace('"q"', json.dumps(token))
        client.say(json.dumps({"jsonrpc": "2.0", "id": token, "result": {"for": "two"}}).encode())
        wait_until(lambda: any(one.get("result") == {"for": "two"} for one in several.heard("two")))
    (answer,) = [one for one in several.heard("two") if one.get("result") == {"for": "two"}]
    assert answer["id"] == "q"
    assert not any("for" in (one.get("result") or {}) for one in several.heard("one"))


def test_a_question_whose_id_is_too_long_to_be_remembered_is_refused(tmp_path: Path) -> None:
    several = full(tmp_path, "legacy")
    ids = ["x" * (limits.UPSTREAM_TOKEN_BYTES - 2), "y" * (limits.UPSTREAM_TOKEN_BYTES - 1)]
    lines = [json.dumps({"jsonrpc": "2.0", "id": one, "method": "vendor/ask", "params": {}}) for one in ids]
    with several.stdio(capabilities=ABLE) as client:
        client.call("two__say", json.dumps({"lines": lines}).encode())
        token = json.loads(client.message(lambda raw: b"vendor/ask" in raw).raw)["id"]
        client.say(json.dumps({"jsonrpc": "2.0", "id": token, "result": {}}).encode())
        wait_until(lambda: {one.get("id") for one in several.heard("two")} >= set(ids))
        assert len([one for one in client.heard if b"vendor/ask" in one.raw]) == 1
    answers = {one["id"]: one for one in several.heard("two") if one.get("id") in ids}
    assert "result" in answers[ids[0]]
    assert answers[ids[1]]["error"]["code"] == -32601


def test_a_question_of_an_upstream_that_is_lost_is_taken_back(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["a"]).add("two", tools=["ask_sampling"])
    with several.stdio(capabilities=ABLE) as client:
        client.request(b"5", "tools/call", b'{"name":"ask_sampling","arguments":{}}')
        question = json.loads(client.message(lambda raw: b"sampling/createMessage" in raw).raw)
        os.kill(several.starts("two")[0], signal.SIGKILL)
        gone = json.loads(client.message(lambda raw: b"notifications/cancelled" in raw).raw)
        assert gone["params"]["requestId"] == question["id"]
        assert json.loads(client.answer(b"5"))["error"]["code"] == -32603


def test_who_may_not_show_its_origin_does_not(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", {"show_origin": False}, tools=["ask_elicitation"]).add("two")
    with several.stdio(capabilities=ABLE) as client:
        client.request(b"5", "tools/call", b'{"name":"ask_elicitation","arguments":{}}')
        question = json.loads(client.message(lambda raw: b"elicitation/create" in raw).raw)
        assert question["params"]["message"] == "from one"
        client.say(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": {}}).encode())
        client.answer(b"5")


@ERAS
def test_a_notification_outside_mcp_goes_to_who_owns_it_or_to_nobody(tmp_path: Path, era: str) -> None:
    several = full(tmp_path, era)
    with several.stdio(era=era) as client:
        for method in ("two/told", "other/told"):
            client.say(json.dumps({"jsonrpc": "2.0", "method": method, "params": {}}).encode())
        assert [says(client.call(name)) for name in ("echo", "two__echo")] == ["one:echo", "two:echo"]
    assert len(asked(several, "two", "two/told")) == 1
    assert asked(several, "one", "two/told") == []
    assert not any(b"other/told" in line for name in ("one", "two") for line in several.lines(name))


def test_12_a_cancel_passes_what_its_owner_is_busy_with(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["hang"]).add("two", tools=["slow", "hang"])
    with several.stdio() as client:
        client.request(b"6", "tools/call", b'{"name":"slow","arguments":{"seconds":1}}')
        client.request(b"7", "tools/call", b'{"name":"two__hang","arguments":{}}')
        client.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}')
        assert says(json.loads(client.answer(b"6"))) == "two:slow"
        wait_until(lambda: asked(several, "two", "notifications/cancelled"))
        assert asked(several, "two", "notifications/cancelled")[0]["params"]["requestId"] == 7
    assert asked(several, "one", "notifications/cancelled") == []


def test_12_what_was_asked_of_all_is_cancelled_at_each_by_its_own_id(tmp_path: Path) -> None:
    several = full(tmp_path, "legacy")
    for name in ("one", "two"):
        spec = json.loads(several.servers[name]["args"][-1])
        several.servers[name]["args"][-1] = json.dumps({**spec, "silent": ["resources/list"]})
        several.servers[name]["timeouts"] = {"list": "60s"}
    with several.stdio() as client:
        assert says(client.call("echo")) == "one:echo"
        assert says(client.call("two__echo")) == "two:echo"
        client.request(b"9", "resources/list")
        wait_until(lambda: all(asked(several, name, "resources/list") for name in ("one", "two")))
        client.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}')
        for name in ("one", "two"):
            wait_until(lambda name=name: asked(several, name, "notifications/cancelled"))  # type: ignore[misc]
            ids = {json.dumps(one["id"]) for one in asked(several, name, "resources/list")}
            told = asked(several, name, "notifications/cancelled")
            assert {json.dumps(one["params"]["requestId"]) for one in told} <= ids
        assert says(client.call("echo")) == "one:echo"


def test_14_a_task_id_is_spliced_wherever_it_stands(tmp_path: Path) -> None:
    related = '"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}'
    lines = [
        '{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1","status":"working"}}',
        f'{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":1,{related}}}}}',
        f'{{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{{"messages":[],{related}}}}}',
    ]
    several = full(tmp_path, "legacy")
    with several.stdio(capabilities=ABLE) as client:
        client.call("two__say", json.dumps({"lines": lines}).encode())
        for word in (b"tasks/status", b"notifications/message", b"sampling/createMessage"):
            raw = client.message(lambda raw, word=word: word in raw).raw  # type: ignore[misc]
            assert b'"taskId":"two+t1"' in raw, raw
        question = json.loads(raw)
        meta = question["params"]["_meta"]
        client.say(
            json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": {"r": 1, "_meta": meta}}).encode()
        )
        wait_until(lambda: any((one.get("result") or {}).get("r") == 1 for one in several.heard("two")))
    (answer,) = [one for one in several.heard("two") if (one.get("result") or {}).get("r") == 1]
    assert answer["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"] == "t1"


REGION = {"region": {"type": "string", "x-mcp-header": "Region"}}
MARKED = json.dumps({"name": "marked", "inputSchema": {"type": "object", "properties": REGION}})


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_15_headers_of_the_newer_era_are_made_anew_for_the_right_upstream(tmp_path: Path, door: str) -> None:
    with (
        Upstream("streamable", tmp_path, "--tool", MARKED) as one,
        Upstream("streamable", tmp_path, "--tool", MARKED) as two,
    ):
        several = Several(tmp_path)
        several.add_entry("one", {"url": one.url}).add_entry("two", {"url": two.url})

        def check(client: Client) -> None:
            assert names(client) == ["marked", "two__marked"]
            assert "result" in client.call("two__marked", b'{"region":"eu"}')

        if door == "stdio":
            with several.stdio(era="modern") as client:
                check(client)
        else:
            more = {"Mcp-Param-Region": "eu"}  # what the client sends is compared with its body
            with several.listening() as port, over_http(port, "modern", more=more) as http:
                check(http)

        def calls(upstream: Upstream) -> list[dict[str, str]]:
            heads = [{key.lower(): value for key, value in head.items()} for head in upstream.heads()]
            return [head for head in heads if head.get("mcp-method") == "tools/call"]

        (head,) = calls(two)
        assert (head["mcp-name"], head["mcp-param-region"]) == ("marked", "eu")
        assert calls(one) == []
