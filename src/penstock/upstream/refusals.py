"""What is said, to people and to the client, when an HTTP upstream answers with something else."""

from __future__ import annotations

import logging

import msgspec

from penstock.errors import Failure, UpstreamProtocolError
from penstock.upstream.http_answer import HttpAnswer
from penstock.wire.http.http1 import find
from penstock.wire.http.sse import Oversize
from penstock.wire.mcp.carried import REFUSING, HttpRefusal
from penstock.wire.mcp.ids import maybe_id_at_edges
from penstock.wire.mcp.message import INTERNAL_ERROR, METHOD_NOT_FOUND, Batch, read_upstream_message
from penstock.wire.mcp.replies import error_reply, printable, raw_error_reply

log = logging.getLogger("penstock")

_NOT_FOR_FALLBACK = frozenset((401, 403, 407, 408, 413, 429))


class _Error(msgspec.Struct):
    code: int = 0


def error_code(error: bytes) -> int:
    """The code of a JSON-RPC error object; 0 when it has none."""
    try:
        return msgspec.json.decode(error, type=_Error).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


def maybe_error(answer: HttpAnswer) -> bytes | None:
    """The JSON-RPC error object in the body of an HTTP error."""
    if not answer.is_json:
        return None
    try:
        message = read_upstream_message(answer.body)
    except UpstreamProtocolError:
        return None
    if isinstance(message, Batch) or "error" not in message.envelope:
        return None
    return bytes(message.envelope["error"])


def is_another_kind(answer: HttpAnswer) -> bool:
    """Whether this is how something answers that speaks another transport than it was spoken to in."""
    if answer.is_good:
        return answer.status == 200 and not answer.is_events and answer.content_type != b"application/json"
    return 400 <= answer.status < 500 and answer.status not in _NOT_FOR_FALLBACK


def describe(answer: HttpAnswer) -> str:
    """The answer in a few words, for people; the client never sees more than the status."""
    words = f"It answered HTTP {answer.status}"
    if answer.status == 401:
        return words + ': it wants credentials; --header "Authorization: ..." can give them'
    if 300 <= answer.status < 400:
        where = printable((find(answer.headers, b"location") or b"").decode("utf-8", "replace"))
        return words + f" and points to {where or 'nowhere'}; that is not followed; name it yourself"
    if answer.trouble is not None:
        return f"{words}. {answer.trouble}"
    excerpt = printable(" ".join(answer.body[:200].decode("utf-8", "replace").split()))
    said = f"{words}: {excerpt}" if excerpt else words
    advice = _advice(answer)
    return f"{said}; {advice}" if advice else said


def _advice(answer: HttpAnswer) -> str:
    """What one can do about an answer, where that can be known from its status."""
    if answer.status == 403:
        return 'it does not take these credentials, or wants some: see --header "Authorization: ..."'
    if answer.status in (429, 503):
        wait = printable((find(answer.headers, b"retry-after") or b"").decode("utf-8", "replace"))
        return f"it wants to be asked after {wait} s" if wait.isdigit() else "it wants to be asked later"
    return "its own log says why" if answer.status >= 500 else ""


def reply_for_status(
    id_token: bytes, answer: HttpAnswer, has_session: bool, error: bytes | None = None
) -> bytes:
    """The error for a request that was answered with a status, and perhaps with an error object.

    Outside a session, 404 is what servers say that do not know a method; clients which try several eras
    go on to the next when they hear it.
    """
    code = METHOD_NOT_FOUND if answer.status == 404 and not has_session else INTERNAL_ERROR
    data = {"code": Failure.INVALID_RESPONSE, "status": answer.status}
    if error is not None:
        reply = raw_error_reply(id_token, error)
    else:
        reply = error_reply(id_token, code, f"Upstream MCP answered HTTP {answer.status}", data)
    return HttpRefusal(reply, answer.status, answer.headers) if answer.status in REFUSING else reply


def maybe_id_of_long_event(event: Oversize) -> bytes | None:
    """The id of a message too long to read, when it stands at one of its edges."""
    head = event.head[event.head.find(b"data:") + 5 :]
    return maybe_id_at_edges(head, event.tail.rstrip(b"\r\n"))
