"""One message on its way through the rules, with what they have made of it so far."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from penstock.errors import ProtocolError
from penstock.policy.rules.effect_contract import Effects, EffectVerdict
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import member_place, method_of
from penstock.policy.rules.paths import Edit, spliced
from penstock.policy.verdict import Approval
from penstock.wire.json.splice import member_spans
from penstock.wire.mcp.message import Message, read_client_message, read_upstream_message


class RuleFailed(Exception):
    """A rule could not do what it should. Never an allow. The words are for the log, not for clients."""


class Stop(Struct, frozen=True):
    """Why a message does not pass. `result` or `error` is what to answer instead of the usual refusal."""

    action: str
    reason: str
    code: int | None = None
    result: bytes | None = None
    error: bytes | None = None
    is_silent: bool = False  # nobody is answered
    is_told_as_result: bool = False  # a blocked call is answered with a result that says it failed

    @property
    def is_answer(self) -> bool:
        """Whether the sender gets what it asked for, just not from the other side."""
        return self.result is not None


class Allowed(Struct, frozen=True):
    """The chain ends here, and the message passes."""


class RuleRun:
    """What rules see and change. `rule` is the id of the one whose turn it is."""

    def __init__(self, message: Message, context: Context, effects: Effects, rule_set: bytes) -> None:
        self.message = message
        self.context = context
        self.effects = effects
        self.rule_set = rule_set
        self.rule = ""
        self.is_changed = False
        self.held: list[str] = []  # ids of the rules whose conditions held
        self.approvals: list[Approval] = []  # what people are asked before it goes on

    ahead: Mapping[bytes, Awaitable[bytes | None]] = MappingProxyType({})  # cached results, asked for already

    @property
    def sender(self) -> str:
        """Whose message it is, for sharing out what there are only some of."""
        return self.context.session.id

    def seen_by(self, rule: str) -> RuleRun:
        """The same, for another rule that is asked at the same time."""
        other = RuleRun(self.message, self.context, self.effects, self.rule_set)
        other.rule = rule
        return other

    def edit(self, edits: list[Edit]) -> None:
        """Makes the edits and reads the message anew, as strictly as if it had come in so."""
        raw = spliced(self.message.raw, edits)
        if raw == self.message.raw:
            return
        read = read_client_message if self.context.direction == "client" else read_upstream_message
        try:
            message = read(raw)
        except ProtocolError as why:
            raise RuleFailed(f"what it made of the message cannot be sent: {why.reason}") from None
        if not isinstance(message, Message) or message.id_token != self.message.id_token:
            raise RuleFailed("what it made of the message is another message")
        self.message = message
        self.is_changed = True
        exchange = self.context.exchange
        if exchange is not None and self.rule not in exchange.modified:
            exchange.modified += (self.rule,)

    def put(self, member: str, value: bytes) -> None:
        """Replaces one of the outermost members, or adds it."""
        place = member_place(self.message, member)
        if place is not None:
            self.edit([(place.start, place.end, value)])
            return
        spans = member_spans(self.message.raw, self.message.envelope)
        end = max(span[2] for span in spans.values())
        self.edit([(end, end, b",%b:%b" % (msgspec.json.encode(member), value))])

    def take(self, verdict: EffectVerdict, action: str) -> Stop | None:
        """Does what somebody outside decided."""
        if verdict.decision == "block":
            return Stop(action, verdict.reason or "Blocked by policy")
        if verdict.decision != "allow":
            raise RuleFailed(f"it decided neither allow nor block: {verdict.decision!r}")
        if verdict.set_params is not None and self.message.method is not None:
            self.put("params", _checked(verdict.set_params))
        if verdict.set_result is not None and "result" in self.message.envelope:
            self.put("result", _checked(verdict.set_result))
        return None

    def report(self, with_message: bool = True) -> bytes:
        """What somebody outside is told: who, what, which rule, and the message."""
        session = self.context.session
        exchange = self.context.exchange
        entry: dict[str, object] = {
            "rule": self.rule,
            "direction": self.context.direction,
            "session_id": session.id,
            "client_name": session.client_name,
            "method": method_of(self.message, self.context),
        }
        if with_message:
            entry["message"] = msgspec.Raw(self.message.raw)
            if self.message.method is None and exchange is not None:
                entry["request"] = msgspec.Raw(exchange.request.raw)
        return msgspec.json.encode(entry)


def _checked(value: bytes) -> bytes:
    try:
        msgspec.json.decode(value, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RuleFailed("what it gave back is not JSON") from None
    return value.strip()
