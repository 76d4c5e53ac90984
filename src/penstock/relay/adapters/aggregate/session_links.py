"""A session's links to several upstreams: how they are opened, in whose words, and when.

Nothing goes anywhere before it is known who is there: what clients say waits for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from penstock import limits
from penstock.errors import PenstockError, SessionEnded, UpstreamError
from penstock.relay.adapters.aggregate.hub import Hub
from penstock.relay.adapters.aggregate.listening import Listening
from penstock.relay.adapters.aggregate.member import Breaker, Member, State
from penstock.relay.adapters.aggregate.member_link import LinkOwner, MemberLink
from penstock.relay.adapters.aggregate.notices import Notices
from penstock.relay.adapters.aggregate.opening import Opening, own_opening
from penstock.relay.adapters.aggregate.questions import Questions
from penstock.relay.adapters.aggregate.resources import Resources
from penstock.relay.adapters.aggregate.view import View
from penstock.relay.contracts import LinkFacts, UpstreamReceiver
from penstock.relay.session_relay import SessionRelay
from penstock.wire.mcp.eras import Era, maybe_modern_meta
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, METHOD_NOT_FOUND, Kind, Message
from penstock.wire.mcp.replies import CANCELLED, error_reply, result_reply

log = logging.getLogger("penstock")

DRAIN_SECONDS = 5.0
_AT_ONCE = frozenset({"ping", "notifications/initialized", "notifications/cancelled", "logging/setLevel"})
"""What is answered, or understood, before anything is known of any upstream."""


class Pending(Struct):
    """A client's request under way."""

    id_token: bytes
    method: str
    link: MemberLink | None = None
    token: bytes | None = None
    task: asyncio.Task[None] | None = None  # where every upstream is asked


class SessionLinks(LinkOwner):
    """One session's links to all upstreams of a door."""

    facts = LinkFacts("several")

    def __init__(
        self, hub: Hub, view: View, *, owns_hub: bool = False, credential: object | None = None
    ) -> None:
        """With `owns_hub` this session is the only one: its links learn what the upstreams are like. Links to
        members that see callers' own credentials are opened with `credential`."""
        self.credential = credential
        self.receiver: UpstreamReceiver | None = None
        self.peer: object = None
        self.take_config: Callable[..., None] | None = None  # who takes another file, where one may come
        self.hub = hub
        self.view = view
        self.owns_hub = owns_hub
        self.loop = asyncio.get_running_loop()
        self.opening: Opening | None = None
        self.era = Era.LEGACY
        self.links: dict[str, MemberLink] = {}
        self.pending: dict[bytes, Pending] = {}
        self.questions = Questions()
        self.resources = Resources(lambda: view.members, self.link_for)
        self.notices = Notices(hub.terms.lists.debounce_seconds, self.say_changed)
        self.level: bytes | None = None
        self.subscribed: dict[str, str] = {}  # resources, and whose they are
        self.held: list[Message] = []
        self._held_bytes = 0  # of all that was held since the last time that nothing was
        self.is_flowing = False  # all that must be known is known, and nothing is held
        self.listenings: dict[bytes, Listening] = {}  # by the ids of clients' requests
        self._met: set[str] = set()  # members that there was a link to
        self._is_modern_refused = False
        self.is_over = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._reasons: set[str] = set()
        view.on_change.append(self.notices.changed)
        hub.on_back.append(self.back)
        hub.on_retired.append(self.retire)
        hub.on_added.append(self.added)
        if owns_hub:
            hub.look_again = self._reopen
            hub.on_fatal = self._give_up
            for member in view.members:
                if not member.is_startable_later:
                    self._new_link(member).open()

    # --- as a link ---------------------------------------------------------------------------------------

    @property
    def untaken(self) -> int:
        """Bytes that upstreams have not taken."""
        size = self._held_bytes
        for link in self.links.values():  # no generator: every post of a client asks
            size += link.untaken
        return size

    def pause(self, reason: str) -> None:
        """Stops reading the upstreams."""
        self._reasons.add(reason)
        for link in self.links.values():
            link.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading them."""
        self._reasons.discard(reason)
        for link in self.links.values():
            link.resume(reason)

    def cork(self) -> None:
        """Each message is written when it comes: one upstream's are not held up for another's."""

    def uncork(self) -> None:
        """Nothing was collected."""

    async def connect(self) -> None:
        """Nothing to wait for: whoever is there shows in the lists."""

    async def stop(self, grace: float = limits.CHILD_GRACE_SECONDS) -> None:
        """Ends every link."""
        self.is_over = True
        self.notices.stop()
        if self.notices.changed in self.view.on_change:
            self.view.on_change.remove(self.notices.changed)
            self.hub.on_back.remove(self.back)
            self.hub.on_retired.remove(self.retire)
            self.hub.on_added.remove(self.added)
        for listening in self.listenings.values():
            listening.stop()
        for task in tuple(self._tasks):
            task.cancel()
        links, self.links = list(self.links.values()), {}
        closing = [link.stop(grace) for link in links]
        if self.owns_hub:
            closing.append(self.hub.close())
        await asyncio.gather(*closing, return_exceptions=True)

    async def close(self) -> None:
        """The same, for those who do not know what this is."""
        await self.stop()

    def kill(self) -> None:
        """Ends every child at once."""
        for link in self.links.values():
            link.kill()

    @property
    def how_it_ended(self) -> str:
        """The end in words."""
        return "all of them"

    # --- links to members --------------------------------------------------------------------------------

    def _new_link(self, member: Member) -> MemberLink:
        link = self.links[member.name] = MemberLink(member, self, self.credential)
        gate = self.view.gate_of(member)
        link.gate, link.unheard = (gate, gate.unheard_names) if gate.is_filtering else (None, link.unheard)
        link.is_again = member.name in self._met
        self._met.add(member.name)
        for reason in self._reasons:
            link.pause(reason)
        return link

    def link_for(self, member: Member) -> MemberLink | None:
        """The link to a member, opened now if need be; None when it is not there."""
        link = self.links.get(member.name)
        if link is not None and not link.is_lost:
            is_tried = member.breaker is Breaker.CLOSED or self._brings(member)
            return link if link.is_ready or is_tried else None
        if self.is_over or self._is_out(member) or self.hub.is_full:
            return None
        return self._open_link(member)

    def _is_out(self, member: Member) -> bool:
        return not self._brings(member) and member.is_out(self.loop.time())

    def _brings(self, member: Member) -> bool:
        """Whether this session may have what others lacked when the member wanted credentials."""
        has_own = self.credential is not None and bool(member.terms.credential)
        return has_own and member.state is State.NEEDS_AUTH

    def _open_link(self, member: Member) -> MemberLink:
        link = self._new_link(member)
        learns = self.owns_hub or (member.known is None and link.is_of_caller and member.waits)
        link.greet(self.opening or own_opening(self.era), learns)
        return link

    def watch_idle(self, link: MemberLink) -> None:
        """Stops a member that nobody has used for as long as it was told to wait for that."""
        seconds = link.member.terms.idle_seconds
        if seconds is None or link.is_lost or self.is_over:
            return
        due = link.used_at + seconds
        if self.is_busy(link):
            due = self.loop.time() + seconds
        elif self.loop.time() >= due:
            log.info("%s is stopped: nobody has used it.", link.name)
            self.links.pop(link.name, None)
            self.hub.rested(link)
            return
        self.loop.call_at(due, self.watch_idle, link)

    def is_busy(self, link: MemberLink) -> bool:
        """Whether something is under way with a member, or expected of it."""
        return (
            link.has_tasks
            or bool(link.asked or link.listens)
            or link.name in self.subscribed.values()
            or any(pending.link is link for pending in self.pending.values())
        )

    def retire(self, member: Member) -> None:
        """A member is not in the file any more, or not as it was: what is under way may end, for a while."""
        link = self.links.get(member.name)
        if link is not None and link.member is member:
            del self.links[member.name]
            self._drain(link, self.loop.time() + DRAIN_SECONDS)

    def _drain(self, link: MemberLink, until: float) -> None:
        waits = any(pending.link is link for pending in self.pending.values())
        if not link.is_lost and not self.is_over and waits and self.loop.time() < until:
            self.loop.call_later(limits.DRAIN_LOOK_SECONDS, self._drain, link, until)
            return
        if not link.is_lost:
            self.lost(link, SessionEnded("It is not in the file any more"))

    def added(self, member: Member) -> None:
        """A member is new in the file."""
        if self.owns_hub and self.opening is not None and member in self.view.members:
            self._greet(member, self.opening)

    def _give_up(self, error: PenstockError) -> None:
        """Nobody can be served any more."""
        if self.receiver is not None and isinstance(error, UpstreamError) and not self.is_over:
            self.receiver.upstream_lost(error)

    def _reopen(self, member: Member) -> None:
        """Looks for a member again that was lost, on behalf of the only session there is."""
        link = self.links.get(member.name)
        if self.opening is not None and not self.is_over and (link is None or link.is_lost):
            self._open_link(member)

    def _open_with(self, message: Message) -> None:
        """The first request tells the era, and what the client says of itself."""
        if message.method == "initialize" and "params" in message.envelope and message.params is not None:
            opening = Opening(Era.LEGACY, bytes(message.envelope["params"]))
        else:
            meta = maybe_modern_meta(message.params)
            opening = own_opening(Era.LEGACY) if meta is None else Opening(Era.MODERN, meta)
        self.opening, self.era = opening, opening.era
        self._is_modern_refused = False
        self.hub.start()
        if self.owns_hub:
            for member in self.view.members:
                self._greet(member, opening)
        elif opening.era is Era.MODERN:
            self.start(self._ask_for_modern())
        if self.credential is not None:
            self.hub.when_settled(self._learn_waiting)

    def _learn_waiting(self) -> None:
        """Learns the members that wait for somebody's credential with this one's."""
        for member in self.view.members:
            if member.waits and member.known is None:
                self.link_for(member)

    def _greet(self, member: Member, opening: Opening) -> None:
        if member.is_startable_later:
            return
        link = self.links.get(member.name)
        if link is None or link.is_lost:
            link = self._new_link(member)
        link.greet(opening, learns=True)

    async def _ask_for_modern(self) -> None:
        settled = asyncio.Event()
        self.hub.when_settled(settled.set)
        await settled.wait()
        if not await self.hub.speaks_modern():
            self.refuse_modern()

    def refuse_modern(self) -> None:
        """Not every upstream can be had in the newer era: we are a server of the older one."""
        if self._is_modern_refused:
            return
        self._is_modern_refused = True
        self.opening = None
        self.is_flowing = False
        held, self.held, self._held_bytes = self.held, [], 0
        for message in held:
            if message.kind is Kind.REQUEST:
                self.fail(message, METHOD_NOT_FOUND, "Method not found")
        for name, link in list(self.links.items()):
            if link.opening is not None:  # it has taken the newer era, and a process takes only one
                del self.links[name]
                link.member.known = None
                self.hub.close_link(link)
                self._new_link(link.member).open()

    # --- from the client ---------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Takes one message of the client's."""
        method = message.method
        if method is None:
            self.route(message)
            return
        if self.opening is None and message.kind is Kind.REQUEST and method != "ping":
            if self._is_modern_refused and maybe_modern_meta(message.params) is not None:
                self.fail(message, METHOD_NOT_FOUND, "Method not found")
                return
            self._open_with(message)
        if (self.held or not self._is_open) and method not in _AT_ONCE:
            self._hold(message)
            return
        self.route(message)
        self.is_flowing = self.opening is not None and not self.held

    def route(self, message: Message) -> None:
        """Sends a message to whom it is for."""
        raise NotImplementedError

    @property
    def _is_open(self) -> bool:
        """Whether enough is known to say who gets what."""
        if not self.hub.is_settled:
            return False
        return self.era is Era.LEGACY or self.owns_hub or self.hub.is_modern is True

    def _hold(self, message: Message) -> None:
        if self._held_bytes > limits.PENDING_BYTES:
            self.fail(message, INTERNAL_ERROR, "Too much waits for the upstreams to start")
            return
        self._held_bytes += len(message.raw) + limits.BESIDE_BYTES
        self.held.append(message)
        if len(self.held) == 1:
            self.hub.when_settled(self._release)

    def _release(self) -> None:
        if not self._is_open and self.hub.is_modern is None:
            self.hub.when_modern_known(self._release)
            return
        if not self._is_open:
            self.refuse_modern()
            return
        held, self.held, self._held_bytes = self.held, [], 0
        for message in held:
            self.send(message)
        self.is_flowing = not self.held and self.opening is not None

    # --- to the client -----------------------------------------------------------------------------------

    def say(self, raw: bytes) -> None:
        assert self.receiver is not None
        if not self.is_over:
            self.receiver.from_upstream(raw)

    def say_answer(self, message: Message) -> None:
        """The same with an answer that is as its upstream sent it, and was read as a relay reads it."""
        receiver = self.receiver
        if type(receiver) is SessionRelay and not self.is_over:
            receiver.take_upstream_response(message)
        else:
            self.say(message.raw)

    def back(self, member: Member) -> None:
        """A member that was lost is there again."""
        raise NotImplementedError

    def say_changed(self, kind: str) -> None:
        """Tells the client that a list has changed."""
        raise NotImplementedError

    def reply(self, message: Message, result: bytes) -> None:
        assert message.id_token is not None
        self.say(result_reply(message.id_token, result))

    def fail(self, message: Message, code: int, text: str) -> None:
        if message.kind is Kind.REQUEST:
            self.say(error_reply(message.id_token, code, text))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def start_pending(self, message: Message, work: Coroutine[Any, Any, None]) -> None:
        """Answers a request some time later; until then it can be cancelled."""
        key = id_key(message.id_token or b"")

        async def run() -> None:
            try:
                await work
            except asyncio.CancelledError:
                self.fail(message, INTERNAL_ERROR, CANCELLED)
                raise
            finally:
                if self.pending.get(key) is pending:
                    del self.pending[key]

        pending = self.pending[key] = Pending(message.id_token or b"", message.method or "")
        pending.task = self.start(run())
