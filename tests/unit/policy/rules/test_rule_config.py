"""A right file loads, a wrong one is told all its faults, and people can read what it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from scenes import (
    NotedEffects,
    Pass,
    Refuse,
    answer,
    error_of,
    interceptor,
    loaded,
    request,
    response,
    rule,
    send,
    session,
)

from penstock.policy.rules.actions import ACTIONS
from penstock.policy.rules.conditions import CONDITIONS
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build, describe, json_schema

SAMPLE = yaml.safe_load(Path(__file__).with_name("interceptor_sample.yaml").read_text())["interceptor"]


def test_the_sample_does_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    effects = NotedEffects()
    box = Interceptor(loaded(SAMPLE), effects)
    state = session()
    assert isinstance(send(box, request("tools/call", {"name": "read_file"}), state).verdict, Pass)
    assert isinstance(send(box, request("tools/call", {"name": "execute_command"}), state).verdict, Refuse)
    assert isinstance(send(box, request("tools/call", {"name": "other"}), state).verdict, Refuse)
    passed = [isinstance(send(box, request("expensive/x"), state).verdict, Pass) for _ in range(11)]
    assert passed == [True] * 10 + [False]
    assert isinstance(send(box, request("resources/read", {"uri": "file:///workspace/a"})).verdict, Pass)
    assert isinstance(
        send(box, request("resources/read", {"uri": "file:///workspace/a.pem"})).verdict, Refuse
    )
    assert isinstance(send(box, request("resources/read", {"uri": "file:///etc/a"})).verdict, Refuse)
    assert box.watches("resources/list", "upstream")
    assert not box.watches("prompts/list", "client")


def test_without_its_method_interceptors_the_sample_blocks_dangerous_tools(
    caplog: pytest.LogCaptureFixture,
) -> None:
    box = Interceptor(loaded({**SAMPLE, "method_interceptors": {}}), NotedEffects())
    outcome = send(box, request("tools/call", {"name": "delete_file"}))
    assert error_of(outcome)["message"] == "Dangerous tool blocked for safety"
    assert error_of(outcome)["data"] == {"rule": "block-dangerous-tools", "action": "block"}
    assert "Attempted to call dangerous tool" in caplog.text


A0 = ("rules", 0, "actions", 0)
C0 = ("rules", 0, "conditions", 0)
TRANSPORT = {"mode": "transport"}
BAD: list[tuple[Any, tuple[Any, ...], str, str]] = [
    ({"enabld": True}, ("enabld",), 'unknown key "enabld"', 'did you mean "enabled"?'),
    ([], (), "must be a section with keys (enabled, mode,", ""),
    ({"mode": "tcp"}, ("mode",), 'must be one of mcp, transport, not "tcp"', 'did you mean "mcp"?'),
    ({"chain": {"timeout": "5 parsecs"}}, ("chain", "timeout"), "invalid duration", "30s"),
    ({"chain": {"fail_fast": "yes"}}, ("chain", "fail_fast"), "must be true or false", ""),
    ({"rules": {"id": 1}}, ("rules",), "must be a list", ""),
    ({"rules": [{"actions": ["allow"]}]}, ("rules", 0), '"id" is missing', ""),
    ({"rules": [{"id": 5.5, "actions": ["allow"]}]}, ("rules", 0, "id"), "must be a text, not 5.5", "quotes"),
    ({"rules": [{"id": "r", "actions": []}]}, ("rules", 0), "no actions", ""),
    ({"rules": [rule("alow")]}, A0, "must be one action", 'did you mean "allow"?'),
    ({"rules": [rule({"blok": "x"})]}, A0, 'unknown action "blok"', 'mean "block"?'),
    ({"rules": [rule("allow", {"block": "x"})]}, ("rules", 0), "both allows and blocks", ""),
    (
        {"rules": [rule("allow", when=[{"method_equal": "x"}])]},
        C0,
        'unknown condition "method_equal"',
        'did you mean "method_equals"?',
    ),
    (
        {"rules": [rule("allow", when=[{"not": {"any": [{"param_exist": "x"}]}}])]},
        (*C0, "not", "any", 0),
        "unknown condition",
        "param_exists",
    ),
    (
        {"rules": [rule("allow", when=[{"method_equals": "a", "param_exists": "b"}])]},
        C0,
        "must be one condition, not 2 keys",
        "entry of its own",
    ),
    (
        {"rules": [rule("allow", when=[{"param_matches": {"field": "a", "pattern": "(a+)+"}}])]},
        (*C0, "param_matches", "pattern"),
        "Unsafe regex pattern",
        "backtracking",
    ),
    (
        {"rules": [rule("allow", when=[{"param_in": {"field": "a", "value": [1]}}])]},
        (*C0, "param_in", "value"),
        'unknown key "value"',
        'did you mean "values"?',
    ),
    (
        {"rules": [rule("allow", when=[{"param_greater_than": {"field": "a", "value": "1"}}])]},
        (*C0, "param_greater_than", "value"),
        'must be a number, not "1"',
        "",
    ),
    ({"rules": [rule("allow", when=[{"param_exists": "a..b"}])]}, (*C0, "param_exists"), "path", ""),
    ({"rules": [rule({"delay": "5s"})]}, A0, "waits longer", "chain.timeout"),
    ({"rules": [rule({"log": "${methd}"})]}, (*A0, "log"), "no ${methd}", 'mean "method"?'),
    ({"rules": [rule({"log": {"level": "loud"}})]}, (*A0, "log", "level"), 'error, not "loud"', ""),
    ({"rules": [rule({"webhook": "http://a.b/"})]}, (*A0, "webhook"), "not encrypted", "allow_http"),
    ({"rules": [rule({"webhook": "ftp://a.b/"})]}, (*A0, "webhook"), "Invalid URL", "http"),
    ({"rules": [rule({"run_script": {"timeout": "1s"}})]}, (*A0, "run_script"), "needs either", ""),
    ({"rules": [rule({"fork": {}})]}, A0, "or a \"shadow\" beside the rules", ""),
    ({"shadow": {}}, ("shadow",), "needs either", ""),
    ({"rules": [rule({"metric": "a b"})]}, (*A0, "metric"), "invalid metric", "letters"),
    ({"rules": [rule({"set_state": {"key": "a"}})]}, (*A0, "set_state"), "needs either", ""),
    ({"rules": [rule({"transform": "no.such:f"})]}, (*A0, "transform"), "cannot load", "No module"),
    (
        {"rules": [rule({"rate_limit": {"limit": 0, "window": "1s"}})]},
        (*A0, "rate_limit", "limit"),
        "must be 1 or more",
        "",
    ),
    ({"rules": [rule("allow"), rule("allow")]}, ("rules", 1, "id"), 'the id "r" is taken', "rules[0]"),
    ({"rules": [rule("allow", direction="up")]}, ("rules", 0, "direction"), 'both, not "up"', ""),
    ({"classes": {"a": "revue"}}, ("classes", "a"), "revue", 'did you mean "review"?'),
    (
        {**TRANSPORT, "rules": [rule("allow", when=[{"method_equals": "a"}])]},
        ("rules", 0, "conditions"),
        "needs mode: mcp",
        "",
    ),
    ({**TRANSPORT, "rules": [rule({"remove_param": "a"})]}, A0, "needs mode: mcp", ""),
    ({"interceptors": [{"class": "nothing"}]}, ("interceptors", 0, "class"), "unknown class", "import path"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "place", "message", "hint"), BAD)
def test_a_fault_is_told_with_its_place_and_a_hint(tree: Any, place: Any, message: str, hint: str) -> None:
    config, faults = build(tree)
    assert config is None
    assert [fault.path for fault in faults] == [place]
    assert message in faults[0].message
    assert hint in (faults[0].hint or "")


def test_all_faults_are_told_at_once() -> None:
    rules = [
        {
            "id": "a",
            "priorty": 1,
            "conditions": [{"nope": 1}, {"method_equals": 3}],
            "actions": [{"delay": "x"}, {"block": 1}],
        },
        {"id": "b", "actions": ["hm"]},
    ]
    _, faults = build({"chain": {"timeot": 1}, "rules": rules})
    assert sorted(".".join(map(str, fault.path)) for fault in faults) == [
        "chain.timeot",
        "rules.0.actions.0.delay",
        "rules.0.actions.1.block",
        "rules.0.conditions.0",
        "rules.0.conditions.1.method_equals",
        "rules.0.priorty",
        "rules.1.actions.0",
    ]
    assert 'unknown key "timeot" in chain; did you mean "timeout"?' in map(str, faults)
    assert "rules[0].conditions[1].method_equals must be a text, not 3; put it in quotes" in map(str, faults)
    assert 'rules[0].conditions[0]: unknown condition "nope"' in " ".join(map(str, faults))


def test_nothing_at_all_is_a_configuration_that_lets_everything_pass() -> None:
    config, faults = build(None)
    assert not faults
    assert config is not None
    assert describe(config) == ["There are no rules: everything passes."]


def test_the_summary_tells_rule_by_rule_in_the_order_in_which_they_run() -> None:
    lines = describe(loaded(SAMPLE))
    assert lines[0].startswith("First, for tools/call: allow calls of list_directory, read_file, write_file")
    assert lines[2] == (
        "1. block-dangerous-tools (Block dangerous tool calls), priority 100, from the client: "
        'when the method is "tools/call" and param name is one of "execute_command", "delete_file", '
        'block it: "Dangerous tool blocked for safety"; say "Attempted to call dangerous tool"'
    )
    assert [line[:2] for line in lines[2:5]] == ["1.", "2.", "3."]


EXAMPLES: dict[str, Any] = {
    "method_equals": "a", "method_starts_with": "a", "method_ends_with": "a", "method_matches": "a",
    "method_in": ["a"], "param_exists": "a", "param_equals": {"field": "a", "value": 1},
    "param_matches": {"field": "a", "pattern": "b"}, "param_in": {"field": "a", "values": [1]},
    "param_greater_than": {"field": "a", "value": 1}, "param_less_than": {"field": "a", "value": 1},
    "param_is_null": "a", "param_is_array": "a", "result_exists": "a",
    "result_equals": {"field": "a", "value": 1}, "error_code_equals": 1, "error_message_contains": "a",
    "tool": ["a", "b*"], "tool_annotation": {"name": "readOnlyHint", "value": False},
    "path_outside": {"fields": ["a"], "roots": ["/b"]}, "result_matches": {"field": "a", "pattern": "b"},
    "result_in": {"field": "a", "values": [1]}, "result_greater_than": {"field": "a", "value": 1},
    "result_less_than": {"field": "a", "value": 1}, "result_is_null": "a", "result_is_array": "a",
    "text_matches": "a", "size_greater_than": "64KiB", "client_name_matches": "a", "profile_in": ["a"],
    "header_equals": {"name": "a", "value": "b"}, "header_matches": {"name": "a", "pattern": "b"},
    "time_outside": {"from": "08:00", "to": "18:00", "days": "mon-fri", "zone": "UTC"},
    "replace": {"field": "a", "pattern": "b", "with": "c"}, "truncate": {"field": "a", "bytes": "1kB"},
    "session_id_equals": "a", "session_age_greater_than": "1m", "state_equals": {"key": "a", "value": 1},
    "state_greater_than": {"key": "a", "value": 1}, "all": [{"param_exists": "a"}],
    "any": [{"param_exists": "a"}], "not": {"param_exists": "a"},
    "allow": None, "block": "a", "delay": "1s", "set_param": {"field": "a", "value": 1}, "remove_param": "a",
    "set_result": {"value": 1}, "inject_error": {"code": 1, "message": "a"}, "transform": "json:dumps",
    "log": {"message": "a"}, "metric": "a", "webhook": "https://a.b/", "run_script": "a", "fork": "https://a.b/",
    "is_new": "place", "after": {"tools": ["a"]}, "copied_from": {"field": "a", "tools": ["b"]},
    "budget": {"tokens": 1}, "fault": {"kind": "error", "rate": "5%"}, "approve": {"note": "a"},
    "cache": {"ttl": "1s"}, "rate_limit": {"limit": 1, "window": "1s"}, "set_state": {"key": "a", "value": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", [*CONDITIONS, *ACTIONS])
def test_every_condition_and_action_can_be_told_in_plain_words(name: str) -> None:
    tree = (
        rule("allow", when=[{name: EXAMPLES[name]}]) if name in CONDITIONS else rule({name: EXAMPLES[name]})
    )
    (line, *_) = describe(loaded({"rules": [tree]}))
    assert "{" not in line.replace("${session_id}", "")
    assert "Struct" not in line


def test_the_schema_knows_every_condition_and_action() -> None:
    schema: Any = json_schema()
    assert set(schema["$defs"]["condition"]["properties"]) == set(CONDITIONS)
    assert set(schema["$defs"]["action"]["anyOf"][1]["properties"]) == set(ACTIONS)
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {
        "enabled", "mode", "chain", "rules", "transport_rules", "method_interceptors", "interceptors",
        "classes", "shadow",
    }  # fmt: skip


def test_the_schema_takes_what_the_reader_takes() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft202012Validator(json_schema())
    check.validate(SAMPLE)
    for name, value in EXAMPLES.items():
        tree = rule("allow", when=[{name: value}]) if name in CONDITIONS else rule({name: value})
        check.validate({"rules": [tree]})
    assert not check.is_valid({"rules": [rule({"blok": "x"})]})


def test_a_value_may_nest_as_deep_as_a_file_and_never_in_itself() -> None:
    inside: list[object] = []
    inside.append(inside)
    deep: object = "x"
    for _ in range(64):
        deep = [deep]
    for value, is_taken in ((deep, True), ([deep], False), (inside, False), ({"a": inside}, False)):
        _, faults = build({"rules": [rule({"set_param": {"field": "a", "value": value}})]})
        assert [fault.message for fault in faults] == ([] if is_taken else ["nests more than 64 levels deep"])


def test_masks_hide_addresses_and_secrets_however_deep() -> None:
    box = interceptor(
        rule(
            {"transform": {"call": "penstock.policy.masks:mask_emails", "field": "content.*.text"}},
            direction="upstream",
        ),
        {**rule({"transform": "penstock.policy.masks:mask_secrets"}, direction="upstream"), "id": "s"},
    )
    token = "ghp_" + "a" * 36
    message = response({"content": [{"text": "to a.b@c.org now"}, {"text": "fine"}], "x": [token]})
    after = answer(box, message, request()).verdict.raw
    assert after == message.raw.replace(b"a.b@c.org", b"[masked]").replace(token.encode(), b"[masked]")


def test_deciding_is_pure_and_a_plain_start_loads_none_of_it() -> None:
    code = (
        "import sys, penstock.policy.rules.interceptor;"
        "print([name for name in ('asyncio', 'socket', 'ssl', 'subprocess', 'yaml') if name in sys.modules]);"
    )
    plain = (
        "import sys, penstock.app; print([n for n in sys.modules if n.endswith(('.rules', '.conditions'))])"
    )
    for program in (code, plain):
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == "[]"
