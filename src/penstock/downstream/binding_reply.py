"""Replies in which a session may begin: whoever is given its id owns it."""

from __future__ import annotations

import re

from penstock.auth.caller import Caller
from penstock.net.http_exchange import Reply
from penstock.wire.http.http1 import Headers, find

_SESSION_FIELD = re.compile(rb"(?i)\r\nmcp-session-id:[\t ]*([!-~]+)[\t ]*\r\n").search
_SESSION_EVENT = re.compile(rb"\?session_id=([0-9a-f]+)").search


def bind_sessions(reply: Reply, caller: Caller, profile: str) -> None:
    """Lets `caller` own the session that begins with this reply, if one does.

    The ids are read where they leave, whoever made them: a door of ours, or an upstream behind one.
    """
    reply.__class__ = _BindingReply
    assert isinstance(reply, _BindingReply)
    reply.owner = caller
    reply.profile = profile


class _BindingReply(Reply):
    """A reply that tells its caller's session from what it carries."""

    owner: Caller
    profile: str
    _is_stream = False

    def send(self, status: int, headers: Headers, body: bytes = b"") -> None:
        self._note(find(headers, b"mcp-session-id"))
        super().send(status, headers, body)

    def send_as(self, start: bytes, body: bytes) -> None:
        found = _SESSION_FIELD(start)
        self._note(found[1] if found is not None else None)
        super().send_as(start, body)

    def start(self, status: int, headers: Headers) -> None:
        self._note(find(headers, b"mcp-session-id"))
        self._is_stream = True
        super().start(status, headers)

    def write(self, chunk: bytes) -> None:
        if self._is_stream:  # the first event of the older transport says where to post
            self._is_stream = False
            found = _SESSION_EVENT(chunk) if b"event: endpoint" in chunk[:64] else None
            self._note(found[1] if found is not None else None)
        super().write(chunk)

    def _note(self, session: bytes | None) -> None:
        if session is not None:
            self.owner.own(session, self.profile)
