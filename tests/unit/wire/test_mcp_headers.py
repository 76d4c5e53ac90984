"""Headers made from bodies are those that the SDK's server expects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import (
    decode_header_value,
    encode_header_value,
    find_invalid_x_mcp_header,
    validate_mcp_param_headers,
    x_mcp_header_map,
)
from msgspec import Raw

from penstock.wire.mcp_headers import (
    SchemaBook,
    header_value,
    maybe_modern_version,
    mirrors_of,
    modern_headers,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(texts | st.from_regex(r"\A=\?base64\?.*\?=\Z"))
def test_a_header_value_is_what_the_sdk_writes_and_reads_back(text: str):
    value = header_value(text)
    assert b"\r" not in value
    assert b"\n" not in value
    assert value.decode() == encode_header_value(text)
    assert decode_header_value(value.decode()) == text


kinds = st.sampled_from(["string", "integer", "boolean", "number", "object", None])
marks = st.sampled_from(["Region", "region", "N", "bad name", "", 7])
leaves = st.builds(
    lambda kind, mark, has: {"type": kind, **({"x-mcp-header": mark} if has else {})},
    kinds,
    marks,
    st.booleans(),
)
names = st.sampled_from(["a", "b", "c"])
schemas = st.recursive(
    leaves,
    lambda inner: (
        st.builds(
            lambda key, parts: {"type": "object", key: parts},
            st.sampled_from(["properties", "$defs", "patternProperties", "default", "dependentSchemas"]),
            st.dictionaries(names, inner, max_size=3),
        )
        | st.builds(
            lambda key, part: {key: part},
            st.sampled_from(["items", "not", "const", "additionalProperties"]),
            inner,
        )
        | st.builds(
            lambda key, parts: {key: parts},
            st.sampled_from(["allOf", "anyOf", "enum"]),
            st.lists(inner, max_size=2),
        )
    ),
    max_leaves=6,
)


@given(schemas)
def test_a_schema_asks_for_the_headers_that_the_sdk_sees_in_it(schema: dict[str, Any]):
    found = {mirror.path: mirror.header.decode() for mirror in mirrors_of(schema)}
    if find_invalid_x_mcp_header(schema) is not None:
        assert found == {}
    else:
        assert found == {path: f"Mcp-Param-{token}" for path, token in x_mcp_header_map(schema).items()}


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "x-mcp-header": "Text"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "flag": {"type": "boolean", "x-mcp-header": "Flag"},
        "deep": {"type": "object", "properties": {"er": {"type": "string", "x-mcp-header": "Deeper"}}},
    },
}
BOOK = SchemaBook()
BOOK.learn(
    json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "t", "inputSchema": SCHEMA}]}}
    ).encode()
)

values = (
    texts
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
    | st.lists(st.integers())
)


@given(st.dictionaries(st.sampled_from(["text", "count", "flag", "deep"]), values), values, st.booleans())
def test_the_sdk_server_accepts_the_headers_of_any_call(
    arguments: dict[str, Any], deeper: Any, is_deep: bool
):
    if is_deep:
        arguments["deep"] = {"er": deeper}
    raw = json.dumps(arguments).encode()
    headers = BOOK.headers({"name": Raw(b'"t"'), "arguments": Raw(raw)})
    sent = {name.decode(): value.decode() for name, value in headers}
    # Text properties with numbers in them are not valid calls, and are rendered as each side likes.
    if all(not isinstance(arguments.get(name), float) for name in ("text", "flag")) and not isinstance(
        deeper, float
    ):
        assert validate_mcp_param_headers(SCHEMA, arguments, sent) is None


@pytest.mark.parametrize(
    ("token", "value"),
    [
        (b"12345678901234567890123", b"12345678901234567890123"),
        (b"-0", b"0"),
        (b"1e3", b"1000"),
        (b"1.0", b"1"),
        (b"null", None),
        (b"[1]", None),
        (b'"7"', b"7"),
        (b"1" * 5000, None),
    ],
)
def test_numbers_keep_every_digit(token: bytes, value: bytes | None):
    headers = BOOK.headers({"name": Raw(b'"t"'), "arguments": Raw(b'{"count":%b}' % token)})
    assert headers == ([] if value is None else [(b"Mcp-Param-Count", value)])


def test_a_tool_that_no_longer_marks_anything_is_forgotten():
    book = SchemaBook()
    for schema in (SCHEMA, {}):
        book.learn(
            json.dumps(
                {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "t", "inputSchema": schema}]}}
            ).encode()
        )
    assert book.headers({"name": Raw(b'"t"'), "arguments": Raw(b'{"text":"x"}')}) == []


def test_what_is_not_a_name_makes_no_header():
    headers = modern_headers("2026-07-28", "tools/call", {"name": Raw(b"7")})
    assert [name for name, _ in headers] == [b"MCP-Protocol-Version", b"Mcp-Method"]


@pytest.mark.parametrize("meta", [b"7", b"{}", b'{"io.modelcontextprotocol/protocolVersion":7}', b"[]"])
def test_a_message_without_a_version_of_its_own_is_not_modern(meta: bytes):
    assert maybe_modern_version({"_meta": Raw(meta)}) is None
