"""Listen requests of modern clients, over an upstream that knows subscriptions to single resources."""

from __future__ import annotations

from collections.abc import Callable

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
from penstock.wire.mcp.message import Message

_LISTS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
UPDATED = "notifications/resources/updated"


class _Listener(Struct):
    token: bytes  # the id of the listen request, as the client wrote it
    wants: dict[str, object]
    uris: list[str]


class Listeners:
    """Who listens for what, and how often each resource is subscribed to upstream."""

    def __init__(self, new_id: Callable[[], bytes]) -> None:
        self._new_id = new_id
        self._all: dict[bytes, _Listener] = {}
        self._own: set[bytes] = set()  # ids of our own (un)subscribe requests

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
        uris = [uri for uri in asked if isinstance(uri, str)] if isinstance(asked, list) else []
        if maybe_value(of.get("subscribe")) is not True:
            uris = []
        steps: list[Step] = []
        for uri in uris:
            if not self._is_heard(uri):
                steps.append(self._tell_upstream("resources/subscribe", uri))
        if uris:
            granted["resourceSubscriptions"] = uris
        self._all[id_key(message.id_token)] = _Listener(message.id_token, granted, uris)
        params = object_of(
            {
                "notifications": msgspec.json.encode(granted),
                "_meta": object_of({META_SUBSCRIPTION: message.id_token}),
            }
        )
        return [*steps, ToClient(notification(ACKNOWLEDGED, params))]

    def expect(self, id_token: bytes) -> None:
        """A request of our own is under way, whose answer nobody waits for."""
        self._own.add(id_token)

    def owns(self, id_token: bytes) -> bool:
        """Whether a response answers a request of our own."""
        if id_token not in self._own:
            return False
        self._own.remove(id_token)
        return True

    def close(self, key: bytes) -> list[Step] | None:
        """The client listens no more; None when it never did under this id."""
        listener = self._all.pop(key, None)
        if listener is None:
            return None
        return [
            self._tell_upstream("resources/unsubscribe", uri)
            for uri in listener.uris
            if not self._is_heard(uri)
        ]

    def hear(self, message: Message) -> list[Step] | None:
        """A change, for everybody who listens for it; None when it is no change."""
        name = _LISTS.get(message.method or "")
        if name is None and message.method != UPDATED:
            return None
        params = maybe_members(message.envelope.get("params")) or {}
        uri = maybe_value(params.get("uri"))
        return [
            ToClient(_with_subscription(message, listener.token))
            for listener in self._all.values()
            if (name in listener.wants if name is not None else uri in listener.uris)
        ]

    def _is_heard(self, uri: str) -> bool:
        return any(uri in listener.uris for listener in self._all.values())

    def _tell_upstream(self, method: str, uri: str) -> Step:
        token = self._new_id()
        self.expect(token)
        return ToUpstream(request(token, method, object_of({"uri": msgspec.json.encode(uri)})))


def _with_subscription(message: Message, token: bytes) -> bytes:
    params = bytes(message.envelope["params"]) if "params" in message.envelope else b"{}"
    inner = maybe_members(params) or {}
    meta = bytes(inner.get("_meta", b"{}"))
    meta = with_members(meta if maybe_members(meta) is not None else b"{}", {META_SUBSCRIPTION: token})
    return with_members(message.raw, {"params": with_members(params, {"_meta": meta})})
