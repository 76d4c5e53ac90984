"""All that a legacy client is subscribed to, as one listen request of the modern era."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from penstock.bridge.envelope import maybe_members, maybe_value, notification, object_of, request
from penstock.bridge.steps import Step, ToClient, ToUpstream
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.eras import META_SUBSCRIPTION
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, INVALID_PARAMS, Message
from penstock.wire.mcp.replies import error_reply, result_reply
from penstock.wire.mcp.subscribed import TOO_MANY, has_room

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_ACK_SECONDS = 10.0
_REOPEN_FIRST, _REOPEN_LONGEST = 1.0, 30.0
_LISTS = ("tools", "prompts", "resources")


class _Change(Struct):
    """A request of the client's that waits for the upstream's consent."""

    asked: Message
    uri: str
    due: float


class Subscriptions:
    """One listen request, opened anew whenever the client wants something else, and after a loss."""

    def __init__(self, new_id: Callable[[], bytes]) -> None:
        self._new_id = new_id
        self._lists: list[str] = []  # whose list_changed the upstream offers
        self._uris: list[str] = []
        self._leg: bytes | None = None  # the id of the listen request under way
        self._old: list[bytes] = []  # those that it stands in for, ended when it is acknowledged
        self._changes: list[_Change] = []
        self._reopen_at = 0.0
        self._wait = _REOPEN_FIRST
        self._was_lost = False

    def offer(self, capabilities: Members) -> None:
        """What the upstream says that it can tell of."""
        self._lists = [
            name
            for name in _LISTS
            if maybe_value((maybe_members(capabilities.get(name)) or {}).get("listChanged")) is True
        ]

    def begin(self, meta: bytes) -> list[Step]:
        """The client is ready to hear."""
        return self._open(meta) if self._lists and self._leg is None else []

    def change(self, message: Message, meta: bytes, now: float) -> list[Step]:
        """Takes a resources/subscribe or resources/unsubscribe."""
        assert message.id_token is not None
        uri = maybe_value((message.params or {}).get("uri"))
        if not isinstance(uri, str):
            return [ToClient(error_reply(message.id_token, INVALID_PARAMS, "Invalid params: uri is missing"))]
        wants = message.method == "resources/subscribe"
        if (uri in self._uris) is wants:
            return [ToClient(result_reply(message.id_token, b"{}"))]
        if wants and not has_room(self._uris, [uri]):
            return [ToClient(error_reply(message.id_token, INTERNAL_ERROR, TOO_MANY))]
        self._uris = [*self._uris, uri] if wants else [one for one in self._uris if one != uri]
        self._changes.append(_Change(message, uri, now + _ACK_SECONDS))
        return self._open(meta)

    def owns(self, id_token: bytes | None) -> bool:
        """Whether a response ends one of our listen requests."""
        return id_token is not None and id_token in (self._leg, *self._old)

    def ended(self, id_token: bytes, now: float) -> list[Step]:
        """A listen request is over: an old one by our own wish, the current one by the upstream's."""
        if id_token in self._old:
            self._old.remove(id_token)
            return []
        self._leg = None
        self._was_lost = True
        self._reopen_at = now + self._wait
        self._wait = min(self._wait * 2, _REOPEN_LONGEST)
        return self._refuse_changes()

    def acknowledged(self, message: Message) -> list[Step]:
        """The upstream says what it will tell of."""
        params = maybe_members(message.envelope.get("params")) or {}
        named = (maybe_members(params.get("_meta")) or {}).get(META_SUBSCRIPTION)
        if named is not None and not self.is_current(id_key(bytes(named))):
            return []  # of one that another has taken the place of
        granted = maybe_members(params.get("notifications"))
        uris = maybe_value((granted or {}).get("resourceSubscriptions"))
        known = uris if isinstance(uris, list) else []
        steps: list[Step] = []
        for change in self._changes:
            is_wanted = change.asked.method == "resources/subscribe"
            if is_wanted and change.uri not in known:
                self._uris = [one for one in self._uris if one != change.uri]
                reason = "The upstream does not take this subscription"
                steps.append(ToClient(error_reply(change.asked.id_token, INVALID_PARAMS, reason)))
            else:
                steps.append(ToClient(result_reply(change.asked.id_token or b"null", b"{}")))
        self._changes = []
        for leg in self._old:
            steps.append(ToUpstream(notification("notifications/cancelled", object_of({"requestId": leg}))))
        if self._was_lost:
            # What changed meanwhile was not heard: the client is told to look again.
            self._was_lost = False
            self._wait = _REOPEN_FIRST
            steps += [ToClient(notification(f"notifications/{name}/list_changed")) for name in self._lists]
        return steps

    def tick(self, meta: bytes, now: float) -> list[Step]:
        """Opens what was lost; gives up what is not acknowledged."""
        steps: list[Step] = []
        if any(change.due <= now for change in self._changes):
            steps += self._refuse_changes()
        if self._reopen_at and self._reopen_at <= now:
            steps += self._open(meta)
        return steps

    def next_due(self) -> float:
        """When `tick` has something to do; 0 when it has not."""
        due = [change.due for change in self._changes]
        if self._reopen_at:
            due.append(self._reopen_at)
        return min(due, default=0.0)

    def is_current(self, key: bytes) -> bool:
        """Whether a notification that carries this subscription id is one of ours."""
        return self._leg is not None and id_key(self._leg) == key

    def _refuse_changes(self) -> list[Step]:
        changes, self._changes = self._changes, []
        reason = "The upstream does not answer subscriptions"
        return [ToClient(error_reply(change.asked.id_token, INTERNAL_ERROR, reason)) for change in changes]

    def _open(self, meta: bytes) -> list[Step]:
        if self._leg is not None:
            self._old.append(self._leg)
        self._leg = self._new_id()
        self._reopen_at = 0.0
        wanted: dict[str, object] = {f"{name}ListChanged": True for name in self._lists}
        if self._uris:
            wanted["resourceSubscriptions"] = self._uris
        params = object_of({"notifications": msgspec.json.encode(wanted), "_meta": meta})
        return [ToUpstream(request(self._leg, LISTEN, params))]
