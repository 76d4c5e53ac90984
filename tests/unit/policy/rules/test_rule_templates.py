"""Templates insert values, and nothing that is inserted is ever taken for a template."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import client, context, interceptor, request, response, rule, send, session

from penstock.policy.durations import BadDuration, parse_duration, spoken_duration
from penstock.policy.rules.templates import BadTemplate, digest, parse_template

CALL = request("tools/call", {"name": "rm", "arguments": {"n": 1.0, "o": {"a": 1}}})


def _render(source: str) -> str:
    return parse_template(source).render(CALL, context(session(client_name="editor")))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("plain $ text", "plain $ text"),
        ("${session_id}:${method}", "s1:tools/call"),
        ("${client_name}", "editor"),
        ("${profile}", "all"),
        ("${param.name}!", "rm!"),
        ("${param.arguments.n}", "1.0"),
        ("${param.arguments.o}", '{"a":1}'),
        ("${param.missing}", ""),
        ("$${method}", "${method}"),
    ],
)
def test_a_template_is_filled(source: str, text: str) -> None:
    assert _render(source) == text


@pytest.mark.parametrize("source", ["${methd}", "${", "${}", "${param.}", "${param.a..b}", "a ${method"])
def test_what_is_no_template_is_refused(source: str) -> None:
    with pytest.raises(BadTemplate):
        parse_template(source)


def test_a_response_is_spoken_of_by_its_request() -> None:
    where = context(of=CALL, direction="upstream")
    assert parse_template("${method} ${param.name}").render(response({}), where) == "tools/call rm"


def test_every_value_is_inserted_where_a_name_stands_twice() -> None:
    message = client(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"x":1,"x":"2"}}}')
    assert parse_template("${param.a.x}").render(message, context()) == "1,2"


@given(st.text(st.sampled_from("${}amethodpr.n_$"), max_size=30))
def test_what_is_inserted_is_never_expanded(evil: str) -> None:
    message = request("m", {"name": evil})
    assert parse_template("<${param.name}|${param.name}>").render(message, context()) == f"<{evil}|{evil}>"


@given(st.text(max_size=20))
def test_what_is_inserted_in_a_value_stays_one_string(evil: str) -> None:
    box = interceptor(rule({"set_param": {"field": "copy", "value": {"deep": ["${param.name}"]}}}))
    outcome = send(box, request("m", {"name": evil}))
    assert json.loads(outcome.verdict.raw or b"")["params"]["copy"] == {"deep": [evil]}


def test_the_digest_of_params_does_not_care_where_to_report_progress() -> None:
    plain = parse_template("${params_hash}")

    def of(params: object) -> str:
        return plain.render(request("m", params), context())

    assert of({"a": 1, "_meta": {"progressToken": 1}}) == of({"a": 1, "_meta": {"progressToken": 2}})
    assert of({"a": 1}) != of({"a": 2})
    assert of({"a": 1}) != of(None)


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_keys_tell_fields_apart(one: list[str], other: list[str]) -> None:
    assert (digest(one) == digest(other)) is (one == other)


@pytest.mark.parametrize(
    ("text", "seconds"), [("2s", 2.0), ("500ms", 0.5), ("250", 0.25), ("1.5m", 90.0), ("1h", 3600.0)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(spoken_duration(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "s", "2 s", "-1s", "0", "1d", "1e3s", "9" * 400 + "h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadDuration):
        parse_duration(text)
