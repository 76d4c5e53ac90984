"""What a modern request says of itself in HTTP headers, made from its body so that the two agree.

Servers refuse a request whose headers and body differ, or lack a header that the tool's schema asks for
(`x-mcp-header`). A schema that marks what cannot be mirrored (anything but a plain property that is a
string, an integer or a boolean) asks for nothing: conforming servers then check nothing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from penstock import limits
from penstock.wire.http.http1 import Headers
from penstock.wire.json.ambiguity import (
    Members,
    NotAnArray,
    NotJson,
    elements,
    last_members,
    readable,
)
from penstock.wire.json.nesting import nests_too_deep
from penstock.wire.mcp.eras import decode_sender
from penstock.wire.mcp.message import Message

NAMED_BY: dict[str | None, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel", "tasks/result"), "taskId"),
}
"""Which member of params the Mcp-Name header repeats."""
_MARK = "x-mcp-header"
_PLAIN = re.compile(r"[\x20-\x7e]*").fullmatch
_WRAPPED = re.compile(r"=\?base64\?.*\?=").fullmatch
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)").fullmatch
_MOST_DIGITS = 4_300  # what a Python server is willing to turn into text
_decode_text = msgspec.json.Decoder(str).decode

# Where else in a schema a schema may stand. A mark at any of these makes the whole schema ask for nothing.
_ONE_SCHEMA = frozenset(
    "items contains unevaluatedItems additionalProperties propertyNames unevaluatedProperties not if then "
    "else contentSchema".split()
)
_SCHEMA_LISTS = frozenset("allOf anyOf oneOf prefixItems".split())
_SCHEMA_MAPS = frozenset("patternProperties dependentSchemas $defs definitions".split())

Path = tuple[str, ...]


class Mirror(Struct, frozen=True):
    """One argument that travels in a header as well."""

    path: Path
    header: bytes
    is_integer: bool


def maybe_modern_version(params: Members | None) -> str | None:
    """The protocol version that a modern request names in its `_meta`; None in the legacy era."""
    meta = params.get("_meta") if params else None
    if meta is None:
        return None
    try:
        token = decode_sender(readable(meta)).version
        return None if token is UNSET else _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def header_value(text: str) -> bytes:
    """`text` as a header value; what a header cannot carry as it is travels in base64."""
    if _PLAIN(text) and text == text.strip() and not _WRAPPED(text):
        return text.encode()
    return b"=?base64?" + base64.b64encode(text.encode()) + b"?="


def modern_headers(version: str, method: str, params: Members | None) -> Headers:
    """The headers that every modern message carries, and the name of what it is about."""
    headers = [(b"MCP-Protocol-Version", header_value(version)), (b"Mcp-Method", header_value(method))]
    name = _maybe_name(method, params)
    if name is not None:
        headers.append((b"Mcp-Name", name))
    return headers


def with_name_of(headers: Headers, message: Message) -> Headers:
    """`headers` with the Mcp-Name of a message that was changed on its way, where they have one."""
    value = _maybe_name(message.method, message.params)
    if value is None:
        return headers
    return [(name, value) if name.lower() == b"mcp-name" else (name, old) for name, old in headers]


def with_params_of(headers: Headers, message: Message, schema: bytes) -> Headers:
    """`headers` with the arguments of a call that was changed on its way, as the tool's schema marks them."""
    mirrors = mirrors_in(schema)
    arguments = (message.params or {}).get("arguments")
    if not mirrors:
        return headers
    ours = {mirror.header.lower() for mirror in mirrors}
    kept = [field for field in headers if field[0].lower() not in ours]
    for mirror in mirrors:
        text = maybe_mirrored_text(arguments, mirror) if arguments is not None else None
        if text is not None:
            kept.append((mirror.header, header_value(text)))
    return kept


TRACED = "telemetry"
"""Stands among the rules that changed a message, where our span was put into it."""


def traceparent_of(trace: str) -> str:
    """The traceparent of our hop, from the ids of an exchange: trace, our span, our hop's span, and more."""
    trace_id, _, hop, *_ = trace.split(".")
    return f"00-{trace_id}-{hop}-01"


def with_traceparent(headers: Headers, trace: str) -> Headers:
    """`headers` with our own traceparent in the place of the client's."""
    kept = [field for field in headers if field[0].lower() != b"traceparent"]
    return [*kept, (b"traceparent", traceparent_of(trace).encode())]


def _maybe_name(method: str | None, params: Members | None) -> bytes | None:
    """What a message is about, as a header value."""
    naming = NAMED_BY.get(method)
    token = (params or {}).get(naming) if naming else None
    try:
        return None if token is None else header_value(_decode_text(token))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # not a name: the server will say so


class SchemaBook:
    """Which arguments of which tools travel in headers, as the tool lists that passed by say."""

    def __init__(self) -> None:
        self._mirrors: dict[str, tuple[Mirror, ...]] = {}

    def learn(self, raw: bytes) -> None:
        """Reads a response to tools/list."""
        if (not self._mirrors and _MARK.encode() not in raw) or nests_too_deep(raw):
            return
        try:
            page = msgspec.json.decode(readable(raw), type=_ListAnswer)
            entries = elements(page.result.tools)
            tools = [msgspec.json.decode(readable(entry), type=_Tool) for entry in entries]
        except (NotJson, NotAnArray, msgspec.DecodeError, UnicodeDecodeError):
            return
        for tool in tools:
            mirrors = mirrors_in(tool.schema)
            if mirrors and (tool.name in self._mirrors or len(self._mirrors) < limits.SCHEMAS):
                self._mirrors[tool.name] = mirrors
            else:
                self._mirrors.pop(tool.name, None)

    def headers(self, params: Members | None) -> Headers:
        """The Mcp-Param headers of a tools/call."""
        if not self._mirrors or params is None or "name" not in params or "arguments" not in params:
            return []
        try:
            mirrors = self._mirrors.get(_decode_text(params["name"]), ())
        except (msgspec.DecodeError, UnicodeDecodeError):
            return []
        headers: Headers = []
        for mirror in mirrors:
            text = maybe_mirrored_text(params["arguments"], mirror)
            if text is not None:
                headers.append((mirror.header, header_value(text)))
        return headers


class _Tool(Struct):
    name: str
    schema: Raw = msgspec.field(name="inputSchema", default=Raw(b"null"))


class _ListResult(Struct):
    tools: Raw


class _ListAnswer(Struct):
    result: _ListResult


def mirrors_in(schema: bytes | Raw) -> tuple[Mirror, ...]:
    """The arguments that a schema, as it is written, marks."""
    return mirrors_of(_decoded(bytes(schema)))


def has_wrong_mark(schema: bytes | Raw) -> bool:
    """Whether a schema, as it is written, marks an argument in a way that is not allowed."""
    return _maybe_mirrors(_decoded(bytes(schema))) is None


def _decoded(text: bytes) -> object:
    """A schema; nothing when it has no marks, or cannot be read."""
    if len(text) > limits.SCHEMA_BYTES or (_MARK.encode() not in text and b"\\u" not in text):
        return None
    try:
        return msgspec.json.decode(readable(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json  # takes numbers that msgspec does not: 1e400, or one of 5,000 digits

        try:
            return json.loads(text, parse_int=str, parse_float=str)
        except ValueError:
            return None


def mirrors_of(schema: object) -> tuple[Mirror, ...]:
    """The arguments that `schema` marks; none when one of its marks is not allowed."""
    return _maybe_mirrors(schema) or ()


def _maybe_mirrors(schema: object) -> tuple[Mirror, ...] | None:
    """The arguments that `schema` marks; None when one of its marks is not allowed."""
    found: dict[str, Mirror] = {}
    for path, part in _schemas_in(schema):
        if _MARK not in part:
            continue
        name, kind = part[_MARK], part.get("type")
        if not path or not isinstance(name, str) or not _TOKEN(name) or name.lower() in found:
            return None
        if kind not in ("string", "integer", "boolean"):
            return None
        found[name.lower()] = Mirror(path, b"Mcp-Param-" + name.encode(), kind == "integer")
    return tuple(found.values())


def _schemas_in(root: object) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Every schema in `root` with the properties that lead to it; None when more than properties do."""
    waiting: list[tuple[Path | None, object]] = [((), root)]
    while waiting:
        path, schema = waiting.pop()
        if not isinstance(schema, dict):
            continue
        yield path, schema
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                for name, part in value.items():
                    waiting.append((None if path is None else (*path, name), part))
            elif keyword in _ONE_SCHEMA:
                waiting.append((None, value))
            elif keyword in _SCHEMA_LISTS and isinstance(value, list):
                waiting += ((None, part) for part in value)
            elif keyword in _SCHEMA_MAPS and isinstance(value, dict):
                waiting += ((None, part) for part in value.values())


def maybe_mirrored_text(arguments: Raw, mirror: Mirror) -> str | None:
    """The argument that a header repeats, as text; None when there is none."""
    token = arguments
    try:
        for name in mirror.path:
            token = last_members(token)[0][name]
        return _maybe_text(bytes(token), mirror.is_integer)
    except (KeyError, msgspec.DecodeError, ValueError):
        return None


def _maybe_text(token: bytes, is_integer: bool) -> str | None:
    """A JSON scalar as the header writes it. Numbers keep every digit: a float would lose some."""
    if token[:1] == b'"':
        return _decode_text(token)
    if token in (b"true", b"false"):
        return token.decode()
    if token[:1] in b"n{[":
        return None
    if _INTEGER(token):
        return None if len(token) > _MOST_DIGITS else "0" if token == b"-0" else token.decode()
    number = float(token)
    # 1e3 is the integer 1000 to those who compare numbers and to those who compare JavaScript's text.
    return str(int(number)) if is_integer and number.is_integer() else repr(number)
