"""The answers Penstock gives itself."""

from __future__ import annotations

import json

import pytest

from penstock.wire.json.ambiguity import members
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.replies import (
    CANCELLED,
    INVALID_ANSWER,
    error_code,
    error_reply,
    one_line,
    printable,
    raw_error_reply,
    result_reply,
    tool_not_found,
)


@pytest.mark.parametrize("token", [b"1", b"1.0", b'"a\\u0062"', b"1e400", b"9" * 5000])
def test_an_answer_has_the_id_as_it_was_written(token: bytes) -> None:
    for raw in (tool_not_found(token, "x"), result_reply(token, b"{}"), error_reply(token, -32600, "no")):
        assert raw.startswith(b'{"jsonrpc":"2.0","id":' + token + b",")


def test_every_tool_that_is_not_there_gets_the_same_answer() -> None:
    assert tool_not_found(b"7", "x") == (
        b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Tool not found: x"}}'
    )


def test_an_unknown_id_is_null() -> None:
    assert json.loads(error_reply(None, -32700, "no"))["id"] is None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("write_file", "write_file"),
        ("a" * 129, "a" * 128),
        ("a" * 1_000_000, "a" * 128),
        ("a\r\nb", "a??b"),
        ("\x1b[31mred", "?[31mred"),
        ("\u202eabc\u200b", "?abc?"),
        ("<b>&", "<b>&"),
        ("日本", "日本"),
    ],
)
def test_an_echoed_name_is_harmless_and_short(name: str, shown: str) -> None:
    assert printable(name) == shown


def test_a_modern_request_says_who_sends_it() -> None:
    params = members(
        b'{"_meta":{"progressToken":5,"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{"x":1.0}}}'
    )
    assert maybe_modern_meta(params) == (
        b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{"x":1.0}}'
    )


@pytest.mark.parametrize(
    "params", [b"{}", b'{"_meta":5}', b'{"_meta":{"progressToken":1}}', b'{"_meta":null}']
)
def test_a_legacy_request_says_nothing_of_the_kind(params: bytes) -> None:
    assert maybe_modern_meta(members(params)) is None
    assert maybe_modern_meta(None) is None


def test_what_clients_are_told_is_settled() -> None:
    """Clients and their users read these; nothing in them speaks of a filter or of us."""
    assert INVALID_ANSWER == "The upstream's answer is not valid"
    assert CANCELLED == "The request was cancelled"


def test_an_error_may_carry_data() -> None:
    assert error_reply(b"1", -32001, "no", {"rule": "a"}) == (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no","data":{"rule":"a"}}}'
    )


def test_somebody_elses_error_object_stays_as_it_is() -> None:
    assert raw_error_reply(b'"x"', b'{ "code":1.0 }') == b'{"jsonrpc":"2.0","id":"x","error":{ "code":1.0 }}'
    assert result_reply(b'"x"', b'{ "a":1.0 }') == b'{"jsonrpc":"2.0","id":"x","result":{ "a":1.0 }}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("日本 é", "日本 é"),
        ("a\nb", "a\\x0ab"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u2028", "\\x2028"),
        ("", ""),
    ],
)
def test_what_is_logged_stays_on_its_line(text: str, shown: str) -> None:
    assert one_line(text) == shown


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}', 0),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 0),
        (b'{"error":{"code":"x"}}', 0),
        (b'{"error":5}', 0),
        (b"no json", 0),
        (b'{"a":"\xff"}', 0),
    ],
)
def test_the_code_of_an_error_is_zero_where_there_is_none(raw: bytes, code: int) -> None:
    assert error_code(raw) == code
