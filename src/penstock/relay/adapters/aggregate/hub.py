"""All that sessions share about several upstreams: what each is like, the names that were given, the lists.

With a listener, the hub learns every upstream once, over links of its own. With one client on stdio the
client's own links are enough: what they learn is told here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import PenstockError, UpstreamError
from penstock.policy.several.naming import NameLedger
from penstock.policy.several.terms import MemberTerms, SearchTerms, SeveralTerms
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.adapters.aggregate.member import Breaker, Known, Member, State
from penstock.relay.adapters.aggregate.member_link import MemberLink
from penstock.relay.adapters.aggregate.opening import own_opening
from penstock.relay.adapters.aggregate.replies import reply_alone
from penstock.relay.adapters.aggregate.view import View
from penstock.relay.contracts import UpstreamLink
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.mcp_headers import SchemaBook
from penstock.wire.mcp.message import Message
from penstock.wire.mcp.replies import printable

if TYPE_CHECKING:  # loaded where lists are kept
    from penstock.relay.adapters.aggregate.keeping import Keeping

log = logging.getLogger("penstock")

OpenMember = Callable[[MemberTerms, object | None, SchemaBook], UpstreamLink]


class AllFailed(UpstreamError):
    """Not one of several upstreams could be had."""

    def __init__(self, members: list[Member]) -> None:
        detail = "; ".join(f"{member.name}: {member.error}" for member in members)
        super().__init__("No upstream could be had", detail)


class RequiredFailed(UpstreamError):
    """An upstream that must be there is not."""

    def __init__(self, members: list[Member]) -> None:
        names = ", ".join(member.name for member in members)
        super().__init__(f"Required and not there: {names}", "; ".join(m.error or m.state for m in members))


class Hub:
    """The upstreams, for all sessions and doors."""

    def __init__(
        self,
        terms: SeveralTerms,
        open_member: OpenMember,
        *,
        learns: bool,
        reserved: frozenset[str] = frozenset(),
    ) -> None:
        """`learns`: over links of its own, before clients come."""
        self.terms = terms
        self.learns = learns
        self._open_member = open_member
        self._loop = asyncio.get_running_loop()
        self.members = {one.name: self._new_member(one) for one in terms.members}
        self.finds = bool(reserved)  # names of our own are kept free, for finding tools
        self.tool_names = NameLedger(terms.names, reserved)
        self.prompt_names = NameLedger(terms.names)
        self.views: list[View] = []
        self.is_settled = False
        self.on_fatal: Callable[[PenstockError], None] = lambda error: None
        self.on_retired: list[Callable[[Member], None]] = []
        self.on_added: list[Callable[[Member], None]] = []
        self.on_back: list[Callable[[Member], None]] = []
        self.on_ready: list[Callable[[], None]] = []
        self.look_again: Callable[[Member], None] = self._learn  # how a lost one is looked for
        self._waiting: list[Callable[[], None]] = []
        self._wait_timer: asyncio.TimerHandle | None = None
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._learning: dict[str, MemberLink] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._said: set[tuple[str, str]] = set()
        self._modern: asyncio.Task[bool] | None = None
        self.is_modern: bool | None = None
        self._modern_waiting: list[Callable[[], None]] = []
        self._is_over = False
        self.keeping: Keeping | None = None
        if terms.lists.keep is not None:
            from penstock.relay.adapters.aggregate.keeping import Keeping

            self.keeping = Keeping(terms.lists.keep, self)
            self.keeping.load()

    def _new_member(self, terms: MemberTerms) -> Member:
        # Lists are learnt over one link and tools are called over others: which arguments of a tool travel in
        # headers is known to all of them.
        schemas = SchemaBook()
        return Member(terms, lambda credential: self._open_member(terms, credential, schemas))

    def new_view(
        self, choice: ToolFilter, only: frozenset[str] | None = None, search: SearchTerms | None = None
    ) -> View:
        """What one door shows."""
        view = View(self, choice, only, search)
        self.views.append(view)
        if self.is_settled:
            view.refresh()
        return view

    # --- the beginning -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to wait for the upstreams; learns them, if that is not left to a session."""
        if self._wait_timer is not None or self.is_settled:
            return
        self._wait_timer = self._loop.call_later(self.terms.lists.wait_seconds, self._settle)
        for member in self.members.values():
            if self.learns and not member.is_startable_later:
                self._learn(member)
        self.look_if_settled()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Calls `then` when all upstreams are known, or are waited for no longer."""
        if self.is_settled:
            then()
        else:
            self._waiting.append(then)

    def look_if_settled(self) -> None:
        """Settles if there is nobody left to wait for."""
        if not self.is_settled and all(member.is_settled for member in self._waited_for()):
            self._settle()

    def _waited_for(self) -> list[Member]:
        """The upstreams that somebody meets: one client on stdio meets those alone that its profile shows."""
        if self.learns:
            return list(self.members.values())
        return list(dict.fromkeys(member for view in self.views for member in view.members))

    def _settle(self) -> None:
        if self.is_settled or self._is_over:
            return
        self.is_settled = True
        if self._wait_timer is not None:
            self._wait_timer.cancel()
        for view in self.views:
            view.refresh()
        waiting, self._waiting = self._waiting, []
        self._say_lists()
        for then in waiting:
            then()
        members = self._waited_for()
        if self.keeping is not None:
            self.keeping.later()
        missing = [one for one in members if one.terms.is_required and one.known is None]
        if missing:
            self.on_fatal(RequiredFailed(missing))
        elif members and all(one.known is None and one.was_failed and not one.waits for one in members):
            self.on_fatal(AllFailed(members))

    def _say_lists(self) -> None:
        for view in self.views[:1]:
            for member in view.members:
                shown = view.tools.shown.get(member.name, 0)
                if member.known is None:
                    log.warning("%s: %s. %s.", member.name, member.state, member.error or "It is waited for")
                else:
                    hidden = view.tools.hidden.get(member.name, 0)
                    log.info("%s: %d tools, %d hidden.", member.name, shown, hidden)
            if view.refusal is not None:
                self.on_fatal(view.refusal)

    # --- what links tell ---------------------------------------------------------------------------------

    def learnt(self, member: Member, known: Known) -> None:
        """A link has learnt what an upstream is like."""
        before, member.known, member.is_only_kept = member.known, known, False
        if self.keeping is not None:
            self.keeping.later()
        member.greeted(self._loop.time())
        for tell in self.on_ready:
            tell()
        for back in list(self.on_back):
            back(member)
        if not self.is_settled:
            self.look_if_settled()
        elif before is None or not before.is_same(known) or self.terms.lists.hides_lost:
            self.refresh()

    def refresh(self) -> None:
        """Makes the lists of every door anew."""
        for view in self.views:
            view.refresh()

    def lost(self, member: Member, error: UpstreamError, wants_credentials: bool) -> None:
        """An upstream is gone or cannot be had. It is looked for again, and nobody else notices."""
        if self._is_over:
            return
        was_known = member.known is not None
        before = member.breaker
        at = member.lost(error, self._loop.time(), wants_credentials)
        text = error.cause or error.detail
        log.warning("%s is %s: %s. %s.", member.name, member.state, error.headline, text)
        if before is Breaker.CLOSED and member.breaker is Breaker.OPEN:
            said = "%s has failed %d times in a row: calls to it fail at once until it answers us."
            log.warning(said, member.name, member.losses)
        if member.terms.exits_on_loss and was_known:
            self.on_fatal(error)
            return
        self._forget_retry(member)
        self._retries[member.name] = self._loop.call_at(at, self._retry, member)
        if not self.is_settled:
            self.look_if_settled()
        elif self.terms.lists.hides_lost:
            self.refresh()

    def _retry(self, member: Member) -> None:
        self._retries.pop(member.name, None)
        is_learnt = bool(member.terms.credential) and member.state is State.READY  # over a caller's link
        if not self._is_over and not is_learnt and self.members.get(member.name) is member:
            member.is_probed = True
            self.look_again(member)

    def _forget_retry(self, member: Member) -> None:
        timer = self._retries.pop(member.name, None)
        if timer is not None:
            timer.cancel()

    def say_left_out(self, server: str, own: str) -> None:
        """Tells people, once, of a tool for which no name is left."""
        if (server, own) not in self._said:
            self._said.add((server, own))
            log.warning("%s of %s is left out: its name is taken.", printable(own), server)

    # --- learning over links of our own ------------------------------------------------------------------

    def learn_again(self, member: Member) -> None:
        """A list has changed that is learnt in nobody's name."""
        self._loop.call_later(self.terms.lists.debounce_seconds, self._learn, member)

    def _learn(self, member: Member) -> None:
        if member.name in self._learning or self._is_over:
            return
        if member.known is None and member.state is not State.DOWN:
            member.state = State.STARTING
        link = self._learning[member.name] = MemberLink(member, _Learner(self))
        link.greet(own_opening(Era.LEGACY), learns=True)

    def learning_ended(self, link: MemberLink) -> None:
        """A link of our own has done what it was for."""
        if self._learning.get(link.name) is link:
            del self._learning[link.name]
        self.close_link(link)

    def close_link(self, link: MemberLink) -> None:
        """Closes a link in its own time."""
        task = self._loop.create_task(link.stop())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def rested(self, link: MemberLink) -> None:
        """A link is stopped because nobody uses it."""
        if link.member.links <= 1:
            link.member.state = State.IDLE
        self.close_link(link)

    @property
    def is_full(self) -> bool:
        """Whether so many links are open that there must be no more."""
        return sum(member.links for member in self.members.values()) >= limits.SESSIONS

    def when_modern_known(self, then: Callable[[], None]) -> None:
        """Calls `then` when it is known whether the newer era can be offered."""
        if self.is_modern is not None:
            then()
        else:
            self._modern_waiting.append(then)

    async def speaks_modern(self) -> bool:
        """Whether every upstream that is there can be had in the newer era, as it is. Asked once."""
        if self._modern is None:
            self._modern = self._loop.create_task(self._probe_modern())
        return await asyncio.shield(self._modern)

    async def _probe_modern(self) -> bool:
        unknown = [
            one for one in self.members.values() if one.known is not None and one.speaks_modern is None
        ]
        owners = [_Prober() for _ in unknown]
        links = [MemberLink(member, owner) for member, owner in zip(unknown, owners, strict=True)]
        try:
            for link in links:
                link.greet(own_opening(Era.MODERN), learns=True)
            for link, owner in zip(links, owners, strict=True):
                await asyncio.wait({owner.done}, timeout=self.terms.lists.wait_seconds)
                if link.known is None:
                    link.member.speaks_modern = False
                elif link.member.known is not None:
                    link.member.known.list_terms = link.known.list_terms
        finally:
            for link in links:
                self.close_link(link)
        self.is_modern = all(one.speaks_modern for one in self.members.values() if one.known is not None)
        waiting, self._modern_waiting = self._modern_waiting, []
        for then in waiting:
            then()
        return self.is_modern

    # --- another file ------------------------------------------------------------------------------------

    def reload(self, terms: SeveralTerms, open_member: OpenMember, changed: frozenset[str]) -> bool:
        """Takes the members of another file: those in `changed` are reached in another way than before.
        Whoever is as it was keeps its links. False when nothing is another."""
        self._open_member = open_member
        old = self.members
        new: dict[str, Member] = {}
        for one in terms.members:
            known = old.get(one.name)
            is_same = known is not None and known.terms == one and one.name not in changed
            new[one.name] = known if is_same and known is not None else self._new_member(one)
        if list(new.items()) == list(old.items()):
            return False
        self.terms, self.members = terms, new
        for name, member in old.items():
            if new.get(name) is not member:
                log.info("%s is %s.", name, "changed" if name in new else "removed")
                self._forget_retry(member)
                for retire in list(self.on_retired):
                    retire(member)
                if member.shared is not None:
                    member.shared.retire()
        for view in self.views:
            view.forget()
        for name, member in new.items():
            if old.get(name) is not member:
                log.info("%s is added.", name)
                if self.learns:
                    self._learn(member)
                for tell in list(self.on_added):
                    tell(member)
        self._modern, self.is_modern = None, None
        if self.is_settled:
            self.refresh()
        return True

    # --- the end -----------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends every link of our own."""
        self._is_over = True
        if self.keeping is not None:
            self.keeping.close()
        if self._wait_timer is not None:
            self._wait_timer.cancel()
        for timer in self._retries.values():
            timer.cancel()
        for link in list(self._learning.values()):
            self.close_link(link)
        if self._modern is not None:
            self._modern.cancel()
        while self._closing:
            await asyncio.wait(self._closing)
        for member in self.members.values():
            if member.shared is not None:
                await member.shared.close()


class _Learner:
    """The owner of a link over which the hub learns. Nobody is behind it who could be asked."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def answered(self, link: MemberLink, message: Message) -> None:
        """Nobody asked."""

    def unasked(self, link: MemberLink, message: Message) -> None:
        """Answers what an upstream may ask before it goes on."""
        answer_alone(link, message)

    def refused(self, link: MemberLink, id_token: bytes | None, why: str, raw: bytes) -> None:
        """Of no use to anybody."""

    def noise(self, link: MemberLink, raw: bytes) -> None:
        """Of no use to anybody."""

    def greeted(self, link: MemberLink) -> None:
        """The lists are there."""
        if link.known is not None:
            self._hub.learnt(link.member, link.known)
        self._hub.learning_ended(link)

    def lost(self, link: MemberLink, error: UpstreamError) -> None:
        """It could not be had."""
        wants = link.wants_credentials
        self._hub.learning_ended(link)
        self._hub.lost(link.member, error, wants)


class _Prober:
    """The owner of a link that only asks for an era."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, link: MemberLink, message: Message) -> None:
        """Nobody asked."""

    def unasked(self, link: MemberLink, message: Message) -> None:
        """Nobody listens."""

    def refused(self, link: MemberLink, id_token: bytes | None, why: str, raw: bytes) -> None:
        """Of no use to anybody."""

    def noise(self, link: MemberLink, raw: bytes) -> None:
        """Of no use to anybody."""

    def greeted(self, link: MemberLink) -> None:
        """It has answered, one way or the other."""
        if not self.done.done():
            self.done.set_result(None)

    def lost(self, link: MemberLink, error: UpstreamError) -> None:
        """It could not bear the question."""
        self.greeted(link)


def answer_alone(link: MemberLink, message: Message) -> None:
    """Answers an upstream's question where there is no client."""
    reply = reply_alone(message)
    if reply is not None:
        link.send_now(reply)
