"""The answers Penstock gives itself, as bytes."""

from __future__ import annotations

import msgspec

from penstock import limits
from penstock.errors import UpstreamError
from penstock.wire.sizes import spoken_size

TOOL_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603
INVALID_ANSWER = "The upstream's answer is not valid"
"""All that a client is told of an answer that must not be passed on."""
CANCELLED = "The request was cancelled"
"""What is said to a request that was cancelled before it got anywhere, where something must be said."""

_encode = msgspec.json.Encoder().encode


class ForClient(str):
    """A reason for not passing something on that its client may read as well."""

    __slots__ = ()


def told(why: str) -> str:
    """What a client is told of an answer that was not passed on for the reason `why`."""
    return str(why) if isinstance(why, ForClient) else INVALID_ANSWER


def over_limit(size: int | None = None) -> ForClient:
    """Why a message is not passed on that is too large, with the option by which it would be."""
    has = f"has {size:,} bytes" if size is not None else "is too large"
    return ForClient(
        f"The message {has}: the limit is {spoken_size(limits.MESSAGE_BYTES)}, and --max-message raises it"
    )


def error_reply(id_token: bytes | None, code: int, message: str, data: object = None) -> bytes:
    """A JSON-RPC error with the id as the sender wrote it; null when it could not be known."""
    tail = b"" if data is None else b',"data":' + _encode(data)
    return b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":%b%b}}' % (
        id_token or b"null",
        code,
        _encode(message),
        tail,
    )


def upstream_error_reply(id_token: bytes | None, error: UpstreamError) -> bytes:
    """What a client is told of an upstream that failed: a safe sentence, and the code of what went wrong."""
    return error_reply(id_token, _INTERNAL_ERROR, error.safe_message, {"code": error.failure})


def raw_error_reply(id_token: bytes, error: bytes) -> bytes:
    """A JSON-RPC error whose error object is somebody's own bytes."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_token, error)


def result_reply(id_token: bytes, result: bytes) -> bytes:
    """A JSON-RPC response with `result` as its bytes."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_token, result)


def failed_call(reason: str, is_modern: bool) -> bytes:
    """The result of a call that failed, with the reason as its text, so that a model reads it."""
    result: dict[str, object] = {"content": [{"type": "text", "text": reason}], "isError": True}
    if is_modern:
        result["resultType"] = "complete"
    return msgspec.json.encode(result)


def tool_not_found(id_token: bytes, name: str, code: int = TOOL_NOT_FOUND) -> bytes:
    """The one answer for every tool that is not in the catalog, whatever the reason."""
    return error_reply(id_token, code, f"Tool not found: {printable(name)}")


def printable(name: str) -> str:
    """`name` without control, direction and other invisible characters, cut to a sane length."""
    name = name[: limits.NAME_ECHO]
    if name.isascii() and name.isprintable():
        return name
    return "".join(char if char.isprintable() else "?" for char in name)


def one_line(text: str) -> str:
    """`text` with nothing in it that a terminal or a log reader would take for a new line or a command."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def error_code(raw: bytes) -> int:
    """The code of the error in a response; 0 when it is none."""
    try:
        return msgspec.json.decode(raw, type=_Response).error.code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


class _Error(msgspec.Struct):
    code: int = 0


class _Response(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)
