"""What a rule can do with a message: let it pass, stop it, hold it, change it, tell of it.

An action has one verb: `apply` does it at once and gives back Stop or Allowed when that decides; `ask`, for
the few that wait, gives back somebody else's verdict. Whether one waits is known when the rules are loaded.
"""

from __future__ import annotations

import logging
import re
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from penstock.policy.binder import READERS, Count, Json, Misread, Number, Reader, Seconds
from penstock.policy.durations import spoken_duration
from penstock.policy.rules.budget_action import Budget
from penstock.policy.rules.cache_action import Cache
from penstock.policy.rules.effect_actions import Delay, Fork, RunScript, Webhook
from penstock.policy.rules.effect_contract import ALLOWED, EffectVerdict
from penstock.policy.rules.fault_action import Fault
from penstock.policy.rules.json_values import has_names_twice, plain_json, plain_value
from penstock.policy.rules.message_parts import Place, member_place
from penstock.policy.rules.paths import CannotSet, Edit, Path
from penstock.policy.rules.plugins import Callee
from penstock.policy.rules.rule_entries import read_many, read_one
from penstock.policy.rules.rule_run import Allowed, RuleFailed, RuleRun, Stop
from penstock.policy.rules.templates import JsonTemplate, Template, digest, parse_template
from penstock.policy.rules.text_actions import Replace, Truncate
from penstock.policy.verdict import Approval

log = logging.getLogger("penstock")

ManyActions = Annotated[tuple[Any, ...], "actions"]


class Allow(Struct, frozen=True):
    """Ends the chain: no rule of lower priority and no general interceptor is asked."""

    words: ClassVar[str] = "let it pass and end the chain"

    def apply(self, scene: RuleRun) -> Allowed:
        return Allowed()


class Block(Struct, frozen=True):
    """Stops the message and tells its sender the reason, as an error or as the result of a failed call.

    A model reads the results of its calls; errors of the protocol may end at the client.
    """

    reason: Template
    code: int | None = None
    as_: Literal["error", "result"] = "error"
    short: ClassVar[str] = "reason"

    def __post_init__(self) -> None:
        if self.as_ == "result" and self.code is not None:
            raise Misread('"code" is of an error; there is none in a result')

    def words(self) -> str:
        how = ", as the result of a failed call" if self.as_ == "result" else ""
        return f'block it: "{self.reason}"{how}'

    def apply(self, scene: RuleRun) -> Stop:
        reason = self.reason.render(scene.message, scene.context)
        return Stop("block", reason, self.code, is_told_as_result=self.as_ == "result")


class SetParam(Struct, frozen=True):
    """Gives a param a value; a missing one is added. Does nothing to a response, which has none."""

    field: Path
    value: JsonTemplate
    words: ClassVar[str] = "set param {field} to {value}"

    def apply(self, scene: RuleRun) -> None:
        if scene.message.method is None:
            return
        value = self.value.render(scene.message, scene.context)
        place = member_place(scene.message, "params")
        if place is None:
            scene.put("params", b"{}")
            place = member_place(scene.message, "params")
        scene.edit(_edits_to_set(self.field, place, value))


class RemoveParam(Struct, frozen=True):
    """Takes a param away, all of them where it stands twice."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "remove param {field}"

    def apply(self, scene: RuleRun) -> None:
        place = member_place(scene.message, "params") if scene.message.method is not None else None
        if place is not None:
            scene.edit(self.field.edits_to_remove(place.text, place.start, place.end))


class SetResult(Struct, frozen=True):
    """Gives a response's result a value at the path, or, without a path, as a whole. Errors stay errors."""

    value: JsonTemplate
    field: Path | None = None

    def words(self) -> str:
        what = "the result" if self.field is None else f"{self.field} of the result"
        return f"set {what} to {self.value}"

    def apply(self, scene: RuleRun) -> None:
        place = member_place(scene.message, "result")
        if place is None:
            return
        value = self.value.render(scene.message, scene.context)
        if self.field is None:
            scene.put("result", value)
        else:
            scene.edit(_edits_to_set(self.field, place, value))


class InjectError(Struct, frozen=True):
    """Answers a request with this error instead of passing it on; turns a response into this error."""

    code: int
    message: Template
    data: Json = None
    words: ClassVar[str] = "answer with error {code}: {message}"

    def apply(self, scene: RuleRun) -> Stop:
        reason = self.message.render(scene.message, scene.context)
        error: dict[str, object] = {"code": self.code, "message": reason}
        if self.data is not None:
            error["data"] = self.data
        return Stop("inject_error", reason, self.code, error=msgspec.json.encode(error))


class Transform(Struct, frozen=True):
    """Gives params or the result (or what is at the path) to a Python function, and takes what it returns."""

    call: Callee
    field: Path | None = None
    short: ClassVar[str] = "call"
    words: ClassVar[str] = "let {call} change it"
    name: ClassVar[str] = "transform"
    is_waiting: ClassVar[bool] = True  # for a thread: whatever the function does, it stalls nobody
    is_changing: ClassVar[bool] = True

    async def ask(self, scene: RuleRun) -> EffectVerdict:
        member = "params" if scene.message.method is not None else "result"
        place = member_place(scene.message, member)
        if place is None:
            return ALLOWED
        if self.field is None:
            found = [place.text[place.start : place.end]]
        else:
            found = list(dict.fromkeys(self.field.tokens(place.text, place.start, place.end)))
        made = {token: await self._made_of(token, scene) for token in found}
        if self.field is None:
            after = made[found[0]]
            scene.edit([] if after is None else [(place.start, place.end, after)])
        else:
            scene.edit(self.field.edits_to_change(place.text, place.start, place.end, made.get))
        return ALLOWED

    async def _made_of(self, token: bytes, scene: RuleRun) -> bytes | None:
        """What the function makes of a value; None when it leaves it as it is."""
        value = plain_value(token)
        before = plain_json(value)
        after = plain_json(await scene.effects.in_thread(self.call.function, value, sender=scene.sender))
        # The function has seen one of the values of a name that stands twice. The others do not pass.
        return after if after != before or (token != before and has_names_twice(token)) else None


class Log(Struct, frozen=True):
    """Says something on stderr."""

    message: Template = parse_template("${method}")
    level: Literal["debug", "info", "warn", "warning", "error"] = "info"
    short: ClassVar[str] = "message"
    words: ClassVar[str] = 'say "{message}"'

    def apply(self, scene: RuleRun) -> None:
        level = logging.getLevelNamesMapping()[self.level.upper()]
        text = self.message.render(scene.message, scene.context)
        log.log(level, "Rule %s: %s", scene.rule, text, extra={"is_wanted": True})


class Approve(Struct, frozen=True):
    """Lets the message go on only when a person has agreed, in the live view, to the very bytes of it.

    Asked after all rules, so that a block wins; nobody there within the time is a no. With `keep_alive` a
    client that gave a progress token hears meanwhile that its call is not forgotten.
    """

    timeout: Seconds = 50.0
    note: Template | None = None
    keep_alive: bool = False
    short: ClassVar[str] = "note"

    def __post_init__(self) -> None:
        if not 1 <= self.timeout <= 600:
            raise Misread("timeout must be 1s to 10m")

    def words(self) -> str:
        return f"let a person decide within {spoken_duration(self.timeout)}"

    def apply(self, scene: RuleRun) -> None:
        note = "" if self.note is None else self.note.render(scene.message, scene.context)
        scene.approvals.append(Approval(scene.rule, self.timeout, note, self.keep_alive))


class Metric(Struct, frozen=True):
    """Adds to a counter."""

    name: str
    value: Number = 1
    short: ClassVar[str] = "name"
    words: ClassVar[str] = "add {value} to the metric {name}"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_:][A-Za-z0-9_:]{0,127}", self.name):
            raise Misread(f'invalid metric name "{self.name}"', "letters, digits, _ and : only")

    def apply(self, scene: RuleRun) -> None:
        scene.effects.count(self.name, self.value)


class RateLimit(Struct, frozen=True):
    """Blocks what goes beyond `limit` messages within `window`, counted for each key on its own."""

    limit: Count
    window: Seconds
    key: Template = parse_template("${session_id}")

    def words(self) -> str:
        return f"allow {self.limit} within {spoken_duration(self.window)} for each {self.key}, block the rest"

    def apply(self, scene: RuleRun) -> Stop | None:
        keys = self.key.counted(scene.message, scene.context)
        for fields in keys or ():
            key = digest([scene.rule, *fields]).hex()
            if not scene.effects.may_pass(key, self.limit, self.window):
                return Stop("rate_limit", "Rate limit exceeded")
        return None if keys else Stop("rate_limit", "Rate limit exceeded")


class SetState(Struct, frozen=True):
    """Gives the session a value that later messages can be judged by, or adds to a number."""

    key: str
    value: JsonTemplate | None = None
    add: Number | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.add is None):
            raise Misread('needs either "value" or "add"')
        if self.value is not None and isinstance(self.value.tree, dict | list):
            raise Misread('"value" must be text, a number, true, false or null')

    def words(self) -> str:
        how = f"to {self.value}" if self.add is None else f"up by {self.add}"
        return f'set the session\'s "{self.key}" {how}'

    def apply(self, scene: RuleRun) -> None:
        values = scene.context.session.values
        if self.add is not None:
            before = values.get(self.key)
            is_number = isinstance(before, int | float) and not isinstance(before, bool)
            values[self.key] = (before if is_number else 0) + self.add  # type: ignore[operator]
        elif self.value is not None:
            values[self.key] = msgspec.json.decode(self.value.render(scene.message, scene.context))


ACTIONS: dict[str, type[Any]] = {
    "allow": Allow,
    "approve": Approve,
    "block": Block,
    "delay": Delay,
    "set_param": SetParam,
    "remove_param": RemoveParam,
    "replace": Replace,
    "truncate": Truncate,
    "set_result": SetResult,
    "inject_error": InjectError,
    "transform": Transform,
    "log": Log,
    "metric": Metric,
    "webhook": Webhook,
    "run_script": RunScript,
    "fork": Fork,
    "cache": Cache,
    "rate_limit": RateLimit,
    "budget": Budget,
    "fault": Fault,
    "set_state": SetState,
}


def waits(action: Any) -> bool:
    """Whether the action has to be waited for."""
    return bool(getattr(action, "is_waiting", False))


def changes(action: Any) -> bool:
    """Whether the action waits and then changes the message, so that nothing can be asked ahead of it."""
    return bool(getattr(action, "is_changing", False))


def only_tells(action: Any) -> bool:
    """Whether the action neither changes nor decides anything, so that others may run beside it."""
    return isinstance(action, Log | Metric | Fork | Webhook) and not waits(action)


def _edits_to_set(path: Path, place: Place | None, value: bytes) -> list[Edit]:
    if place is None:
        raise RuleFailed(f"there is no place for {path}")
    try:
        return path.edits_to_set(place.text, place.start, place.end, value)
    except CannotSet as why:
        raise RuleFailed(f"{path}: {why}") from None


_read_action = read_one(ACTIONS, "action")
READERS["actions"] = Reader(read_many(_read_action), {"type": "array", "items": {"$ref": "#/$defs/action"}})
