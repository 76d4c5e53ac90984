"""Every condition holds when it should and not otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from scenes import client, context, request, response, rule, session
from scenes import loaded as load

from penstock.policy.rules.conditions import CONDITIONS
from penstock.policy.rules.interceptor import Context
from penstock.wire.mcp.message import Message


def _condition(name: str, value: object) -> Any:
    return load({"rules": [rule("allow", when=[{name: value}])]}).rules[0].conditions[0]


def _holds(
    name: str, value: object, message: Message, where: Context | None = None, every: bool = False
) -> bool:
    return bool(_condition(name, value).holds(message, where or context(), every))


CALL = request(
    "tools/call", {"name": "rm", "arguments": {"n": 1, "list": [1], "none": None, "path": "/etc/x"}}
)
ANSWER = response({"content": [{"type": "text", "text": "hi"}], "isError": False})
FAILURE = response(error={"code": -32000, "message": "quota exceeded"})

COUNTS = response({"total": 2, "next": None, "rows": [], "text": "1"})
LIST = request("tools/list", {"name": "rm"})

CASES: list[tuple[str, object, Message, bool]] = [
    ("method_equals", "tools/call", CALL, True),
    ("method_equals", "tools/cal", CALL, False),
    ("method_starts_with", "tools/", CALL, True),
    ("method_starts_with", "call", CALL, False),
    ("method_ends_with", "/call", CALL, True),
    ("method_ends_with", "tools", CALL, False),
    ("method_matches", "^tools/c", CALL, True),
    ("method_matches", "^call", CALL, False),
    ("method_in", ["a", "tools/call"], CALL, True),
    ("method_in", ["a"], CALL, False),
    ("param_exists", "arguments.none", CALL, True),
    ("param_exists", "arguments.nothing", CALL, False),
    ("param_equals", {"field": "name", "value": "rm"}, CALL, True),
    ("param_equals", {"field": "name", "value": "r"}, CALL, False),
    ("param_matches", {"field": "arguments.path", "pattern": "^/etc/"}, CALL, True),
    ("param_matches", {"field": "arguments.n", "pattern": "^1"}, CALL, True),
    ("param_matches", {"field": "arguments.n", "pattern": "2"}, CALL, False),
    ("param_in", {"field": "name", "values": ["rm", 1]}, CALL, True),
    ("param_in", {"field": "name", "values": ["mv"]}, CALL, False),
    ("param_greater_than", {"field": "arguments.n", "value": 0.5}, CALL, True),
    ("param_greater_than", {"field": "arguments.n", "value": 1}, CALL, False),
    ("param_greater_than", {"field": "name", "value": 0}, CALL, False),
    ("param_less_than", {"field": "arguments.n", "value": 1.5}, CALL, True),
    ("param_less_than", {"field": "arguments.n", "value": 1}, CALL, False),
    ("param_is_null", "arguments.none", CALL, True),
    ("param_is_null", "arguments.nothing", CALL, False),
    ("param_is_array", "arguments.list", CALL, True),
    ("param_is_array", "arguments", CALL, False),
    ("result_exists", "content.0.text", ANSWER, True),
    ("result_exists", "content.1", ANSWER, False),
    ("result_exists", "content", CALL, False),
    ("result_equals", {"field": "isError", "value": False}, ANSWER, True),
    ("result_equals", {"field": "isError", "value": 1}, ANSWER, False),
    ("result_matches", {"field": "content.*.text", "pattern": "^h"}, ANSWER, True),
    ("result_matches", {"field": "isError", "pattern": "true"}, ANSWER, False),
    ("result_in", {"field": "content.0.type", "values": ["image", "text"]}, ANSWER, True),
    ("result_in", {"field": "isError", "values": ["true", 1]}, ANSWER, False),
    ("result_greater_than", {"field": "total", "value": 1.5}, COUNTS, True),
    ("result_greater_than", {"field": "total", "value": 2}, COUNTS, False),
    ("result_less_than", {"field": "total", "value": 2.5}, COUNTS, True),
    ("result_less_than", {"field": "text", "value": 1}, COUNTS, False),
    ("result_is_null", "next", COUNTS, True),
    ("result_is_null", "missing", COUNTS, False),
    ("result_is_array", "rows", COUNTS, True),
    ("result_is_array", "total", COUNTS, False),
    ("tool", "rm", CALL, True),
    ("tool", "r", CALL, False),
    ("tool", ["mv", "r?"], CALL, True),
    ("tool", "*", LIST, False),
    ("path_outside", {"fields": "arguments.path", "roots": "/srv"}, CALL, True),
    ("path_outside", {"fields": ["arguments.path"], "roots": ["/srv", "/etc"]}, CALL, False),
    ("text_matches", "^/etc/", CALL, True),
    ("text_matches", "^hi$", ANSWER, True),
    ("text_matches", "quota", FAILURE, True),
    ("text_matches", "nowhere", CALL, False),
    ("text_matches", "^2$", COUNTS, True),
    ("text_matches", "^null$", COUNTS, True),
    ("size_greater_than", 20, CALL, True),
    ("size_greater_than", "1MB", CALL, False),
    ("error_code_equals", -32000, FAILURE, True),
    ("error_code_equals", -32001, FAILURE, False),
    ("error_message_contains", "quota", FAILURE, True),
    ("error_message_contains", "Quota", FAILURE, False),
    ("session_id_equals", "s1", CALL, True),
    ("session_id_equals", "s2", CALL, False),
    ("all", [{"method_equals": "tools/call"}, {"param_exists": "name"}], CALL, True),
    ("all", [{"method_equals": "tools/call"}, {"param_exists": "x"}], CALL, False),
    ("any", [{"method_equals": "x"}, {"param_exists": "name"}], CALL, True),
    ("any", [{"method_equals": "x"}], CALL, False),
    ("not", {"method_equals": "x"}, CALL, True),
    ("not", {"method_equals": "tools/call"}, CALL, False),
]


@pytest.mark.parametrize(("name", "value", "message", "expected"), CASES)
def test_a_condition_holds_when_it_should(name: str, value: object, message: Message, expected: bool) -> None:
    assert _holds(name, value, message) is expected


def test_conditions_on_time_and_state() -> None:
    state = session(values={"tainted": True, "count": 3})
    where = context(state, now=161.0)
    assert _holds("session_age_greater_than", "1m", CALL, where)
    assert not _holds("session_age_greater_than", "2m", CALL, where)
    assert _holds("state_equals", {"key": "tainted", "value": True}, CALL, where)
    assert not _holds("state_equals", {"key": "tainted", "value": 1}, CALL, where)
    assert not _holds("state_equals", {"key": "other", "value": True}, CALL, where)
    assert _holds("state_equals", {"key": "count", "value": 3.0}, CALL, where)
    assert _holds("state_greater_than", {"key": "count", "value": 2}, CALL, where)
    assert not _holds("state_greater_than", {"key": "count", "value": 3}, CALL, where)
    assert not _holds("state_greater_than", {"key": "tainted", "value": 0}, CALL, where)


def test_no_condition_is_left_out_of_these_tests() -> None:
    elsewhere = {
        *("session_age_greater_than", "state_equals", "state_greater_than"),  # above
        *("tool_annotation",),  # test_tool_conditions.py
        *(
            "client_name_matches",
            "profile_in",
            "header_equals",
            "header_matches",
        ),  # test_sender_conditions.py
        "time_outside",  # test_time_condition.py
        *("is_new", "after", "copied_from"),  # test_flow_conditions.py
    }
    assert {name for name, *_ in CASES} | elsewhere == set(CONDITIONS)


ONES = {"int": b"1", "real": b"1.0", "power": b"1e0", "text": b'"1"', "true": b"true", "null": b"null"}


@pytest.mark.parametrize(
    ("value", "same", "written"),
    [
        (1, {"int", "real", "power", "text", "true"}, {"int", "real", "power"}),
        (1.0, {"int", "real", "power", "text", "true"}, {"int", "real", "power"}),
        ("1", {"text", "int"}, {"text"}),
        (True, {"true", "int", "real", "power", "text"}, {"true"}),
        (None, {"null"}, {"null"}),
    ],
)
def test_a_value_is_what_servers_make_of_it_and_to_who_allows_only_what_is_written(
    value: object, same: set[str], written: set[str]
) -> None:
    for name, token in ONES.items():
        message = client(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"v":%b}}' % token)
        condition = {"field": "v", "value": value}
        assert _holds("param_equals", condition, message) is (name in same), name
        assert _holds("param_equals", condition, message, every=True) is (name in written), name


@pytest.mark.parametrize(
    ("token", "value", "is_greater"),
    [
        (b"1e400", 1, True),
        (b"-1e400", 1, False),
        (b"1e99999999999999999999", 1, True),
        (b"-1e99999999999999999999", 1, False),
        (b"1e-99999999999999999999", 0, False),
        (b"10000000000000000000000000000000000000001", 10**40, True),
        (b"9007199254740993", 9007199254740992, True),
        (b"0.1", 0.1, False),
        (b'"5"', 1, True),
        (b'" 1_000 "', 999, True),
        (b'"0x3e8"', 999, True),
        (b'"1e3"', 999, True),
        (b'"Infinity"', 999, True),
        (b'"NaN"', 0, False),
        (b'"five"', 0, False),
        (b"true", 0, True),
        (b"null", -1, True),
    ],
)
def test_numbers_are_compared_exactly(token: bytes, value: float, is_greater: bool) -> None:
    message = client(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"v":%b}}' % token)
    assert _holds("param_greater_than", {"field": "v", "value": value}, message) is is_greater


def test_objects_and_arrays_are_compared_by_what_they_hold() -> None:
    message = request("m", {"v": {"a": [1, {"b": None}], "c": "x"}})
    assert _holds("param_equals", {"field": "v", "value": {"c": "x", "a": [1.0, {"b": None}]}}, message)
    assert not _holds("param_equals", {"field": "v", "value": {"c": "x"}}, message)
    assert not _holds("param_equals", {"field": "v.a", "value": [1]}, message)


TWICE = client(
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
    b'{"name":"t","arguments":{"path":"/ok","\\u0070ath":"/etc/passwd"}}}'
)


def test_a_name_that_stands_twice_hides_nothing_from_a_rule_that_blocks() -> None:
    evil = {"param_matches": {"field": "arguments.path", "pattern": "^/etc"}}
    good = {"param_matches": {"field": "arguments.path", "pattern": "^/ok"}}
    assert _holds("all", [evil], TWICE)
    # "block what is not below /ok": one of the two is not
    assert _holds("not", good, TWICE)


def test_a_name_that_stands_twice_wins_nothing_from_a_rule_that_allows() -> None:
    good = {"param_matches": {"field": "arguments.path", "pattern": "^/ok"}}
    evil = {"param_matches": {"field": "arguments.path", "pattern": "^/etc"}}
    assert not _holds("all", [good], TWICE, every=True)
    assert not _holds("not", evil, TWICE, every=True)


def test_a_response_has_the_method_and_params_of_its_request() -> None:
    where = context(of=CALL, direction="upstream")
    assert _holds("method_equals", "tools/call", ANSWER, where)
    assert _holds("param_equals", {"field": "name", "value": "rm"}, ANSWER, where)
    assert not _holds("param_exists", "name", ANSWER, context())


def test_half_a_surrogate_pair_is_no_way_round() -> None:
    message = client(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"v":"rm\\ud800 -rf"}}')
    assert _holds("param_matches", {"field": "v", "pattern": "rm.? -rf"}, message)


def _arguments(raw: bytes) -> Message:
    return client(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":%b}}' % raw
    )


@pytest.mark.parametrize(
    ("token", "value"),
    [
        (b"1.00000000000000000001", 1),
        (b"0.99999999999999999999", 1),
        (b"1e-400", 0),
        (b"9007199254740993", 9007199254740992),
        (b'"a\\u0000b"', "a"),
        (b'{"a":2,"a":1}', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 1}),
    ],
)
def test_what_is_the_value_only_to_some_readers_is_blocked_and_not_allowed(
    token: bytes, value: object
) -> None:
    message = _arguments(b'{"v":%b}' % token)
    condition = {"field": "arguments.v", "value": value}
    assert _holds("param_equals", condition, message)
    assert not _holds("param_equals", condition, message, every=True)


def test_a_number_that_is_less_only_exactly_is_not_allowed_for_being_less() -> None:
    message = _arguments(b'{"v":99.99999999999999999999}')
    condition = {"field": "arguments.v", "value": 100}
    assert _holds("param_less_than", condition, message)
    assert not _holds("param_less_than", condition, message, every=True)


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"PATH":"/etc"}',
        b'{"path":"/ok","Path":"/etc"}',
        b'{"\xc3\xa4":1,"pat\\u0048":"/etc"}',
        b'{"path\\u0000":"/etc"}',
        b'{"__proto__":{"path":"/etc"}}',
        b'{"constructor":{"prototype":{"path":"/etc"}}}',
    ],
)
def test_a_name_that_somebody_takes_for_the_one_meant_is_looked_at_too(arguments: bytes) -> None:
    message = _arguments(arguments)
    etc = {"field": "arguments.path", "pattern": "^/etc"}
    assert _holds("param_matches", etc, message)
    assert not _holds("param_matches", etc, message, every=True)


@pytest.mark.parametrize(
    "arguments",
    [b'{"o":{"path":"/ok"},"o":{}}', b'{"o":{},"o":{"path":"/ok"}}', b'{"o":{"path":"/ok"},"O":1}'],
)
def test_what_some_readers_do_not_find_is_not_allowed(arguments: bytes) -> None:
    message = _arguments(arguments)
    assert _holds("param_exists", "arguments.o.path", message)
    assert not _holds("param_exists", "arguments.o.path", message, every=True)
    # "block what has no path": to some it has none
    assert _holds("not", {"param_exists": "arguments.o.path"}, message)


def test_parts_without_the_value_say_nothing_against_a_star() -> None:
    message = _arguments(b'{"list":[{"kind":"text"},{"x":1}]}')
    text = {"field": "arguments.list.*.kind", "value": "text"}
    assert _holds("param_equals", text, message, every=True)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("^rm .*$", b"rm -rf /\\n"),
        ("^rm .*/$", b"rm -rf\\n/"),
        ("(?i)^RM .+", b"rm \\n"),
        ("^ls$", b"ls\\r\\n"),
    ],
)
def test_a_line_feed_is_no_way_round(pattern: str, command: bytes) -> None:
    message = _arguments(b'{"command":"%b"}' % command)
    condition = {"field": "arguments.command", "pattern": pattern}
    assert _holds("param_matches", condition, message)
    assert not _holds("param_matches", condition, message, every=True)
