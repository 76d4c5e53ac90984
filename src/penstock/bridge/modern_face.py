"""A legacy upstream, shown to modern clients with the same rights and capabilities as one of their own era.

The handshake is made with the first request; results get what every modern result says; a listen request
becomes subscriptions; a question of the upstream's in the middle of a call answers the call with it, and the
call is taken up again when the client comes back with the answers (`bridge/parked`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from penstock import limits
from penstock.bridge import codes, modern_results
from penstock.bridge.envelope import (
    maybe_members,
    maybe_value,
    notification,
    object_of,
    request,
    with_members,
    with_params,
)
from penstock.bridge.listeners import Listeners
from penstock.bridge.modern_results import LEVELS, level_of, maybe_wrong_meta, meta_of, wants
from penstock.bridge.parked import (
    HELD_PROGRESS,
    HELD_PROGRESS_BYTES,
    OUTSIDE_SECONDS,
    PARKED_MOST,
    Asked,
    ParkedCall,
    binding_of,
    key_for,
    progress_token,
    same_id,
    unanswered,
)
from penstock.bridge.questions import Question, maybe_undeclared, read_urls
from penstock.bridge.steps import Step, Tell, ToClient, ToUpstream
from penstock.bridge.subscriptions import LISTEN
from penstock.bridge.under_way import TOO_MUCH, has_room
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.eras import META_CAPABILITIES
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Kind, Message
from penstock.wire.mcp.replies import error_reply, result_reply

_ROUNDED = frozenset({"tools/call", "prompts/get", "resources/read"})
_REMOVED = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
_EXPIRED = "Invalid or expired requestState"
_UNKNOWN = "Method not found"
_NOBODY = "Nobody could be asked in time"
_LATE = "The client did not answer in time"


class ModernFace:
    """The state of one upstream session, and of the calls in it; see the module."""

    def __init__(
        self,
        new_id: Callable[[], bytes],
        own_info: bytes,
        input_seconds: float = 600.0,
        is_full: Callable[[], bool] = lambda: False,
        new_state: Callable[[], bytes] | None = None,
    ) -> None:
        """`new_id` gives ids that no client can have chosen, `new_state` what a client shows to go on;
        `own_info` is what we call ourselves;
        `input_seconds` is how long a client may take to answer a question; `is_full` says whether too many
        calls wait elsewhere."""
        self._new_id = new_id
        self._new_state = new_state or (lambda: new_id().strip(b'"'))
        self._own_info = own_info
        self._input_seconds = input_seconds
        self._is_full_elsewhere = is_full
        self._opening: bytes | None = None  # the id of our initialize
        self._server: Members | None = None  # its result
        self._offers: Members = {}
        self._waiting: list[Message] = []  # requests that came before it was answered
        self._calls: dict[bytes, ParkedCall] = {}  # by the id that the upstream knows
        self._outside: list[tuple[Asked, float]] = []  # questions that belong to no call, until when
        self._listeners = Listeners(new_id)
        self._level: object = None

    # --- from clients ------------------------------------------------------------------------------------

    def client_says(self, message: Message, now: float) -> list[Step]:
        """What becomes of a message of a client's."""
        if message.kind is Kind.RESPONSE:
            return []  # nobody asks a client in this era
        if message.kind is Kind.NOTIFICATION:
            is_cancel = message.method == "notifications/cancelled"
            return self._cancel(message) if is_cancel else self._pass_notification(message)
        wrong = maybe_wrong_meta(message)
        if wrong is not None:
            return [ToClient(wrong)]
        assert message.id_token is not None
        others = chain(self._waiting, (call.asked for call in self._calls.values()))
        if not has_room(message, len(self._waiting) + len(self._calls), others):
            return [ToClient(error_reply(message.id_token, INTERNAL_ERROR, TOO_MUCH))]
        if self._server is None:
            self._waiting.append(message)
            return self._open(message)
        method = message.method or ""
        if method == "server/discover":
            return [ToClient(result_reply(message.id_token, modern_results.discover_result(self._server)))]
        if method == LISTEN:
            return self._listeners.open(message, self._offers)
        if method in _REMOVED or method.startswith("tasks/"):
            return [ToClient(error_reply(message.id_token, METHOD_NOT_FOUND, _UNKNOWN))]
        if method in _ROUNDED and "requestState" in (message.params or {}):
            return self._resume(message, now)
        return self._begin(message, now)

    def _open(self, message: Message) -> list[Step]:
        if self._opening is not None:
            return []
        self._opening = self._new_id()
        params = modern_results.opening(meta_of(message), self._own_info)
        return [ToUpstream(request(self._opening, "initialize", params))]

    def _pass_notification(self, message: Message) -> list[Step]:
        return [] if self._server is None else [ToUpstream(message.raw)]

    def _begin(self, message: Message, now: float) -> list[Step]:
        assert message.id_token is not None
        token = progress_token(message)
        call = ParkedCall(message, message.id_token, message.id_token, token, token)
        self._calls[id_key(message.id_token)] = call
        steps = self._take_outside(call, now) if message.method in _ROUNDED else []
        if call.questions:
            # The upstream asked before anybody had called: this call is answered with that first.
            call.is_unsent = True
            return [*steps, *self._park(call, now)]
        steps += self._set_level(message)
        return [*steps, ToUpstream(modern_results.for_legacy_upstream(message))]

    def _take_outside(self, call: ParkedCall, now: float) -> list[Step]:
        """Gives a call the questions that belong to none; refuses those that its client cannot answer."""
        outside, self._outside = self._outside, []
        steps: list[Step] = []
        for asked, until in outside:
            if until <= now:
                steps.append(_refused(asked.message, _NOBODY))
            elif maybe_undeclared(_as_question(asked.message), _declared(call)) is not None:
                steps.append(ToUpstream(error_reply(asked.message.id_token, METHOD_NOT_FOUND, _UNKNOWN)))
            elif self._is_full():
                self._outside.append((asked, until))
            else:
                call.questions[asked.key] = asked
        return steps

    def _is_full(self) -> bool:
        """Whether so many calls wait for clients that no more may."""
        return self.parked >= PARKED_MOST or self._is_full_elsewhere()

    @property
    def parked(self) -> int:
        """How many calls wait for their clients."""
        return sum(call.is_parked for call in self._calls.values())

    def _set_level(self, message: Message) -> list[Step]:
        """Tells the upstream the most verbose level that anybody under way wants to hear."""
        if "logging" not in self._offers:
            return []
        wanted = [level_of(call.asked) for call in self._calls.values()]
        known = [LEVELS.index(str(level)) for level in wanted if level in LEVELS]
        if not known or LEVELS[min(known)] == self._level:
            return []
        self._level = LEVELS[min(known)]
        level = f'"{self._level}"'.encode()
        return [ToUpstream(request(self._new_id(), "logging/setLevel", object_of({"level": level})))]

    def _cancel(self, message: Message) -> list[Step]:
        token = (message.params or {}).get("requestId")
        if token is None:
            return []
        key = id_key(bytes(token))
        self._waiting = [one for one in self._waiting if id_key(one.id_token or b"null") != key]
        ended = self._listeners.close(key)
        if ended is not None:
            return ended
        for call in list(self._calls.values()):
            if id_key(call.leg) == key and not call.is_parked:
                return self._give_up(call, "The client has cancelled")
        return []

    def _give_up(self, call: ParkedCall, why: str) -> list[Step]:
        """Nobody will come back for it: the upstream is told, and its questions are refused."""
        self._calls.pop(id_key(call.upstream_id), None)
        steps: list[Step] = [
            ToUpstream(error_reply(asked.message.id_token, INTERNAL_ERROR, why))
            for asked in call.questions.values()
        ]
        if not call.is_unsent and call.final is None:
            params = object_of({"requestId": call.upstream_id})
            steps.append(ToUpstream(notification("notifications/cancelled", params)))
        return steps

    # --- parked calls ------------------------------------------------------------------------------------

    def _park(self, call: ParkedCall, now: float) -> list[Step]:
        """Answers the leg with the questions."""
        state = self._new_state().decode()
        call.state = state
        call.gather_until = 0.0
        call.expires = now + self._input_seconds
        values = {
            "resultType": b'"input_required"',
            "inputRequests": object_of({key: asked.as_input() for key, asked in call.questions.items()}),
            "requestState": f'"{state}"'.encode(),
        }
        return [ToClient(result_reply(call.leg, object_of(values)))]

    def _resume(self, message: Message, now: float) -> list[Step]:
        """The client is back with answers."""
        params = message.params or {}
        state = maybe_value(params.get("requestState"))
        found = [call for call in self._calls.values() if call.is_parked and call.state == state]
        if not found or found[0].expires <= now or found[0].binding != binding_of(message):
            data = {"reason": "invalid_request_state"}
            return [ToClient(error_reply(message.id_token, INVALID_PARAMS, _EXPIRED, data))]
        call = found[0]
        call.go_on(message)
        if call.final is not None:
            self._calls.pop(id_key(call.upstream_id), None)
            return [*self._held_progress(call), ToClient(with_members(call.final, {"id": call.leg}))]
        answers = maybe_members(params.get("inputResponses")) or {}
        steps: list[Step] = []
        missing = unanswered(call, answers)
        for key, asked in list(call.questions.items()):
            if key not in missing:
                del call.questions[key]
                steps.append(ToUpstream(result_reply(asked.message.id_token or b"null", bytes(answers[key]))))
        if missing:
            return [*steps, *self._park(call, now)]
        if call.is_unsent:
            call.is_unsent = False
            self._calls.pop(id_key(call.upstream_id), None)
            call.upstream_id, call.upstream_token = call.leg, call.token
            self._calls[id_key(call.upstream_id)] = call
            steps.append(ToUpstream(modern_results.for_legacy_upstream(message)))
        return [*steps, *self._held_progress(call)]

    def _held_progress(self, call: ParkedCall) -> list[Step]:
        held, call.held = call.held, []
        return [ToClient(_with_token(raw, call.token)) for raw in held if call.token is not None]

    # --- from the upstream -------------------------------------------------------------------------------

    def upstream_says(self, message: Message, now: float, via: bytes | None = None) -> list[Step]:
        """What becomes of a message of the upstream's; `via` is the id of the request whose own stream has
        brought it, where there is such a thing."""
        if message.kind is Kind.RESPONSE:
            return self._take_response(message, now)
        call = self._calls.get(id_key(via)) if via is not None else None
        if message.kind is Kind.REQUEST:
            return self._take_question(message, now, call)
        return self._take_notification(message, call)

    def _take_response(self, message: Message, now: float) -> list[Step]:
        token = message.id_token
        if token is None:
            return []
        if token == self._opening and self._server is None:
            return self._opened(message, now)
        call = self._calls.get(id_key(token))
        if call is None:
            return []
        if message.has_result:
            raw = modern_results.for_modern(message.raw, call.asked.method or "")
        else:
            raw = self._maybe_urls(message, call) or codes.for_modern(message, call.asked)
        if call.is_parked:
            call.final = raw  # kept for the retry
            return []
        self._calls.pop(id_key(token), None)
        # A question that was just gathered was not this call's: it had all that it needs.
        steps = [step for asked in call.questions.values() for step in self._keep_outside(asked.message, now)]
        return [*steps, ToClient(with_members(raw, {"id": call.leg}) if call.leg != token else raw)]

    def _maybe_urls(self, message: Message, call: ParkedCall) -> bytes | None:
        """An error that wants the client to go to URLs first, as a round of questions. Nothing is parked for
        it: the call has ended upstream, and the client sends it anew."""
        if call.asked.method not in _ROUNDED:
            return None
        questions = read_urls(message)
        if not questions or any(maybe_undeclared(one, _declared(call)) for one in questions):
            return None
        values = {
            "resultType": b'"input_required"',
            "inputRequests": object_of({one.key: one.as_input() for one in questions}),
        }
        return result_reply(message.id_token or b"null", object_of(values))

    def _opened(self, message: Message, now: float) -> list[Step]:
        """The upstream has answered our initialize."""
        waiting, self._waiting = self._waiting, []
        result = maybe_members(message.envelope.get("result"))
        if result is None:
            self._opening = None  # the next request tries again
            return [
                ToClient(with_members(codes.for_modern(message, one), {"id": one.id_token or b"null"}))
                for one in waiting
            ]
        self._server = result
        self._offers = maybe_members(result.get("capabilities")) or {}
        steps: list[Step] = [ToUpstream(notification("notifications/initialized"))]
        for one in waiting:
            steps += self.client_says(one, now)
        return steps

    def _take_question(self, message: Message, now: float, via: ParkedCall | None) -> list[Step]:
        assert message.id_token is not None
        if message.method == "ping":
            return [ToUpstream(result_reply(message.id_token, b"{}"))]
        kept = [asked.message for call in self._calls.values() for asked in call.questions.values()]
        kept += [asked.message for asked, _ in self._outside]
        if len(kept) >= limits.UPSTREAM_REQUESTS or not has_room(message, len(kept), kept):
            return [_refused(message, TOO_MUCH)]
        call = via if via is not None and _may_ask(via) else self._maybe_oldest()
        if call is None:
            return self._keep_outside(message, now)
        if maybe_undeclared(_as_question(message), _declared(call)) is not None:
            return [ToUpstream(error_reply(message.id_token, METHOD_NOT_FOUND, _UNKNOWN))]
        if call.is_parked:
            # Asked in the next round, when the client comes back with what it has been asked already.
            key = key_for(message, call.questions)
            call.questions[key] = Asked(message, key)
            return []
        if self._is_full():
            return [_refused(message, "Too many calls wait already")]
        call.ask(Asked(message, key_for(message, call.questions)), now)
        return []

    def _keep_outside(self, message: Message, now: float) -> list[Step]:
        """Holds a question that belongs to no call until there is one."""
        if len(self._outside) >= PARKED_MOST:
            return [_refused(message, "Too many questions")]
        taken = {asked.key: asked for asked, _ in self._outside}
        self._outside.append((Asked(message, key_for(message, taken)), now + OUTSIDE_SECONDS))
        return []

    def _maybe_oldest(self) -> ParkedCall | None:
        """Who is asked when the upstream does not show for which call it asks: the answer goes by the
        upstream's own id, so it reaches the right question anyway."""
        asking = [call for call in self._calls.values() if _may_ask(call)]
        running = [call for call in asking if not call.is_parked]
        return next(iter(running or asking), None)

    def _take_notification(self, message: Message, via: ParkedCall | None) -> list[Step]:
        heard = self._listeners.hear(message)
        if heard is not None:
            return heard
        if message.method == "notifications/progress":
            return self._take_progress(message)
        if message.method == "notifications/cancelled":
            return self._withdraw(message)
        to = via.leg if via is not None and not via.is_parked else None
        if message.method == "notifications/message":
            running = [call for call in self._calls.values() if not call.is_parked]
            owner = via or (running[0] if len(running) == 1 else None)
            is_wanted = owner is not None and not owner.is_parked and wants(owner.asked, message)
            return [ToClient(message.raw, to)] if is_wanted else []
        if message.method == "notifications/elicitation/complete":
            return []
        return [ToClient(message.raw, to)]

    def _take_progress(self, message: Message) -> list[Step]:
        params = maybe_members(message.envelope.get("params")) or {}
        token = params.get("progressToken")
        for call in self._calls.values():
            if token is None or call.upstream_token is None or not same_id(bytes(token), call.upstream_token):
                continue
            if call.is_parked:
                if len(message.raw) <= HELD_PROGRESS_BYTES:
                    call.held = [*call.held, message.raw][-HELD_PROGRESS:]
                return []
            return [] if call.token is None else [ToClient(_with_token(message.raw, call.token))]
        return []

    def _withdraw(self, message: Message) -> list[Step]:
        """The upstream takes a question back."""
        params = maybe_members(message.envelope.get("params")) or {}
        token = params.get("requestId")
        if token is not None:
            for call in self._calls.values():
                for key, asked in list(call.questions.items()):
                    if same_id(asked.message.id_token or b"", bytes(token)):
                        del call.questions[key]
                        if not call.questions:
                            call.gather_until = 0.0
        return []

    # --- time --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Step]:
        """What has become due."""
        steps: list[Step] = []
        for call in list(self._calls.values()):
            if call.gather_until and call.gather_until <= now:
                steps += self._park(call, now)
            elif call.is_parked and call.expires <= now:
                steps += self._give_up(call, _LATE)
                steps.append(Tell(f"A call that asked its client something was given up. {_LATE}."))
        kept = []
        for asked, until in self._outside:
            if until > now:
                kept.append((asked, until))
            else:
                steps.append(_refused(asked.message, _NOBODY))
        self._outside = kept
        return steps

    def next_due(self) -> float:
        """When `tick` has something to do; 0 when it has not."""
        due = [until for _, until in self._outside]
        for call in self._calls.values():
            due += [at for at in (call.gather_until, call.expires) if at]
        return min(due, default=0.0)


def _may_ask(call: ParkedCall) -> bool:
    """Whether the upstream works on it, and a client of the modern era can be asked for it."""
    return call.asked.method in _ROUNDED and not call.is_unsent and call.final is None


def _declared(call: ParkedCall) -> Members:
    return maybe_members(meta_of(call.asked).get(META_CAPABILITIES)) or {}


def _refused(message: Message, why: str) -> Step:
    return ToUpstream(error_reply(message.id_token, INTERNAL_ERROR, why))


def _as_question(message: Message) -> Question:
    params = message.envelope.get("params")
    text = bytes(params) if params is not None and maybe_members(params) is not None else b"{}"
    return Question("", message.method or "", text, b"")


def _with_token(raw: bytes, token: bytes | None) -> bytes:
    assert token is not None
    envelope = maybe_members(raw) or {}
    return with_params(raw, with_members(bytes(envelope["params"]), {"progressToken": token}))
