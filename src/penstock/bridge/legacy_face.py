"""A modern upstream, shown to a legacy client as one of its own era.

Every request gets the `_meta` that the modern era wants; the handshake is answered from `server/discover`;
subscriptions become one listen request; questions in the middle of a call become requests to the client.
Arguments, contents, answers and the upstream's state pass as their senders wrote them.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.bridge import codes, legacy_results
from penstock.bridge.envelope import (
    maybe_members,
    maybe_value,
    notification,
    object_of,
    request,
    with_members,
    with_params,
    without_members,
)
from penstock.bridge.modern_results import LEVELS
from penstock.bridge.questions import (
    ROUND_SECONDS,
    ROUNDS,
    STATE_SECONDS,
    Call,
    maybe_undeclared,
    read_questions,
)
from penstock.bridge.steps import Step, Tell, ToClient, ToUpstream
from penstock.bridge.subscriptions import ACKNOWLEDGED, Subscriptions
from penstock.bridge.under_way import TOO_MUCH, has_room
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.eras import (
    META_CAPABILITIES,
    META_CLIENT,
    META_LEVEL,
    META_SUBSCRIPTION,
    META_VERSION,
    MODERN_VERSIONS,
)
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Kind, Message
from penstock.wire.mcp.replies import error_reply, printable, result_reply

_DROPPED = frozenset(
    {
        "notifications/roots/list_changed",
        "notifications/progress",
        "notifications/elicitation/complete",
    }
)
_ROUNDED = frozenset({"tools/call", "prompts/get", "resources/read"})
"""What may be answered with questions."""
_WRONG_MARK = 'The tool "%s" is left out: it wants an argument in a header in a way that is not allowed.'


class LegacyFace:
    """The state of one client's session; see the module."""

    def __init__(self, opening: Message, new_id: Callable[[], bytes], is_http: bool = False) -> None:
        """`opening` is the client's initialize; `new_id` gives ids, as JSON tokens, that no client can have
        chosen; `is_http` says whether arguments of calls travel in headers too."""
        params = opening.params or {}
        self._new_id = new_id
        self._is_http = is_http
        self._opening: Message | None = opening
        self._client_info = bytes(params.get("clientInfo", b'{"name":"unknown","version":"unknown"}'))
        self._capabilities = bytes(params.get("capabilities", b"{}"))
        self._declared: Members = maybe_members(self._capabilities) or {}
        self._offers: Members = {}
        self._level = b'"info"'
        self._calls: dict[bytes, Call] = {}  # by the id of the leg under way
        self._asked: dict[bytes, Call] = {}  # by the id of a question of ours
        self._subscriptions = Subscriptions(new_id)

    def discovery(self) -> Message:
        """The request that takes the place of initialize."""
        params = object_of({"_meta": self._meta(b"{}")})
        id_token = self._new_id()
        raw = request(id_token, "server/discover", params)
        return Message(raw, Kind.REQUEST, id_token, "server/discover")

    def discovered(self, answer: Message) -> bytes:
        """The answer to the client's initialize, made of the answer to `discovery`."""
        assert self._opening is not None
        result = maybe_members(answer.envelope.get("result")) or {}
        self._offers = maybe_members(result.get("capabilities")) or {}
        self._subscriptions.offer(self._offers)
        opening, self._opening = self._opening, None
        return result_reply(opening.id_token or b"null", legacy_results.initialize_result(result, opening))

    # --- from the client ---------------------------------------------------------------------------------

    def client_says(self, message: Message, now: float) -> list[Step]:
        """What becomes of a message of the client's."""
        if message.kind is Kind.RESPONSE:
            return self._take_answer(message)
        method = message.method or ""
        if message.kind is Kind.NOTIFICATION:
            return self._take_notification(message)
        assert message.id_token is not None
        if method == "ping":
            return [ToClient(result_reply(message.id_token, b"{}"))]
        if method == "logging/setLevel":
            return [ToClient(self._set_level(message))]
        if method in ("resources/subscribe", "resources/unsubscribe"):
            return self._subscriptions.change(message, self._meta(b"{}"), now)
        if method == "initialize" or method.startswith("tasks/"):
            return [ToClient(error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found"))]
        if not has_room(message, len(self._calls), (call.asked for call in self._calls.values())):
            return [ToClient(error_reply(message.id_token, INTERNAL_ERROR, TOO_MUCH))]
        self._calls[id_key(message.id_token)] = Call(message, message.id_token)
        return [ToUpstream(self._stamped(message))]

    def _take_notification(self, message: Message) -> list[Step]:
        if message.method == "notifications/initialized":
            return self._subscriptions.begin(self._meta(b"{}"))
        if message.method == "notifications/cancelled":
            return self._cancel(message)
        return [] if message.method in _DROPPED else [ToUpstream(message.raw)]

    def _set_level(self, message: Message) -> bytes:
        assert message.id_token is not None
        level = (message.params or {}).get("level")
        if "logging" not in self._offers:
            return error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found")
        if level is None or maybe_value(level) not in LEVELS:
            return error_reply(message.id_token, INVALID_PARAMS, "Invalid params: unknown level")
        self._level = bytes(level)
        return result_reply(message.id_token, b"{}")

    def _cancel(self, message: Message) -> list[Step]:
        params = message.params or {}
        if "requestId" not in params:
            return []
        key = id_key(bytes(params["requestId"]))
        for call in self._calls.values():
            assert call.asked.id_token is not None
            if id_key(call.asked.id_token) == key:
                break
        else:
            return []
        if call.is_parked:
            return self._end(call)
        leg = with_members(bytes(message.envelope["params"]), {"requestId": call.leg})
        return [ToUpstream(with_params(message.raw, leg))]

    def _meta(self, own: bytes) -> bytes:
        """`own`, with what the modern era wants to know of the sender."""
        values = {
            META_VERSION: msgspec.json.encode(MODERN_VERSIONS[-1]),
            META_CLIENT: self._client_info,
            META_CAPABILITIES: self._capabilities,
        }
        if "logging" in self._offers:
            values[META_LEVEL] = self._level
        return with_members(own, values)

    def _stamped(self, message: Message, more: dict[str, bytes] | None = None) -> bytes:
        """A request as the modern era wants it, perhaps with more params."""
        inner = message.params
        params = bytes(message.envelope["params"]) if inner is not None else b"{}"
        if message.method in _ROUNDED:
            params = without_members(params, "inputResponses", "requestState")  # only we carry these
        own = (inner or {}).get("_meta")
        meta = bytes(own) if own is not None and maybe_members(own) is not None else b"{}"
        return with_params(message.raw, with_members(params, {"_meta": self._meta(meta), **(more or {})}))

    # --- questions ---------------------------------------------------------------------------------------

    def _ask(self, call: Call, result: Members, now: float) -> list[Step]:
        """The upstream wants to know something before it goes on."""
        questions = read_questions(result)
        state = result.get("requestState")
        call.round += 1
        call.answers, call.due = {}, 0.0
        call.state = bytes(state) if state is not None else None
        if call.round > ROUNDS and questions:
            return self._fail(call, f"The upstream asked more than {ROUNDS} times")
        for question in questions:
            undeclared = maybe_undeclared(question, self._declared)
            if undeclared is not None:
                return self._fail(call, f"The upstream asks for what the client does not offer: {undeclared}")
        steps: list[Step] = []
        for question in questions:
            if question.url and question.url in call.accepted:
                call.answers[question.key] = b'{"action":"accept"}'  # shown once, and accepted
                continue
            token = self._new_id()
            params = (
                with_members(question.params, {"elicitationId": token}) if question.url else question.params
            )
            call.open[token] = question
            self._asked[id_key(token)] = call
            steps.append(ToClient(request(token, question.method, params)))
        if call.open:
            call.due = now + ROUND_SECONDS
            return steps
        return self._retry(call) if questions else self._show_state_later(call, now)

    def _show_state_later(self, call: Call, now: float) -> list[Step]:
        """Only a state came: the upstream is not ready yet."""
        call.state_until = call.state_until or now + STATE_SECONDS
        if now >= call.state_until:
            return self._fail(call, "The upstream was not ready in time")
        call.due = now + call.longer_wait()
        return []

    def _take_answer(self, message: Message) -> list[Step]:
        assert message.id_token is not None
        call = self._asked.pop(id_key(message.id_token), None)
        if call is None:
            return []
        token = next(one for one in call.open if id_key(one) == id_key(message.id_token))
        question = call.open.pop(token)
        answer = message.envelope.get("result")
        if answer is not None:
            call.answers[question.key] = bytes(answer)
            if question.url and maybe_value((maybe_members(answer) or {}).get("action")) == "accept":
                call.accepted.add(question.url)
        elif question.method == "elicitation/create":
            call.answers[question.key] = b'{"action":"cancel"}'
        else:
            # A round has no word for it: the call ends with the client's own error.
            reply = with_members(message.raw, {"id": call.asked.id_token or b"null"})
            return [*self._end(call), ToClient(reply)]
        return [] if call.open else self._retry(call)

    def _retry(self, call: Call) -> list[Step]:
        """The call once more, with the answers; under an id of ours, since the first one is used up."""
        self._calls.pop(id_key(call.leg), None)
        call.leg = self._new_id()
        call.due = 0.0
        self._calls[id_key(call.leg)] = call
        raw = self._stamped(call.asked, call.more_params())
        return [ToUpstream(with_members(raw, {"id": call.leg}), call.asked)]

    def _fail(self, call: Call, why: str) -> list[Step]:
        return [*self._end(call), ToClient(error_reply(call.asked.id_token, INTERNAL_ERROR, why))]

    def _end(self, call: Call) -> list[Step]:
        """Forgets a call; what the client was asked for it is withdrawn."""
        self._calls.pop(id_key(call.leg), None)
        call.due = 0.0
        steps: list[Step] = []
        for token in call.open:
            self._asked.pop(id_key(token), None)
            steps.append(ToClient(notification("notifications/cancelled", object_of({"requestId": token}))))
        call.open.clear()
        return steps

    # --- from the upstream -------------------------------------------------------------------------------

    def upstream_says(self, message: Message, now: float, via: bytes | None = None) -> list[Step]:
        """What becomes of a message of the upstream's; it says itself to whom it belongs, so `via` is of no
        use here."""
        if message.kind is Kind.RESPONSE:
            return self._take_response(message, now)
        if message.kind is Kind.REQUEST:
            reply = error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found")
            return [ToUpstream(reply)]  # there are no such requests in this era
        if message.method == ACKNOWLEDGED:
            return self._subscriptions.acknowledged(message)
        params = maybe_members(message.envelope.get("params"))
        meta = maybe_members((params or {}).get("_meta"))
        if params is None or meta is None or META_SUBSCRIPTION not in meta:
            return [ToClient(message.raw)]
        if not self._subscriptions.is_current(id_key(bytes(meta[META_SUBSCRIPTION]))):
            return []
        kept = without_members(bytes(params["_meta"]), META_SUBSCRIPTION)
        text = bytes(message.envelope["params"])
        text = with_members(text, {"_meta": kept}) if maybe_members(kept) else without_members(text, "_meta")
        return [ToClient(with_params(message.raw, text))]

    def _take_response(self, message: Message, now: float) -> list[Step]:
        token = message.id_token
        if token is None or token == b"null":
            return [ToClient(message.raw)]
        if self._subscriptions.owns(token):
            return self._subscriptions.ended(token, now)
        call = self._calls.get(id_key(token))
        if call is None or call.is_parked:
            return [ToClient(message.raw)]  # whoever hears it drops what nobody asked for
        result = maybe_members(message.envelope.get("result"))
        if result is not None and maybe_value(result.get("resultType")) == "input_required":
            return self._ask(call, result, now)
        if result is None and not call.was_resent and codes.names_modern(message, MODERN_VERSIONS):
            call.was_resent = True  # the version that it names is ours
            return self._retry(call)
        self._calls.pop(id_key(token), None)
        steps: list[Step] = []
        if result is None:
            raw = codes.for_legacy(message, call.asked)
        else:
            raw = message.raw
            if self._is_http and call.asked.method == "tools/list":
                raw, wrong = legacy_results.without_wrong_marks(raw, result)
                result = maybe_members((maybe_members(raw) or {}).get("result")) or result
                steps += [Tell(_WRONG_MARK % printable(name)) for name in wrong]
            raw = legacy_results.for_legacy(raw, result, call.asked)
        if call.leg != call.asked.id_token:
            raw = with_members(raw, {"id": call.asked.id_token or b"null"})
        return [*steps, ToClient(raw)]

    # --- time --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Step]:
        """What has become due."""
        steps = self._subscriptions.tick(self._meta(b"{}"), now)
        for call in [one for one in self._calls.values() if one.due and one.due <= now]:
            steps += self._fail(call, "The client did not answer in time") if call.open else self._retry(call)
        return steps

    def next_due(self) -> float:
        """When `tick` has something to do; 0 when it has not."""
        due = [call.due for call in self._calls.values() if call.due]
        due += filter(None, [self._subscriptions.next_due()])
        return min(due, default=0.0)
