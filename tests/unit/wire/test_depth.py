"""Depth is counted wherever bytes come in: how deep an interpreter would go decides nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from penstock import limits
from penstock.errors import ClientProtocolError, UpstreamProtocolError
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.tool_lists import text_lists_hidden_tools
from penstock.upstream.http_session import HttpSession
from penstock.wire.json.nesting import nests_too_deep
from penstock.wire.mcp.mcp_headers import SchemaBook
from penstock.wire.mcp.message import Message, read_client_message, read_upstream_message
from penstock.wire.mcp.response_id import maybe_response_id

_CHOICE = ToolFilter(deny=(compile_pattern("hidden", "deny list"),))


def _nest(depth: int) -> bytes:
    """A value that is just so deep, and too long to be let pass for its size."""
    return b"[" * depth + b'"%b"' % (b"x" * 300) + b"]" * depth


def _client(depth: int) -> bool:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"x":%b}}' % _nest(depth - 2)
    try:
        return isinstance(read_client_message(raw), Message)
    except ClientProtocolError:
        return False


def _upstream(depth: int) -> bool:
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}' % _nest(depth - 2)
    try:
        return isinstance(read_upstream_message(raw), Message)
    except UpstreamProtocolError:
        return False


def _response_id(depth: int) -> bool:
    return maybe_response_id(b'{"jsonrpc":"2.0","id":1,"result":%b}' % _nest(depth - 1)) == b"1"


def _version(depth: int) -> bool:
    session = HttpSession([])
    session.take_version(b'{"x":%b,"result":{"protocolVersion":"2025-06-18"}}' % _nest(depth - 1))
    return session.version is not None


def _schema(depth: int) -> bool:
    book = SchemaBook()
    marked = b'{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}},"x":%b}'
    tool = b'{"name":"t","inputSchema":%b}' % (marked % _nest(depth - 5))
    book.learn(b'{"result":{"tools":[%b]}}' % tool)
    return bool(book._mirrors)


def _error_body(depth: int, size: int = 0) -> bool:
    text = b'{"tools":[{"name":"echo"}],"x":%b,"y":"%b"}' % (_nest(depth - 1), b"y" * size)
    return not text_lists_hidden_tools(text, _CHOICE)


def _large_error_body(depth: int) -> bool:
    return _error_body(depth, 300_000)


def _error_body_in_utf16(depth: int) -> bool:
    text = b'{"tools":[{"name":"echo"}],"x":%b}' % _nest(depth - 1)
    return not text_lists_hidden_tools(text.decode().encode("utf-16"), _CHOICE)


@pytest.mark.parametrize(
    "is_taken",
    [
        *(_client, _upstream, _response_id, _version, _schema),
        *(_error_body, _large_error_body, _error_body_in_utf16),
    ],
)
def test_each_entrance_takes_as_many_levels_as_there_may_be_and_not_one_more(
    is_taken: Callable[[int], bool],
) -> None:
    assert is_taken(limits.NESTING - 1)
    assert is_taken(limits.NESTING)
    assert not is_taken(limits.NESTING + 1)
    assert not is_taken(5_000)


def test_words_about_tools_are_words_however_many_brackets_they_have() -> None:
    assert not text_lists_hidden_tools(b"tools " + b"[" * 500, _CHOICE)
    assert not text_lists_hidden_tools(b"tools " + b"[" * 300_000, _CHOICE)


def test_a_list_that_lies_too_deep_to_be_read_is_taken_for_a_hidden_one() -> None:
    for padding in (0, 300_000):
        lists = b'{"x":"%b","tools":%b{"name":"hidden"}%b}' % (b"x" * padding, b"[" * 200, b"]" * 200)
        assert text_lists_hidden_tools(lists, _CHOICE)


def test_text_too_short_to_nest_so_deep_is_not_counted() -> None:
    assert not nests_too_deep(b"[" * 2 * limits.NESTING)
    assert nests_too_deep(b"[" * (2 * limits.NESTING + 1))


def test_a_low_limit_of_the_interpreter_changes_nothing() -> None:
    """As deep as a message may be, read with hardly more stack than that."""
    code = """
import sys
from penstock.wire.mcp.message import read_upstream_message
raw = b'{"jsonrpc":"2.0","id":1,"result":{"x":%b,"y":"%b"}}' % (b"[" * 126 + b"]" * 126, b"y" * 300)
sys.setrecursionlimit(300)
print(read_upstream_message(raw).id_token)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "b'1'\n"
