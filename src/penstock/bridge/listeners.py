"""Listen requests of modern clients, over an upstream that knows subscriptions to single resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

import msgspec
from msgspec import Struct

from penstock.bridge.envelope import (
    maybe_members,
    maybe_value,
    notification,
    object_of,
    request,
    with_members,
)
from penstock.bridge.steps import Step, ToClient, ToUpstream
from penstock.bridge.subscriptions import ACKNOWLEDGED
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.eras import META_SUBSCRIPTION
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, Message
from penstock.wire.mcp.replies import error_reply
from penstock.wire.mcp.subscribed import TOO_MANY, has_room

_LISTS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
UPDATED = "notifications/resources/updated"


class _Listener(Struct):
    token: bytes  # the id of the listen request, as the client wrote it
    wants: dict[str, object]
    uris: Collection[str]


class Listeners:
    """Who listens for what, and how often each resource is subscribed to upstream."""

    def __init__(self, new_id: Callable[[], bytes]) -> None:
        self._new_id = new_id
        self._all: dict[bytes, _Listener] = {}
        self._heard: Counter[str] = Counter()  # resources, and how many listen for each

    def open(self, message: Message, capabilities: Members) -> list[Step]:
        """Takes a listen request: subscribes, and says what was granted."""
        assert message.id_token is not None
        wanted = maybe_value((message.params or {}).get("notifications"))
        wants = wanted if isinstance(wanted, dict) else {}
        granted: dict[str, object] = {}
        for name in _LISTS.values():
            of = maybe_members(capabilities.get(name.removesuffix("ListChanged")))
            if wants.get(name) is True and of is not None and maybe_value(of.get("listChanged")) is True:
                granted[name] = True
        asked = wants.get("resourceSubscriptions")
        of = maybe_members(capabilities.get("resources")) or {}
        named = [uri for uri in asked if isinstance(uri, str)] if isinstance(asked, list) else []
        uris = dict.fromkeys(named)  # each once, in their order
        if maybe_value(of.get("subscribe")) is not True:
            uris = {}
        if not has_room((), uris):
            return [ToClient(error_reply(message.id_token, INTERNAL_ERROR, TOO_MANY))]
        steps = [self._tell_upstream("resources/subscribe", uri) for uri in uris if not self._heard[uri]]
        self._heard.update(uris.keys())
        if uris:
            granted["resourceSubscriptions"] = list(uris)
        self._all[id_key(message.id_token)] = _Listener(message.id_token, granted, uris)
        params = object_of(
            {
                "notifications": msgspec.json.encode(granted),
                "_meta": object_of({META_SUBSCRIPTION: message.id_token}),
            }
        )
        return [*steps, ToClient(notification(ACKNOWLEDGED, params))]

    def close(self, key: bytes) -> list[Step] | None:
        """The client listens no more; None when it never did under this id."""
        listener = self._all.pop(key, None)
        if listener is None:
            return None
        self._heard.subtract(list(listener.uris))
        self._heard = +self._heard
        return [
            self._tell_upstream("resources/unsubscribe", uri)
            for uri in listener.uris
            if uri not in self._heard
        ]

    def hear(self, message: Message) -> list[Step] | None:
        """A change, for everybody who listens for it; None when it is no change."""
        name = _LISTS.get(message.method or "")
        if name is None and message.method != UPDATED:
            return None
        params = maybe_members(message.envelope.get("params")) or {}
        uri = maybe_value(params.get("uri"))
        if name is None and not isinstance(uri, str):
            return []  # nobody can have asked for it
        return [
            ToClient(_with_subscription(message, listener.token))
            for listener in self._all.values()
            if (name in listener.wants if name is not None else uri in listener.uris)
        ]

    def _tell_upstream(self, method: str, uri: str) -> Step:
        """A request of our own. Nobody waits for its answer, and no client can have chosen its id."""
        return ToUpstream(request(self._new_id(), method, object_of({"uri": msgspec.json.encode(uri)})))


def _with_subscription(message: Message, token: bytes) -> bytes:
    params = bytes(message.envelope.get("params", b""))
    inner = maybe_members(params)
    if inner is None:
        params, inner = b"{}", {}  # a change of a list says nothing there that could be lost
    meta = bytes(inner.get("_meta", b""))
    meta = with_members(meta if maybe_members(meta) is not None else b"{}", {META_SUBSCRIPTION: token})
    return with_members(message.raw, {"params": with_members(params, {"_meta": meta})})
