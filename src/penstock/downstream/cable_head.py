"""What heads mean to the cable: found out once for all requests and answers that have them."""

from __future__ import annotations

import re

from msgspec import Struct

from penstock.downstream.replies import is_session_id, maybe_wrong_body
from penstock.net.http_client import HttpClient
from penstock.net.http_exchange import Request
from penstock.relay.catalogs import rights_of
from penstock.wire.eras import Era, era_of_header
from penstock.wire.http1 import Headers, end_to_end, find, find_all, response_start

_NOT_PASSED_ON = frozenset((b"host", b"origin", b"accept-encoding", b"content-length"))

# A stream is UTF-8 whatever it says. But some clients believe what it says: to them the lines of one in
# UTF-16 or UTF-7 are others than those that we have looked at. In these, at least ASCII is what it is.
_CHARSET = re.compile(rb"charset[^=]*=[\s\"']*([^\s\"';,]*)").findall
_LIKE_ASCII = re.compile(rb"utf-?8|(us-)?ascii|(iso[-_]?8859|latin|windows|cp)[-_]?(125)?\d{1,2}").fullmatch


class CableHead(Struct, frozen=True):
    """The client's head, read for MCP, and the head that goes upstream in its place."""

    session: bytes | None
    is_session_malformed: bool
    era: Era
    version: bytes | None
    wrong: tuple[int, str] | None  # why the body of a POST cannot be read
    is_routed: bool  # whether there are headers that must say the same as the body
    headers: Headers  # for the upstream
    start: bytes  # the same as bytes, for the endpoint


class HeadReader:
    """Reads heads for one upstream."""

    def __init__(self, client: HttpClient, added: Headers) -> None:
        """`added` are headers that the user wants every request to have."""
        self._client = client
        self._added = added
        self._ours = frozenset(name.lower() for name, _ in added) | _NOT_PASSED_ON

    def read(self, request: Request) -> CableHead:
        """What the head of `request` means."""
        head: CableHead | None = request.known.get("cable")
        if head is None:
            head = request.known["cable"] = self._read(request)
        return head

    def rights(self, request: Request) -> bytes:
        """What stands for whoever sends `request`, as far as the upstream can tell."""
        rights: bytes | None = request.known.get("rights")
        if rights is None:
            rights = request.known["rights"] = rights_of(self.read(request).headers)
        return rights

    def _read(self, request: Request) -> CableHead:
        fields = request.fields
        session = fields.get(b"mcp-session-id")
        version = fields.get(b"mcp-protocol-version")
        era = era_of_header(version)
        # What the client sent, without what belongs to this hop, with what the user adds.
        headers = [field for field in end_to_end(request.headers) if field[0].lower() not in self._ours]
        headers.append((b"Accept-Encoding", b"identity"))
        headers += self._added
        return CableHead(
            session,
            session is not None and not is_session_id(session),
            era,
            version,
            maybe_wrong_body(request),
            era is Era.MODERN or b"mcp-method" in fields or b"mcp-name" in fields,
            headers,
            self._client.prepare(request.method, self._client.url.target, headers),
        )


class AnswerHead(Struct, frozen=True):
    """What the head of a response means: found out once for all responses that have it."""

    objection: str | None
    is_stream: bool
    session: bytes | None
    headers: Headers  # for the client
    start: bytes  # the same as bytes, for a whole reply to a POST


def read_answer_head(status: int, headers: Headers) -> AnswerHead:
    """What the head of an upstream's answer means."""
    objection = None
    kinds = find_all(headers, b"content-type")
    if 300 <= status < 400:
        objection = f"It redirects (HTTP {status}), which is not followed"
    elif any(coding.strip().lower() != b"identity" for coding in find_all(headers, b"content-encoding")):
        objection = "It is compressed, though we asked for it plain"
    elif len(kinds) > 1:
        objection = "It says twice what it is"  # and readers take the first, the last or both
    kind = kinds[0].lower() if kinds else b""
    is_stream = kind.split(b";")[0].strip() == b"text/event-stream"
    if is_stream and not all(map(_LIKE_ASCII, _CHARSET(kind))):
        objection = objection or "It is a stream in an encoding that is not ours"
    kept = end_to_end(headers)
    session = find(headers, b"mcp-session-id")
    return AnswerHead(objection, is_stream, session, kept, response_start(status, kept))
