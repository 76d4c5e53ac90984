"""One process for all sessions: each has a lane over the one link, and hears what belongs to it.

The process is greeted once, in our own words, since a server of the older era takes one handshake. Ids and
progress tokens of the sessions become numbers of ours. What the process asks or says of its own goes to the
session whose request is under way, if there is only one such; where it could be several's, nobody gets it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec
from msgspec import Struct

from penstock.errors import ProtocolError, SessionEnded, UpstreamError
from penstock.policy.several.spliced import edited, maybe_text
from penstock.relay.adapters.aggregate.lane import Lane
from penstock.relay.adapters.aggregate.opening import own_opening
from penstock.relay.adapters.aggregate.replies import as_message, reply_alone
from penstock.relay.contracts import LinkFacts, UpstreamLink
from penstock.relay.tool_list_pages import is_own_id, own_id, own_notification, own_request
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import error_reply, raw_error_reply, result_reply
from penstock.wire.mcp.subscribed import TOO_MANY, has_room

log = logging.getLogger("penstock")

_TOKEN = ("params", "_meta", "progressToken")
_SUBSCRIBES = ("resources/subscribe", "resources/unsubscribe")
_TO_ALL = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))


class _Asked(Struct):
    """A request of a session's under way."""

    lane: Lane
    id_token: bytes
    token: bytes | None = None  # its progress token, as the session wrote it


class SharedChild:
    """The process, and who shares it."""

    def __init__(self, open_link: Callable[[], UpstreamLink], idle_seconds: float | None) -> None:
        self._open_link = open_link
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._link: UpstreamLink | None = None
        self._lanes: list[Lane] = []
        self._answer: Message | None = None  # to our handshake
        self._greeting = b""
        self._last = 0
        self._asked: dict[bytes, _Asked] = {}
        self._questions: dict[bytes, Lane] = {}  # what the process asks, and who was asked
        self._uris: dict[str, set[Lane]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._is_retired = False

    def lane(self) -> Lane:
        """A link for one more session. Raises UpstreamError where there is no process and none starts."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._link is None:
            self._link = self._open_link()
            self._link.receiver = self
            request = own_request(own_id(), "initialize", own_opening(Era.LEGACY).words)
            self._greeting = request.id_token or b""
            self._answer = None
            self._link.send(request)
        lane = Lane(self)
        self._lanes.append(lane)
        return lane

    @property
    def facts(self) -> LinkFacts:
        """What is known of the process."""
        return self._link.facts if self._link is not None else LinkFacts("stdio")

    @property
    def untaken(self) -> int:
        """Bytes that it has not taken."""
        return self._link.untaken if self._link is not None else 0

    # --- from sessions -----------------------------------------------------------------------------------

    def take(self, lane: Lane, message: Message) -> None:
        """One message of a session."""
        if self._link is None:
            return
        if self._answer is None:
            lane.hold(message)
        elif message.method == "initialize":
            self._answer_handshake(lane, message, self._answer)
        elif message.method == "server/discover" and "result" in self._answer.envelope:
            # It has taken the older era, and takes one.
            lane.say(error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found"))
        elif message.kind is Kind.REQUEST:
            self._ask(lane, message)
        elif message.kind is Kind.RESPONSE:
            if self._questions.get(id_key(message.id_token or b"")) is lane:
                del self._questions[id_key(message.id_token or b"")]
                self._link.send(message)
        elif message.method == "notifications/cancelled":
            self._cancel(lane, message)
        elif message.method != "notifications/initialized":
            self._link.send(message)

    def _answer_handshake(self, lane: Lane, message: Message, answer: Message) -> None:
        assert message.id_token is not None
        if "result" in answer.envelope:
            lane.say(result_reply(message.id_token, bytes(answer.envelope["result"])))
        else:
            lane.say(raw_error_reply(message.id_token, bytes(answer.envelope["error"])))

    def _ask(self, lane: Lane, message: Message) -> None:
        assert self._link is not None
        assert message.id_token is not None
        if message.method in _SUBSCRIBES and self._is_settled(lane, message):
            return
        self._last += 1
        number = b'"penstock-s:%d"' % self._last
        asked = self._asked[number] = _Asked(lane, message.id_token)
        raw = with_value(message.raw, message.envelope, "id", number)

        def take(token: bytes) -> bytes:
            asked.token = token
            return number

        try:
            renumbered = edited(raw, _TOKEN, take)
        except ValueError:
            del self._asked[number]
            text = "Invalid params: they can be read in two ways"
            lane.say(error_reply(message.id_token, INVALID_PARAMS, text))
            return
        self._link.send(as_client_message(renumbered))

    def _is_settled(self, lane: Lane, message: Message) -> bool:
        """Answers what the process need not hear: it hears of the first who subscribes, and of the last."""
        assert message.id_token is not None
        uri = maybe_text((message.params or {}).get("uri"))
        if uri is None:
            return False  # the process shall say what is wrong with it
        others = bool(self._uris.get(uri, set()) - {lane})
        if message.method == "resources/unsubscribe":
            is_news = uri in lane.uris and not others
            self._unsubscribe(lane, uri)
        elif uri in lane.uris or has_room(lane.uris, [uri]):
            is_news = uri not in lane.uris and not others
            lane.uris.add(uri)
            self._uris.setdefault(uri, set()).add(lane)
        else:
            lane.say(error_reply(message.id_token, INTERNAL_ERROR, TOO_MANY))
            return True
        if not is_news:
            lane.say(result_reply(message.id_token, b"{}"))
        return not is_news

    def _unsubscribe(self, lane: Lane, uri: str) -> None:
        lane.uris.discard(uri)
        lanes = self._uris.get(uri, set())
        lanes.discard(lane)
        if not lanes:
            self._uris.pop(uri, None)

    def _cancel(self, lane: Lane, message: Message) -> None:
        assert self._link is not None
        key = id_key(bytes((message.params or {}).get("requestId", b"")))
        for number, asked in self._asked.items():
            if asked.lane is lane and id_key(asked.id_token) == key:
                place = ("params", "requestId")
                self._link.send(as_client_message(edited(message.raw, place, lambda _: number)))  # noqa: B023
                return

    def leave(self, lane: Lane) -> None:
        """A session is over: what it had asked is cancelled, and what it was asked refused."""
        if lane not in self._lanes:
            return
        self._lanes.remove(lane)
        for number, asked in list(self._asked.items()):
            if asked.lane is lane:
                del self._asked[number]
                self._say_own("notifications/cancelled", b'{"requestId":%b}' % number)
        for key, asked_lane in list(self._questions.items()):
            if asked_lane is lane:
                del self._questions[key]
                self._refuse(key)
        for uri in list(lane.uris):
            self._unsubscribe(lane, uri)
            if uri not in self._uris and self._link is not None:
                words = b'{"uri":%b}' % msgspec.json.encode(uri)
                self._link.send(own_request(own_id(), "resources/unsubscribe", words))
        if not self._lanes and self._link is not None:
            if self._is_retired:
                self._stop()
            elif self._idle_seconds is not None:
                self._timer = self._loop.call_later(self._idle_seconds, self._stop)

    # --- from the process --------------------------------------------------------------------------------

    def from_upstream(self, raw: bytes) -> None:
        """One message, read strictly: whose it is must be certain."""
        try:
            message = read_upstream_message(raw)
        except ProtocolError as refusal:
            self.upstream_refused(refusal.id_token, refusal.reason, raw)
            return
        if isinstance(message, Batch):
            for part in message.parts:
                if part.lstrip()[:1] != b"[":
                    self.from_upstream(part)
        elif message.kind is Kind.RESPONSE:
            self._take_response(message)
        elif message.kind is Kind.REQUEST:
            self._take_question(message)
        else:
            self._take_notice(message)

    def _take_response(self, message: Message) -> None:
        if self._answer is None and message.id_token == self._greeting:
            self._answer = message
            if "result" in message.envelope:
                self._say_own("notifications/initialized")
            for lane in list(self._lanes):
                for one in lane.held():
                    self.take(lane, one)
            return
        asked = self._asked.pop(id_key(message.id_token or b""), None)
        if asked is not None:
            asked.lane.say(with_value(message.raw, message.envelope, "id", asked.id_token))
        elif not is_own_id(message.id_token):
            log.warning("Dropped a response of a shared process that nobody waits for.")

    def _take_question(self, message: Message) -> None:
        key = id_key(message.id_token or b"")
        lane = self._maybe_only()
        if message.method == "ping" or lane is None or key in self._questions:
            if message.method != "ping":
                log.warning("A shared process asked, and it cannot be told whom: refused.")
            own = reply_alone(message) if message.method == "ping" else None
            if own is not None and self._link is not None:
                self._link.send(own)
            elif key not in self._questions:
                self._refuse(message.id_token or b"null")
            return
        self._questions[key] = lane
        lane.say(message.raw)

    def _take_notice(self, message: Message) -> None:
        method = message.method or ""
        if method in _TO_ALL:
            for lane in list(self._lanes):
                lane.say(message.raw)
        elif method == "notifications/progress":
            self._take_progress(message)
        elif method == "notifications/cancelled":
            asked = self._questions.pop(id_key(_said(message, "requestId")), None)
            if asked is not None:
                asked.say(message.raw)
        elif method == "notifications/resources/updated":
            for lane in list(self._uris.get(maybe_text(_said(message, "uri")) or "", ())):
                lane.say(message.raw)
        elif (only := self._maybe_only()) is not None:
            only.say(message.raw)

    def _take_progress(self, message: Message) -> None:
        asked = self._asked.get(id_key(_said(message, "progressToken")))
        if asked is not None and asked.token is not None:
            token = asked.token
            asked.lane.say(edited(message.raw, ("params", "progressToken"), lambda _: token))

    def _maybe_only(self) -> Lane | None:
        """The session with something under way, if it is one."""
        lanes = {asked.lane for asked in self._asked.values()}
        return next(iter(lanes)) if len(lanes) == 1 else None

    def _refuse(self, id_token: bytes) -> None:
        if self._link is not None:
            self._link.send(as_message(error_reply(id_token, METHOD_NOT_FOUND, "Method not found")))

    def _say_own(self, method: str, params: bytes | None = None) -> None:
        if self._link is not None:
            self._link.send(own_notification(method, params))

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""
        for lane in self._lanes[:1]:
            lane.receive().upstream_noise(raw)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something came that must not be passed on; who waits for it hears so."""
        asked = self._asked.pop(id_token, None) if id_token is not None else None
        if asked is not None:
            asked.lane.receive().upstream_refused(asked.id_token, why, b"")
        else:
            log.warning("Skipped a message of a shared process. %s.", why)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The process is gone, for all of them."""
        link, self._link, self._answer = self._link, None, None
        lanes, self._lanes = self._lanes, []
        self._asked, self._questions, self._uris = {}, {}, {}
        if link is not None:
            self._close(link)
        for lane in lanes:
            lane.receive().upstream_lost(error)

    # --- the end -----------------------------------------------------------------------------------------

    def retire(self) -> None:
        """Nobody new comes: it ends with the last who is there."""
        self._is_retired = True
        if not self._lanes:
            self._stop()

    def _stop(self) -> None:
        self._timer = None
        if self._link is not None and not self._lanes:
            link, self._link, self._answer = self._link, None, None
            self._close(link)

    def _close(self, link: UpstreamLink) -> None:
        task = self._loop.create_task(link.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Ends it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self.upstream_lost(SessionEnded("We end"))
        while self._closing:
            await asyncio.wait(self._closing)


def _said(message: Message, name: str) -> bytes:
    """What one of the process's notifications says under a name; nothing if it cannot be read in one way."""
    found = [b""]

    def note(token: bytes) -> bytes:
        found.append(token)
        return token

    try:
        edited(message.raw, ("params", name), note)
    except ValueError:
        return b""
    return found[-1]


def as_client_message(raw: bytes) -> Message:
    """A message of a session's that we have renumbered."""
    message = read_client_message(raw)
    assert not isinstance(message, Batch)
    return message
