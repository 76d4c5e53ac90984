"""One client's subscriptions/listen over several upstreams: one of ours at each, one acknowledgement.

An upstream that is lost takes nothing from the client's stream; when it is back, it is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from penstock.bridge.envelope import object_of
from penstock.errors import UpstreamError
from penstock.policy.several.spliced import edited
from penstock.relay.adapters.aggregate.member_link import MemberLink
from penstock.relay.tool_list_pages import own_id
from penstock.wire.mcp.eras import META_SUBSCRIPTION
from penstock.wire.mcp.message import Message

log = logging.getLogger("penstock")

LISTEN = "subscriptions/listen"
ACK_SECONDS = 2.0
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_PLACE = ("params", "_meta", META_SUBSCRIPTION)
_WANTED = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


class Listening:
    """One listen request of a client's."""

    def __init__(self, message: Message, say: Callable[[bytes], None]) -> None:
        assert message.id_token is not None
        self.id_token = message.id_token
        params = message.params or {}
        self._words = bytes(params.get("notifications", b"{}"))
        found = msgspec.json.decode(self._words)
        self._filters: dict[str, object] = found if isinstance(found, dict) else {}
        self._say = say
        self._waiting: set[str] = set()
        self._is_acknowledged = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def uris(self) -> list[str]:
        """The resources whose changes are wanted, each once."""
        found = self._filters.get("resourceSubscriptions")
        named = [uri for uri in found if isinstance(uri, str)] if isinstance(found, list) else []
        return list(dict.fromkeys(named))

    def begin(self, links: list[tuple[MemberLink, list[str]]]) -> None:
        """Listens at each link, for these resources of its own."""
        self._waiting = {link.name for link, _ in links}
        self._timer = asyncio.get_running_loop().call_later(ACK_SECONDS, self._acknowledge)
        for link, uris in links:
            self.listen_at(link, uris)
        if not links:
            self._acknowledge()

    def listen_at(self, link: MemberLink, uris: list[str]) -> None:
        """Listens at one link, now or again."""
        if link.name not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._listen(link, uris))
            self._tasks[link.name] = task
            task.add_done_callback(lambda done: self._tasks.pop(link.name, None))

    async def _listen(self, link: MemberLink, uris: list[str]) -> None:
        filters = {name: value for name, value in self._filters.items() if name != "resourceSubscriptions"}
        if uris:
            filters["resourceSubscriptions"] = uris
        id_token = own_id()
        try:
            await link.until_ready()
            words = {"notifications": msgspec.json.encode(filters), "_meta": link.meta or b"{}"}
            link.listens[id_token] = self
            await link.ask(LISTEN, object_of(words), id_token)
        except UpstreamError as why:
            log.info("%s is not listened to: %s.", link.name, why.detail)
        finally:
            link.listens.pop(id_token, None)
            self.acknowledged(link.name)

    def acknowledged(self, name: str) -> None:
        """One upstream has acknowledged, or will not."""
        self._waiting.discard(name)
        if not self._waiting:
            self._acknowledge()

    def _acknowledge(self) -> None:
        if self._is_acknowledged:
            return
        self._is_acknowledged = True
        if self._timer is not None:
            self._timer.cancel()
        meta = object_of({META_SUBSCRIPTION: self.id_token})
        params = object_of({"notifications": self._words, "_meta": meta})
        self._say(b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (ACKNOWLEDGED.encode(), params))

    def changed(self, kind: str) -> None:
        """One of the merged lists has changed."""
        if self._filters.get(_WANTED[kind]) is True:
            meta = object_of({"_meta": object_of({META_SUBSCRIPTION: self.id_token})})
            method = f"notifications/{kind}/list_changed".encode()
            self._say(b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method, meta))

    def passed(self, raw: bytes) -> bytes:
        """An upstream's notification with the id that the client listens under."""
        return edited(raw, _PLACE, lambda _: self.id_token)

    def stop(self) -> None:
        """Nobody listens any more."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks.values()):
            task.cancel()


def maybe_subscription(message: Message) -> bytes | None:
    """The id under which an upstream was listened to, where a notification carries one. Raises ValueError."""
    found: list[bytes] = []

    def note(token: bytes) -> bytes:
        found.append(token)
        return token

    edited(message.raw, _PLACE, note)
    return found[0] if found else None
