"""The two judges: one reads all that reached the upstream under every reading, one all that a client saw."""

from __future__ import annotations

import base64
import gzip
import json
import re
import urllib.parse
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from gate import ROOT
from readings import calls_in, folded
from trials.attack.rows import DENIED

OURS = (b"Traceback", b'File "', b"site-packages", str(ROOT).encode(), b"penstock/", b".py", b"0x7f")
"""What a client must never be shown: traces, paths, addresses. The rules are added where they are known."""

LARGE = 100_000
"""Bytes above which only the plain readings are tried: the careful ones take a second a megabyte."""

_LINES = re.compile(rb"\r?\n(?:data: ?)?|\r(?:data: ?)?")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_BASE64 = re.compile(rb"=\?base64\?([A-Za-z0-9+/=]+)\?=")
_CHUNK = re.compile(rb"[ \r\n]*(?:0[xX])?([0-9a-fA-F]+)(?:;[^\r\n]*)?\r?\n")

_UTF7 = re.compile(rb"(?i)content-type:[^\r\n]*charset[^\r\n]*utf-?[^\r\n]*7")
"""A head that some readers take to say that what follows is in UTF-7."""


# --- what reached the upstream ----------------------------------------------------------------------------


def denied_calls(pieces: Iterable[bytes], names: Iterable[str] = DENIED) -> set[str]:
    """The denied tools that some reader would run on getting these bytes."""
    wanted = {folded(name) for name in names}
    found: set[str] = set()
    for piece in pieces:
        for view in _views(piece):
            if len(view) <= LARGE:
                found |= calls_in(view) & wanted
            else:
                lines = [line for line in view.split(b"\n") if b"tools/call" in line]
                found |= {name for name in wanted if any(name.encode() in line for line in lines)}
    return found


def _views(data: bytes) -> Iterator[bytes]:
    """The bytes as they are; as an HTTP body in chunks; unpacked; in the charset that a head may speak of."""
    yield data
    if _UTF7.search(data):
        yield data.decode("utf-7", "replace").encode()
    if b"chunked" in data:
        for head in re.finditer(rb"\r\n\r\n", data):
            yield _unchunked(data[head.end() :])
    for start in [match.start() for match in re.finditer(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]", data)][:5]:
        yield from _unpacked(data[start:])


def _unchunked(data: bytes) -> bytes:
    """What is in the chunks, by a reader that takes anything for one."""
    body, position = b"", 0
    while (match := _CHUNK.match(data, position)) is not None:
        size = min(int(match[1], 16), len(data))
        body += data[match.end() : match.end() + size]
        position = match.end() + size
    return body


def _unpacked(data: bytes) -> Iterator[bytes]:
    for how in (zlib.MAX_WBITS | 16, zlib.MAX_WBITS):
        try:
            opened = zlib.decompressobj(how).decompress(data, LARGE)
        except zlib.error:
            continue
        yield opened
        if opened[:2] == b"\x1f\x8b":
            try:
                yield gzip.decompress(opened)[:LARGE]
            except (OSError, EOFError, zlib.error):
                pass


# --- what a client was shown ------------------------------------------------------------------------------


def hidden_names(seen: bytes, told: Iterable[bytes], names: Iterable[str] = DENIED) -> set[str]:
    """The hidden names in what came, in whatever spelling, but for those in a plain refusal of a call."""
    for message in told:
        for refusal in _refusals(message):
            seen = seen.replace(refusal, b"")
    return {name for name in names if _mentions(seen, folded(name))}


def _refusals(message: bytes) -> Iterator[bytes]:
    """The refusals in a message, or in the members of a batch, as they stand there."""
    if b"Tool not found: " not in message:
        return
    try:
        value = json.loads(message, parse_int=str)
    except ValueError:
        return
    if is_refusal(value):
        yield message
    elif isinstance(value, list):
        for shown in {part["error"]["message"] for part in value if is_refusal(part)}:
            yield json.dumps(shown, ensure_ascii=False).encode()


def is_refusal(value: Any) -> bool:
    """Whether this is what everybody hears who calls a tool that is not there."""
    error = value.get("error") if isinstance(value, dict) else None
    return (
        isinstance(error, dict)
        and error.keys() == {"code", "message"}
        and str(error["code"]) == "-32601"
        and str(error["message"]).startswith("Tool not found: ")
        and str(error["message"]).isprintable()
        and len(error["message"]) < 160
    )


def _mentions(data: bytes, name: str) -> bool:
    if name.encode() in data:
        return True
    if len(data) > LARGE:
        data = data[:LARGE] + data[-LARGE:]  # what is in between is the filling of large messages
    joined = _LINES.sub(b"", data)
    texts = [data.decode("utf-8", "replace"), joined.decode("utf-8", "replace")]
    if _UTF7.search(data):
        texts.append(data.decode("utf-7", "replace"))
    texts += [data.decode("utf-16-le", "replace"), data[1:].decode("utf-16-le", "replace")]
    for packed in _BASE64.findall(data):
        texts.append(base64.b64decode(packed + b"==").decode("utf-8", "replace"))
    for text in texts:
        for _ in range(2):  # a text in a text is escaped twice
            text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text.replace("\\\\", "\\"))
        if name in folded_all(text) or name in folded_all(urllib.parse.unquote(text)):
            return True
    return False


def folded_all(text: str) -> str:
    """`text` without case, width and what is invisible, to its end."""
    return folded(text.replace("\0", ""))


def words_of_ours(seen: bytes, rules: Iterable[bytes] = ()) -> list[bytes]:
    """What in this is nobody's business: traces, paths, patterns."""
    return [word for word in (*OURS, *rules) if word in seen]
