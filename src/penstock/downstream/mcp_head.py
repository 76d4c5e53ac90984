"""What the head of an HTTP request means to MCP: read once, for every door, and remembered with its bytes."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from penstock.net.http_exchange import Reply, Request
from penstock.relay.catalogs import principal_of
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.eras import Era, era_of_header

Door = Callable[[Request, Reply], None]
Refusal = tuple[int, str]
"""A status and the reason that the client is told."""

# The header goes on to an HTTP upstream, which may decode the body by it: then other text is run than was
# judged. What some take for a charset and others do not (blanks round the "=", charset*=) is refused with it.
_JSON_IN_UTF8 = re.compile(
    rb"""(?i)application/json[\t ]*(?:;[\t ]*(?:charset=(?:utf-?8|us-ascii|"utf-?8"|"us-ascii")[\t ]*)?)?"""
).fullmatch


class McpHead(Struct):
    """The head of a request, read for MCP. It serves every request that has the same head."""

    era: Era
    version: str | None
    is_version_repeated: bool
    session: bytes | None
    is_session_malformed: bool
    wrong_body: Refusal | None  # why the body of a POST cannot be read as JSON
    wrong_post: Refusal | None  # the same for a POST whose answer may be JSON or events
    wants_events: bool
    is_routed: bool  # there are headers that must say the same as the body
    authorization: bytes | None
    door: Door | None = None  # whose it is, once it has been let in
    extra: Headers | tuple[()] = ()  # headers that go with every reply to it
    caller: bytes = b""  # who sends it, where callers are known: it has shown a credential of ours
    posted_to: bytes | None = None  # the session that the query names, once the SSE door has looked
    _principal: bytes | None = None

    @property
    def principal(self) -> bytes:
        """What stands for the credentials that the client shows."""
        if self._principal is None:
            self._principal = principal_of(self.caller or self.authorization)
        return self._principal


def read_head(request: Request) -> McpHead:
    """What the head of `request` means."""
    head = request.memo.meaning
    if head is None:
        head = request.memo.meaning = _read(request)
    assert isinstance(head, McpHead)
    return head


def _read(request: Request) -> McpHead:
    fields = request.fields
    version = fields.get(b"mcp-protocol-version")
    session = fields.get(b"mcp-session-id")
    era = era_of_header(version)
    wrong_body = maybe_wrong_body(fields)
    takes_events = accepts(fields, b"text/event-stream")
    wrong_post = wrong_body
    if wrong_body is None and not (takes_events and accepts(fields, b"application/json")):
        wrong_post = 406, "Not acceptable: the client must accept application/json and text/event-stream"
    return McpHead(
        era,
        None if version is None else version.decode("ascii", "replace"),
        version is not None and b"," in version,
        session,
        session is not None and not is_session_id(session),
        wrong_body,
        wrong_post,
        wants_events(fields),
        era is Era.MODERN or b"mcp-method" in fields or b"mcp-name" in fields,
        fields.get(b"authorization"),
    )


def maybe_wrong_body(fields: dict[bytes, bytes]) -> Refusal | None:
    """Status and reason when a POST is not JSON as it stands; None when its body may be read."""
    kind = fields.get(b"content-type")
    if kind is None or kind.partition(b";")[0].strip().lower() != b"application/json":
        return 415, "Unsupported media type: Content-Type must be application/json"
    if _JSON_IN_UTF8(kind) is None:
        return 415, "Unsupported media type: JSON is UTF-8"
    coding = fields.get(b"content-encoding")
    if coding is not None and coding.lower().strip() != b"identity":
        return 415, "Unsupported media type: a compressed body is not read"
    return None


def accepts(fields: dict[bytes, bytes], media: bytes) -> bool:
    """Whether the client says that it takes `media`; one that says nothing takes anything."""
    accept = fields.get(b"accept")
    if accept is None:
        return True
    kinds = {part.split(b";")[0].strip() for part in accept.lower().split(b",")}
    family = media.split(b"/")[0] + b"/*"
    return media in kinds or b"*/*" in kinds or family in kinds


def wants_events(fields: dict[bytes, bytes]) -> bool:
    """Whether the client asks for events by name. What browsers load for a page takes anything, and a stream
    that is opened costs a process: an image must not start one."""
    kinds = fields.get(b"accept", b"").lower().split(b",")
    return any(kind.partition(b";")[0].strip() == b"text/event-stream" for kind in kinds)


def is_session_id(value: bytes) -> bool:
    """Whether `value` can be a session id: visible ASCII only."""
    return 0 < len(value) <= 1024 and all(0x21 <= byte <= 0x7E for byte in value)


def peer_of(request: Request) -> bytes:
    """The address that a request comes from; nobody can make one up and hear the answer."""
    peer = request.peer
    return str(peer[0]).encode() if isinstance(peer, tuple) and peer else b""
