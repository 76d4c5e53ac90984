"""What several upstreams say to one session: each only what it was asked, or may say unasked."""

from __future__ import annotations

import asyncio
import logging

from penstock.errors import ConnectFailed, PenstockError, SessionRefused, UpstreamError
from penstock.policy.exchange import NO_SESSION, Exchange
from penstock.policy.several.spliced import edited, resource_uris, with_origin, with_task_prefix
from penstock.policy.verdict import FORWARD, Answer, Forward
from penstock.relay.adapters.aggregate.listening import ACKNOWLEDGED, Listening, maybe_subscription
from penstock.relay.adapters.aggregate.member import Known, Member
from penstock.relay.adapters.aggregate.member_link import MemberLink
from penstock.relay.adapters.aggregate.notices import list_changed
from penstock.relay.adapters.aggregate.questions import KINDS, maybe_params
from penstock.relay.adapters.aggregate.replies import as_message
from penstock.relay.adapters.aggregate.session_links import Pending, SessionLinks
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message
from penstock.wire.mcp.replies import INVALID_ANSWER, error_reply, printable

log = logging.getLogger("penstock")

_BACKSLASH = ord("\\")
_CHANGED = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}


class FromMembers(SessionLinks):
    """Hears the links."""

    # --- answers -----------------------------------------------------------------------------------------

    def answered(self, link: MemberLink, message: Message) -> None:
        """Passes an answer on, if this link was asked."""
        token = message.id_token or b"null"
        key = id_key(token)
        pending = self.pending.get(key)
        if pending is None or pending.link is not link:
            log.warning("Dropped a response from %s that nobody asked it for.", link.name)
            return
        del self.pending[key]
        if link.rests or pending.token is not None:
            self._ended(link, pending)
        gate, result = link.gate, message.result
        if gate is not None and not (result is not None and link.unheard and link.unheard.issuperset(result)):
            verdict = gate.upstream_says(message, Exchange(token, pending.method, None, NO_SESSION))
            if verdict is not FORWARD:
                self._say_instead(verdict, token)
                return
        raw = message.raw
        # With `find`, and one byte first, as in `Aggregate.send`.
        if (
            raw.find(b"taskId") >= 0
            or (_BACKSLASH in raw and raw.find(b"\\u") >= 0)
            or raw.find(b"resource") >= 0
            or (self.era is Era.MODERN and raw.find(b"inputRequests") >= 0)
        ):
            self._say_marked(link, message, token)
            return
        self.say_answer(message)

    def _say_marked(self, link: MemberLink, message: Message, token: bytes) -> None:
        """Passes an answer on in which something must be changed, or remembered."""
        raw = message.raw
        try:
            if b"taskId" in raw or b"\\u" in raw:
                raw = with_task_prefix(raw, link.slug, is_request=False)
                link.has_tasks = link.has_tasks or raw is not message.raw
            if b"resource" in raw and message.has_result:
                for uri in resource_uris(bytes(message.envelope["result"])):
                    self.resources.note(uri, link.name)
            if self.era is Era.MODERN and b"inputRequests" in raw:
                raw = self._with_rounds(link, raw)
        except ValueError:
            log.warning("Withheld an answer of %s: it can be read in two ways.", link.name)
            raw = error_reply(token, INTERNAL_ERROR, INVALID_ANSWER)
        if raw is message.raw:
            self.say_answer(message)
        else:
            self.say(raw)

    def _say_instead(self, verdict: object, token: bytes) -> None:
        if isinstance(verdict, Forward) and verdict.message is not None:
            self.say(verdict.message.raw)
        else:
            self.say(error_reply(token, INTERNAL_ERROR, INVALID_ANSWER))

    def _with_rounds(self, link: MemberLink, raw: bytes) -> bytes:
        """An answer with questions in it, each with the name of who asks. Raises ValueError for what the
        member may not ask."""
        terms = link.member.terms

        def look(questions: bytes) -> bytes:
            from penstock.wire.json.ambiguity import members
            from penstock.wire.json.splice import with_value

            for name, question in members(questions).items():
                inner = members(question)
                method = bytes(inner.get("method", b"")).strip(b'"').decode()
                if KINDS.get(method, "") not in terms.asks:
                    raise ValueError("it may not ask this")
                if method == "elicitation/create" and terms.shows_origin:
                    new = with_origin(bytes(question), ("params", "message"), link.name)
                    questions = with_value(questions, members(questions), name, new)
            return questions

        return edited(raw, ("result", "inputRequests"), look)

    def _ended(self, link: MemberLink, pending: Pending) -> None:
        if link.rests:
            link.used_at = self.loop.time()
        if pending.token is not None:
            link.tokens.pop(pending.token, None)

    # --- what is not asked -------------------------------------------------------------------------------

    def unasked(self, link: MemberLink, message: Message) -> None:
        """Passes a question or a notification on."""
        if link.gate is not None:
            exchange = Exchange(message.id_token or b"", message.method or "")
            verdict = link.gate.upstream_says(message, exchange)
            if verdict is not FORWARD:
                if isinstance(verdict, Answer):
                    link.send_now(as_message(verdict.raw))
                return
        try:
            if message.kind is Kind.REQUEST:
                raw = self.questions.to_client(link, message)
            else:
                raw = self._notice(link, message)
        except ValueError:
            log.warning("Dropped a message from %s: it can be read in two ways.", link.name)
            return
        if raw is not None:
            self.say(raw)

    def _notice(self, link: MemberLink, message: Message) -> bytes | None:
        method = message.method or ""
        if self.era is Era.MODERN:
            token = maybe_subscription(message)
            listening = link.listens.get(token) if token is not None else None
            if token is not None and listening is None:
                return None
            if method == ACKNOWLEDGED and listening is not None:
                listening.acknowledged(link.name)
                if link.is_again:  # what changed while nobody listened was told to nobody
                    self._list_changed(link, "tools")
                return None
            if listening is not None and method not in _CHANGED:
                return listening.passed(message.raw)
        if method in _CHANGED:
            self._list_changed(link, _CHANGED[method])
            return None
        if method == "notifications/progress":
            return message.raw if self._is_under_way(link, message) else None
        if method == "notifications/cancelled":
            return self.questions.cancelled(link, message)
        if method == "notifications/initialized" or self._is_anothers(link, message):
            return None
        return with_task_prefix(message.raw, link.slug, is_request=False)

    def _is_anothers(self, link: MemberLink, message: Message) -> bool:
        """Whether it tells of a resource that this client follows at another member."""
        if message.method != "notifications/resources/updated" or not self.subscribed:
            return False
        return self.subscribed.get(str(maybe_params(message).get("uri")), link.name) != link.name

    def _is_under_way(self, link: MemberLink, message: Message) -> bool:
        found: list[bool] = []

        def look(token: bytes) -> bytes:
            found.append(id_key(token) in link.tokens)
            return token

        edited(message.raw, ("params", "progressToken"), look)
        return any(found)

    def _list_changed(self, link: MemberLink, kind: str) -> None:
        """Fetches a list once more; while that is under way, one more time at most."""
        if kind == "resources":
            self.resources.forget(link.member)
            self.notices.changed(kind)
        elif link.is_of_caller and not link.member.terms.lists_by_caller:
            self.hub.learn_again(link.member)
        elif link.refetch is not None:
            link.is_changed_again = True
        elif link.is_ready:
            link.refetch = self.loop.create_task(self._refetch(link))

    async def _refetch(self, link: MemberLink) -> None:
        try:
            while not link.is_lost:
                link.is_changed_again = False
                await asyncio.sleep(self.hub.terms.lists.debounce_seconds)
                old = link.known or link.member.known
                assert old is not None
                known = Known(old.greeting, [], [], [], old.transport)
                await link.learn(known)
                link.known = known
                self.hub.learnt(link.member, known)
                if not link.is_changed_again:
                    return
        except PenstockError as why:
            log.warning("The lists of %s have changed and cannot be had: %s.", link.name, why.detail)
        finally:
            link.refetch = None

    # --- how a link is -----------------------------------------------------------------------------------

    def refused(self, link: MemberLink, id_token: bytes | None, why: str, raw: bytes) -> None:
        """Something of a member's cannot be passed on; who waits for it hears an error."""
        assert self.receiver is not None
        key = id_key(id_token) if id_token is not None else b""
        pending = self.pending.get(key)
        if pending is None or pending.link is not link:
            log.warning("Skipped a message from %s. %s.", link.name, why)
            return
        del self.pending[key]
        self._ended(link, pending)
        if not self.is_over:
            self.receiver.upstream_refused(id_token, why, raw)

    def noise(self, link: MemberLink, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""
        assert self.receiver is not None
        self.receiver.upstream_noise(raw)

    def greeted(self, link: MemberLink) -> None:
        """A handshake is through."""
        if link.known is None:
            self.refuse_modern()
            return
        if link.learns:
            self.hub.learnt(link.member, link.known)
        else:
            link.member.greeted(self.loop.time())
        self.tell_level(link)
        for listening in self.listenings.values():
            listening.listen_at(link, self.owned_uris(listening).get(link.name, []))
        for uri, name in self.subscribed.items():
            if name == link.name and link.is_again:
                link.start(quietly(link, "resources/subscribe", b'{"uri":%b}' % _token(uri)))
        self.watch_idle(link)

    def lost(self, link: MemberLink, error: UpstreamError) -> None:
        """A member is gone: who waits for it hears so, and nobody else."""
        if self.links.get(link.name) is link:
            del self.links[link.name]
        wants = link.wants_credentials
        for number in self.questions.lost(link):
            self.say(number)
        for key, pending in list(self.pending.items()):
            if pending.link is link:
                del self.pending[key]
                self.say(error_reply(pending.id_token, INTERNAL_ERROR, f"{link.name} is not available"))
        if self.is_over:
            return
        self.hub.close_link(link)
        if self.hub.members.get(link.name) is not link.member:
            return
        if link.member.terms.credential and not self.owns_hub and not _is_everybodys(error):
            log.warning("%s does not serve one caller. %s.", link.name, error.detail)
        elif not error.is_of_one_session or link.known is None:
            self.hub.lost(link.member, error, wants)
        elif self.listenings:
            self.back(link.member)

    def back(self, member: Member) -> None:
        """A member that was lost is there again: who listens, listens on."""
        if self.listenings and member.name not in self.links and member in self.view.members:
            self.link_for(member)

    def say_changed(self, kind: str) -> None:
        """Tells the client that a list has changed."""
        if self.era is Era.LEGACY:
            self.say(list_changed(kind))
        for listening in list(self.listenings.values()):
            listening.changed(kind)

    def owned_uris(self, listening: Listening) -> dict[str, list[str]]:
        """The resources of a listen request, by the members whose they are."""
        owned: dict[str, list[str]] = {}
        for uri in listening.uris:
            owner = self.resources.maybe_owner(uri)
            if owner is not None:
                owned.setdefault(owner, []).append(uri)
        return owned

    def tell_level(self, link: MemberLink) -> None:
        """Tells a member what the client wants to hear of its log."""
        known = link.known or link.member.known
        if link.is_ready and self.level is not None and known is not None and known.greeting.has("logging"):
            link.start(quietly(link, "logging/setLevel", self.level))


def _is_everybodys(error: UpstreamError) -> bool:
    """Whether a loss says something of the upstream, and not only of the credential that it was shown."""
    return isinstance(error, ConnectFailed) and not isinstance(error, SessionRefused)


async def quietly(link: MemberLink, method: str, params: bytes) -> None:
    """Asks something of a member that no client waits for."""
    try:
        answer = await link.ask(method, params)
        if "error" in answer.envelope:
            log.info("%s refused %s.", link.name, printable(method))
    except UpstreamError as why:
        log.info("%s did not answer %s: %s.", link.name, method, why.detail)


def _token(text: str) -> bytes:
    import msgspec

    return msgspec.json.encode(text)
