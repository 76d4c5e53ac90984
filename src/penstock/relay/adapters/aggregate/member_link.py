"""One session's link to one of several upstreams: greeted in the client's words, with requests of our own.

What clients sent waits until the handshake is through. Whatever the upstream says goes to the owner together
with this link: who may answer what is decided there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from penstock import limits
from penstock.bridge.envelope import object_of
from penstock.errors import (
    Failure,
    ProtocolError,
    ToolListFailed,
    ToolListTimeout,
    UpstreamError,
    UpstreamLost,
)
from penstock.policy.several.greeting import read_greeting
from penstock.policy.several.terms import QUESTIONS
from penstock.relay.adapters.aggregate.member import Known, Member
from penstock.relay.adapters.aggregate.opening import Opening
from penstock.relay.adapters.era_link import LegacyClientLink, names_modern
from penstock.relay.contracts import UpstreamLink
from penstock.relay.tool_list_pages import (
    ToolListPages,
    maybe_error_text,
    own_id,
    own_notification,
    own_request,
)
from penstock.relay.upstream_probe import NotThisEra
from penstock.wire.json.ambiguity import Ambiguous, NotAnArray, NotAnObject, NotJson, elements, members
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Batch, Kind, Message, read_upstream_message

if TYPE_CHECKING:
    from penstock.gate.gate import Gate
    from penstock.relay.adapters.aggregate.listening import Listening

log = logging.getLogger("penstock")

_RESPONSE = Kind.RESPONSE
_READ_AGAIN = (Ambiguous, NotJson, NotAnObject, NotAnArray, KeyError)


class LinkOwner(Protocol):
    """Whose session it is."""

    def answered(self, link: MemberLink, message: Message) -> None:
        """The upstream has answered something that was not asked by the link itself."""

    def unasked(self, link: MemberLink, message: Message) -> None:
        """A request or notification of the upstream's."""

    def refused(self, link: MemberLink, id_token: bytes | None, why: str, raw: bytes) -> None:
        """Something came that must not be passed on."""

    def noise(self, link: MemberLink, raw: bytes) -> None:
        """A line that is no message."""

    def greeted(self, link: MemberLink) -> None:
        """The handshake is through."""

    def lost(self, link: MemberLink, error: UpstreamError) -> None:
        """The link is gone, or could not be had."""


class MemberLink:
    """One connection."""

    def __init__(self, member: Member, owner: LinkOwner, credential: object | None = None) -> None:
        """`credential`: whose link it is, where the upstream sees that."""
        self.member = member
        self.name = member.name
        self.slug = member.terms.slug
        self.tokens: dict[bytes, bytes] = {}  # progress tokens under way there: whose request
        self.listens: dict[bytes, Listening] = {}  # who listens there, by the ids of our own requests
        self.asked: dict[bytes, int] = {}  # its own questions, by their ids: under which number
        self.client_tasks: dict[str, None] = {}  # tasks that clients began for it, the oldest first
        self.gate: Gate | None = None  # who looks whether it shows tools that are hidden, where some are
        self.unheard: frozenset[str] = frozenset()  # results with no other members pass the gate
        self.unlooked = 0  # bytes sent since it was last looked at whether the upstream takes them
        self.rests = member.terms.idle_seconds is not None
        self.used_at = asyncio.get_running_loop().time()
        self.has_limits = len(member.terms.asks) < len(
            QUESTIONS
        )  # it may not ask all that clients can answer
        self.has_tasks = False  # it has begun some: it is not stopped for being idle
        self.is_again = False  # another link was there before
        self.refetch: asyncio.Task[None] | None = None
        self.is_changed_again = False
        self.is_ready = False
        self.is_straight = False  # ready, and what clients send goes there as it is, and unnoted
        self.is_lost = False
        self.learns = False
        self.is_of_caller = credential is not None and bool(member.terms.credential)
        self._credential = credential
        self.opening: Opening | None = None
        self.known: Known | None = None
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._link: UpstreamLink | None = None
        self._waiting: list[Message] = []  # said before the handshake was through
        self._held = 0
        self._own: dict[bytes, asyncio.Future[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reasons: set[str] = set()
        self._waiters: list[asyncio.Future[None]] = []

    # --- the beginning -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Starts or reaches the upstream, without a word to it. Tells the owner when it cannot."""
        if self._link is not None or self.is_lost:
            return
        try:
            self._link = self.member.open_link(self._credential)
        except UpstreamError as error:
            self._loop.call_soon(self._lose, error)
            return
        self.member.links += 1
        self._link.receiver = self
        for reason in self._reasons:
            self._link.pause(reason)

    def greet(self, opening: Opening, learns: bool) -> None:
        """Shakes hands in the client's words; with `learns`, also asks for its lists."""
        self.opening = opening
        self.learns = learns
        self.open()
        self.start(self._greet(opening, learns))

    async def _greet(self, opening: Opening, learns: bool) -> None:
        try:
            if opening.era is Era.LEGACY:
                result = await self._shake_hands(opening)
            else:
                result = await self._discover(opening)
            facts = self._link.facts if self._link is not None else None
            known = Known(read_greeting(result), [], [], [], facts.transport if facts else None)
            if learns:
                await self.learn(known)
            self.known = known
        except NotThisEra:
            self.member.speaks_modern = False
            self.opening = None
            self._owner.greeted(self)
            return
        except UpstreamError as error:
            self._lose(error)
            return
        self.is_ready = True
        self.is_straight = not self.rests and not (self.has_limits and opening.era is Era.MODERN)
        waiting, self._waiting, self._held = self._waiting, [], 0
        self._owner.greeted(self)
        for message in waiting:
            self.send(message)
        self._wake()

    async def _shake_hands(self, opening: Opening) -> bytes:
        words = opening.for_asks(self.member.terms.asks)
        request = own_request(own_id(), "initialize", words)
        answer = await self._send_own(request)
        if "result" not in answer.envelope:
            # It may speak only the newer era: asked for that, and shown as one of the older.
            assert self._link is not None
            assert request.id_token is not None
            again = self._expect(request.id_token)
            self._link = LegacyClientLink(self._link, self, request, answer)
            answer = await again
            if "result" not in answer.envelope:
                said = maybe_error_text(answer.envelope["error"])
                raise ToolListFailed(f"It answers neither initialize nor server/discover: {said}")
            self.member.speaks_modern = True
        self.send_own_word("notifications/initialized")
        return bytes(answer.envelope["result"])

    async def _discover(self, opening: Opening) -> bytes:
        meta = opening.for_asks(self.member.terms.asks)
        answer = await self.ask("server/discover", object_of({"_meta": meta}))
        if not answer.has_result or not names_modern(answer):
            error = answer.envelope.get("error")
            raise NotThisEra("It does not speak this era", bytes(error) if error is not None else b"{}")
        self.member.speaks_modern = True
        return bytes(answer.envelope["result"])

    async def until_ready(self) -> None:
        """Waits until the handshake is through. Raises UpstreamLost."""
        while not self.is_ready:
            if self.is_lost:
                raise UpstreamLost("It is gone")
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- requests of our own -----------------------------------------------------------------------------

    @property
    def meta(self) -> bytes | None:
        """What our own requests carry in the newer era."""
        if self.opening is None or self.opening.era is Era.LEGACY:
            return None
        return self.opening.for_asks(self.member.terms.asks)

    async def learn(self, known: Known) -> None:
        """Fills in the tools and prompts. Raises ToolListFailed."""
        greeting = known.greeting
        pages, terms = await self.list_pages("tools/list", error_means_none=not greeting.has("tools"))
        known.pages, known.list_terms = pages, terms
        known.prompts = []
        if greeting.has("prompts"):
            try:
                prompts, more = await self.list_pages("prompts/list", error_means_none=True)
                known.prompts = entries_of(prompts, "prompts")
                known.list_terms = terms + more
            except ToolListFailed as why:
                log.warning("%s does not give its prompts: %s.", self.name, why.detail)

    async def list_pages(
        self, method: str, error_means_none: bool = False
    ) -> tuple[list[bytes], list[tuple[int | None, str | None]]]:
        """All pages of a list, and how long each may be kept. Raises ToolListFailed, UpstreamError."""
        fetch = ToolListPages(self.meta, error_means_none, method)
        seconds = self.member.terms.list_seconds
        try:
            async with asyncio.timeout(seconds):
                request: Message | None = fetch.first_request()
                while request is not None:
                    request = fetch.take(await self._send_own(request))
        except TimeoutError:
            raise ToolListTimeout(seconds) from None
        return fetch.pages, [(read.ttl, read.scope) for read in map(read_greeting, fetch.pages)]

    async def ask(self, method: str, params: bytes, id_token: bytes | None = None) -> Message:
        """The answer to a request of our own. Raises UpstreamError."""
        return await self._send_own(own_request(id_token or own_id(), method, params))

    def send_own_word(self, method: str, params: bytes | None = None) -> None:
        """Sends a notification of our own."""
        if self._link is not None and not self.is_lost:
            self._link.send(own_notification(method, params))

    async def _send_own(self, request: Message) -> Message:
        if self.is_lost or self._link is None:
            raise UpstreamLost("It is gone")
        assert request.id_token is not None
        answer = self._expect(request.id_token)
        self._link.send(request)
        try:
            return await answer
        except asyncio.CancelledError:
            self.send_own_word("notifications/cancelled", b'{"requestId":%b}' % request.id_token)
            raise
        finally:
            self._own.pop(request.id_token, None)

    def _expect(self, id_token: bytes) -> asyncio.Future[Message]:
        answer = self._own[id_token] = self._loop.create_future()
        return answer

    # --- toward the upstream -----------------------------------------------------------------------------

    @property
    def untaken(self) -> int:
        """Bytes that the upstream has not taken."""
        return self._held + (self._link.untaken if self._link is not None else 0)

    @property
    def wants_credentials(self) -> bool:
        """Whether it has asked for some."""
        return self._link is not None and self._link.facts.wants_credentials

    def send(self, message: Message) -> None:
        """Sends a message, or lets it wait for the handshake."""
        if self.is_ready:
            assert self._link is not None
            self._link.send(message)
        else:
            self._waiting.append(message)
            self._held += len(message.raw)

    def send_now(self, message: Message) -> None:
        """Sends what belongs to the handshake itself: an answer to a question in the middle of it."""
        if self._link is not None and not self.is_lost:
            self._link.send(message)

    def withdraw(self, id_token: bytes) -> bool:
        """Whether a request was still waiting here, and waits no more."""
        key = id_key(id_token)
        for message in self._waiting:
            if message.id_token is not None and id_key(message.id_token) == key:
                self._waiting.remove(message)
                self._held -= len(message.raw)
                return True
        return False

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        self._reasons.add(reason)
        if self._link is not None:
            self._link.pause(reason)

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading it."""
        self._reasons.discard(reason)
        if self._link is not None:
            self._link.resume(reason)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something beside, as long as the link lives."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self, grace: float = limits.CHILD_GRACE_SECONDS) -> None:
        """Ends the connection."""
        self.is_lost = True
        self.is_ready = self.is_straight = False
        for task in tuple(self._tasks):
            task.cancel()
        if self.refetch is not None:
            self.refetch.cancel()
        link, self._link = self._link, None
        if link is None:
            return
        self.member.links -= 1
        await link.stop(grace)

    def kill(self) -> None:
        """Ends it at once."""
        if self._link is not None:
            self._link.kill()

    # --- from the upstream -------------------------------------------------------------------------------

    def from_upstream(self, raw: bytes) -> None:
        """Takes one message, read strictly: whose answer it is must be certain before anybody gets it."""
        try:
            message = read_upstream_message(raw if type(raw) is bytes else bytes(raw))
        except ProtocolError as refusal:
            self.upstream_refused(refusal.id_token, refusal.reason, raw)
            return
        if isinstance(message, Batch):
            for part in message.parts:
                if part.lstrip()[:1] != b"[":
                    self.from_upstream(part)
        elif message.kind is _RESPONSE:
            own = self._own
            if own and (message.id_token or b"null") in own:
                answer = own.pop(message.id_token or b"null")
                if not answer.done():
                    answer.set_result(message)
            else:
                self._owner.answered(self, message)
        else:
            self._owner.unasked(self, message)

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped."""
        self._owner.noise(self, raw)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something came that must not be passed on."""
        answer = self._own.pop(id_token, None) if id_token is not None else None
        if answer is None:
            self._owner.refused(self, id_token, why, raw)
        elif not answer.done():
            answer.set_exception(ToolListFailed(f"The answer cannot be read: {why}"))

    def upstream_lost(self, error: UpstreamError) -> None:
        """The upstream is gone."""
        self._lose(error)

    def _lose(self, error: UpstreamError) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self.is_ready = self.is_straight = False
        for answer in self._own.values():
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # whoever waits hears it; nobody else has to
        self._own.clear()
        self._wake()
        self._owner.lost(self, error)


def entries_of(pages: list[bytes], name: str) -> list[bytes]:
    """The entries of all pages of a list. Raises ToolListFailed."""
    try:
        return [entry for page in pages for entry in elements(members(page)[name])]
    except _READ_AGAIN:
        raise ToolListFailed(f"Its {name} cannot be read", Failure.INVALID_RESPONSE) from None
