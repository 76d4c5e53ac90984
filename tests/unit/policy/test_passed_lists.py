"""Lists that pass where no tool is hidden: each is looked at, but what passed before need not be again."""

from __future__ import annotations

import pytest
from msgspec import Raw

from penstock.policy.tools import passed_lists
from penstock.policy.tools.passed_lists import PassedLists
from penstock.policy.verdict import FORWARD, Forward
from penstock.wire.mcp.message import Kind, Message, read_upstream_message

GOOD = b'{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}'
BAD = b'{"tools":[{"name":"b","inputSchema":{"type":"object"}},{"name":1}]}'


def answer(result: bytes) -> Message:
    message = read_upstream_message(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result)
    assert isinstance(message, Message)
    return message


def made(result: Raw) -> Message:
    """An answer as several servers' lists have it: with one result for all."""
    raw = b'{"jsonrpc":"2.0","id":1,"result":%b}' % bytes(result)
    members = {"jsonrpc": Raw(b'"2.0"'), "id": Raw(b"1"), "result": result}
    return Message(raw, Kind.RESPONSE, b"1", None, members)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Grows with every tool that is looked at."""
    seen: list[bytes] = []
    read = passed_lists.read_tool
    monkeypatch.setattr(
        passed_lists, "read_tool", lambda raw, fault: (seen.append(bytes(raw)), read(raw, fault))
    )
    return seen


def test_a_list_is_looked_at_once(looks: list[bytes]) -> None:
    lists = PassedLists()
    other = GOOD.replace(b'"a"', b'"c"')
    for result in (GOOD, GOOD, other, GOOD, other, other):
        assert lists.judge(answer(result), "v") is FORWARD
    assert len(looks) == 2


def test_one_result_for_many_answers_is_looked_at_once(looks: list[bytes]) -> None:
    lists = PassedLists()
    shared = Raw(GOOD)
    for _ in range(3):
        assert lists.judge(made(shared), "v") is FORWARD
    assert lists.judge(made(Raw(GOOD)), "v") is FORWARD
    assert len(looks) == 1


def test_another_version_is_another_question(looks: list[bytes]) -> None:
    lists = PassedLists()
    shared = Raw(GOOD)
    for version in ("v", "w", "v"):
        assert lists.judge(made(shared), version) is FORWARD
    assert len(looks) == 2


def test_what_is_no_tool_is_left_out_every_time() -> None:
    lists = PassedLists()
    shared = Raw(BAD)
    for message in (made(shared), made(shared), answer(BAD)):
        assert lists.judge(answer(GOOD), "v") is FORWARD
        verdict = lists.judge(message, "v")
        assert isinstance(verdict, Forward)
        assert verdict.message is not None
        assert b'{"name":1}' not in verdict.message.raw
        assert b'"name":"b"' in verdict.message.raw


def test_a_very_large_list_is_not_kept(looks: list[bytes]) -> None:
    lists = PassedLists()
    large = b'{"tools":[{"name":"a","description":"%b","inputSchema":{"type":"object"}}]}' % (
        b"x" * 2_000_000
    )
    assert lists.judge(answer(GOOD), "v") is FORWARD
    for _ in range(2):
        assert lists.judge(answer(large), "v") is FORWARD
    assert len(looks) == 2
    assert lists._last[1] == GOOD
