"""Several upstreams as one link: each message to the one that it is for, each answer from no other.

Ids of clients go up as they are; which link was asked is remembered, and only that one may answer. What is
spliced: a renamed tool's or prompt's name, ids and tokens of upstreams' questions, task ids, and the name of
who asks before an elicitation's text. Nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from penstock import __version__, limits
from penstock.bridge.envelope import with_members
from penstock.policy.several.greeting import (
    Greeting,
    discover_result,
    initialize_result,
    merged_capabilities,
    merged_instructions,
)
from penstock.policy.several.merged_tools import Owner
from penstock.policy.several.spliced import edited, maybe_text, slug_of_task, without_task_prefix
from penstock.policy.tools.tool_gate import CALL
from penstock.policy.verdict import FORWARD, Answer, Forward
from penstock.relay.adapters.aggregate.from_members import FromMembers
from penstock.relay.adapters.aggregate.hub import Hub
from penstock.relay.adapters.aggregate.listening import LISTEN, Listening
from penstock.relay.adapters.aggregate.member_link import MemberLink
from penstock.relay.adapters.aggregate.opening import without_questions
from penstock.relay.adapters.aggregate.questions import maybe_params
from penstock.relay.adapters.aggregate.replies import answer_with
from penstock.relay.adapters.aggregate.resources import LIST, TEMPLATES
from penstock.relay.adapters.aggregate.session_links import Pending
from penstock.relay.adapters.aggregate.view import View
from penstock.wire.mcp.eras import META_CAPABILITIES, Era
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Kind,
    Message,
    read_client_message,
)
from penstock.wire.mcp.replies import CANCELLED, error_reply, printable
from penstock.wire.mcp.subscribed import TOO_MANY, has_room

log = logging.getLogger("penstock")

_decode_text = msgspec.json.Decoder(str).decode
FIND = "find_tools"
_UNLOOKED_BYTES = 64 * 1024  # so much goes to an upstream without a look at what it has not taken
_NOT_FOUND = -32002  # a resource, in the older era


class Aggregate(FromMembers):
    """One session's link to all upstreams of a door."""

    def __init__(
        self, hub: Hub, view: View, *, owns_hub: bool = False, credential: object | None = None
    ) -> None:
        """With `owns_hub` this session is the only one: its links learn what the upstreams are like."""
        super().__init__(hub, view, owns_hub=owns_hub, credential=credential)
        self._routes: dict[str, Callable[[Message], None]] = {
            CALL: self._call,
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._pong,
            "tools/list": self._gated,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            LIST: self._fan_out,
            TEMPLATES: self._fan_out,
            "tasks/list": self._fan_out,
            "resources/read": self._by_uri,
            "resources/subscribe": self._by_uri,
            "resources/unsubscribe": self._by_uri,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
            LISTEN: self._listen,
            "tasks/get": self._by_task,
            "tasks/result": self._by_task,
            "tasks/update": self._by_task,
            "tasks/cancel": self._by_task,
            "notifications/initialized": self._ignore,
            "notifications/cancelled": self._cancel,
            "notifications/progress": self._progress,
            "notifications/roots/list_changed": self._roots_changed,
            "notifications/tasks/status": self._client_task,
        }

    def send(self, message: Message) -> None:
        """Takes one message of the client's."""
        tool = message.tool
        if tool is None or message.method != CALL or not self.is_flowing:
            super().send(message)
            return
        # The hot path: a tool that the gate lets pass, by the name that its upstream knows it by, over a link
        # that is there, with nothing in it to be changed or remembered. `route` says the same at more length.
        # Looked for with `find`: `in` takes bytes for a number first, and words an error that nobody reads.
        link = self.links.get(self.view.calls.get(tool, ""))
        raw, id_token = message.raw, message.id_token
        if (
            link is None
            or not link.is_straight
            or link.unlooked > _UNLOOKED_BYTES
            or id_token is None
            or raw.find(b"taskId") >= 0
            or raw.find(b"progressToken") >= 0
        ):
            self.route(message)
            return
        link.unlooked += len(raw)
        self.pending[id_key(id_token)] = Pending(id_token, CALL, link)
        link.send(message)

    def route(self, message: Message) -> None:
        """Sends a message to whom it is for."""
        if message.method is None:
            self._take_answer(message)
            return
        try:
            self._routes.get(message.method, self._vendor)(message)
        except ValueError:
            # Two readers could see two tokens, tasks or owners in it.
            self.pending.pop(id_key(message.id_token or b""), None)
            self.fail(message, INVALID_PARAMS, "Invalid params: they can be read in two ways")

    def _take_answer(self, message: Message) -> None:
        if not self.questions.answer(message):
            log.warning("Dropped an answer from the client: no upstream waits for it.")

    def _ignore(self, message: Message) -> None:
        """Each link has a word of its own for this."""

    def _pong(self, message: Message) -> None:
        self.reply(message, b"{}")

    def _initialize(self, message: Message) -> None:
        _, capabilities, words = self._face()
        asked = maybe_params(message).get("protocolVersion")
        self.notices.begin()
        self.reply(message, initialize_result(asked, capabilities, words, self.hub.terms.front, __version__))

    def _discover(self, message: Message) -> None:
        known, capabilities, words = self._face()
        front = self.hub.terms.front
        greetings = [greeting for _, greeting in known]
        self.reply(message, discover_result(greetings, capabilities, words, front, __version__))

    def _face(self) -> tuple[list[tuple[str, Greeting]], dict[str, Any], str]:
        members = self.view.members
        known = [(one.name, one.known.greeting) for one in members if one.known is not None]
        capabilities = merged_capabilities((greeting for _, greeting in known), len(known) == len(members))
        return known, capabilities, merged_instructions(known, self.hub.terms.front)

    def _gated(self, message: Message) -> None:
        """What the gate answers from the merged list."""
        view = self.view
        verdict = view.gate.client_says(message, view.exchange_for(self.era))
        if isinstance(verdict, Answer):
            if verdict.is_list and message.id_token is not None:
                self.say_answer(answer_with(verdict.raw, message.id_token, view.list_result(self.era)))
            else:
                self.say(verdict.raw)

    def _call(self, message: Message) -> None:
        passed = self._judge(message)
        if passed is None:
            return
        name = passed.tool
        if name is None:
            name = _decode_text((passed.params or {})["name"])
        owner = self.view.tools.owners.get(name)
        if owner is not None:
            if owner.is_renamed:
                self._to_owner(passed, owner)
            else:
                self._to_member(passed, owner.member)
        elif self.view.finder is not None and name == FIND:
            self.say(self._complete_result(self.view.finder.find(passed)))
        else:
            self.fail(passed, METHOD_NOT_FOUND, f"Tool not found: {printable(name)}")

    def _complete_result(self, raw: bytes) -> bytes:
        """A result of our own as the era wants it."""
        if self.era is Era.LEGACY:
            return raw
        return edited(raw, ("result",), lambda result: with_members(result, {"resultType": b'"complete"'}))

    def _judge(self, message: Message) -> Message | None:
        """What of a message about tools may go on; what may not is answered."""
        view = self.view
        verdict = view.gate.client_says(message, view.exchange_for(self.era))
        if verdict is FORWARD:
            return message
        if isinstance(verdict, Forward):
            return verdict.message or message
        if isinstance(verdict, Answer):
            self.say(verdict.raw)
        return None

    def _list_prompts(self, message: Message) -> None:
        if bytes((message.params or {}).get("cursor", b"null")) != b"null":
            self.fail(message, INVALID_PARAMS, "Invalid params: unknown cursor")
        else:
            self.reply(message, self.view.result("prompts", self.era))

    def _get_prompt(self, message: Message) -> None:
        name = maybe_text((message.params or {}).get("name"))
        owner = self.view.prompts.owners.get(name or "")
        if owner is None:
            self.fail(message, INVALID_PARAMS, "Unknown prompt")
        else:
            self._to_owner(message, owner)

    def _to_owner(self, message: Message, owner: Owner) -> None:
        if owner.is_renamed:
            token = msgspec.json.encode(owner.own)
            message = _read(edited(message.raw, ("params", "name"), lambda _: token))
        self._to_member(message, owner.member)

    def _to_member(self, message: Message, name: str) -> None:
        """Sends a message to the member it is for, or says that it is not there."""
        link = self.links.get(name)
        if link is None or not link.is_ready or link.is_lost:  # else nothing more is looked at
            member = self.hub.members.get(name)
            link = self.link_for(member) if member is not None else None
        if link is None or link.untaken > limits.PENDING_BYTES:
            if message.kind is Kind.REQUEST:
                self.fail(message, INTERNAL_ERROR, f"{name} is not available")
            return
        link.unlooked = len(message.raw)
        if b"taskId" in message.raw or link.has_limits:
            message = self._for_link(message, link)
        if message.id_token is not None:
            pending = self.pending[id_key(message.id_token)] = Pending(
                message.id_token, message.method or "", link
            )
            if b"progressToken" in message.raw:
                self._note_token(message, link, pending)
        if link.rests:
            link.used_at = self.loop.time()
        link.send(message)

    def _for_link(self, message: Message, link: MemberLink) -> Message:
        raw = message.raw
        if b"taskId" in raw:
            raw = without_task_prefix(raw, link.slug, (message.method or "").startswith("tasks/"))
        if link.has_limits and self.era is Era.MODERN:
            asks = link.member.terms.asks
            place = ("params", "_meta")
            raw = edited(raw, place, lambda meta: without_questions(meta, META_CAPABILITIES, asks))
        return message if raw is message.raw else _read(raw)

    def _note_token(self, message: Message, link: MemberLink, pending: Pending) -> None:
        assert message.id_token is not None

        def note(token: bytes) -> bytes:
            pending.token = id_key(token)
            link.tokens[pending.token] = id_key(message.id_token or b"")
            return token

        edited(message.raw, ("params", "_meta", "progressToken"), note)

    def _by_task(self, message: Message) -> None:
        slug = slug_of_task((message.params or {}).get("taskId"))
        for member in self.view.members:
            if slug is not None and member.terms.slug == slug:
                self._to_member(message, member.name)
                return
        self.fail(message, INVALID_PARAMS, "Unknown task")

    def _by_uri(self, message: Message) -> None:
        uri = maybe_text((message.params or {}).get("uri"))
        if uri is None:
            self.fail(message, INVALID_PARAMS, "Invalid params: uri must be a string")
            return
        self._with_owner(message, uri, lambda name: self._to_uri_owner(message, uri, name))

    def _with_owner(self, message: Message, uri: str, then: Callable[[str], None]) -> None:
        """Finds out whose a resource is, asking for lists that are not known, and nobody for the URI."""
        name = self.resources.maybe_owner(uri)
        if name is not None and self.resources.is_known:
            then(name)
            return
        if self.resources.is_known:
            self._not_found(message)
            return

        async def look() -> None:
            await self.resources.look_around()
            found = self.resources.maybe_owner(uri)
            if found is None:
                self._not_found(message)
            else:
                then(found)

        self.start_pending(message, look())

    def _to_uri_owner(self, message: Message, uri: str, name: str) -> None:
        if message.method == "resources/subscribe":
            if uri not in self.subscribed and not has_room(self.subscribed, [uri]):
                self.fail(message, INTERNAL_ERROR, TOO_MANY)
                return
            self.subscribed[uri] = name
        elif message.method == "resources/unsubscribe":
            self.subscribed.pop(uri, None)
        self._to_member(message, name)

    def _not_found(self, message: Message) -> None:
        code = _NOT_FOUND if self.era is Era.LEGACY else INVALID_PARAMS
        self.fail(message, code, "Resource not found")

    def _complete(self, message: Message) -> None:
        ref = maybe_params(message).get("ref")
        ref = ref if isinstance(ref, dict) else {}
        name, uri = ref.get("name"), ref.get("uri")
        if isinstance(name, str) and name in self.view.prompts.owners:
            owner = self.view.prompts.owners[name]
            token = msgspec.json.encode(owner.own)
            if owner.is_renamed:
                message = _read(edited(message.raw, ("params", "ref", "name"), lambda _: token))
            self._to_member(message, owner.member)
        elif isinstance(uri, str):
            self._with_owner(message, uri, lambda found: self._to_member(message, found))
        else:
            self.fail(message, INVALID_PARAMS, "Unknown reference")

    def _fan_out(self, message: Message) -> None:
        method = message.method or ""
        if bytes((message.params or {}).get("cursor", b"null")) != b"null":
            self.fail(message, INVALID_PARAMS, "Invalid params: unknown cursor")
            return

        async def gather() -> None:
            result = await self.resources.merged(method, self.era is Era.MODERN)
            self.reply(message, result)

        self.start_pending(message, gather())

    def _set_level(self, message: Message) -> None:
        if message.kind is not Kind.REQUEST or "params" not in message.envelope:
            self.fail(message, INVALID_PARAMS, "Invalid params: a level is wanted")
            return
        self.level = bytes(message.envelope["params"])
        self.reply(message, b"{}")
        for link in self.links.values():
            self.tell_level(link)

    def _listen(self, message: Message) -> None:
        if self.era is Era.LEGACY or message.id_token is None:
            self.fail(message, METHOD_NOT_FOUND, "Method not found")
            return
        listening = Listening(message, self.say)
        if not has_room((), listening.uris):
            self.fail(message, INTERNAL_ERROR, TOO_MANY)
            return
        self.listenings[id_key(message.id_token)] = listening
        self.notices.begin()

        async def begin() -> None:
            if listening.uris and not self.resources.is_known:
                await self.resources.look_around()
            found = [(member, self.link_for(member)) for member in self.view.members]
            own = self.owned_uris(listening)
            listening.begin([(link, own.get(one.name, [])) for one, link in found if link is not None])

        self.start(begin())

    def _cancel(self, message: Message) -> None:
        token = bytes((message.params or {}).get("requestId", b""))
        listening = self.listenings.pop(id_key(token), None) if token else None
        if listening is not None:
            listening.stop()
            return
        pending = self.pending.get(id_key(token)) if token else None
        if pending is None:
            self.held = [
                one for one in self.held if one.id_token is None or id_key(one.id_token) != id_key(token)
            ]
        elif pending.task is not None:
            pending.task.cancel()
        elif pending.link is not None and pending.link.withdraw(token):
            del self.pending[id_key(token)]
            self.say(error_reply(token, INTERNAL_ERROR, CANCELLED))
        elif pending.link is not None:
            pending.link.send(message)

    def _progress(self, message: Message) -> None:
        if not self.questions.progress(message):
            log.info("Dropped progress from the client: no upstream waits for it.")

    def _roots_changed(self, message: Message) -> None:
        for link in self.links.values():
            if link.is_ready and "roots" in link.member.terms.asks:
                link.send(message)

    def _client_task(self, message: Message) -> None:
        task = maybe_params(message).get("taskId")
        for link in self.links.values():
            if task in link.client_tasks and link.is_ready:
                link.send(message)

    def _vendor(self, message: Message) -> None:
        method = message.method or ""
        if self._judge(message) is None:
            return  # it merely looks like a method about tools
        for member in self.view.members:
            if any(pattern.found_in(method) for pattern in member.terms.methods):
                self._to_member(message, member.name)
                return
        if message.kind is Kind.REQUEST:
            self.fail(message, METHOD_NOT_FOUND, "Method not found")


def _read(raw: bytes) -> Message:
    message = read_client_message(raw)
    assert isinstance(message, Message)
    return message
