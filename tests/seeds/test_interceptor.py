"""The specification of an interceptor for MCP messages, row by row.

One proxy has all the rules; every row has methods of its own, so that no rule speaks about another's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_large_arrivals as large
from seed_rows import ROWS, row

import arrivals
from fleet import Instances, flood, limit_rule, shared
from gate import Gate, wait_until
from pairs import Upstream
from redis_server import RedisServer, needs_redis
from ruled import PLUGINS, Hook, Ruled, rule, tool

PARAMS = {"n": 7, "text": "a/b.key", "none": None, "list": [], "deep": {"x": "1"}}

CONDITIONS: dict[str, tuple[Any, Any]] = {
    # name: what it is given so that it holds, and so that it does not
    "method_equals": ("v/method_equals/yes", "v/method_equals"),
    "method_starts_with": ("v/method_st", "w/"),
    "method_ends_with": ("/yes", "/yes"),
    "method_matches": ("^v/.*yes$", "^yes"),
    "method_in": (["a", "v/method_in/yes"], ["a"]),
    "param_exists": ("deep.x", "deep.y"),
    "param_equals": ({"field": "n", "value": 7}, {"field": "n", "value": 8}),
    "param_matches": ({"field": "text", "pattern": r"\.key$"}, {"field": "text", "pattern": "^key"}),
    "param_greater_than": ({"field": "n", "value": 6.5}, {"field": "n", "value": 7}),
    "param_less_than": ({"field": "n", "value": 8}, {"field": "n", "value": 7}),
    "param_is_null": ("none", "missing"),
    "param_is_array": ("list", "text"),
    "param_in": ({"field": "n", "values": [1, 7]}, {"field": "n", "values": [1, 8]}),
    "result_exists": ("heard", "missing"),
    "result_equals": ({"field": "heard", "value": "v/result_equals/yes"}, {"field": "heard", "value": "x"}),
    "session_age_greater_than": ("1ms", "1h"),
    "all": (
        [{"param_exists": "n"}, {"param_exists": "text"}],
        [{"param_exists": "n"}, {"param_exists": "m"}],
    ),
    "any": ([{"param_exists": "n"}, {"param_exists": "m"}], [{"param_exists": "m"}]),
    "not": ({"param_exists": "m"}, {"param_exists": "n"}),
}


def on(method: str, *actions: Any, **more: Any) -> dict[str, Any]:
    """A rule about one method of the row's own."""
    return rule(f"on-{method}", [{"method_equals": f"v/{method}"}], *actions, **more)


def rules(hook: Hook, shadow: list[str], script: list[str]) -> list[dict[str, Any]]:
    made = []
    for name, cases in CONDITIONS.items():
        for word, given in zip(("yes", "no"), cases, strict=True):
            where = [{"method_equals": f"v/{name}/{word}"}, {name: given}]
            made.append(rule(f"{name}-{word}", where, {"block": f"{name} holds"}))
    return [
        *made,
        on("allow", "allow", priority=9),
        rule("never", [{"method_equals": "v/allow"}], {"block": "never"}, priority=8),
        on("block", {"block": "no"}, name="A block", metadata={"owner": "tests"}),
        on("delay", {"delay": "300ms"}),
        on("set_param", {"set_param": {"field": "a", "value": "${method}"}}),
        on("remove_param", {"remove_param": "gone"}),
        on("set_result", {"set_result": {"field": "heard", "value": [1.0, None]}}),
        on("inject_error", {"inject_error": {"code": -32077, "message": "made up"}}),
        on("transform", {"transform": {"call": "ruled_plugins:shout", "field": "text"}}),
        on("log", {"log": {"level": "warn", "message": "heard ${param.text}"}}),
        on("metric", {"metric": {"name": "row_153_total", "value": 2}}),
        on("webhook", hook.action(wait=True)),
        on("run_script", {"run_script": {"command": script, "timeout": "15s"}}),
        on("fork", {"fork": {"command": shadow}}),
        on("cache", {"cache": {"key": "${method}:${params_hash}", "ttl": "300s"}}),
        on("rate_limit", {"rate_limit": {"key": "${session_id}:${method}", "limit": 2, "window": "60s"}}),
        on("disabled", {"block": "no"}, enabled=False),
        on("changed", {"set_param": {"field": "mark", "value": "seen"}}, priority=5),
        rule(
            "sees-the-change",
            [{"method_equals": "v/changed"}, {"param_equals": {"field": "mark", "value": "seen"}}],
            {"set_param": {"field": "later", "value": True}},
            priority=4,
        ),
        on("remember", {"set_state": {"key": "seen", "value": True}}),
        rule(
            "remembered",
            [{"method_equals": "v/after"}, {"state_equals": {"key": "seen", "value": True}}],
            {"block": "seen it"},
        ),
        rule("fast-1", [{"method_equals": "v/fast"}], {"block": "first"}, priority=7),
        rule("fast-2", [{"method_equals": "v/fast"}], {"log": "second heard"}, priority=6),
        rule("errors", [{"error_code_equals": -32050}], {"set_result": {"field": "made", "value": 1}}),
        rule("messages", [{"error_message_contains": "quota"}], {"block": "over the quota"}),
    ]


class Hall:
    """One proxy with all the rules, and a client that has begun."""

    def __init__(self, work: Path) -> None:
        import sys

        self.hook = Hook(lambda told: (200, b'{"decision":"block","reason":"the hook says no"}'))
        self.notes = work / "shadow"
        self.notes.touch()
        shadow = [sys.executable, "-S", str(PLUGINS.parents[1] / "upstreams" / "scripted.py")]
        script = [sys.executable, str(PLUGINS / "verdict_script.py"), str(work / "script")]
        self.ruled = Ruled(
            "stdio",
            work,
            {
                "rules": rules(self.hook, [*shadow, "--record", str(self.notes)], script),
                "chain": {"timeout": "20s"},
                "method_interceptors": {
                    "tools/call": {
                        "class": "ToolCallInterceptor",
                        "config": {"allowed_tools": ["echo", "read_file"], "rate_limit": {"per_minute": 3}},
                    },
                    "resources/read": {
                        "class": "ResourceAccessInterceptor",
                        "config": {"allowed_paths": ["/workspace", "/tmp"], "deny_patterns": ["*.key"]},
                    },
                },
            },
        )

    def ask(self, method: str, **params: object) -> Any:
        return self.ruled.client.ask(method, json.dumps(params).encode())

    def close(self) -> None:
        self.hook.__exit__()
        self.ruled.__exit__(None, None, None)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    made = Hall(tmp_path_factory.mktemp("hall"))
    yield made
    made.close()


# --- conditions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONDITIONS)
@row("J121", "J122", "J123", "J124", "J125", "J126", "J127", "J128", "J129", "J130", "J131", "J132", "J133")
@row("J134", "J135", "J139", "J140", "J141", "J142")
def test_a_condition_holds_when_it_should_and_only_then(hall: Hall, name: str) -> None:
    assert f"The condition {name}" in {each.promise for each in ROWS.values()}
    assert hall.ask(f"v/{name}/yes", **PARAMS)["error"]["message"] == f"{name} holds"
    assert hall.ask(f"v/{name}/no", **PARAMS)["result"] == {"heard": f"v/{name}/no"}


def _error(hall: Hall, code: int, message: str) -> Any:
    raw = json.dumps({"jsonrpc": "2.0", "id": "<id>", "error": {"code": code, "message": message}})
    return hall.ask("x/say", raw=raw.replace('"<id>"', "<id>") + "\n", mute=True)


@row("J136", "J137", "I120")
def test_errors_have_conditions_too_and_responses_go_through_the_chain(hall: Hall) -> None:
    assert _error(hall, -32051, "other")["error"]["code"] == -32051
    assert _error(hall, -32051, "over quota")["error"]["message"] == "over the quota"
    assert _error(hall, -32050, "other")["error"]["code"] in (-32050, -32001)


@row("J138", "M166", "M167")
def test_a_session_is_known_by_its_id(tmp_path: Path) -> None:
    with Ruled("passthrough", tmp_path, {"rules": []}) as ruled:
        other = ruled.connect()
        named = {"session_id_equals": ruled.client.session}
        ruled.reload({"rules": [rule("one", [{"method_equals": "v/one"}, named], {"block": "you"})]})
        assert ruled.client.ask("v/one")["error"]["message"] == "you"
        assert other.ask("v/one")["result"] == {"heard": "v/one"}


# --- actions ------------------------------------------------------------------------------------------


@row("K143", "I109")
def test_allow_ends_the_chain(hall: Hall) -> None:
    assert hall.ask("v/allow")["result"] == {"heard": "v/allow"}


@row("K144", "K159", "K160", "I110", "I108", "I106")
def test_block_keeps_a_message_from_the_upstream(hall: Hall) -> None:
    error = hall.ask("v/block")["error"]
    assert (error["message"], error["data"]["rule"]) == ("no", "on-block")
    assert not hall.ruled.reached('"v/block"')


@row("K145")
def test_delay_delays_that_message_and_no_other(hall: Hall) -> None:
    slow, quick = hall.ruled.client.new_id(), hall.ruled.client.new_id()
    hall.ruled.client.request(slow, "v/delay")
    hall.ruled.client.request(quick, "v/quick")
    hall.ruled.client.answer(slow)
    order = [line for line in hall.ruled.reached() if b'"v/delay"' in line or b'"v/quick"' in line]
    assert [b"v/quick" in line for line in order] == [True, False]


@row("K146", "I111")
def test_set_param_sets_that_value_and_no_other_byte(hall: Hall) -> None:
    hall.ruled.client.ask("v/set_param", b'{ "x" : 1.0 ,"a":0}')
    (line,) = hall.ruled.reached('"v/set_param","params"')
    assert b'{ "x" : 1.0 ,"a":"v/set_param"}' in line


@row("K147")
def test_remove_param_removes_it(hall: Hall) -> None:
    hall.ruled.client.ask("v/remove_param", b'{"a" : 1.0, "gone":[1, 2], "b":2}')
    (line,) = hall.ruled.reached('"v/remove_param"')
    assert b'{"a" : 1.0, "b":2}' in line


@row("K148", "I107")
def test_set_result_changes_the_answer_to_that_request(hall: Hall) -> None:
    assert hall.ask("v/set_result")["result"] == {"heard": [1.0, None]}


@row("K149")
def test_inject_error_answers_instead(hall: Hall) -> None:
    assert hall.ask("v/inject_error")["error"] == {"code": -32077, "message": "made up"}


@row("K150")
def test_transform_calls_python(hall: Hall) -> None:
    hall.ask("v/transform", text="say it")
    assert b"SAY IT" in hall.ruled.reached('"v/transform"')[0]


@row("K151", "K152")
def test_log_says_it_at_its_level(tmp_path: Path) -> None:
    wanted = [on("log", {"log": {"level": "warn", "message": "heard ${param.text}"}})]
    quiet = [on("log", {"log": {"level": "debug", "message": "not heard"}})]
    for made, is_said in ((wanted, True), (quiet, False)):
        with Ruled("stdio", tmp_path, {"rules": made}, "--log-level", "warning") as ruled:
            ruled.client.ask("v/log", b'{"text":"a"}')
            assert ("heard" in ruled.stderr) is is_said


@row("K153")
def test_a_metric_is_visible_while_running(tmp_path: Path) -> None:
    import urllib.request

    made = [on("metric", {"metric": {"name": "row_153_total", "value": 2}})]
    with Ruled("stdio", tmp_path, {"rules": made}, "--metrics", "0") as ruled:
        ruled.client.ask("v/metric")
        assert wait_until(lambda: "/metrics" in ruled.stderr)
        url = next(word for word in ruled.stderr.split() if word.startswith("http") and "/metrics" in word)
        body = urllib.request.urlopen(url.rstrip(".,"), timeout=10).read().decode()
        line = next(
            line for line in body.splitlines() if "row_153_total" in line and not line.startswith("#")
        )
        assert float(line.split()[-1]) == 2


@row("K154")
def test_a_webhook_is_asked(hall: Hall) -> None:
    assert hall.ask("v/webhook")["error"]["message"] == "the hook says no"


@row("K155")
def test_a_script_decides(hall: Hall) -> None:
    assert hall.ask("v/run_script", word="fine")["result"]
    assert hall.ask("v/run_script", word="forbidden")["error"]["message"] == "the script says no"


@row("K156")
def test_a_fork_gets_copies_and_is_not_heard(hall: Hall) -> None:
    assert hall.ask("v/fork", mark="forked")["result"] == {"heard": "v/fork"}
    assert wait_until(lambda: b"forked" in hall.notes.read_bytes())
    assert len(hall.ruled.reached("forked")) == 1


@row("K157")
def test_a_cache_answers_the_second_time(hall: Hall) -> None:
    assert hall.ask("v/cache", n=1)["result"] == hall.ask("v/cache", n=1)["result"]
    assert len(hall.ruled.reached('"v/cache"')) == 1


@row("K158")
def test_a_rate_limit_lets_so_many_pass(hall: Hall) -> None:
    passed = ["result" in hall.ask("v/rate_limit", n=n) for n in range(3)]
    assert passed == [True, True, False]


# --- the chain ----------------------------------------------------------------------------------------


@row("I113", "L161")
def test_method_interceptors_come_before_rules(tmp_path: Path) -> None:
    guard = {"tools/call": {"class": "ToolCallInterceptor", "config": {"allowed_tools": ["echo"]}}}
    low = rule("low", tool("echo"), {"set_param": {"field": "arguments.by", "value": "low"}}, priority=1)
    high = rule("high", tool("echo"), {"set_param": {"field": "arguments.by", "value": "high"}}, priority=2)
    any_call = rule("any", [{"method_equals": "tools/call"}], {"block": "a rule"}, priority=0)
    with Ruled("stdio", tmp_path, {"rules": [low, high, any_call], "method_interceptors": guard}) as ruled:
        assert "rule" not in ruled.client.call("read_file")["error"]["message"]
        assert ruled.client.call("echo")["error"]["message"] == "a rule"
        ruled.reload({"rules": [low, high], "method_interceptors": guard})
        ruled.client.call("echo")
        assert b'"by":"low"' in ruled.reached("tools/call")[-1]  # the lower priority came last


@row("L162")
def test_so_many_tool_calls_a_minute(hall: Hall) -> None:
    assert ["result" in hall.ruled.client.call("echo") for _ in range(4)] == [True, True, True, False]


@row("L163", "L164")
def test_resources_are_read_within_their_paths(hall: Hall) -> None:
    def is_read(uri: str) -> bool:
        return "result" in hall.ask("resources/read", uri=uri)

    assert is_read("file:///workspace/a.txt")
    assert not is_read("file:///etc/passwd")
    assert not is_read("file:///workspace/../etc/passwd")
    assert not is_read("file:///workspace/a.key")


@row("I112")
def test_blocks_are_counted_with_their_reason(tmp_path: Path) -> None:
    import urllib.request

    with Ruled("stdio", tmp_path, {"rules": [on("b", {"block": "no"})]}, "--metrics", "0") as ruled:
        for _ in range(3):
            ruled.client.ask("v/b")
        assert wait_until(lambda: "/metrics" in ruled.stderr)
        url = next(word for word in ruled.stderr.split() if word.startswith("http") and "/metrics" in word)
        body = urllib.request.urlopen(url.rstrip(".,"), timeout=10).read().decode()
        assert any("on-b" in line and line.endswith((" 3", " 3.0")) for line in body.splitlines())


@row("I114")
def test_a_disabled_rule_is_skipped(hall: Hall) -> None:
    assert hall.ask("v/disabled")["result"] == {"heard": "v/disabled"}


@pytest.mark.parametrize("fail_fast", [True, False])
@row("I115")
def test_fail_fast_stops_at_the_first_block(tmp_path: Path, fail_fast: bool) -> None:
    made = [
        rule("one", [{"method_equals": "v/f"}], {"block": "first"}, priority=2),
        rule("two", [{"method_equals": "v/f"}], {"log": {"level": "warn", "message": "second"}}, priority=1),
    ]
    with Ruled("stdio", tmp_path, {"rules": made, "chain": {"fail_fast": fail_fast}}) as ruled:
        assert ruled.client.ask("v/f")["error"]["message"] == "first"
        assert ("second" in ruled.stderr) is not fail_fast


@row("I116")
def test_the_chain_has_a_time_limit_and_python_that_does_not_wait_is_held_to_it(tmp_path: Path) -> None:
    plugin = tmp_path / "sleepy.py"
    plugin.write_text("import time\n\ndef sleep(value):\n    time.sleep(3)\n    return value\n")
    made = [rule("slow", tool("echo"), {"transform": {"call": "sleepy:sleep", "field": "arguments.a"}})]
    import os

    os.environ["PYTHONPATH"] += os.pathsep + str(tmp_path)
    with Ruled("stdio", tmp_path, {"rules": made, "chain": {"timeout": "200ms"}}) as ruled:
        token, quick = ruled.client.new_id(), ruled.client.new_id()
        ruled.client.request(token, "tools/call", b'{"name":"echo","arguments":{"a":"b"}}')
        ruled.client.request(quick, "v/quick")
        assert json.loads(ruled.client.answer(token))["error"]["code"] == -32001
        assert "result" in json.loads(ruled.client.answer(quick))


@row("I117")
def test_the_default_action_decides_where_no_rule_speaks(tmp_path: Path) -> None:
    made = [rule("known", [{"method_equals": "v/known"}], "allow")]
    with Ruled("stdio", tmp_path, {"rules": made, "chain": {"default_action": "block"}}) as ruled:
        assert "error" in ruled.client.ask("v/unknown")
        assert "error" in ruled.client.call("echo")
        assert "result" in ruled.client.ask("v/known")
        assert "result" in ruled.client.ask("ping")


@pytest.mark.parametrize("key", ["parallel", "parallel_execution"])
@row("I118")
def test_interceptors_may_run_in_parallel(tmp_path: Path, key: str) -> None:
    classes = [
        {"class": "ruled_plugins:Slow", "config": {"mark": "one"}},
        {"class": "ruled_plugins:Slow", "config": {"mark": "two"}},
    ]
    with Ruled("stdio", tmp_path, {"interceptors": classes, "chain": {key: True}}) as ruled:
        assert "error" in ruled.client.ask("v/a", b'{"m":"two"}')
        assert "result" in ruled.client.ask("v/a", b'{"m":"three"}')


@row("I119")
def test_a_later_rule_sees_what_an_earlier_one_changed(hall: Hall) -> None:
    hall.ask("v/changed", mark="", later=False)
    assert b'"later":true' in hall.ruled.reached('"v/changed"')[0].replace(b" ", b"")


@row("L165", "O188")
def test_transport_rules_and_mcp_rules_work_side_by_side(tmp_path: Path) -> None:
    made = {
        "rules": [on("mcp", {"block": "by its method"})],
        "transport_rules": [
            rule("frame", [{"text_matches": "forbidden words"}], {"block": "by its bytes"}),
        ],
    }
    with Ruled("stdio", tmp_path, made) as ruled:
        assert ruled.client.ask("v/mcp")["error"]["message"] == "by its method"
        assert ruled.client.ask("v/other", b'{"a":"forbidden words"}')["error"]["message"] == "by its bytes"
        assert "result" in ruled.client.ask("v/other", b'{"a":"other words"}')


# --- state --------------------------------------------------------------------------------------------


@row("M168", "M174", "M175")
def test_rules_hold_over_several_messages_of_a_session(hall: Hall) -> None:
    assert "result" in hall.ask("v/after")
    hall.ask("v/remember")
    assert hall.ask("v/after")["error"]["message"] == "seen it"


INSPECTOR = '''
import json


class Inspects:
    """Writes down what is known of the conversation."""

    senders = ("client", "upstream")

    def __init__(self, config):
        self._path = config["path"]

    def review(self, message, context, effects):
        exchange = context.exchange
        with open(self._path, "a") as file:
            file.write(json.dumps({
                "direction": context.direction,
                "id": context.session.id,
                "count": context.session.message_count,
                "stats": {name: stats.requests for name, stats in context.session.stats.items()},
                "request": exchange.request.method if exchange else None,
                "started": exchange.started if exchange else None,
                "answered": exchange.answered if exchange else None,
                "intercepted": exchange.intercepted if exchange else None,
                "modified": list(exchange.modified) if exchange else None,
            }) + "\\n")
        return None
'''


@row("M169", "M170")
def test_a_conversation_is_kept_from_request_to_answer(tmp_path: Path) -> None:
    import os

    (tmp_path / "inspecting.py").write_text(INSPECTOR)
    os.environ["PYTHONPATH"] += os.pathsep + str(tmp_path)
    notes = tmp_path / "notes"
    made = {
        "rules": [on("kept", {"set_param": {"field": "a", "value": 1}})],
        "interceptors": [{"class": "inspecting:Inspects", "config": {"path": str(notes)}}],
    }
    with Ruled("stdio", tmp_path, made) as ruled:
        ruled.client.ask("v/kept", b'{"a":0}')
    seen = [json.loads(line) for line in notes.read_text().splitlines()]
    asked, answered = [note for note in seen if note["request"] == "v/kept"]
    assert (asked["direction"], answered["direction"]) == ("client", "upstream")
    assert asked["modified"] == answered["modified"] == ["on-kept"]
    assert asked["intercepted"] is True
    assert answered["answered"] is not None
    assert answered["answered"] >= asked["started"]
    assert answered["stats"]["v/kept"] == 1


@row("M171", "M172", "M173")
def test_state_has_a_time_to_live_and_is_bounded() -> None:
    from penstock.state.memory import MemoryTable

    dropped: list[str] = []
    now = [0.0]
    table: Any = MemoryTable(3, 10.0, lambda: now[0], dropped.append)
    for name in ("a", "b", "c", "d"):
        table.put(name, name)
    assert dropped == ["a"]
    now[0] = 11.0
    assert table.clean() == 3
    assert len(table) == 0


# --- how it is evaluated ------------------------------------------------------------------------------


@row("N183", "N184", "N186")
def test_a_message_is_read_once_however_many_rules_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    import test_rule_looks as looks

    looks.test_a_path_is_walked_once_however_many_rules_ask(monkeypatch)


@row("N185")
@pytest.mark.parametrize("raw", [arrivals.TEXT, arrivals.CALL], ids=["answer", "request"])
def test_a_message_is_judged_while_it_arrives(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        arrivals.check_scanned_once(raw, patch)
    arrivals.check_what_is_left(raw, monkeypatch)


@row("N185")
def test_what_can_be_no_message_is_refused_before_its_last_byte(tmp_path: Path) -> None:
    large.test_a_request_that_can_be_no_message_is_refused_before_it_is_whole(tmp_path)
    large.test_an_answer_that_can_be_no_message_is_withheld_before_it_is_whole(tmp_path)


@row("N185")
@pytest.mark.parametrize("kind", ["length", "chunked", "events"])
def test_with_validate_off_and_neither_filter_nor_rule_bytes_pass_as_they_come(
    tmp_path: Path, kind: str
) -> None:
    large.test_where_nobody_looks_bytes_pass_as_they_come(tmp_path, kind)


@row("N185")
def test_first_byte_and_last_byte_times_are_in_the_benchmark() -> None:
    page = Path(__file__).parents[2] / "docs" / "performance.md"
    assert "| workload | target | first byte us | p50 us |" in page.read_text("utf-8")


@row("O187")
def test_rules_are_reloaded_without_a_restart(tmp_path: Path) -> None:
    with Ruled("stdio", tmp_path, {"rules": []}) as ruled:
        assert "result" in ruled.client.ask("v/late")
        ruled.reload({"rules": [on("late", {"block": "now"})]})
        assert ruled.client.ask("v/late")["error"]["message"] == "now"


@row("O189")
def test_messages_are_recorded_when_asked(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    with Gate(tmp_path, "--deny", "^(write|delete)_", "--record", str(record)) as gate:
        gate.handshake()
        gate.say(b'{"jsonrpc":"2.0","id":1,"method":"v/odd","params":{"n" : 1e400}}')
        gate.answer(b"1")
        assert gate.end() == 0
    assert b'{"jsonrpc":"2.0","id":1,"method":"v/odd","params":{"n" : 1e400}}' in record.read_bytes()


@needs_redis
@row("O191")
def test_several_instances_count_one_limit(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        document = {"shared": shared(redis.url), "interceptor": {"rules": [limit_rule(5, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=2) as fleet:
            assert sum(call.passed for call in flood(fleet.ports, 40)) == 5
        assert len(upstream.calls_of("echo")) == 5
