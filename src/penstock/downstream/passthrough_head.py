"""What heads mean to the passthrough: found out once for all requests and answers that have them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, structs

from penstock.downstream.mcp_head import McpHead, read_head
from penstock.net.http_client import HttpClient
from penstock.net.http_exchange import Request
from penstock.relay.catalogs import Catalogs, principal_of, rights_of
from penstock.relay.kept_lists import CatalogKey
from penstock.wire.http.http1 import Headers, end_to_end, find, find_all, response_start

_NOT_PASSED_ON = frozenset((b"host", b"origin", b"accept-encoding", b"content-length"))
_ABOUT_ONE_MESSAGE = frozenset((b"accept", b"content-type", b"content-encoding", b"last-event-id", b"expect"))
# All that the transport needs, and a trace: whatever else a client sends may tell who it is.
_PROTOCOL = frozenset(
    b"accept content-type last-event-id mcp-method mcp-name mcp-protocol-version mcp-session-id "
    b"traceparent".split()
)
# A browser sends the cookies of whatever else runs on this host: cookies know no ports.
_COOKIES = frozenset((b"cookie", b"cookie2"))
_SETS_COOKIES = frozenset((b"set-cookie", b"set-cookie2"))
# What is no message is not ours to show as a page: it would run under our origin, beside the endpoint.
_NO_PAGE: Headers = [
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Content-Security-Policy", b"sandbox; default-src 'none'"),
]


class PassthroughHead(McpHead, kw_only=True):
    """The client's head, and the head that goes upstream in its place."""

    headers: Headers  # for the upstream
    start: bytes  # the same as bytes, for the endpoint
    key: CatalogKey  # whose tools its sender may call
    origin: bytes  # ours, as the client writes it
    whose: tuple[bytes, str] | None = None  # key and principal of its session, once somebody has asked
    _rights: bytes | None = None

    @property
    def rights(self) -> bytes:
        """What stands for whoever sends it, as far as the upstream can tell."""
        if self._rights is None:
            self._rights = rights_of(self.headers)
            if self.caller:
                self._rights = principal_of(self._rights + self.caller)
        return self._rights


class HeadReader:
    """Reads heads for one upstream."""

    def __init__(
        self, client: HttpClient, added: Headers, catalogs: Catalogs, passes_cookies: bool = False
    ) -> None:
        """`added` are headers that the user wants every request to have."""
        self._catalogs = catalogs
        self._client = client
        self._added = added
        self._ours = frozenset(name.lower() for name, _ in added) | _NOT_PASSED_ON
        self._relayed: Mapping[bytes, bytes] | None = None
        self._objections: dict[int, str] = {}  # statuses that are none of the client's business
        self.origin: bytes | None = None  # ours, where it does not depend on what clients write
        if not passes_cookies:
            self._ours |= _COOKIES
        self.kept_from_clients = frozenset[bytes]() if passes_cookies else _SETS_COOKIES

    def carried(self, headers: Headers) -> Headers:
        """What of a client's headers goes up where its message is translated: all that says who sends it,
        and nothing that is about the message or the connection."""
        return [
            (name, value)
            for name, value in self._passed(end_to_end(headers))
            if (low := name.lower()) not in _ABOUT_ONE_MESSAGE and not low.startswith(b"mcp-")
        ]

    def strip(self, relayed: Mapping[bytes, bytes]) -> None:
        """From now on lets only the protocol's own headers pass, and those in `relayed` by another name."""
        self._relayed = relayed
        if not relayed:
            # What the upstream wants is a matter between it and us. A client that were told would look for
            # another credential to show to us, or give up the good one that it has.
            self._objections[401] = "It does not take our credentials (HTTP 401)"

    def read_answer(self, status: int, headers: Headers) -> AnswerHead:
        """What the head of an upstream's answer means."""
        return read_answer_head(status, headers, self.kept_from_clients, self._objections.get(status))

    def _passed(self, headers: Headers) -> Headers:
        """Of a client's headers, those that go upstream."""
        relayed = self._relayed
        if relayed is None:
            return [field for field in headers if field[0].lower() not in self._ours]
        kept = []
        for name, value in headers:
            low = name.lower()
            if low in relayed:
                kept.append((relayed[low], value))
            elif low in _PROTOCOL or low.startswith(b"mcp-param-"):
                kept.append((name, value))
        return kept

    def read(self, request: Request) -> PassthroughHead:
        """What the head of `request` means."""
        head = request.memo.meaning
        if type(head) is PassthroughHead:
            return head
        read = request.memo.meaning = self._read(request, read_head(request))
        return read

    def _read(self, request: Request, head: McpHead) -> PassthroughHead:
        # What the client sent, without what belongs to this hop, with what the user adds.
        headers = self._passed(end_to_end(request.headers))
        headers.append((b"Accept-Encoding", b"identity"))
        headers += self._added
        return PassthroughHead(
            **structs.asdict(head),
            headers=headers,
            start=self._client.prepare(request.method, self._client.url.target, headers),
            key=self._catalogs.key(head.era, headers),
            origin=self.origin or b"http://" + (request.header(b"host") or b"localhost"),
        )


class AnswerHead(Struct, frozen=True):
    """What the head of a response means: found out once for all responses that have it."""

    objection: str | None
    is_stream: bool
    session: bytes | None
    headers: Headers  # for the client
    start: bytes  # the same as bytes, for a whole reply to a POST


def read_answer_head(
    status: int, headers: Headers, kept_from_clients: frozenset[bytes], objection: str | None = None
) -> AnswerHead:
    """What the head of an upstream's answer means, and the head that goes on to the client in its place."""
    kind = find(headers, b"content-type") or b""
    media = kind.partition(b";")[0].strip().lower()
    kept = [field for field in end_to_end(headers) if field[0].lower() not in kept_from_clients]
    if media not in _MESSAGES:
        kept += _NO_PAGE
    return AnswerHead(
        objection or _maybe_objection(status, headers, media),
        media == _EVENTS,
        find(headers, b"mcp-session-id"),
        kept,
        response_start(status, kept),
    )


def _maybe_objection(status: int, headers: Headers, media: bytes) -> str | None:
    """Why an answer cannot be looked at as its client will read it; None when it can."""
    if 300 <= status < 400:
        return f"It redirects (HTTP {status}), which is not followed"
    # Of two headers some clients take the first, others the last.
    if any(coding.strip().lower() != b"identity" for coding in find_all(headers, b"content-encoding")):
        return "It is compressed, though we asked for it plain"
    kinds = set(find_all(headers, b"content-type"))
    if len(kinds) > 1:
        return "It has two content types"
    # The words of an error page may be in any charset; messages are read, and then decoded once more.
    if (status < 300 or media in _MESSAGES) and not all(map(_is_like_ascii, kinds)):
        return "It is not in UTF-8"
    return None


def _is_like_ascii(kind: bytes) -> bool:
    """Whether ASCII is ASCII to whoever decodes by this content type: not so in UTF-7 or UTF-16."""
    return b"charset" not in kind.lower() or _LIKE_ASCII(kind) is not None


_EVENTS = b"text/event-stream"
_MESSAGES = frozenset((_EVENTS, b"application/json"))
_LIKE_ASCII = re.compile(
    rb"""(?i)[^;]*;[\t ]*charset=("?)(?:utf-?8|us-ascii|iso-8859-1|latin1|windows-1252)\1[\t ]*;?"""
).fullmatch
