"""Arguments of a tool call that travel in HTTP headers as well (modern era, `x-mcp-header`).

A tool's input schema may mark properties whose value the client repeats in an `Mcp-Param-NAME` header, so
that something on the way can route by it. Where we speak HTTP for a peer that cannot, we add those headers or
check them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from penstock.wire.routing_headers import decode_header, encode_header

MARK = "x-mcp-header"
PREFIX = b"mcp-param-"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.0+)?")
_TYPES = frozenset(("string", "integer", "boolean"))


class MarkedParam(Struct, frozen=True):
    """One property that a header repeats."""

    path: tuple[str, ...]
    header: bytes  # in lower case
    type: str


def marked_params(schema: bytes) -> tuple[MarkedParam, ...]:
    """The marked properties of an input schema; none when a mark is not as it must be.

    Marks count only on strings, integers and booleans that are reached through `properties` alone, each with
    a name of its own. A schema that breaks this is one that clients must not use, so nothing is asked of it.
    """
    if MARK.encode() not in schema:
        return ()
    try:
        root = msgspec.json.decode(schema)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    found = tuple(_reachable(root, ()))
    names = {param.header for param in found}
    is_sound = len(names) == len(found) == schema.count(b'"%b"' % MARK.encode())
    return found if is_sound else ()


def _reachable(schema: object, path: tuple[str, ...]) -> Iterator[MarkedParam]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, inner in properties.items():
        here = (*path, name)
        mark = inner.get(MARK) if isinstance(inner, dict) else None
        if isinstance(mark, str) and _TOKEN.fullmatch(mark) and inner.get("type") in _TYPES:
            yield MarkedParam(here, PREFIX + mark.lower().encode(), inner["type"])
        yield from _reachable(inner, here)


def param_headers(params: tuple[MarkedParam, ...], arguments: bytes | None) -> list[tuple[bytes, bytes]]:
    """The headers that repeat `arguments`."""
    values = _decode(arguments)
    headers = []
    for param in params:
        text = _maybe_text(_value_at(values, param.path))
        if text is not None:
            headers.append((param.header, encode_header(text)))
    return headers


def maybe_param_mismatch(
    params: tuple[MarkedParam, ...], arguments: bytes | None, fields: dict[bytes, bytes]
) -> str | None:
    """The name of the first header that does not say what `arguments` say; None when all do."""
    values = _decode(arguments)
    for param in params:
        value = _value_at(values, param.path)
        text = _maybe_text(value)
        header = fields.get(param.header)
        if (header is None) != (text is None):
            return param.header.decode()
        if header is None or text is None:
            continue
        try:
            said = decode_header(header)
        except ValueError:
            return param.header.decode()
        if said != text and not _is_same_integer(param.type, said, value):
            return param.header.decode()
    return None


def _is_same_integer(kind: str, said: str, value: object) -> bool:
    number = _DECIMAL.fullmatch(said)
    if kind != "integer" or number is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return len(number[1]) < 400 and float(value).is_integer() and int(number[1]) == int(value)


def _decode(arguments: bytes | None) -> object:
    try:
        return msgspec.json.decode(arguments) if arguments else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _value_at(values: object, path: tuple[str, ...]) -> object:
    for name in path:
        if not isinstance(values, dict):
            return None
        values = values.get(name)
    return values


def _maybe_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
