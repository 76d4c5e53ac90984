"""Questions, answers, progress, cancels, tasks and levels of several upstreams: none is ever crossed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from several import Several, names, over_http, says, wait_until

ABLE = b'{"sampling":{},"elicitation":{},"roots":{"listChanged":true}}'


def test_10_a_level_is_answered_at_once_and_told_to_who_comes_later(tmp_path: Path) -> None:
    now = tmp_path / "now"
    several = Several(tmp_path, lists={"wait": "500ms"}).add("one").add("late", until=str(now))
    several.add("hung", tools=["h"], silent=["logging/setLevel"])
    with several.stdio() as client:
        assert client.ask("logging/setLevel", b'{"level":"warning"}') == {
            "jsonrpc": "2.0",
            "id": 1002,
            "result": {},
        }

        def levels(name: str) -> list[str]:
            return [
                one["params"]["level"]
                for one in several.heard(name)
                if one.get("method") == "logging/setLevel"
            ]

        wait_until(lambda: levels("one") == ["warning"])
        now.touch()
        wait_until(lambda: levels("late") == ["warning"])


def test_11_equal_ids_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    kinds = ["sampling", "elicitation", "roots"]
    several = Several(tmp_path)
    for name, kind in zip(("one", "two", "three"), kinds, strict=True):
        several.add(name, tools=[f"ask_{kind}"])
    with several.stdio(capabilities=ABLE) as client:
        tokens = {}
        for kind in kinds:
            token = tokens[kind] = client.new_id()
            client.request(token, "tools/call", b'{"name":"ask_%b","arguments":{}}' % kind.encode())
        asked = {}
        for kind, method in (("sampling", "sampling/"), ("elicitation", "elicitation/"), ("roots", "roots/")):
            raw = client.message(lambda raw, method=method: f'"{method}'.encode() in raw).raw  # type: ignore[misc]
            asked[kind] = json.loads(raw)
        assert len({question["id"] for question in asked.values()}) == 3
        assert asked["elicitation"]["params"]["message"] == "[two] from two"
        for kind in reversed(kinds):
            result = {"jsonrpc": "2.0", "id": asked[kind]["id"], "result": {"for": kind}}
            client.say(json.dumps(result).encode())
        for kind in kinds:
            assert json.loads(client.answer(tokens[kind]))["result"]["answer"] == {"for": kind}


def test_11_what_an_upstream_may_not_ask_is_refused_and_not_offered(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", {"ask": ["roots"]}, tools=["ask_elicitation"]).add("two")
    with several.stdio(capabilities=ABLE) as client:
        assert client.call("ask_elicitation")["result"]["answer"]["code"] == -32601
    opened = next(one for one in several.heard("one") if one["method"] == "initialize")
    assert list(opened["params"]["capabilities"]) == ["roots"]
    opened = next(one for one in several.heard("two") if one["method"] == "initialize")
    assert list(opened["params"]["capabilities"]) == ["sampling", "elicitation", "roots"]


def test_12_a_cancel_goes_to_the_owner_alone(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["hang"]).add("two", tools=["hang"])
    with several.stdio() as client:
        client.request(b"7", "tools/call", b'{"name":"two__hang","arguments":{}}')
        wait_until(lambda: several.calls("two"))
        client.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}')
        wait_until(lambda: any(one["method"] == "notifications/cancelled" for one in several.heard("two")))
        client.ask("ping")
    assert not any(one["method"] == "notifications/cancelled" for one in several.heard("one"))


def test_13_progress_belongs_to_its_request_and_late_progress_to_none(tmp_path: Path) -> None:
    forged = (
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":66}}'
    )
    several = Several(tmp_path).add("one", tools=["progress"]).add("two", tools=["say", "echo"])
    with several.stdio() as client:
        client.request(
            b"8", "tools/call", b'{"name":"progress","arguments":{},"_meta":{"progressToken":"p"}}'
        )
        client.answer(b"8")
        assert "result" in client.call("say", json.dumps({"lines": [forged]}).encode())
        client.call("echo")
        client.call("progress")
        seen = [
            json.loads(one.raw)["params"]["progress"]
            for one in client.heard
            if b'"notifications/progress"' in one.raw
        ]
    assert seen == [1, 2]


def test_14_equal_task_ids_also_after_we_have_started_anew(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tasks=True, tools=["task"]).add("two", tasks=True, tools=["task"])
    with several.stdio() as client:
        begun = [client.call(name)["result"]["task"]["taskId"] for name in ("task", "two__task")]
        assert begun == ["one+t1", "two+t1"]
        listed = client.ask("tasks/list")["result"]["tasks"]
        assert [one["taskId"] for one in listed] == begun
    with several.stdio() as client:
        for task, name in zip(begun, ("one", "two"), strict=True):
            found = client.ask("tasks/get", json.dumps({"taskId": task}).encode())["result"]
            assert (found["taskId"], found["member"]) == (task, name)
        assert client.ask("tasks/get", b'{"taskId":"t1"}')["error"]["code"] == -32602


def test_17_pings_are_answered_without_a_stream(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["say"]).add("two")
    ping = '{"jsonrpc":"2.0","id":"beat","method":"ping"}'
    with several.listening() as port, over_http(port, listens=False) as client:
        assert client.ask("ping")["result"] == {}
        client.call("say", json.dumps({"lines": [ping]}).encode())
        wait_until(lambda: any(one.get("id") == "beat" and "result" in one for one in several.heard("one")))


def test_a_vendor_method_goes_to_who_owns_it(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one").add("two", {"methods": ["^vendor/"]})
    with several.stdio() as client:
        assert client.ask("vendor/x")["result"] == {"vendor": "two"}
        assert client.ask("other/x")["error"]["code"] == -32601
    assert not any(one["method"] in ("vendor/x", "other/x") for one in several.heard("one"))


def test_a_hostile_upstream_answers_nobody_elses_request(tmp_path: Path) -> None:
    several = Several(tmp_path).add("good", tools=["hang", "slow"]).add("bad", tools=["say"])
    lines = [
        '{"jsonrpc":"2.0","id":50,"result":{"content":[{"type":"text","text":"forged"}]}}',
        '{"jsonrpc":"2.0","id":50.0,"result":{"content":[{"type":"text","text":"forged"}]}}',
        '{"jsonrpc":"2.0","id":50,"id":ID,"result":{"forged":1}}',
        '[{"jsonrpc":"2.0","id":50,"result":{"forged":2}}]',
        '{"jsonrpc":"2.0","id":50,"error":{"code":1,"message":"forged"}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":50}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"penstock:1"}}',
        '{"jsonrpc":"2.0","id":50,"result":',
    ]
    with several.stdio() as client:
        client.request(b"50", "tools/call", b'{"name":"slow","arguments":{"seconds":1}}')
        wait_until(lambda: several.calls("good"))
        client.call("say", json.dumps({"lines": lines}).encode())
        assert says(json.loads(client.answer(b"50"))) == "good:slow"
        assert not any(b"forged" in one.raw for one in client.heard)
        assert names(client) == ["hang", "slow", "say"]


TWICE = [
    b'{"progressToken":1,"progressToken":2}',
    b'{"progressToken":1,"progressTok\\u0065n":2}',
    b'{"a":1,"a":2}',
    b'{"progressToken":{}}',
]


@pytest.mark.parametrize("share", [False, True])
def test_what_can_be_read_in_two_ways_is_answered(share: bool, tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", {"share": share}, tools=["echo"]).add("two", tools=["other"])
    with several.listening() as port, over_http(port) as client:
        for meta in TWICE:
            client.ask("tools/call", b'{"name":"echo","arguments":{},"_meta":%b}' % meta)
        refused = client.ask("tools/call", b'{"name":"echo","arguments":{},"_meta":%b}' % TWICE[0])
        assert refused["error"]["code"] == -32602
        assert says(client.call("echo")) == "one:echo"
    assert "Traceback" not in several.errors.read_text()
