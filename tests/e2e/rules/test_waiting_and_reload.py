"""Messages that wait for the rules, rules that change meanwhile, and bytes that no rule touches."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from scripted_http import ScriptedHttp

from doors import StdioDoor
from gate import DEADLINE, SCRIPTED, children_of, is_running, wait_until
from pairs import Proxy
from ruled import WAYS, Hook, Ruled, rule, tool


def asks(hook: Hook, method: str = "v/wait", **more: Any) -> dict[str, Any]:
    """A rule that waits for as long as the hook wants."""
    return rule("ask", [{"method_equals": method}], hook.action(wait=True, timeout="60s"), **more)


SCRIPTED_COMMAND = [sys.executable, "-S", str(SCRIPTED)]
PATIENT = {"timeout": "60s"}
BATCH = "2025-03-26"

ODD = [
    b'{ "a" : 1.0, "b":1e400,"c":"\\u65e5\\/", "n":123456789012345678, "d":[ ],"e":{} ,"f":{"e":null,"e":1}}',
    b'{"z":-0.0,\t"\\u0061":"a","name":"x/y"}',
]


@pytest.mark.parametrize("way", WAYS)
def test_with_a_thousand_rules_that_do_not_hold_no_byte_is_changed(way: str, tmp_path: Path) -> None:
    rules = []
    for number in range(1000):
        where: list[Any] = [{"method_equals": f"v/none{number}"}]
        if number % 2:
            where = [
                {"method_in": ["v/odd", "tools/call"]},
                {"param_equals": {"field": "q", "value": number}},
            ]
        rules.append(rule(f"r{number}", where, {"block": "x"}, direction="both"))
    with Ruled(way, tmp_path, {"rules": rules}) as ruled:
        for params in ODD:
            token = ruled.client.new_id()
            ruled.client.request(token, "v/odd", params)
            answer = ruled.client.answer(token)
            assert answer == b'{"jsonrpc":"2.0","id":%b,"result":{"heard":"v/odd"}}' % token
            sent = ruled.client.params(params)
            assert [line for line in ruled.reached("v/odd") if line.endswith(b'"params":%b}' % sent)]
        result = '{"jsonrpc" : "2.0", "result":{ "x" : 1.00, "y":"\\u65e5"} ,"id":<id>}'
        token = ruled.client.new_id()
        ruled.client.begin_order("say", token, raw=result + "\n", mute=True)
        assert ruled.client.answer(token) == result.replace("<id>", token.decode()).encode()


@pytest.mark.parametrize("way", WAYS)
def test_a_request_that_waits_and_its_answer_stay_under_the_rules_it_came_under(
    way: str, tmp_path: Path
) -> None:
    old = rule("old", [{"method_equals": "v/wait"}], {"set_result": {"field": "by", "value": "old"}})
    new = rule("new", [{"method_equals": "v/wait"}], {"set_result": {"field": "by", "value": "new"}})
    with Hook() as hook, Ruled(way, tmp_path, {"rules": [asks(hook), old], "chain": PATIENT}) as ruled:
        hook.gate.clear()
        token = ruled.client.new_id()
        ruled.client.request(token, "v/wait")
        hook.wait()
        ruled.reload({"rules": [new]})
        assert ruled.client.ask("v/wait")["result"]["by"] == "new"
        hook.gate.set()
        assert json.loads(ruled.client.answer(token))["result"]["by"] == "old"


@pytest.mark.parametrize("way", ["stdio", "passthrough"])
def test_rules_come_in_force_by_renaming_by_writing_and_where_there_were_none(
    way: str, tmp_path: Path
) -> None:
    with Ruled(way, tmp_path, None) as ruled:
        assert ruled.client.call("echo")["result"]
        held = ruled.client.new_id()
        ruled.client.begin_order("hold", held, mark="m")
        ruled.wait_reached("x/hold")
        masks = rule("mask", [{"method_equals": "x/hold"}], {"set_result": {"value": {"by": "new"}}})
        ruled.write({"rules": [rule("no", tool("echo"), {"block": "one"}), masks]}, is_renamed=True)
        ruled.says("the new rules are in force")
        assert ruled.client.call("echo")["error"]["message"] == "one"
        ruled.client.order("release", mark="m")
        assert json.loads(ruled.client.answer(held))["result"] == {"released": True}
        ruled.write({"rules": [rule("no", tool("echo"), {"block": "two"})]})
        ruled.says("the new rules are in force", 2)
        assert ruled.client.call("echo")["error"]["message"] == "two"
        ruled.reload(None)
        assert ruled.client.call("echo")["result"]


@pytest.mark.parametrize("more", [{}, {"stdio": True}], ids=["found out", "said"])
def test_a_reload_over_stdio_needs_no_restart(more: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(json.dumps({**more, "interceptor": {"rules": []}}))
    command = [sys.executable, "-m", "penstock", "--config", str(file), "--", *SCRIPTED_COMMAND]
    errors = tmp_path / "stderr"
    with errors.open("wb") as stderr:
        door = StdioDoor(command, "legacy", stderr)
    try:
        door.begin("2025-11-25")
        rules = [rule("no", [{"method_equals": "v/no"}], {"block": "no"})]
        file.write_text(json.dumps({"interceptor": {"rules": rules}}))
        door.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "the new rules are in force" in errors.read_text())
        assert "needs a restart" not in errors.read_text()
        assert door.ask("v/no")["error"]["message"] == "no"
    finally:
        door.close()


def test_120_a_broken_file_changes_nothing_and_says_where_it_is_wrong(tmp_path: Path) -> None:
    with Ruled("stdio", tmp_path, {"rules": [rule("no", tool("echo"), {"block": "old"})]}) as ruled:
        ruled.file.write_text("interceptor:\n  rules:\n    - id: x\n      actions: [{blok: now}]\n")
        ruled.hang_up()
        ruled.says("the rules stay as they are")
        assert f"{ruled.file}:4" in ruled.stderr
        assert 'did you mean "block"' in ruled.stderr
        assert ruled.client.call("echo")["error"]["message"] == "old"
        ruled.file.write_text("interceptor: {rules: [")
        ruled.hang_up()
        ruled.says("the rules stay as they are", 2)
        ruled.file.unlink()
        ruled.hang_up()
        ruled.says("the rules stay as they are", 3)
        assert ruled.client.call("echo")["error"]["message"] == "old"
        (ruled.work / "other.yaml").write_text(json.dumps({"interceptor": {"rules": []}}))
        ruled.file.symlink_to(ruled.work / "other.yaml")
        ruled.says("the new rules are in force")
        assert ruled.client.call("echo")["result"]


def cancel(token: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % token


@pytest.mark.parametrize("way", ["stdio", "passthrough"])
def test_a_request_that_is_cancelled_while_it_waits_never_goes_upstream(way: str, tmp_path: Path) -> None:
    with Hook() as hook, Ruled(way, tmp_path, {"rules": [asks(hook)], "chain": PATIENT}) as ruled:
        hook.gate.clear()
        token = ruled.client.new_id()
        ruled.client.request(token, "v/wait", b'{"n":"cancelled"}')
        hook.wait()
        ruled.client.say(cancel(token))
        assert ruled.is_settled()
        hook.gate.set()
        assert ruled.client.ask("v/wait", b'{"n":"other"}')["result"]
        assert not ruled.reached('"cancelled"')
        assert not ruled.reached("notifications/cancelled")
        answers = [heard.raw for heard in ruled.client.heard if b'"id":%b,' % token in heard.raw]
        if way == "stdio":
            assert not answers  # nobody wants one
        else:
            assert b"cancelled" in answers[0]  # whoever posted is not left hanging


@pytest.mark.parametrize("way", ["modern", "passthrough"])
def test_a_modern_client_that_hangs_up_while_it_waits_has_cancelled(way: str, tmp_path: Path) -> None:
    with Hook() as hook, Ruled(way, tmp_path, {"rules": [asks(hook)], "chain": PATIENT}) as ruled:
        assert ruled.proxy is not None
        client = ruled.proxy.connect("streamable", "modern")
        hook.gate.clear()
        client.request(b"77", "v/wait", b'{"n":"cancelled"}')
        hook.wait()
        client.hang_up(b"77")
        assert client.ask("x/nothing")["result"]
        hook.gate.set()
        assert client.ask("v/wait", b'{"n":"other"}')["result"]
        assert not ruled.reached('"cancelled"')
        client.close()


@pytest.mark.parametrize("way", ["modern", "passthrough"])
def test_a_modern_client_cannot_cancel_what_another_one_waits_for(way: str, tmp_path: Path) -> None:
    with Hook() as hook, Ruled(way, tmp_path, {"rules": [asks(hook)], "chain": PATIENT}) as ruled:
        assert ruled.proxy is not None
        with (
            ruled.proxy.connect("streamable", "modern") as client,
            ruled.proxy.connect("streamable", "modern") as other,
        ):
            hook.gate.clear()
            client.request(b"77", "v/wait", b'{"n":"mine"}')
            hook.wait()
            other.say(cancel(b"77"))
            assert other.ask("x/nothing")["result"]
            hook.gate.set()
            assert json.loads(client.answer(b"77"))["result"]


def test_a_client_that_leaves_while_its_request_waits_still_has_it_sent(tmp_path: Path) -> None:
    with Ruled("stdio", tmp_path, {"rules": [rule("d", tool("echo"), {"delay": "200ms"})]}) as ruled:
        token = ruled.client.new_id()
        ruled.client.request(token, "tools/call", b'{"name":"echo","arguments":{"n":"last"}}')
        ruled.process.stdin.close()  # type: ignore[union-attr]
        assert json.loads(ruled.client.answer(token))["result"]["called"] == "echo"
        assert ruled.process.wait(DEADLINE) == 0


def test_an_answer_that_waits_for_the_rules_still_reaches_a_client_that_says_no_more(tmp_path: Path) -> None:
    waits = rule("d", tool("echo"), {"delay": "200ms"}, direction="upstream")
    with Ruled("stdio", tmp_path, {"rules": [waits]}) as ruled:
        token = ruled.client.new_id()
        ruled.client.request(token, "tools/call", b'{"name":"echo","arguments":{}}')
        ruled.wait_reached("tools/call")
        ruled.process.stdin.close()  # type: ignore[union-attr]
        assert json.loads(ruled.client.answer(token))["result"]["called"] == "echo"


@pytest.mark.parametrize("way", ["passthrough", "legacy"])
def test_when_a_session_ends_whoever_waits_in_it_is_answered(way: str, tmp_path: Path) -> None:
    with (
        Hook() as hook,
        Ruled(
            "passthrough" if way == "passthrough" else "modern",
            tmp_path,
            {"rules": [asks(hook)], "chain": PATIENT},
        ) as ruled,
    ):
        assert ruled.proxy is not None
        client = ruled.client
        if way == "legacy":
            client = ruled.proxy.connect("streamable", "legacy")
            client.begin()
        hook.gate.clear()
        client.request(b"77", "v/wait", b'{"n":"late"}')
        hook.wait()
        assert client.whole("DELETE", "/mcp", client.headers()).status == 200
        post = client.posts[b"77"]
        client.until(lambda: post.is_over)
        hook.gate.set()
        answer = ruled.connect().ask("x/nothing")
        assert "result" in answer, answer
        assert not ruled.reached('"late"')


@pytest.mark.parametrize("way", WAYS)
def test_when_the_upstream_dies_whoever_waits_for_the_rules_hears_it(way: str, tmp_path: Path) -> None:
    with Hook() as hook, Ruled(way, tmp_path, {"rules": [asks(hook)], "chain": PATIENT}) as ruled:
        hook.gate.clear()
        token = ruled.client.new_id()
        ruled.client.request(token, "v/wait", b'{"n":"late"}')
        hook.wait()
        if way == "passthrough":
            ruled.upstream.stop()
        else:
            ruled.client.begin_order("die", ruled.client.new_id(), status=3)
        if way == "modern":
            # Others may still be served by a new upstream, so what waits goes on to its own end.
            ruled.client.until(lambda: len(ruled.client.heard) > 1)
            hook.gate.set()
        assert "error" in json.loads(ruled.client.answer(token))
        if way in ("stdio", "passthrough"):
            assert ruled.process.wait(DEADLINE) == 1
        else:  # each session has a child of its own, or they share one that can be started anew
            assert ruled.process.poll() is None
        assert not ruled.reached('"late"')


def answer_batches(as_events: bool) -> Any:
    """An upstream of the time when there were batches."""

    def answer(request: Any, line: Any) -> None:
        if request.rpc == "initialize":
            result = b'{"protocolVersion":"2025-03-26","capabilities":{"tools":{}}}'
            line.json(request.result(result), "Mcp-Session-Id: s1")
        elif request.rpc == "tools/list":
            line.json(request.result(b'{"tools":[]}'))
        elif request.body.startswith(b"["):
            asked = [one for one in json.loads(request.body) if "id" in one]
            parts = [
                b'{"jsonrpc":"2.0","id":%d,"result":{"called" : "%b"}}' % (one["id"], name.encode())
                for one in asked
                if (name := one["params"]["name"])
            ]
            if as_events:
                line.events(*(b"data: " + part + b"\n\n" for part in parts))
            else:
                line.json(b"[%b]" % b",".join(parts))
        elif request.method == "GET":
            line.reply(405)
        else:
            line.accepted()

    return answer


@pytest.mark.parametrize("way", ["stdio", "passthrough with JSON", "passthrough with events"])
def test_rules_look_at_every_message_of_a_batch(way: str, tmp_path: Path) -> None:
    shown = {"set_result": {"field": "called", "value": 0}}
    rules = [
        rule("no", tool("write_file"), {"block": "not in a batch either"}),
        rule("slow", tool("read_file"), {"delay": "50ms"}),
        rule("mask", [*tool("echo"), {"result_exists": "called"}], shown),
        rule("gone", [{"method_equals": "notifications/gone"}], {"block": "x"}),
    ]
    calls = [
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":{"k" : 1.0}}}'
        % (number, name)
        for number, name in enumerate((b"echo", b"write_file", b"read_file"), 71)
    ]
    batch = b"[%b]" % b",".join([*calls, b'{"jsonrpc":"2.0","method":"notifications/gone"}'])
    if way == "stdio":
        with Ruled(way, tmp_path, {"rules": rules}, version=BATCH) as ruled:
            ruled.client.say(batch)
            found = batch_answers(ruled.client)
            assert ruled.is_settled()
            reached = b"\n".join(ruled.reached())
    else:
        file = tmp_path / "rules.json"
        file.write_text(json.dumps({"interceptor": {"rules": rules}}))
        with ScriptedHttp(answer_batches(way.endswith("events"))) as upstream:
            words = ["--upstream", upstream.url]
            with Proxy(tmp_path, words, "--config", str(file)) as proxy:
                client = proxy.connect("streamable", "legacy", listens=False)
                client.begin(BATCH)
                client.post(batch)
                found = batch_answers(client)
                client.close()
            reached = b"\n".join(one.body for one in upstream.posted())
    assert found[71]["result"]["called"] == 0
    assert found[72]["error"]["message"] == "not in a batch either"
    assert found[73]["result"]["called"] == "read_file"
    assert b"write_file" not in reached
    assert b"notifications/gone" not in reached
    assert calls[0] in reached


def batch_answers(client: Any) -> dict[int, Any]:
    """The answers to the batch, by id, in whatever form they come."""
    found: dict[int, Any] = {}

    def all_there() -> bool:
        for heard in client.heard:
            message = json.loads(heard.raw)
            for part in message if isinstance(message, list) else [message]:
                found[part.get("id")] = part
        return {71, 72, 73} <= set(found)

    client.until(all_there)
    return found


def test_a_script_that_runs_when_everything_ends_does_not_outlive_us(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text("import time\nopen('started', 'w').close()\ntime.sleep(300)\n")
    waits = {"run_script": {"command": ["python3", str(script)], "timeout": "60s", "cwd": str(tmp_path)}}
    with Ruled(
        "stdio", tmp_path, {"rules": [rule("s", tool("echo"), waits)], "chain": {"timeout": "61s"}}
    ) as ruled:
        token = ruled.client.new_id()
        ruled.client.request(token, "tools/call", b'{"name":"echo","arguments":{}}')
        assert wait_until(lambda: (tmp_path / "started").exists())
        children = children_of(ruled.process.pid)
        assert len(children) >= 2
        ruled.process.send_signal(signal.SIGTERM)
        assert "error" in json.loads(ruled.client.answer(token))
        ruled.process.wait(DEADLINE)
        assert wait_until(lambda: not any(is_running(child) for child in children))
