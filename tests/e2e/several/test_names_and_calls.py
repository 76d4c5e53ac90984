"""Several upstreams as one: names, lists, calls, and what a client may not reach."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from doors import DEADLINE, StdioDoor
from several import PENSTOCK, Several, names, over_http, over_sse, says


def two(work: Path, **rest: object) -> Several:
    return Several(work, **rest).add("one", tools=["echo", "first"]).add("two", tools=["echo", "second"])


def test_02_a_second_server_renames_nothing(tmp_path: Path) -> None:
    for number, members in enumerate((["one"], ["one", "two"], ["two"])):
        work = tmp_path / str(number)
        work.mkdir()
        several = Several(work)
        for name in members:
            several.add(name, tools=["echo", name])
        with several.stdio() as client:
            found = names(client)
        assert (
            found
            == {
                1: {"one": ["echo", "one"], "two": ["echo", "two"]}[members[0]],
                2: ["echo", "one", "two__echo", "two"],
            }[len(members)]
        )


@pytest.mark.parametrize("door", ["stdio", "http", "sse"])
def test_01_every_tool_is_there_in_the_order_of_the_file_and_can_be_called(tmp_path: Path, door: str) -> None:
    several = two(tmp_path)

    def check(client: object) -> None:
        assert names(client) == ["echo", "first", "two__echo", "second"]  # type: ignore[arg-type]
        for name, said in {
            "echo": "one:echo",
            "first": "one:first",
            "two__echo": "two:echo",
            "second": "two:second",
        }.items():
            assert says(client.call(name)) == said  # type: ignore[attr-defined]

    if door == "stdio":
        with several.stdio() as client:
            check(client)
        return
    with several.listening() as port, (over_http if door == "http" else over_sse)(port) as client:
        check(client)


LONG = "get_confluence_page_descendants_with_comments"


@pytest.mark.parametrize("delays", [(0, 0.4), (0.4, 0)])
def test_03_the_worked_examples_in_any_order_of_start(tmp_path: Path, delays: tuple[float, float]) -> None:
    first, second = delays
    several = Several(tmp_path, names={"prefix": "always"})
    several.add("a", tools=["b__c"], delay=first).add("a__b", tools=["c"], delay=second)
    several.add("atlassian-cloud", tools=[LONG])
    with several.stdio() as client:
        found = names(client)
        assert found == ["a__b__c", "a__b__c_vetqbt", "atlassian-cloud__get_confluence_page_desce_aiuccc"]
        assert all(len(name) <= 49 for name in found)
        assert [says(client.call(name)) for name in found] == ["a:b__c", "a__b:c", f"atlassian-cloud:{LONG}"]


def test_04_a_bare_call_is_the_same_bytes_and_a_renamed_one_differs_in_its_name(tmp_path: Path) -> None:
    several = two(tmp_path)
    tail = b'","arguments":{"a": 1.0,"b":[ ]},"_meta":{"x":1e2}}'
    with several.stdio() as client:
        for name in (b"first", b"two__echo"):
            token = client.new_id()
            client.say(
                b'{"jsonrpc":"2.0" ,"id":%b,"method":"tools/call","params":{"name":"%b%b}'
                % (token, name, tail)
            )
            client.answer(token)
    assert (
        b'{"jsonrpc":"2.0" ,"id":1002,"method":"tools/call","params":{"name":"first%b}' % tail
        in several.lines("one")
    )
    assert (
        b'{"jsonrpc":"2.0" ,"id":1003,"method":"tools/call","params":{"name":"echo%b}' % tail
        in several.lines("two")
    )


def test_05_every_page_is_there_and_an_endless_list_is_its_upstreams_own_trouble(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["a", "b", "c"], page=1).add("two", endless="tools")
    with several.stdio() as client:
        assert names(client) == ["a", "b", "c"]
        assert says(client.call("c")) == "one:c"
    assert "two is down" in several.errors.read_text()


def test_06_what_is_hidden_is_unknown_and_no_byte_of_it_goes_up(tmp_path: Path) -> None:
    several = Several(tmp_path, tools={"deny": ["^two__echo$", "^secret$"]})
    several.add("one", {"tools": {"deny": ["^own$"]}}, tools=["echo", "own", "kept"])
    several.add("two", tools=["echo", "secret", "own"])
    with several.stdio() as client:
        assert names(client) == ["echo", "kept", "own"]
        assert says(client.call("own")) == "two:own"
        answers = [
            client.call(name)["error"] for name in ("two__echo", "secret", "nothing", "one__own", "two__own")
        ]
    words = [json.dumps(answer) for answer in answers]
    assert [answer["code"] for answer in answers] == [-32601] * 5
    assert all("Tool not found" in text for text in words)
    assert several.calls("one") == []
    assert several.calls("two") == ["own"]


def test_07_resources_go_to_who_lists_them_and_nobody_is_asked_for_others(tmp_path: Path) -> None:
    several = Several(tmp_path)
    several.add(
        "one", resources=[{"uri": "file:///a", "name": "a"}, {"uri": "both:x", "name": "x"}], tools=["link"]
    )
    several.add(
        "two",
        resources=[{"uri": "both:x", "name": "x"}, {"uri": "two:y", "name": "y"}],
        tools=["t"],
        templates=[{"uriTemplate": "find:///{name}{?q}", "name": "f"}],
    )
    with several.stdio() as client:
        listed = client.ask("resources/list")["result"]["resources"]
        assert [one["uri"] for one in listed] == ["file:///a", "both:x", "two:y"]
        templates = client.ask("resources/templates/list")["result"]["resourceTemplates"]
        assert [one["uriTemplate"] for one in templates] == ["find:///{name}{?q}"]

        def read(uri: str) -> object:
            answer = client.ask("resources/read", json.dumps({"uri": uri}).encode())
            return answer["result"]["contents"][0]["text"] if "result" in answer else answer["error"]["code"]

        assert [read(uri) for uri in ("file:///a", "both:x", "two:y", "find:///n?q=1")] == [
            "one",
            "one",
            "two",
            "two",
        ]
        assert read("secret:unknown") == -32002
        client.call("link", b'{"uri": "made:up"}')
        assert read("made:up") == "one"
    for name in ("one", "two"):
        assert b"secret:unknown" not in b"".join(several.lines(name))


def test_08_apps_and_their_uris_are_untouched(tmp_path: Path) -> None:
    tool = '{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://one/x"}}}'
    several = Several(tmp_path).add(
        "one", tools=[tool, "inner"], resources=[{"uri": "ui://one/x", "name": "x"}]
    )
    several.add("two", tools=["other"], resources=[])
    with several.stdio() as client:
        answer = json.dumps(client.ask("tools/list")).replace(" ", "")
        assert '"_meta":{"ui":{"resourceUri":"ui://one/x"}}' in answer
        read = client.ask("resources/read", b'{"uri":"ui://one/x"}')
        assert read["result"]["contents"][0]["text"] == "one"
        assert says(client.call("inner")) == "one:inner"


def test_09_completion_for_a_renamed_prompt_and_a_template(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", prompts=[{"name": "ask"}])
    several.add("two", prompts=[{"name": "ask"}], templates=[{"uriTemplate": "x:///{a}", "name": "x"}])
    with several.stdio() as client:
        listed = client.ask("prompts/list")["result"]["prompts"]
        assert [one["name"] for one in listed] == ["ask", "two__ask"]
        got = client.ask("prompts/get", b'{"name":"two__ask"}')
        assert got["result"]["description"] == "two:ask"
        ref = b'{"ref":{"type":"ref/prompt","name":"two__ask"},"argument":{"name":"a","value":"b"}}'
        values = client.ask("completion/complete", ref)["result"]["completion"]["values"]
        assert values == ["two", '{"name": "ask", "type": "ref/prompt"}']
        ref = b'{"ref":{"type":"ref/resource","uri":"x:///{a}"},"argument":{"name":"a","value":"b"}}'
        values = client.ask("completion/complete", ref)["result"]["completion"]["values"]
        assert values[0] == "two"


def test_18_a_batch_over_two_upstreams_is_answered_as_one_array(tmp_path: Path) -> None:
    several = two(tmp_path)
    with several.errors.open("ab") as errors:
        client = StdioDoor(several.words("--stdio"), "legacy", errors)
    try:
        client.begin(version="2025-03-26")
        parts = [
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":{}}}'
            % (number, name)
            for number, name in ((1, b"first"), (2, b"second"))
        ]
        client.say(b"[%b]" % b",".join(parts))
        found = json.loads(client.message(lambda raw: raw.lstrip()[:1] == b"[").raw)
        assert {one["id"]: says(one) for one in found} == {1: "one:first", 2: "two:second"}
    finally:
        client.close()


def test_the_tools_command_says_whose_each_tool_is_and_why_it_is_not_there(tmp_path: Path) -> None:
    several = Several(tmp_path, tools={"deny": ["^two__echo$"]})
    several.rest["lists"] = {"wait": "50ms"}  # for clients; who asks for all is shown all
    several.add("one", {"tools": {"deny": ["^own$"]}}, tools=["echo", "own"], delay=1)
    several.add("two", tools=["echo", "b"], delay=1)
    words = [*PENSTOCK, "tools", "--config", str(several.write()), "--format", "json"]
    done = subprocess.run(words, capture_output=True, timeout=DEADLINE, check=True)
    report = json.loads(done.stdout)
    assert [(row["name"], row["server"], row["own_name"]) for row in report["allowed"]] == [
        ("echo", "one", "echo"),
        ("b", "two", "b"),
    ]
    assert [(row["server"], row["own_name"], row["why"]) for row in report["denied"]] == [
        ("two", "echo", "--deny ^two__echo$"),
        ("one", "own", "--deny ^own$"),
    ]
    words = [*PENSTOCK, "tools", "--config", str(several.path), "--only", "two"]
    done = subprocess.run(words, capture_output=True, timeout=DEADLINE, check=True)
    assert done.stdout.decode().splitlines()[1].split()[0] == "echo"
