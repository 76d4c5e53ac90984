"""Recordings used again: as a mock, as a regression test, and as a trial of other rules."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from test_recordings import RULES, write_rules

from doors import StdioDoor
from pairs import EVERY_TRANSPORT, Proxy, Upstream
from watched import PENSTOCK, Watched, penstock, rows, run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of a legacy client, with progress and a question of the upstream's."""
    work = tmp_path_factory.mktemp("again")
    path = work / "r.jsonl"
    with Watched(work, "stdio", "stdio", "--record", str(path)) as watched:
        door = watched.connect()
        door.ask("tools/list")
        door.call("echo", b'{"path":"/a"}')
        door.call("read_file", b'{"path":"/b"}')
        door.call("write_file")
        token = b"4711"
        door.say(
            b'{"jsonrpc":"2.0","id":4711,"method":"x/steps","params":{"count":3,"token":"\\"p1\\"","_meta":{"progressToken":"p1"}}}'
        )
        door.answer(token)
        watched.end()
    return path


def replay(recorded: Path, *options: str) -> StdioDoor:
    return StdioDoor([*PENSTOCK, "replay", str(recorded), *options], "legacy", subprocess.DEVNULL)


@pytest.mark.parametrize("kind", ["stdio", "streamable", "sse"])
def test_the_official_client_hears_the_recorded_answers(recorded: Path, tmp_path: Path, kind: str) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.sse import sse_client
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    async def talk(streams: Any) -> tuple[list[str], Any]:
        async with streams as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            tools = await session.list_tools()
            answer = await session.call_tool("read_file", {"path": "/b"})
            return [tool.name for tool in tools.tools], answer

    words = [*PENSTOCK[1:], "replay", str(recorded)]
    if kind == "stdio":
        streams: Any = stdio_client(StdioServerParameters(command=sys.executable, args=words))
        names, answer = asyncio.run(talk(streams))
    else:
        with Listening(tmp_path, recorded) as port:
            if kind == "sse":
                streams = sse_client(f"http://127.0.0.1:{port}/sse")
            else:
                streams = streamable_http_client(f"http://127.0.0.1:{port}/mcp")
            names, answer = asyncio.run(talk(streams))
    assert names == ["echo", "write_file", "read_file", "delete_file"]  # as the upstream listed them
    assert answer.content[0].text == "called"


class Listening:
    """A replay that serves HTTP."""

    def __init__(self, work: Path, recorded: Path) -> None:
        self.errors = work / "replay-errors"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*PENSTOCK, "replay", str(recorded), "--listen", "0"], stderr=errors
            )

    def __enter__(self) -> int:
        from pairs import said

        return int(said(self.errors, rb"Listening on http://\S+:(\d+)/mcp", self.process))

    def __exit__(self, *why: object) -> None:
        self.process.terminate()
        self.process.wait(10)


def test_a_modern_client_hears_a_recording_of_its_era(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Watched(tmp_path, "streamable", "streamable", "--record", str(path)) as watched:
        door = watched.connect("modern")
        first = door.call("echo", b'{"path":"/m"}')
        watched.end()
    with Listening(tmp_path, path) as port:
        again = Proxy.connect  # the same client as for a proxy
        door = again(type("Held", (), {"port": port})(), "streamable", "modern")
        door.begin()
        second = door.call("echo", b'{"path":"/m"}')
        door.close()
    assert second["result"] == first["result"]


def test_what_was_not_recorded_is_an_error_that_names_the_nearest(recorded: Path) -> None:
    said = b"".join(
        raw + b"\n"
        for raw in [
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}',
            b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/c"}}}',
        ]
    )
    done = run("replay", str(recorded), stdin=said)
    assert done.returncode == 3
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["error"] == {"code": -32603, "message": "No recorded answer for tools/call read_file"}
    assert b'"path":"/b"' in done.stderr
    assert b"differs in arguments.path" in done.stderr


def test_answers_are_given_again_unless_once_is_asked_for(recorded: Path) -> None:
    for options, wanted in ((), 5), (("--once",), 1):
        with replay(recorded, *options) as door:
            door.begin()
            answers = [door.call("echo", b'{"path":"/a"}') for _ in range(5)]
        assert sum("result" in answer for answer in answers) == wanted


def test_progress_comes_in_order_and_under_the_token_of_today(recorded: Path) -> None:
    with replay(recorded) as door:
        door.begin()
        door.say(
            b'{"jsonrpc":"2.0","id":9,"method":"x/steps","params":{"count":3,"token":"\\"p1\\"","_meta":{"progressToken":77}}}'
        )
        door.answer(b"9")
        heard = [json.loads(one.raw) for one in door.heard]
    steps = [one["params"] for one in heard if one.get("method") == "notifications/progress"]
    assert len(steps) == 3
    assert [one["progress"] for one in steps] == sorted(one["progress"] for one in steps)
    assert {one["progressToken"] for one in steps} == {77}
    assert heard[-1]["id"] == 9


def test_questions_of_the_upstream_are_asked_and_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    asked = b'{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{"messages":[]}}'
    with Watched(tmp_path, "stdio", "stdio", "--record", str(path)) as watched:
        door = watched.connect()
        door.begin_order("ask", b"50", raw=asked.decode())
        door.message(lambda raw: b"sampling/createMessage" in raw)
        door.say(b'{"jsonrpc":"2.0","id":"q1","result":{"content":"yes"}}')
        first = door.message(lambda raw: raw.startswith(b'{"jsonrpc":"2.0","id":50,')).raw
        watched.end()
    with replay(path) as door:
        door.begin()
        door.begin_order("ask", b"60", raw=asked.decode())
        question = door.message(lambda raw: b"sampling/createMessage" in raw)
        assert question.raw == asked
        assert not any(b'"id":60' in one.raw for one in door.heard)
        door.say(b'{"jsonrpc":"2.0","id":"q1","result":{"content":"yes"}}')
        answer = door.message(lambda raw: raw.startswith(b'{"jsonrpc":"2.0","id":60,')).raw
        assert answer == first.replace(b'"id":50', b'"id":60')


# --- verify -------------------------------------------------------------------------------------------------


def scripted(work: Path, *options: str) -> list[str]:
    return [
        "--",
        sys.executable,
        "-S",
        str(EVERY_TRANSPORT),
        "--transport",
        "stdio",
        "--record",
        str(work / "got"),
        *options,
    ]


def test_the_same_upstream_gives_the_same_answers(recorded: Path, tmp_path: Path) -> None:
    assert "different" not in penstock(
        "verify", str(recorded), "--calls", "all", *scripted(tmp_path)
    ).replace(" 0 different", "")
    report = penstock("verify", str(recorded), "--calls", "all", "--format", "junit", *scripted(tmp_path))
    suite = ElementTree.fromstring(report)
    assert suite.get("failures") == "0"
    assert int(suite.get("tests") or 0) >= 4
    assert b"write_file" not in (tmp_path / "got").read_bytes()  # it was denied, so it is never sent


def test_an_answer_that_differs_deep_inside_is_named(recorded: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.jsonl"
    was, now = b'"called" : "read_file"', b'"called" : "read_fil3"'
    text = recorded.read_bytes()
    assert was in text
    changed.write_bytes(text.replace(was, now))
    done = run("verify", str(changed), "--calls", "all", *scripted(tmp_path))
    assert done.returncode == 3
    assert b"result.called" in done.stdout
    ignored = run("verify", str(changed), "--calls", "all", "--ignore", "result.called", *scripted(tmp_path))
    assert ignored.returncode == 0
    out = tmp_path / "updated.jsonl"
    run("verify", str(changed), "--calls", "all", "--update", str(out), *scripted(tmp_path))
    assert penstock("verify", str(out), "--calls", "all", *scripted(tmp_path))
    report = json.loads(
        run("verify", str(changed), "--calls", "all", "--format", "json", *scripted(tmp_path)).stdout
    )
    assert [one["paths"] for one in report["results"] if one["state"] == "different"] == [["result.called"]]


def test_an_id_inside_a_result_counts_and_that_of_the_envelope_does_not(tmp_path: Path) -> None:
    from penstock.observe.verification import compared

    one = b'{"jsonrpc":"2.0","id":1,"result":{"item":{"id":5},"_meta":{"a":1}}}'
    assert compared(one, one.replace(b'"id":1', b'"id":2').replace(b'"a":1', b'"a":2')) == []
    assert compared(one, one.replace(b'"id":5', b'"id":6')) == ["result.item.id"]


def test_calls_that_may_write_are_never_sent_unasked(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Watched(tmp_path, "stdio", "stdio", "--record", str(path), deny="") as watched:
        door = watched.connect()
        door.ask("tools/list")
        door.call("write_file", b'{"path":"/a"}')
        door.call("read_file", b'{"path":"/a"}')
        watched.end()
    refused = run("verify", str(path), *scripted(tmp_path))
    assert refused.returncode == 2
    assert b"1 of the recorded calls are not annotated read-only" in refused.stderr
    assert not (tmp_path / "got").exists()
    assert "1 skipped" in penstock("verify", str(path), "--calls", "read-only", *scripted(tmp_path))
    got = (tmp_path / "got").read_bytes()
    assert b"write_file" not in got
    assert b'"name":"read_file"' in got


def test_an_upstream_at_a_url_is_asked_too(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Watched(tmp_path, "streamable", "streamable", "--record", str(path)) as watched:
        assert watched.connect().is_alive()
        watched.end()
    with Upstream("streamable", tmp_path) as upstream:
        assert "0 different" in penstock("verify", str(path), "--calls", "all", "--upstream", upstream.url)


# --- backtest -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session under rules of every sort that decides, with a limit that was reached."""
    work = tmp_path_factory.mktemp("ruled")
    path = work / "r.jsonl"
    limit = """    - id: slowly
      conditions: [{param_equals: {field: name, value: read_file}}]
      actions: [{rate_limit: {limit: 3, window: 60s}}]
"""
    rules = write_rules(work, RULES + limit)
    with Watched(work, "stdio", "stdio", "--record", str(path), "--config", rules, deny="") as watched:
        door = watched.connect()
        for name, where in [
            ("write_file", "/a"),
            ("echo", "/a.key"),
            ("echo", "/old"),
            ("echo", "/same"),
            ("echo", "/same"),
            *[("read_file", "/b")] * 5,
        ]:
            door.call(name, b'{"path":"%b"}' % where.encode())
        door.ask("tools/list")
        door.ask("resources/list")
        watched.end()
    return path


def test_the_rules_that_were_in_force_make_no_difference(ruled: Path) -> None:
    said = penstock("backtest", str(ruled), "--config", str(ruled.parent / "rules.yaml"))
    assert "0 newly blocked, 0 newly passed, 0 changed otherwise; 0 assumed" in said
    assert len(rows(ruled, "rule:slowly", "verdict:block")) == 2


def test_one_more_block_is_found_exactly_and_nothing_leaves_the_machine(ruled: Path, tmp_path: Path) -> None:
    more = """    - id: no-old
      priority: 200
      conditions: [{param_equals: {field: arguments.path, value: /old}}]
      actions: [{block: old}]
    - id: office-hours
      conditions: [{method_equals: never/called}]
      actions: [{block: no}]
"""
    new = tmp_path / "new.yaml"
    new.write_text((ruled.parent / "rules.yaml").read_text() + more)
    wanted = [row["i"] for row in rows(ruled, "verdict:change", "from:client")]
    trace = tmp_path / "trace"
    words = [*PENSTOCK, "backtest", str(ruled), "--config", str(new), "--format", "json"]
    if shutil.which("strace") is not None:
        words = [
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=socket,connect,execve,fork,vfork,clone,clone3",
            "-o",
            str(trace),
            *words,
        ]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    blocked = [one for one in report["differences"] if one["kind"] == "newly blocked"]
    assert [one["indexes"] for one in blocked] == [wanted]
    assert [one["rule"] for one in blocked] == ["no-old"]
    assert report["never_hit"] == ["tidy", "office-hours"]  # what was blocked first is not changed
    text = run("backtest", str(ruled), "--config", str(new)).stdout.decode()
    assert re.search(r"newly blocked  no-old  1  tools/call echo  first \d+, last \d+", text)
    if trace.exists():
        calls = trace.read_text()
        assert len(re.findall(r"execve\(", calls)) == 1  # its own
        assert not re.search(r"connect\(|AF_INET|fork\(|clone", calls), calls


def test_fewer_rules_pass_more_and_two_files_can_be_compared(ruled: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(
        (ruled.parent / "rules.yaml")
        .read_text()
        .replace("- id: no-keys", "- id: no-keys\n      enabled: false")
    )
    done = run("backtest", str(ruled), "--config", str(new))
    assert done.returncode == 3
    assert b"1 newly passed" in done.stdout
    against = run("backtest", str(ruled), "--config", str(new), "--against", str(ruled.parent / "rules.yaml"))
    assert b"1 newly passed" in against.stdout


def test_webhooks_are_not_asked_and_what_they_would_say_is_marked(ruled: Path, tmp_path: Path) -> None:
    more = """    - id: ask-somebody
      conditions: [{param_equals: {field: arguments.path, value: /same}}]
      actions: [{webhook: {url: "https://127.0.0.1:1/", wait: true, allow_private: true}}]
"""
    new = tmp_path / "new.yaml"
    new.write_text((ruled.parent / "rules.yaml").read_text() + more)
    allowed = run("backtest", str(ruled), "--config", str(new))
    assert b" assumed" in allowed.stdout
    assert b" 0 assumed" not in allowed.stdout
    blocked = run("backtest", str(ruled), "--config", str(new), "--webhook", "block")
    assert b"newly blocked  ask-somebody" in blocked.stdout
