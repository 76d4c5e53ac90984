"""Tools that are found and not listed: a wrapped call is no other than a direct one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doors import Client
from scripts_by_name import load_script
from several import Several, names, over_http, says


def tool(name: str, description: str, **more: Any) -> str:
    schema = {"type": "object", "properties": {}}
    return json.dumps({"name": name, "description": description, "inputSchema": schema, **more})


READS = {"annotations": {"readOnlyHint": True}}
RULE = {
    "id": "no-writes",
    "conditions": [{"param_in": {"field": "name", "values": ["write_note"]}}],
    "actions": [{"block": "not today"}],
}


def searching(work: Path, **rest: Any) -> Several:
    several = Several(work, search={"from_tokens": 10, "keep": ["^kept$"]}, **rest)
    several.add(
        "one",
        tools=[
            tool("read_note", "Gives the text of a note", **READS),
            tool("write_note", "Replaces the text of a note"),
            tool("kept", "Is always listed"),
            tool("call_tool", "Has the name of one of ours"),
        ],
    )
    apps = {"_meta": {"ui": {"visibility": ["app"]}}}
    return several.add(
        "two", tools=[tool("weather", "Forecast for a place", **READS), tool("app", "For apps", **apps)]
    )


def found(client: Client, query: str) -> list[str]:
    answer = client.call("find_tools", json.dumps({"query": query}).encode())["result"]
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    return [one["name"] for one in answer["structuredContent"]["tools"]]


def wrapped(client: Client, name: str, how: str = "call_tool") -> Any:
    return client.call(how, json.dumps({"name": name, "arguments": {"a": 1}}).encode())


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_32_what_is_not_listed_is_found_and_called(tmp_path: Path, door: str) -> None:
    several = searching(tmp_path, tools={"deny": ["^secret"]})

    def check(client: Client) -> None:
        assert names(client) == ["find_tools", "call_read_only_tool", "call_tool", "kept", "app"]
        assert found(client, "read my notes")[0] == "read_note"
        assert found(client, "forecast")[0] == "weather"
        assert "app" not in found(client, "apps")
        assert says(wrapped(client, "weather", "call_read_only_tool")) == "two:weather"
        assert says(wrapped(client, "write_note")) == "one:write_note"
        assert says(wrapped(client, "one__call_tool")) == "one:call_tool"
        assert says(client.call("read_note")) == "one:read_note"
        assert wrapped(client, "write_note", "call_read_only_tool")["error"]["code"] == -32602
        assert wrapped(client, "app")["error"]["code"] == -32602
        assert wrapped(client, "call_tool")["error"]["code"] == -32602
        assert wrapped(client, "nothing")["error"] == client.call("nothing")["error"]
        assert several.calls("one") == ["write_note", "call_tool", "read_note"]
        sent = next(one for one in several.heard("two") if one["method"] == "tools/call")
        assert sent["params"] == {"name": "weather", "arguments": {"a": 1}}

    if door == "stdio":
        with several.stdio() as client:
            check(client)
    else:
        with several.listening() as port, over_http(port) as http:
            check(http)


def test_32_rules_see_the_call_that_is_meant(tmp_path: Path) -> None:
    several = searching(tmp_path, interceptor={"rules": [RULE]})
    with several.stdio() as client:
        direct, through = client.call("write_note"), wrapped(client, "write_note")
        assert "not today" in json.dumps(direct)
        assert {**through, "id": 0} == {**direct, "id": 0}
    assert several.calls("one") == []


def test_a_short_list_is_shown_whole(tmp_path: Path) -> None:
    several = Several(tmp_path, search={"from_tokens": 100000}).add("one").add("two", tools=["b"])
    with several.stdio() as client:
        assert names(client) == ["echo", "b"]
        assert client.call("find_tools")["error"]["code"] == -32601


def test_32_the_recall_is_what_we_say() -> None:
    script = load_script("eval_search")
    tools, questions = (
        json.loads((script.DATA / f"{name}.json").read_text()) for name in ("tools", "questions")
    )
    assert script.recall(tools, questions, 5)[0] >= script.LEAST
