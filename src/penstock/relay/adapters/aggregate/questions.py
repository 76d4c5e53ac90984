"""What several upstreams ask of one client: each question under an id of ours, each answer back to who asked.

Two upstreams may number their questions alike, and one may imitate another. So a question goes down as
`"penstock:N"`, and only the answer to N goes to the one that asked it, under the id that it wrote.
"""

from __future__ import annotations

import logging

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.policy.several.spliced import edited, with_origin, with_task_prefix, without_task_prefix
from penstock.relay.adapters.aggregate.member_link import MemberLink
from penstock.relay.adapters.aggregate.replies import as_message
from penstock.relay.tool_list_pages import own_notification
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import METHOD_NOT_FOUND, Message
from penstock.wire.mcp.replies import error_reply, printable, result_reply

log = logging.getLogger("penstock")

KINDS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
_TOKEN = ("params", "_meta", "progressToken")
_CANCELLED = "notifications/cancelled"


class _Question(Struct):
    link: MemberLink
    id_token: bytes
    token: bytes | None = None


class Questions:
    """Which question is whose."""

    def __init__(self) -> None:
        self._open: dict[bytes, _Question] = {}
        self._last = 0

    def to_client(self, link: MemberLink, message: Message) -> bytes | None:
        """A member's request as the client shall get it; None when it is answered here. Raises ValueError."""
        assert message.id_token is not None
        method = message.method or ""
        terms = link.member.terms
        if method == "ping":
            link.send_now(as_message(result_reply(message.id_token, b"{}")))
            return None
        if method in KINDS and KINDS[method] not in terms.asks:
            log.warning("%s asked for %s, which it may not.", link.name, KINDS[method])
            self._refuse(link, message)
            return None
        if method.startswith("tasks/") and not self._is_own_task(link, message):
            self._refuse(link, message)
            return None
        if len(link.asked) >= limits.UPSTREAM_REQUESTS or not _is_kept(message.id_token):
            log.warning("%s asks more than anybody answers.", link.name)
            self._refuse(link, message)
            return None
        key = id_key(message.id_token)
        if key in link.asked:
            log.warning("Dropped a request of %s: its id is under way already.", link.name)
            return None
        self._last += 1
        number = b'"penstock:%d"' % self._last
        question = self._open[number] = _Question(link, message.id_token)
        link.asked[key] = self._last
        raw = with_value(message.raw, message.envelope, "id", number)

        def take(token: bytes) -> bytes:
            if _is_kept(token):  # else what the client says of its progress belongs to no question
                question.token = token
            return number

        raw = edited(raw, _TOKEN, take)
        if method == "elicitation/create" and terms.shows_origin:
            raw = with_origin(raw, ("params", "message"), link.name)
        return with_task_prefix(raw, link.slug, is_request=True)

    def _refuse(self, link: MemberLink, message: Message) -> None:
        link.send_now(as_message(error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found")))

    def _is_own_task(self, link: MemberLink, message: Message) -> bool:
        params = maybe_params(message)
        return message.method == "tasks/list" or str(params.get("taskId")) in link.client_tasks

    def answer(self, message: Message) -> bool:
        """Takes the client's answer to the one that asked; False when nobody did."""
        question = self._open.pop(message.id_token or b"", None)
        if question is None:
            return False
        link = question.link
        link.asked.pop(id_key(question.id_token), None)
        if link.is_lost:
            return True
        raw = with_value(message.raw, message.envelope, "id", question.id_token)
        if b"task" in raw or b"\\u" in raw:
            self._note_task(link, raw)
            raw = without_task_prefix(raw, link.slug, has_own=False)
        link.send_now(as_message(raw))
        return True

    def _note_task(self, link: MemberLink, raw: bytes) -> None:
        def note(token: bytes) -> bytes:
            if token[:1] == b'"' and _is_kept(token):
                while len(link.client_tasks) >= limits.SESSION_TASKS:
                    del link.client_tasks[next(iter(link.client_tasks))]
                link.client_tasks[msgspec.json.decode(token, type=str)] = None
            return token

        edited(raw, ("result", "task", "taskId"), note)

    def progress(self, message: Message) -> bool:
        """Takes the client's progress to the question it belongs to; False when it belongs to none."""
        params = message.params or {}
        question = self._open.get(bytes(params.get("progressToken", b"")))
        if question is None or question.token is None:
            return False
        token = question.token
        raw = edited(message.raw, ("params", "progressToken"), lambda _: token)
        question.link.send_now(as_message(raw))
        return True

    def cancelled(self, link: MemberLink, message: Message) -> bytes | None:
        """A member cancels its own question: as the client shall hear it; None when it is not its own."""
        params = message.envelope.get("params")
        found: list[bytes] = []

        def renumber(token: bytes) -> bytes:
            number = link.asked.pop(id_key(token), None)
            if number is None:
                return token
            found.append(b'"penstock:%d"' % number)
            return found[0]

        raw = edited(message.raw, ("params", "requestId"), renumber) if params is not None else message.raw
        if not found:
            return None
        self._open.pop(found[0], None)
        return raw

    def lost(self, link: MemberLink) -> list[bytes]:
        """The member is gone: cancels for the client of all that it had asked."""
        out = []
        for number, question in list(self._open.items()):
            if question.link is link:
                del self._open[number]
                out.append(own_notification(_CANCELLED, b'{"requestId":%b}' % number).raw)
        return out


def maybe_params(message: Message) -> dict[str, object]:
    """The params of a small message, decoded; none of one that has no object there."""
    params = message.envelope.get("params")
    try:
        found = msgspec.json.decode(params) if params is not None else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        log.warning("The params of %s cannot be read.", printable(message.method or ""))
        return {}
    return found if isinstance(found, dict) else {}


def _is_kept(token: bytes) -> bool:
    """Whether something of an upstream's is short enough to be remembered until somebody answers."""
    return len(token) <= limits.UPSTREAM_TOKEN_BYTES
