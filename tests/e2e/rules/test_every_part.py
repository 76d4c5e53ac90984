"""Every condition and every action, with real processes, every way in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gate import wait_until
from penstock.policy.rules.actions import ACTIONS
from penstock.policy.rules.conditions import CONDITIONS
from penstock.policy.rules.time_condition import DAYS
from ruled import PLUGINS, WAYS, Hook, Ruled, rule

PARAMS = {"n": 7, "text": "a/b.key", "none": None, "list": [], "deep": {"list": [{"x": "1"}]}}

THREE_DAYS_ON = DAYS[(datetime.now(UTC).weekday() + 3) % 7]  # no test lasts until then

CONDITION_CASES: dict[str, tuple[Any, Any]] = {
    # name: what it is given so that it holds, and so that it does not
    "method_equals": ("v/method_equals/yes", "v/method_equals"),
    "method_starts_with": ("v/method_st", "w/"),
    "method_ends_with": ("/yes", "/yes"),
    "method_matches": ("^v/.*yes$", "^yes"),
    "method_in": (["a", "v/method_in/yes"], ["a"]),
    "param_exists": ("deep.list.0.x", "deep.list.1"),
    "param_equals": ({"field": "n", "value": 7.0}, {"field": "n", "value": "8"}),
    "param_matches": ({"field": "text", "pattern": r"\.key$"}, {"field": "n", "pattern": "8"}),
    "param_in": ({"field": "n", "values": [1, 7]}, {"field": "n", "values": ["8", False]}),
    "param_greater_than": ({"field": "n", "value": 6.5}, {"field": "n", "value": 7}),
    "param_less_than": ({"field": "n", "value": 8}, {"field": "deep.list.0.x", "value": 1}),
    "param_is_null": ("none", "missing"),
    "param_is_array": ("list", "text"),
    "result_exists": ("heard", "missing"),
    "result_equals": (
        {"field": "heard", "value": "v/result_equals/yes"},
        {"field": "heard", "value": "v/result_equals"},
    ),
    "result_matches": ({"field": "heard", "pattern": "^v/.*yes$"}, {"field": "heard", "pattern": "yes"}),
    "result_in": ({"field": "heard", "values": [1, "v/result_in/yes"]}, {"field": "heard", "values": [1]}),
    "result_greater_than": ({"field": "n", "value": 6.5}, {"field": "n", "value": 7}),
    "result_less_than": ({"field": "n", "value": 7.5}, {"field": "heard", "value": 9}),
    "result_is_null": ("none", "heard"),
    "result_is_array": ("list", "none"),
    "text_matches": ("b\\.key$", "^b"),
    "size_greater_than": (100, "1MB"),
    "path_outside": ({"fields": "text", "roots": "/srv"}, {"fields": "none", "roots": "/srv"}),
    "client_name_matches": ("^raw$", "^r$"),
    "time_outside": (
        {"days": [THREE_DAYS_ON], "zone": "UTC"},
        {"days": [day for day in DAYS if day != THREE_DAYS_ON], "zone": "UTC"},
    ),
    "tool": None,  # type: ignore[dict-item]  # these four have tests of their own, with calls and headers
    "tool_annotation": None,  # type: ignore[dict-item]
    "header_equals": None,  # type: ignore[dict-item]
    "header_matches": None,  # type: ignore[dict-item]
    "error_code_equals": (-32050, -32051),
    "error_message_contains": ("quota", "Quota"),
    "is_new": None,  # type: ignore[dict-item]  # it needs a baseline; these three are in e2e/learning
    "after": None,  # type: ignore[dict-item]
    "profile_in": None,  # type: ignore[dict-item]  # it needs profiles: see tests/access
    "copied_from": None,  # type: ignore[dict-item]
    "session_id_equals": None,  # type: ignore[dict-item]  # its id is not known before; see test_the_session
    "session_age_greater_than": ("1ms", "1h"),
    "state_equals": ({"key": "mood", "value": "bad"}, {"key": "mood", "value": "good"}),
    "state_greater_than": ({"key": "count", "value": 1}, {"key": "mood", "value": 1}),
    "all": (
        [{"param_exists": "n"}, {"param_exists": "text"}],
        [{"param_exists": "n"}, {"param_exists": "m"}],
    ),
    "any": ([{"param_exists": "n"}, {"param_exists": "m"}], [{"param_exists": "m"}]),
    "not": ({"param_exists": "m"}, {"param_exists": "n"}),
}

SAID = {
    # conditions on answers that the upstream is told to give
    "error_code_equals": '"error":{"code":-32050,"message":"over quota"}',
    "error_message_contains": '"error":{"code":-32050,"message":"over quota"}',
    "result_greater_than": '"result":{"heard":"x","n":7}',
    "result_less_than": '"result":{"heard":"x","n":7}',
    "result_is_null": '"result":{"heard":"x","none":null}',
    "result_is_array": '"result":{"heard":"x","list":[]}',
}

ELSEWHERE = {"approve"}  # it needs the live view
ACTION_CASES: dict[str, Callable[[Hall], None]] = {}


def action_case(check: Callable[[Hall], None]) -> Callable[[Hall], None]:
    ACTION_CASES[check.__name__.removeprefix("check_")] = check
    return check


def test_every_condition_has_a_case() -> None:
    assert set(CONDITION_CASES) == set(CONDITIONS)


def test_every_action_has_a_case() -> None:
    assert set(ACTION_CASES) == set(ACTIONS) - ELSEWHERE


class Hall:
    """One proxy with all the rules."""

    def __init__(self, way: str, work: Path) -> None:
        self.hook = Hook(lambda told: (200, b'{"decision":"block","reason":"the hook says no"}'))
        self.script_notes = work / "script"
        self.shadow_notes = work / "shadow"
        self.shadow_notes.touch()
        conf = {"rules": self.rules(), "chain": {"timeout": "20s"}}
        self.ruled = Ruled(way, work, conf, "--allow-faults")
        self.client = self.ruled.client

    def rules(self) -> list[dict[str, Any]]:
        made = [
            rule(
                "mood",
                [{"method_equals": "v/mood"}],
                {"set_state": {"key": "mood", "value": "bad"}},
                {"set_state": {"key": "count", "add": 2}},
            )
        ]
        for name, case in CONDITION_CASES.items():
            for word, given in zip(("yes", "no"), case or (), strict=False):
                where: list[Any] = [{"method_equals": f"v/{name}/{word}"}]
                if name in SAID:
                    mark = {"field": "mark", "value": f"{name}/{word}"}
                    where = [{"method_equals": "x/say"}, {"param_equals": mark}]
                made.append(rule(f"{name}-{word}", [*where, {name: given}], {"block": f"{name} holds"}))
        shadow = [sys.executable, "-S", str(self.ruled_upstream()), "--record", str(self.shadow_notes)]
        script = [sys.executable, str(PLUGINS / "verdict_script.py"), str(self.script_notes), "$(touch x);"]
        actions: dict[str, list[Any]] = {
            "block": [{"block": {"reason": "no ${param.why}", "code": -32099}}],
            "replace": [{"replace": {"field": "text", "pattern": "[0-9]+", "with": "#"}}],
            "truncate": [{"truncate": {"field": "text", "bytes": 4, "note": "..."}}],
            "delay": [{"delay": "300ms"}],
            "set_param": [{"set_param": {"field": "deep.a", "value": "${method}"}}],
            "remove_param": [{"remove_param": "gone"}],
            "set_result": [{"set_result": {"field": "heard", "value": [1.0, None]}}],
            "inject_error": [{"inject_error": {"code": -32077, "message": "made up", "data": {"a": 1}}}],
            "transform": [{"transform": {"call": "ruled_plugins:shout", "field": "text"}}],
            "log": [{"log": {"level": "warn", "message": "heard ${param.text} from ${client_name}"}}],
            "metric": [{"metric": "calls_total"}],
            "webhook": [self.hook.action(wait=True)],
            "run_script": [{"run_script": {"command": script, "timeout": "15s"}}],
            "fork": [{"fork": {"command": shadow}}],
            "cache": [{"cache": {"ttl": "60s"}}],
            "rate_limit": [{"rate_limit": {"limit": 1, "window": "1h"}}],
            "set_state": [{"set_state": {"key": "seen", "value": True}}],
            "budget": [{"budget": {"tokens": 1, "window": "1h"}}],
            "fault": [{"fault": {"kind": "error", "seed": 7}}],
        }
        made += [
            rule(f"act-{name}", [{"method_equals": f"v/{name}"}], *what) for name, what in actions.items()
        ]
        made.append(rule("act-allow", [{"method_equals": "v/allow"}], "allow", priority=9))
        made.append(rule("unheard", [{"method_equals": "v/allow"}], {"block": "never"}, priority=8))
        seen = {"state_equals": {"key": "seen", "value": True}}
        made.append(rule("after-seen", [{"method_equals": "v/after"}, seen], {"block": "seen it"}))
        return made

    def ruled_upstream(self) -> Path:
        return PLUGINS.parents[1] / "upstreams" / "scripted.py"

    def ask(self, method: str, **params: object) -> Any:
        return self.client.ask(method, json.dumps(params).encode())

    def raw(self, method: str, params: bytes) -> tuple[bytes, bytes]:
        """The request as it was sent, and the answer as it came."""
        token = self.client.new_id()
        self.client.request(token, method, params)
        return token, self.client.answer(token)

    def close(self) -> None:
        self.hook.__exit__()
        self.ruled.__exit__(None, None, None)


@pytest.fixture(scope="module", params=WAYS)
def hall(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    made = Hall(request.param, tmp_path_factory.mktemp("hall"))
    yield made
    made.close()


@pytest.mark.parametrize("name", [name for name, case in CONDITION_CASES.items() if case])
def test_a_condition_holds_when_it_should_and_only_then(hall: Hall, name: str) -> None:
    hall.ask("v/mood")

    def answer(word: str) -> Any:
        if name in SAID:
            said = f'{{"jsonrpc":"2.0","id":<id>,{SAID[name]}}}\n'
            return hall.ask("x/say", raw=said, mute=True, mark=f"{name}/{word}")
        return hall.ask(f"v/{name}/{word}", **PARAMS)

    blocked = answer("yes")
    assert blocked["error"] == {
        "code": -32001,
        "message": f"{name} holds",
        "data": {"rule": f"{name}-yes", "action": "block"},
    }
    passed = answer("no")
    if name in SAID:
        assert json.dumps(passed, separators=(",", ":")).endswith(f"{SAID[name]}}}")
        return
    assert passed["result"] == {"heard": f"v/{name}/no"}
    assert bool(hall.ruled.reached(f"v/{name}/yes")) is name.startswith("result")


@pytest.mark.parametrize("name", sorted(set(ACTIONS) - ELSEWHERE))
def test_an_action_does_what_it_says(hall: Hall, name: str) -> None:
    ACTION_CASES[name](hall)


@action_case
def check_allow(hall: Hall) -> None:
    assert hall.ask("v/allow")["result"] == {"heard": "v/allow"}


@action_case
def check_block(hall: Hall) -> None:
    error = hall.ask("v/block", why="${method}")["error"]
    # What is inserted is not looked at again (template injection).
    assert error == {
        "code": -32099,
        "message": "no ${method}",
        "data": {"rule": "act-block", "action": "block"},
    }
    assert not hall.ruled.reached("v/block")


@action_case
def check_delay(hall: Hall) -> None:
    slow, quick = hall.client.new_id(), hall.client.new_id()
    hall.client.request(slow, "v/delay")
    hall.client.request(quick, "v/quick")
    hall.client.answer(slow)
    hall.client.answer(quick)
    order = [line for line in hall.ruled.reached() if b'"v/delay"' in line or b'"v/quick"' in line]
    assert [b"v/quick" in line for line in order] == [True, False]


@action_case
def check_set_param(hall: Hall) -> None:
    hall.raw("v/set_param", b'{ "x" : 1.0 ,"deep":{"b" : 1e2}, "u":"\\u65e5"}')
    (line,) = hall.ruled.reached('"v/set_param","params"')
    assert b'"x" : 1.0 ,"deep":{"b" : 1e2,"a":"v/set_param"}, "u":"\\u65e5"}' in line


@action_case
def check_remove_param(hall: Hall) -> None:
    hall.raw("v/remove_param", b'{"a" : 1.0, "gone":[1, 2], "b":2}')
    (line,) = hall.ruled.reached("v/remove_param")
    assert b'"a" : 1.0, "b":2}' in line


@action_case
def check_replace(hall: Hall) -> None:
    hall.raw("v/replace", b'{"n" : 1.0, "text" : "a 1 and 22", "u":"\\u65e5"}')
    (line,) = hall.ruled.reached("v/replace")
    assert b'"n" : 1.0, "text" : "a # and #", "u":"\\u65e5"}' in line


@action_case
def check_truncate(hall: Hall) -> None:
    hall.raw("v/truncate", b'{"n" : 1.0, "text" : "\\u65e5\\u672c", "u":"\\u65e5"}')
    (line,) = hall.ruled.reached("v/truncate")
    assert '"n" : 1.0, "text" : "日...", "u":"\\u65e5"}'.encode() in line


@action_case
def check_set_result(hall: Hall) -> None:
    token, answer = hall.raw("v/set_result", b"{}")
    assert answer == b'{"jsonrpc":"2.0","id":%b,"result":{"heard":[1.0,null]}}' % token


@action_case
def check_inject_error(hall: Hall) -> None:
    assert hall.ask("v/inject_error")["error"] == {"code": -32077, "message": "made up", "data": {"a": 1}}
    assert not hall.ruled.reached("v/inject_error")


@action_case
def check_transform(hall: Hall) -> None:
    hall.raw("v/transform", b'{"n" : 1.0, "text" : "say it"}')
    (line,) = hall.ruled.reached("v/transform")
    assert b'"n" : 1.0, "text" : "SAY IT"}' in line


@action_case
def check_log(hall: Hall) -> None:
    hall.ask("v/log", text="a\nb${method}")
    hall.ruled.says("Rule act-log: heard a")
    assert "${method} from raw" in hall.ruled.stderr
    assert "heard a\nb" not in hall.ruled.stderr  # one record, one line


@action_case
def check_metric(hall: Hall) -> None:
    assert hall.ask("v/metric")["result"] == {"heard": "v/metric"}


@action_case
def check_webhook(hall: Hall) -> None:
    before = len(hall.hook.told)
    error = hall.ask("v/webhook", n=1)["error"]
    assert error["message"] == "the hook says no"
    assert error["data"] == {"rule": "act-webhook", "action": "webhook"}
    told = hall.hook.told[before]
    assert (told["rule"], told["method"], told["client_name"]) == ("act-webhook", "v/webhook", "raw")
    assert told["message"]["params"]["n"] == 1
    assert not hall.ruled.reached("v/webhook")


@action_case
def check_run_script(hall: Hall) -> None:
    assert hall.ask("v/run_script", word="; touch y")["result"]
    assert hall.ask("v/run_script", word="forbidden")["error"]["message"] == "the script says no"
    first = json.loads(hall.script_notes.read_text().splitlines()[0])
    assert first["argv"] == ["$(touch x);"]
    assert first["report"]["message"]["params"]["word"] == "; touch y"
    assert "PYTHONPATH" not in first["env"]


@action_case
def check_fork(hall: Hall) -> None:
    mark = f"forked-{hall.ruled.way}"
    assert hall.ask("v/fork", mark=mark)["result"] == {"heard": "v/fork"}
    assert wait_until(lambda: mark.encode() in hall.shadow_notes.read_bytes())
    assert len(hall.ruled.reached(mark)) == 1


@action_case
def check_cache(hall: Hall) -> None:
    first, second = hall.ask("v/cache", n=1), hall.ask("v/cache", n=1)
    assert first["result"] == second["result"] == {"heard": "v/cache"}
    assert first["id"] != second["id"]
    assert len(hall.ruled.reached("v/cache")) == 1
    hall.ask("v/cache", n="1")
    assert len(hall.ruled.reached("v/cache")) == 2


@action_case
def check_rate_limit(hall: Hall) -> None:
    assert "result" in hall.ask("v/rate_limit")
    error = hall.ask("v/rate_limit")["error"]
    assert error["data"] == {"rule": "act-rate_limit", "action": "rate_limit"}


@action_case
def check_budget(hall: Hall) -> None:
    # Answers to calls count; what it does to calls is in e2e/learning.
    assert "result" in hall.ask("v/budget")
    assert "result" in hall.ask("v/budget")


@action_case
def check_fault(hall: Hall) -> None:
    error = hall.ask("v/fault")["error"]
    assert error["message"] == "Injected fault"
    assert error["data"] == {"rule": "act-fault", "action": "fault"}


@action_case
def check_set_state(hall: Hall) -> None:
    assert "result" in hall.ask("v/after")
    hall.ask("v/set_state")
    assert hall.ask("v/after")["error"]["message"] == "seen it"


def test_the_session_is_known_by_the_id_that_its_client_knows(tmp_path: Path) -> None:
    with Ruled("passthrough", tmp_path, {"rules": []}) as ruled:
        other = ruled.connect()
        assert ruled.client.session != other.session
        named = {"session_id_equals": ruled.client.session}
        ruled.reload({"rules": [rule("one", [{"method_equals": "v/one"}, named], {"block": "you"})]})
        assert ruled.client.ask("v/one")["error"]["message"] == "you"
        assert other.ask("v/one")["result"] == {"heard": "v/one"}


@pytest.mark.parametrize("way", WAYS)
def test_a_rule_goes_by_the_name_of_the_tool_and_by_what_the_upstream_says_of_it(
    way: str, tmp_path: Path
) -> None:
    reading = {"tool_annotation": {"name": "readOnlyHint", "value": True}}
    rules = [
        rule("named", [{"tool": ["delete_*", "x"]}], {"block": {"reason": "named", "as": "result"}}),
        rule("writes", [{"method_equals": "tools/call"}, {"not": reading}], {"block": "it writes"}),
    ]

    def call(ruled: Ruled, name: str) -> Any:
        return ruled.client.ask("tools/call", json.dumps({"name": name, "arguments": {}}).encode())

    with Ruled(way, tmp_path, {"rules": rules}) as ruled:
        assert call(ruled, "echo")["error"]["message"] == "it writes"  # nobody has seen the list yet
        assert {tool["name"] for tool in ruled.client.ask("tools/list")["result"]["tools"]} >= {"echo"}
        assert "result" in call(ruled, "echo")
        assert call(ruled, "write_file")["error"]["data"]["rule"] == "writes"
        named = call(ruled, "delete_file")["result"]
        assert named["isError"] is True
        assert named["content"] == [{"type": "text", "text": "named"}]
        assert (named.get("resultType") == "complete") is (way == "modern")
        assert not ruled.reached('"delete_file"')
        assert not ruled.reached('"write_file"')


SECRET = "s3cret-team-token"


@pytest.mark.parametrize("way", [way for way in WAYS if way != "stdio"])
def test_a_rule_goes_by_the_headers_of_the_clients_request_and_nobody_hears_them(
    way: str, tmp_path: Path
) -> None:
    named = {"header_equals": {"name": "X-Team", "value": SECRET}}
    agent = {"header_matches": {"name": "x-agent", "pattern": "^evil/"}}
    rules = [
        rule("team", [{"method_equals": "v/team"}, {"not": named}], {"block": "not your team"}),
        rule("agent", [{"method_equals": "v/agent"}, agent], {"block": "not with that"}),
        rule("late", [{"method_equals": "v/late"}, named, {"result_exists": "heard"}], {"block": "seen"}),
    ]
    with Ruled(way, tmp_path, {"rules": rules}, "--log-level", "debug") as ruled:
        assert ruled.client.ask("v/team")["error"]["message"] == "not your team"
        assert "result" in ruled.client.ask("v/agent")
        assert "result" in ruled.client.ask("v/late")
        other = ruled.connect(more={"X-Team": SECRET, "X-Agent": "evil/1"})
        assert "result" in other.ask("v/team")
        assert other.ask("v/agent")["error"]["message"] == "not with that"
        # The answer is known by the headers of its request.
        assert other.ask("v/late")["error"]["message"] == "seen"
        assert SECRET not in ruled.stderr


def test_over_stdio_no_header_is_ever_there(tmp_path: Path) -> None:
    named = {"header_equals": {"name": "X-Team", "value": "ops"}}
    rules = [rule("team", [{"method_equals": "v/team"}, {"not": named}], {"block": "no"})]
    with Ruled("stdio", tmp_path, {"rules": rules}) as ruled:
        assert ruled.client.ask("v/team")["error"]["message"] == "no"
