"""Rules can tell clients apart, by name and by header, and give no header away."""

from __future__ import annotations

import pytest
from scenes import NotedEffects, Pass, finish, loaded, request, rule, send, session

from penstock.policy.exchange import Exchange
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build, describe

CALL = request("tools/call", {"name": "t"})
ALLOWED_ONLY = ("allow when", "block unless")


def _outcome(condition: object, way: str, *headers: tuple[bytes, bytes]) -> bool:
    rules = {
        "block when": [rule({"block": "no"}, when=[condition])],
        "block unless": [rule({"block": "no"}, when=[{"not": condition}])],
        "allow when": [rule("allow", when=[condition], priority=1), rule({"block": "no"}, id="rest")],
    }[way]
    box = Interceptor(loaded({"rules": rules}), NotedEffects())
    exchange = Exchange.of(CALL, 100.0)
    exchange.headers = headers
    outcome = finish(box.on_client(CALL, Context(session(), "client", 100.0, exchange)))
    return isinstance(outcome.verdict, Pass)


TEAM = {"header_equals": {"name": "X-Team", "value": "ops"}}


@pytest.mark.parametrize(
    ("headers", "is_ops", "may_be_ops"),
    [
        ([(b"x-team", b"ops")], True, True),
        ([(b"X-TEAM", b" ops\t")], True, True),
        ([(b"X-Team", b"dev")], False, False),
        ([], False, False),
        ([(b"X-Team", b"ops"), (b"X-Team", b"dev")], False, True),
        ([(b"X-Team", b"ops"), (b"x-team", b"ops")], False, True),  # "ops, ops" to many
        ([(b"X_Team", b"ops")], False, True),
        ([(b"X-Team", b"ops"), (b"X_Team", b"dev")], False, True),
        ([(b"X-Other", b"ops")], False, False),
    ],
)
def test_a_header_counts_for_an_allow_only_when_everybody_reads_it(
    headers: list[tuple[bytes, bytes]], is_ops: bool, may_be_ops: bool
) -> None:
    for way in ALLOWED_ONLY:
        assert _outcome(TEAM, way, *headers) is is_ops
    assert _outcome(TEAM, "block when", *headers) is not may_be_ops


def test_a_header_is_matched() -> None:
    matches = {"header_matches": {"name": "user-agent", "pattern": "(?i)^curl/"}}
    assert not _outcome(matches, "block when", (b"User-Agent", b"Curl/8"))
    assert _outcome(matches, "block when", (b"User-Agent", b"python"))
    assert _outcome({"header_equals": {"name": "X-N", "value": "é"}}, "block unless", (b"x-n", b"e")) is False
    assert not _outcome(
        {"header_equals": {"name": "X-N", "value": "é"}}, "block when", (b"X-N", "é".encode())
    )


def test_over_stdio_there_are_no_headers() -> None:
    box = Interceptor(loaded({"rules": [rule({"block": "no"}, when=[{"not": TEAM}])]}), NotedEffects())
    assert not isinstance(send(box, CALL).verdict, Pass)


def test_the_value_of_a_header_is_never_described() -> None:
    secret = {"header_equals": {"name": "Authorization", "value": "Bearer s3cret"}}
    pattern = {"header_matches": {"name": "X-Api-Key", "pattern": "^s3cret"}}
    told = "\n".join(describe(loaded({"rules": [rule({"block": "no"}, when=[secret, pattern])]})))
    assert "Authorization" in told
    assert "s3cret" not in told


@pytest.mark.parametrize("name", ["", "X Team", "X-Team:", "é"])
def test_what_no_header_can_be_called_is_a_fault(name: str) -> None:
    _, faults = build(
        {"rules": [rule({"block": "x"}, when=[{"header_equals": {"name": name, "value": "v"}}])]}
    )
    assert faults


@pytest.mark.parametrize(("name", "holds"), [("claude-code", True), ("Cursor", False), (None, False)])
def test_a_client_is_known_by_its_name(name: str | None, holds: bool) -> None:
    box = Interceptor(
        loaded({"rules": [rule({"block": "no"}, when=[{"client_name_matches": "^claude"}])]}), NotedEffects()
    )
    assert isinstance(send(box, CALL, session(client_name=name)).verdict, Pass) is not holds


@pytest.mark.parametrize(
    ("profile", "named", "holds"),
    [
        ("reader", ["reader"], True),
        ("reader", ["all", "writer"], False),
        ("", ["all"], True),
        ("", [""], False),
    ],
)
def test_a_profile_is_one_of_those_that_are_named(profile: str, named: list[str], holds: bool) -> None:
    box = Interceptor(
        loaded({"rules": [rule({"block": "no"}, when=[{"profile_in": named}])]}), NotedEffects()
    )
    assert isinstance(send(box, CALL, session(profile=profile)).verdict, Pass) is not holds
