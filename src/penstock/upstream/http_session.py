"""The headers that messages to a Streamable HTTP upstream carry, and what its answers say about them."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from penstock.wire.http.http1 import Headers, find
from penstock.wire.json.nesting import nests_too_deep
from penstock.wire.mcp.carried import CarriedMessage
from penstock.wire.mcp.mcp_headers import SchemaBook, maybe_modern_version, modern_headers
from penstock.wire.mcp.message import Message

_VISIBLE = re.compile(rb"[\x21-\x7e]{1,1024}").fullmatch
_BASE: Headers = [
    (b"Content-Type", b"application/json"),
    (b"Accept", b"application/json, text/event-stream"),
    (b"Accept-Encoding", b"identity"),
]
_STREAM_BASE: Headers = [(b"Accept", b"text/event-stream"), (b"Accept-Encoding", b"identity")]

OURS = frozenset(
    b"accept accept-encoding content-type last-event-id mcp-method mcp-name mcp-protocol-version "
    b"mcp-session-id".split()
)
"""Headers that are the transport's own business."""


class _Result(Struct):
    version: str = msgspec.field(name="protocolVersion", default="")


class _Initialized(Struct):
    result: _Result


class HttpSession:
    """What is known of one session: its id, the version agreed on, and which tools want headers."""

    def __init__(self, headers: Headers, schemas: SchemaBook | None = None) -> None:
        """`schemas` is what other sessions with the same upstream have learnt, and learn from this one."""
        self.id: bytes | None = None
        self.version: bytes | None = None
        self.schemas = SchemaBook() if schemas is None else schemas
        kept = [field for field in headers if field[0].lower() not in OURS]
        self._base = _BASE + kept
        self._stream_base = _STREAM_BASE + kept
        self._carried: Headers = []  # what the last message of a client brought with it
        self._modern_version: str | None = None
        self._is_legacy = False

    def headers_for(self, message: Message) -> tuple[Headers, bool, bool]:
        """The headers for `message`, whether it is of the modern era, and whether it names the session."""
        method = message.method
        base = self._base
        if isinstance(message, CarriedMessage):
            self._carried = message.headers
            base = base + message.headers
        if method == "initialize":
            # A new session: what an older one agreed on must not show.
            self._is_legacy = True
            self.id = self.version = None
            return base, False, False
        version = maybe_modern_version(message.params)
        if version is None and not self._is_legacy:
            version = self._modern_version  # what has no _meta of its own goes with what had
        if version is not None and method is not None:
            self._modern_version = version
            headers = base + modern_headers(version, method, message.params)
            if method == "tools/call":
                headers += self.schemas.headers(message.params)
            return headers, True, False
        return base + self._of_session(), False, self.id is not None

    def headers_for_stream(self, last_id: bytes | None) -> Headers:
        """The headers for a GET, to go on after `last_id` if there is one, and for DELETE."""
        headers = self._stream_base + self._carried + self._of_session()
        if last_id is not None:
            headers.append((b"Last-Event-ID", last_id))
        return headers

    def take_id(self, headers: Headers) -> None:
        """Remembers the session that the answer to initialize names."""
        session = find(headers, b"mcp-session-id")
        self.id = session if session is not None and _VISIBLE(session) else None

    def take_version(self, raw: bytes) -> None:
        """Remembers the version that the answer to initialize names; none when it is an error."""
        try:
            is_deep = nests_too_deep(raw)
            version = b"" if is_deep else msgspec.json.decode(raw, type=_Initialized).result.version.encode()
        except (msgspec.DecodeError, UnicodeDecodeError):
            version = b""  # the relay reads it strictly, and says what is wrong
        self.version = version if _VISIBLE(version) else None

    def has_refused(self) -> None:
        """There is no session of the older era."""
        self._is_legacy = False

    def forget(self) -> None:
        """The session is over."""
        self.id = self.version = None

    def _of_session(self) -> Headers:
        headers: Headers = []
        if self.id is not None:
            headers.append((b"Mcp-Session-Id", self.id))
        if self.version is not None:
            headers.append((b"MCP-Protocol-Version", self.version))
        return headers
