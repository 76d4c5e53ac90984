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

from gate_messages import client
from penstock import limits
from penstock.wire.mcp.mcp_headers import (
    Mirror,
    SchemaBook,
    header_value,
    maybe_modern_version,
    mirrors_in,
    mirrors_of,
    modern_headers,
    with_name_of,
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


@pytest.mark.parametrize("mark", [*"!#$%&'*+-.^_`|~09azAZ", "A-b.c_9"])
def test_every_character_of_a_header_name_may_stand_in_a_mark(mark: str) -> None:
    schema = {"properties": {"a": {"type": "string", "x-mcp-header": mark}}}
    assert mirrors_of(schema) == (Mirror(("a",), b"Mcp-Param-" + mark.encode(), False),)


@pytest.mark.parametrize(
    "mark", ["", " ", "a b", "a:", "a/", "é", "a\n", '"', "(", ",", "a\0", 5, None, ["a"]]
)
def test_a_mark_that_is_no_header_name_makes_the_schema_ask_for_nothing(mark: object) -> None:
    marked = {"type": "string", "x-mcp-header": "Good"}
    schema = {"properties": {"a": marked, "b": {"type": "string", "x-mcp-header": mark}}}
    assert mirrors_of(schema) == ()


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", None, ["string"]])
def test_only_plain_kinds_can_be_mirrored(kind: object) -> None:
    assert mirrors_of({"properties": {"a": {"type": kind, "x-mcp-header": "A"}}}) == ()


@pytest.mark.parametrize(("kind", "is_integer"), [("string", False), ("integer", True), ("boolean", False)])
def test_a_plain_kind_is_mirrored(kind: str, is_integer: bool) -> None:
    schema = {"properties": {"a": {"properties": {"b": {"type": kind, "x-mcp-header": "A"}}}}}
    assert mirrors_of(schema) == (Mirror(("a", "b"), b"Mcp-Param-A", is_integer),)


def test_one_header_cannot_stand_for_two_arguments() -> None:
    part = {"type": "string", "x-mcp-header": "A"}
    assert mirrors_of({"properties": {"a": part, "b": {**part, "x-mcp-header": "a"}}}) == ()


MARKED = {"type": "string", "x-mcp-header": "A"}
ELSEWHERE = [
    *(
        {keyword: MARKED}
        for keyword in (
            *("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames"),
            *("unevaluatedProperties", "not", "if", "then", "else", "contentSchema"),
        )
    ),
    *({keyword: [{}, MARKED]} for keyword in ("allOf", "anyOf", "oneOf", "prefixItems")),
    *(
        {keyword: {"x": MARKED}}
        for keyword in ("patternProperties", "dependentSchemas", "$defs", "definitions")
    ),
    {"items": {"properties": {"x": MARKED}}},
    MARKED,
]


@pytest.mark.parametrize("place", ELSEWHERE)
def test_a_mark_where_nothing_can_be_mirrored_makes_the_schema_ask_for_nothing(place: dict[str, Any]) -> None:
    good = {"properties": {"a": {"type": "string", "x-mcp-header": "Good"}}}
    assert len(mirrors_of(good)) == 1
    assert mirrors_of({**good, **place}) == ()
    nested = {"properties": {**good["properties"], "b": {"type": "object", **place}}}
    if place is not MARKED:
        assert mirrors_of(nested) == ()


@pytest.mark.parametrize(
    "schema",
    [
        None,
        5,
        [],
        {},
        {"properties": 5},
        {"properties": {"a": 5}},
        {"allOf": {}},
        {"allOf": 5},
        {"$defs": []},
    ],
)
def test_odd_schemas_ask_for_nothing(schema: object) -> None:
    assert mirrors_of(schema) == ()


@pytest.mark.parametrize("keyword", ["default", "const", "examples", "enum", "x-other"])
def test_a_mark_in_a_value_is_no_mark(keyword: str) -> None:
    again = {**MARKED, "x-mcp-header": "a"}
    for value in ({"properties": {"b": again}}, {"b": again}, [again], again):
        assert len(mirrors_of({"properties": {"a": MARKED}, keyword: value})) == 1


def test_what_is_no_schema_ends_no_search() -> None:
    schema = {"properties": {"b": {**MARKED, "x-mcp-header": "B"}, "a": 5}, "not": True}
    assert len(mirrors_of(schema)) == 1
    assert mirrors_of({**schema, "allOf": [MARKED, True]}) == ()


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": Raw(b'"t"'), "uri": Raw(b'"u"')}, b"t"),
        ("prompts/get", {"name": Raw(b'"t"')}, b"t"),
        (
            "resources/read",
            {"name": Raw(b'"t"'), "uri": Raw(b'"file:///\\u65e5"')},
            b"=?base64?ZmlsZTovLy/ml6U=?=",
        ),
        ("ping", {"name": Raw(b'"t"')}, None),
        ("ping", {"": Raw(b'"t"')}, None),
        ("tools/call", {"uri": Raw(b'"u"')}, None),
        ("tools/call", {"name": Raw(b'"\xff"')}, None),
        ("tools/call", None, None),
    ],
)
def test_a_modern_message_says_what_it_is_about(
    method: str, params: dict[str, Raw] | None, name: bytes | None
) -> None:
    wanted = [(b"MCP-Protocol-Version", b"2026-07-28"), (b"Mcp-Method", method.encode())]
    if name is not None:
        wanted.append((b"Mcp-Name", name))
    assert modern_headers("2026-07-28", method, params) == wanted


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'"method":"tools/call","params":{"name":"new"}', b"new"),
        (b'"method":"resources/read","params":{"uri":"new"}', b"new"),
        (b'"method":"tools/call","params":{"name":5}', b"old"),
        (b'"method":"tools/call","params":{}', b"old"),
        (b'"method":"tools/call"', b"old"),
        (b'"method":"ping","params":{"name":"new"}', b"old"),
        (b'"method":"ping","params":{"":"new"}', b"old"),
        (b'"result":{}', b"old"),
    ],
)
def test_a_changed_message_changes_the_header_that_names_it_and_no_other(body: bytes, name: bytes) -> None:
    message = client(b'{"jsonrpc":"2.0","id":1,%b}' % body)
    headers = [(b"Accept", b"x"), (b"mcp-NAME", b"old"), (b"Mcp-Method", b"old")]
    wanted = [(b"Accept", b"x"), (b"mcp-NAME", name), (b"Mcp-Method", b"old")]
    assert with_name_of(headers, message) == wanted
    assert with_name_of(headers[:1], message) == headers[:1]


def _learned(*tools: object) -> SchemaBook:
    book = SchemaBook()
    book.learn(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode())
    return book


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"name": Raw(b'"t"')},
        {"arguments": Raw(b'{"text":"x"}')},
        {"name": Raw(b'"other"'), "arguments": Raw(b'{"text":"x"}')},
        {"name": Raw(b"5"), "arguments": Raw(b'{"text":"x"}')},
        {"name": Raw(b'"\xff"'), "arguments": Raw(b'{"text":"x"}')},
        {"name": Raw(b'"t"'), "arguments": Raw(b"5")},
        {"name": Raw(b'"t"'), "arguments": Raw(b'{"deep":5}')},
        {"name": Raw(b'"t"'), "arguments": Raw(b'{"text":"\xff"}')},
        {"name": Raw(b'"t"'), "arguments": Raw(b'{"text":{"a":1}}')},
    ],
)
def test_a_call_that_mirrors_nothing_has_no_such_headers(params: dict[str, Raw] | None) -> None:
    assert BOOK.headers(params) == []


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (b'{"text":"x"}', [(b"Mcp-Param-Text", b"x")]),
        (b'{"flag":true}', [(b"Mcp-Param-Flag", b"true")]),
        (b'{"flag":false}', [(b"Mcp-Param-Flag", b"false")]),
        (b'{"text":1.5}', [(b"Mcp-Param-Text", b"1.5")]),
        (b'{"text":1.0}', [(b"Mcp-Param-Text", b"1.0")]),
        (b'{"text":5}', [(b"Mcp-Param-Text", b"5")]),
        (b'{"text":0}', [(b"Mcp-Param-Text", b"0")]),
        (b'{"count":1.5}', [(b"Mcp-Param-Count", b"1.5")]),
        (b'{"count":-12}', [(b"Mcp-Param-Count", b"-12")]),
        (b'{"count":0}', [(b"Mcp-Param-Count", b"0")]),
        (b'{"deep":{"er":"y"}}', [(b"Mcp-Param-Deeper", b"y")]),
    ],
)
def test_each_kind_of_argument_is_written_in_its_way(
    arguments: bytes, wanted: list[tuple[bytes, bytes]]
) -> None:
    assert BOOK.headers({"name": Raw(b'"t"'), "arguments": Raw(arguments)}) == wanted


def test_as_many_digits_as_a_server_may_read_are_sent() -> None:
    for digits, is_sent in ((4_300, True), (4_301, False)):
        headers = BOOK.headers({"name": Raw(b'"t"'), "arguments": Raw(b'{"count":%b}' % (b"1" * digits))})
        assert bool(headers) is is_sent


@pytest.mark.parametrize(
    "raw",
    [
        b"x-mcp-header",
        b'{"x-mcp-header":1}',
        b'{"result":{"tools":[{"name":"x-mcp-header\xff"}]}}',
        b'{"x-mcp-header":' + b"[" * 5_000,
        b'{"result":{"tools":{"x-mcp-header":1}}}',
        b'{"result":{"tools":"x-mcp-header"}}',
    ],
)
def test_what_is_no_tool_list_teaches_nothing(raw: bytes) -> None:
    book = SchemaBook()
    book.learn(raw)
    assert book.headers({"name": Raw(b'"t"'), "arguments": Raw(b"{}")}) == []


def test_only_so_many_tools_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCHEMAS", 2)
    book = _learned(*({"name": name, "inputSchema": SCHEMA} for name in "abc"))
    known = [
        name
        for name in "abc"
        if book.headers({"name": Raw(b'"%b"' % name.encode()), "arguments": Raw(b'{"text":"x"}')})
    ]
    assert known == ["a", "b"]


def test_tools_that_mark_nothing_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCHEMAS", 2)
    plain = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [{"name": name, "inputSchema": plain if name in "ab" else SCHEMA} for name in "abcd"]
    book = _learned(*tools)
    for name in "cd":
        assert book.headers({"name": Raw(b'"%b"' % name.encode()), "arguments": Raw(b'{"text":"x"}')})


def test_a_list_that_comes_again_is_no_reason_to_forget_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many tools as are remembered, learning them anew used to drop the first."""
    monkeypatch.setattr(limits, "SCHEMAS", 2)
    tools = [{"name": name, "inputSchema": SCHEMA} for name in "ab"]
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode()
    book = SchemaBook()
    for _ in range(2):
        book.learn(raw)
        for name in "ab":
            assert book.headers({"name": Raw(b'"%b"' % name.encode()), "arguments": Raw(b'{"text":"x"}')})


def test_a_tool_without_a_schema_is_no_reason_to_forget_the_others() -> None:
    book = _learned({"name": "x"}, {"name": "t", "inputSchema": SCHEMA})
    assert book.headers({"name": Raw(b'"t"'), "arguments": Raw(b'{"text":"x"}')})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a b~", b"a b~"),
        ("", b""),
        (" a", b"=?base64?IGE=?="),
        ("a ", b"=?base64?YSA=?="),
        ("a\tb", b"=?base64?YQli?="),
        ("\x7f", b"=?base64?fw==?="),
        ("=?base64?x?=", b"=?base64?PT9iYXNlNjQ/eD89?="),
        ("=?base64?x?=y", b"=?base64?x?=y"),
        ("x=?base64?x?=", b"x=?base64?x?="),
        ("=?base64?x", b"=?base64?x"),
    ],
)
def test_only_what_would_not_travel_is_wrapped(text: str, value: bytes) -> None:
    assert header_value(text) == value


def test_the_version_of_a_modern_request_is_the_one_in_its_meta() -> None:
    meta = Raw(b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}')
    assert maybe_modern_version({"_meta": meta}) == "2026-07-28"
    assert maybe_modern_version({"meta": meta}) is None
    assert maybe_modern_version({}) is None
    assert maybe_modern_version(None) is None
    assert maybe_modern_version({"_meta": Raw(b'{"io.modelcontextprotocol/protocolVersion":"\xff"}')}) is None


@pytest.mark.parametrize(
    "more", [b'"maximum":1e400', b'"maximum":%b' % (b"9" * 5_000), b'"title":"\\ud800"', b'"title":"\\u0061"']
)
def test_an_odd_value_in_a_schema_hides_none_of_its_marks(more: bytes) -> None:
    """One such value used to make every call of a modern client fail, or the whole list be forgotten."""
    schema = b'{"properties":{"a":{"type":"string","x-mcp-header":"A"}},%b}' % more
    assert mirrors_in(schema) == (Mirror(("a",), b"Mcp-Param-A", False),)
    book = SchemaBook()
    book.learn(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":%b}]}}' % schema)
    headers = book.headers({"name": Raw(b'"t"'), "arguments": Raw(b'{"a":"x"}')})
    assert headers == [(b"Mcp-Param-A", b"x")]


def test_a_schema_is_read_up_to_a_size() -> None:
    schema = b'{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"title":"%b"}'
    room = limits.SCHEMA_BYTES - len(schema) + len(b"%b")
    assert len(mirrors_in(schema % (b"x" * room))) == 1
    assert mirrors_in(schema % (b"x" * (room + 1))) == ()


def test_a_mark_may_be_spelt_with_escapes() -> None:
    schema = b'{"properties":{"a":{"type":"string","x\\u002dmcp-header":"A"}}}'
    assert len(mirrors_in(schema)) == 1


@pytest.mark.parametrize(
    "schema",
    [b"{}", b"null", b"5", b'"x-mcp-header"', b'"\\u0061"', b'{"x-mcp-header":', b'{"x-mcp-header":"\xff"}'],
)
def test_a_schema_without_marks_asks_for_nothing(schema: bytes) -> None:
    assert mirrors_in(schema) == ()
