"""Asking an upstream for every page of its tool list, or of another."""

from __future__ import annotations

import os

import msgspec
from msgspec import Raw

from penstock import limits
from penstock.errors import ToolListFailed
from penstock.policy.tools.upstream_tools import BadToolList, ListCheck, UpstreamTools, read_tools
from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, members, readable
from penstock.wire.mcp.eras import MODERN_VERSIONS
from penstock.wire.mcp.message import METHOD_NOT_FOUND, Kind, Message
from penstock.wire.mcp.replies import printable

_OWN = b'"penstock-'


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


def own_request(id_token: bytes, method: str, params: bytes) -> Message:
    """A request of our own."""
    name = msgspec.json.encode(method)
    raw = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (id_token, name, params)
    envelope = {"jsonrpc": Raw(b'"2.0"'), "id": Raw(id_token), "method": Raw(name), "params": Raw(params)}
    return Message(raw, Kind.REQUEST, id_token, method, envelope, members(params))


def own_notification(method: str, params: bytes | None = None) -> Message:
    """A notification of our own."""
    name = msgspec.json.encode(method)
    envelope = {"jsonrpc": Raw(b'"2.0"'), "method": Raw(name)}
    raw = b'{"jsonrpc":"2.0","method":%b' % name
    if params is not None:
        envelope["params"] = Raw(params)
        raw += b',"params":' + params
    return Message(raw + b"}", Kind.NOTIFICATION, None, method, envelope, members(params) if params else None)


def own_id() -> bytes:
    """An id that no client can have chosen, as a JSON token."""
    return _OWN + os.urandom(16).hex().encode() + b'"'


def is_own_id(id_token: bytes | None) -> bool:
    """Whether an id is one of ours."""
    return id_token is not None and id_token.startswith(_OWN)


def maybe_error_text(error: bytes | Raw) -> str:
    """An upstream's error object in a few words."""
    try:
        read = msgspec.json.decode(readable(error), type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        read = _Error()
    return f"error {read.code}: {printable(read.message)}"


class ToolListPages:
    """One walk through the pages of a list. It does no I/O: it says what to send and takes answers."""

    def __init__(
        self, meta: bytes | None, error_means_none: bool = False, method: str = "tools/list"
    ) -> None:
        """`meta` is the `_meta` that a modern request must carry. With `error_means_none`, an upstream that
        answers with an error is one without tools, whatever the error."""
        self._meta = meta
        self._method = method
        self._error_means_none = error_means_none
        self._id_token = b""
        self._cursors: set[bytes] = set()
        self._bytes = 0
        self.pages: list[bytes] = []
        self.refusal: bytes | None = None

    def first_request(self) -> Message:
        """The request for the first page."""
        return self._request(None)

    def owns(self, id_token: bytes | None) -> bool:
        """Whether a response belongs to this fetch."""
        return id_token == self._id_token

    def take(self, response: Message) -> Message | None:
        """Takes one page; gives the next request, or None when the list is complete.

        Raises ToolListFailed; `refusal` then holds the upstream's error object, if it sent one.
        """
        if "error" in response.envelope:
            self._take_error(bytes(response.envelope["error"]))
            return None
        page = bytes(response.envelope["result"])
        try:
            cursor = members(page).get("nextCursor")
        except (Ambiguous, NotJson, NotAnObject):
            raise ToolListFailed("The tool list cannot be read") from None
        self.pages.append(page)
        self._bytes += len(page)
        if cursor is None or bytes(cursor) == b"null":
            return None
        token = bytes(cursor)
        if token in self._cursors:
            raise ToolListFailed("The tool list has no end: a cursor came twice")
        if len(self.pages) >= limits.LIST_PAGES or self._bytes > limits.LIST_BYTES:
            raise ToolListFailed(f"The tool list has no end: {len(self.pages)} pages, {self._bytes} bytes")
        self._cursors.add(token)
        return self._request(token)

    def tools(self, check: ListCheck | None = None) -> UpstreamTools:
        """The tools in the pages that `check` has nothing against. Raises ToolListFailed where none is."""
        if self.refusal is not None:
            return UpstreamTools(refusal=self.refusal)
        try:
            return read_tools(self.pages, check, None if self._meta is None else MODERN_VERSIONS[-1])
        except BadToolList as why:
            raise ToolListFailed(f"The answer is not valid: {why}") from None

    def _take_error(self, error: bytes) -> None:
        self.refusal = error
        try:
            read = msgspec.json.decode(readable(error), type=_Error)
        except (msgspec.DecodeError, UnicodeDecodeError):
            read = _Error()
        if read.code != METHOD_NOT_FOUND and not self._error_means_none:
            raise ToolListFailed(f"The upstream answered with error {read.code}: {printable(read.message)}")

    def _request(self, cursor: bytes | None) -> Message:
        self._id_token = own_id()
        parts = []
        if cursor is not None:
            parts.append(b'"cursor":' + cursor)
        if self._meta is not None:
            parts.append(b'"_meta":' + self._meta)
        return own_request(self._id_token, self._method, b"{%b}" % b",".join(parts))
