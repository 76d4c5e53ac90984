"""The parsers that real MCP servers and clients have, and what each makes of the same bytes.

A reader takes the bytes of one message as they stand on the wire and gives the values it would act upon: none
where it would refuse, several where it sees several messages. `calls` and `listed` then say what it would do.
`readings` has one more, which is laxer than any real one and is fired at live proxies.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import orjson

from readings import folded

Values = list[Any]
Reader = Callable[[bytes], Values]

_Pairs = list[tuple[str, Any]]


def _loads(**how: Any) -> Callable[[str], Any]:
    return json.JSONDecoder(strict=False, **how).decode


def _first_of(pairs: _Pairs) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in pairs:
        out.setdefault(name, value)
    return out


def _case_folded(pairs: _Pairs) -> dict[str, Any]:
    # Go's encoding/json: any case, and U+017F and U+212A are taken for s and k; the last one wins.
    return {name.casefold(): value for name, value in pairs}


def _merged(pairs: _Pairs) -> dict[str, Any]:
    # Go decoding into a struct: a second object fills in the same fields.
    out: dict[str, Any] = {}
    for name, value in pairs:
        name = name.casefold()
        before = out.get(name)
        out[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return out


def _normal(pairs: _Pairs) -> dict[str, Any]:
    out = {unicodedata.normalize("NFKC", name).casefold().strip(): value for name, value in pairs}
    if isinstance(out.get("method"), str):
        out["method"] = folded(out["method"]).replace("\\", "/").replace("//", "/").strip("/")
    return out


def _trimmed(pairs: _Pairs) -> dict[str, Any]:
    out = {name.strip().strip("\ufeff\u200b"): value for name, value in pairs}
    if isinstance(out.get("method"), str):
        out["method"] = out["method"].strip()
    return out


def _cut_at_nul(pairs: _Pairs) -> dict[str, Any]:
    return {name.split("\0")[0]: _text_before_nul(value) for name, value in pairs}


def _text_before_nul(value: Any) -> Any:
    return value.split("\0")[0] if isinstance(value, str) else value


def _inheriting(pairs: _Pairs) -> dict[str, Any]:
    # A JavaScript reader that copies members one by one into a plain object.
    own = dict(pairs)
    above: dict[str, Any] = {}
    for name in ("__proto__", "constructor", "prototype"):
        if isinstance(own.get(name), dict):
            above.update(own[name])
    return {**above, **own}


_plain = _loads()
_decode_stream = json.JSONDecoder(strict=False).raw_decode
_BREAKS = re.compile(rb"\r\n|\r|\n")


def _stream(text: str) -> Iterator[Any]:
    """One value after another, until one cannot be read."""
    position = 0
    while True:
        while position < len(text) and text[position] in " \t\r\n,\0\x1e":
            position += 1
        if position == len(text):
            return
        value, position = _decode_stream(text, position)
        yield value


def _tolerant(values: Callable[[bytes], Values | Iterator[Any]]) -> Reader:
    """A reader that has read nothing more where it stumbles."""

    def read(raw: bytes) -> Values:
        out: Values = []
        try:
            out.extend(values(raw))
        except (ValueError, RecursionError, MemoryError):
            pass
        return out

    return read


def _pieces(cut: Callable[[bytes], list[str]]) -> Reader:
    """A reader that takes every piece for a message of its own and skips those that are none."""
    read = _tolerant(lambda piece: [_plain(piece.decode("utf-8", "surrogatepass"))])
    return lambda raw: [value for piece in cut(raw) for value in read(piece.encode("utf-8", "surrogatepass"))]


def _in(how: Callable[[str], Any], coding: str = "utf-8", errors: str = "replace") -> Reader:
    return _tolerant(lambda raw: [how(raw.decode(coding, errors))])


READERS: dict[str, Reader] = {
    "python": _tolerant(lambda raw: [json.loads(raw)]),  # guesses UTF-16 and UTF-32, as the library does
    "python, any bytes": _in(_plain),
    "python, bad bytes left out": _in(_plain, errors="ignore"),
    "python, bad bytes kept": _in(_plain, errors="surrogateescape"),
    "latin-1": _in(_plain, "latin-1"),
    "byte order mark left out": _in(_plain, "utf-8-sig"),
    "orjson": _tolerant(lambda raw: [orjson.loads(raw)]),
    "msgspec": _tolerant(lambda raw: [msgspec.json.decode(raw)]),
    "first name wins": _in(_loads(object_pairs_hook=_first_of)),
    "any case": _in(_loads(object_pairs_hook=_case_folded)),
    "any case, objects merged": _in(_loads(object_pairs_hook=_merged)),
    "NFKC": _in(_loads(object_pairs_hook=_normal)),
    "names trimmed": _in(_loads(object_pairs_hook=_trimmed)),
    "inheriting": _in(_loads(object_pairs_hook=_inheriting)),
    "text ends at NUL": _tolerant(lambda raw: [_plain(raw.split(b"\0")[0].decode("utf-8", "replace"))]),
    "strings end at NUL": _in(_loads(object_pairs_hook=_cut_at_nul)),
    "one after another": _tolerant(lambda raw: _stream(raw.decode("utf-8", "replace"))),
}
"""Readers of one message, however it came."""

LINE_READERS: dict[str, Reader] = {
    **READERS,
    "lines end at CR": _pieces(lambda raw: [line.decode("utf-8", "replace") for line in _BREAKS.split(raw)]),
    "str.splitlines": _pieces(lambda raw: raw.decode("utf-8", "replace").splitlines()),
    "str.splitlines, latin-1": _pieces(lambda raw: raw.decode("latin-1").splitlines()),
    "lines end at NUL": _pieces(lambda raw: raw.decode("utf-8", "replace").split("\0")),
}
"""The same, and those that end a line at more than LF: for what goes over a pipe."""


def calls(value: Any) -> Iterator[str]:
    """The tools that are run by whoever acts upon `value`."""
    waiting = [value]
    while waiting:  # some readers nest deeper than our own stack goes
        part = waiting.pop()
        if isinstance(part, list):
            waiting += reversed(part)
        elif isinstance(part, dict) and part.get("method") == "tools/call":
            params = part.get("params")
            names = [params.get("name")] if isinstance(params, dict) else params
            yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def listed(value: Any) -> Iterator[dict[str, Any]]:
    """The tools that are shown by whoever acts upon `value`, an answer."""
    if isinstance(value, list):
        for part in value:
            yield from listed(part)
    elif isinstance(value, dict):
        result = value.get("result")
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                yield tool
