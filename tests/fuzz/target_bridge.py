"""The bridge between the eras: whatever either side says, what comes out are messages, and no tool is called
that the client did not call."""

from __future__ import annotations

import itertools

import msgspec

from penstock.bridge.legacy_face import LegacyFace
from penstock.bridge.modern_face import ModernFace
from penstock.bridge.steps import Step, Tell, ToUpstream
from penstock.errors import ProtocolError
from penstock.wire.mcp.message import Kind, Message, read_client_message, read_upstream_message

_OPENING = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{"elicitation":{},"sampling":{}},"clientInfo":{"name":"old","version":"1"}}}'
)
_DISCOVERED = (
    b'{"jsonrpc":"2.0","id":"own-1","result":{"supportedVersions":["2026-07-28"],'
    b'"capabilities":{"tools":{"listChanged":true},"logging":{}}}}'
)
_GREETED = (
    b'{"jsonrpc":"2.0","id":"own-1","result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"old",'
    b'"version":"1"},"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}}}'
)
_META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":'
    b'{"name":"new","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}'
)


def check(data: bytes) -> None:
    """The first byte picks the face. Of each line after it, the first byte says who speaks: c, u, or a tick.
    In what the client says, META stands for the `_meta` of its era."""
    numbers = itertools.count(1)
    lines = data[1:].split(b"\n") if data else []
    if data[:1] < b"m":
        face: LegacyFace | ModernFace = _legacy(numbers)
    else:
        face = ModernFace(lambda: b'"own-%d"' % next(numbers), b'{"name":"p","version":"1"}')
        _take(
            face.client_says(
                _client(b'{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{META}}'), 0
            ),
            [],
        )
        _take(face.upstream_says(_upstream(_GREETED), 0), [])
    called: list[bytes] = []
    for now, line in enumerate(lines):
        try:
            if line[:1] == b"c":
                message = _client(line[1:])
                if message.kind is Kind.RESPONSE and message.id_token is None:
                    continue  # it answers nothing, and the relay drops it
                if message.method == "tools/call" and message.params and "name" in message.params:
                    called.append(_name(bytes(message.params["name"])))
                steps = face.client_says(message, float(now))
            elif line[:1] == b"u":
                steps = face.upstream_says(_upstream(line[1:]), float(now))
            else:
                steps = face.tick(float(now) + 1000.0 * len(line))
        except (ProtocolError, _NoMessage):
            continue
        _take(steps, called)


def _legacy(numbers: itertools.count[int]) -> LegacyFace:
    face = LegacyFace(_client(_OPENING), lambda: b'"own-%d"' % next(numbers))
    face.discovery()
    face.discovered(_upstream(_DISCOVERED))
    return face


class _NoMessage(Exception):
    pass


def _client(raw: bytes) -> Message:
    message = read_client_message(raw.replace(b"META", _META))
    if not isinstance(message, Message):
        raise _NoMessage
    return message


def _upstream(raw: bytes) -> Message:
    message = read_upstream_message(raw)
    if not isinstance(message, Message):
        raise _NoMessage
    return message


def _take(steps: list[Step], called: list[bytes]) -> None:
    for step in steps:
        if isinstance(step, ToUpstream):
            message = read_client_message(step.raw)  # raises where an upstream could read it in two ways
            assert isinstance(message, Message)
            if message.method == "tools/call" and message.params and "name" in message.params:
                assert _name(bytes(message.params["name"])) in called, (step.raw, called)
        elif isinstance(step, Tell):
            assert step.text, "people are told nothing"
        else:
            assert isinstance(read_upstream_message(step.raw), Message)


def _name(token: bytes) -> bytes:
    try:
        return msgspec.json.decode(token, type=str).encode("utf-8", "surrogatepass")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return token
