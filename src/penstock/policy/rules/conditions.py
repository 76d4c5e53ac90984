"""What a rule can ask about a message. Conditions look and never wait.

Where a path finds several values, because a name stands twice or the path has a star, or where a value is one
that readers take in different ways, nobody knows what the upstream will see. So `every` decides: a rule that
allows asks that a condition hold for everything that anybody could read (and that all find something), any
other rule asks that it hold for something that somebody could read, and `not` turns the question round.
Either way the answer is on the side of caution.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from msgspec import Struct

import penstock.policy.rules.field_readers  # noqa: F401 (it fills READERS)
from penstock.policy.binder import READERS, Json, Number, Reader, Seconds, Texts
from penstock.policy.durations import spoken_duration
from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.flow_conditions import After, CopiedFrom
from penstock.policy.rules.message_parts import method_of
from penstock.policy.rules.novelty_condition import IsNew
from penstock.policy.rules.param_conditions import (
    ParamEquals,
    ParamExists,
    ParamGreaterThan,
    ParamIn,
    ParamIsArray,
    ParamIsNull,
    ParamLessThan,
    ParamMatches,
)
from penstock.policy.rules.path_conditions import PathOutside
from penstock.policy.rules.response_conditions import RESPONSE_CONDITIONS
from penstock.policy.rules.rule_entries import read_many, read_one, says
from penstock.policy.rules.sender_conditions import (
    ClientNameMatches,
    HeaderEquals,
    HeaderMatches,
    ProfileIn,
)
from penstock.policy.rules.text_conditions import SizeGreaterThan, TextMatches
from penstock.policy.rules.time_condition import TimeOutside
from penstock.policy.rules.tool_conditions import Tool, ToolAnnotation
from penstock.wire.mcp.message import Message

OneCondition = Annotated[Any, "condition"]
ManyConditions = Annotated[tuple[Any, ...], "conditions"]


class MethodEquals(Struct, frozen=True):
    """Holds when the method is exactly `name`. A response has the method of the request it answers."""

    name: str
    whole: ClassVar[str] = "name"
    words: ClassVar[str] = "the method is {name}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return method_of(message, context) == self.name


class MethodStartsWith(Struct, frozen=True):
    """Holds when the method begins with `prefix`."""

    prefix: str
    whole: ClassVar[str] = "prefix"
    words: ClassVar[str] = "the method begins with {prefix}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return (method_of(message, context) or "\0").startswith(self.prefix)


class MethodEndsWith(Struct, frozen=True):
    """Holds when the method ends with `suffix`."""

    suffix: str
    whole: ClassVar[str] = "suffix"
    words: ClassVar[str] = "the method ends with {suffix}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return (method_of(message, context) or "\0").endswith(self.suffix)


class MethodMatches(Struct, frozen=True):
    """Holds when the pattern is found anywhere in the method; anchor it with ^ and $."""

    pattern: Pattern
    whole: ClassVar[str] = "pattern"
    words: ClassVar[str] = "the method matches {pattern}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        method = method_of(message, context)
        return method is not None and self.pattern.holds_in(method, every)


class MethodIn(Struct, frozen=True):
    """Holds when the method is one of `names`."""

    names: Texts
    whole: ClassVar[str] = "names"
    words: ClassVar[str] = "the method is one of {names}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return method_of(message, context) in self.names


class SessionIdEquals(Struct, frozen=True):
    """Holds when this is the session's id, ours or the MCP session id."""

    id: str
    whole: ClassVar[str] = "id"
    words: ClassVar[str] = "the session is {id}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return self.id in (context.session.id, context.session.mcp_session_id)


class SessionAgeGreaterThan(Struct, frozen=True):
    """Holds when the session began longer ago than this."""

    age: Seconds
    whole: ClassVar[str] = "age"

    def words(self) -> str:
        return f"the session is older than {spoken_duration(self.age)}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return context.now - context.session.started > self.age


class StateEquals(Struct, frozen=True):
    """Holds when `set_state` has given the session this value; null also means: never set."""

    key: str
    value: Json
    words: ClassVar[str] = "the session's {key} is {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        found = context.session.values.get(self.key)
        if isinstance(found, bool) or isinstance(self.value, bool):
            return found is self.value
        return bool(found == self.value)


class StateGreaterThan(Struct, frozen=True):
    """Holds when the session's value is a number above `value`; one that was never set is none."""

    key: str
    value: Number
    words: ClassVar[str] = "the session's {key} is greater than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        found = context.session.values.get(self.key)
        return isinstance(found, int | float) and not isinstance(found, bool) and found > self.value


class All(Struct, frozen=True):
    """Holds when all of the conditions hold."""

    conditions: ManyConditions
    whole: ClassVar[str] = "conditions"

    def words(self) -> str:
        return "(" + " and ".join(map(says, self.conditions)) + ")"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return all(condition.holds(message, context, every) for condition in self.conditions)


class Any_(Struct, frozen=True):
    """Holds when one of the conditions holds."""

    conditions: ManyConditions
    whole: ClassVar[str] = "conditions"

    def words(self) -> str:
        return "(" + " or ".join(map(says, self.conditions)) + ")"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return any(condition.holds(message, context, every) for condition in self.conditions)


class Not(Struct, frozen=True):
    """Holds when the condition does not."""

    condition: OneCondition
    whole: ClassVar[str] = "condition"

    def words(self) -> str:
        return f"not ({says(self.condition)})"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return not self.condition.holds(message, context, not every)


CONDITIONS: dict[str, type[Any]] = {
    "method_equals": MethodEquals,
    "method_starts_with": MethodStartsWith,
    "method_ends_with": MethodEndsWith,
    "method_matches": MethodMatches,
    "method_in": MethodIn,
    "tool": Tool,
    "tool_annotation": ToolAnnotation,
    "param_exists": ParamExists,
    "param_equals": ParamEquals,
    "param_matches": ParamMatches,
    "param_in": ParamIn,
    "param_greater_than": ParamGreaterThan,
    "param_less_than": ParamLessThan,
    "param_is_null": ParamIsNull,
    "param_is_array": ParamIsArray,
    "path_outside": PathOutside,
    **RESPONSE_CONDITIONS,
    "text_matches": TextMatches,
    "size_greater_than": SizeGreaterThan,
    "client_name_matches": ClientNameMatches,
    "profile_in": ProfileIn,
    "header_equals": HeaderEquals,
    "header_matches": HeaderMatches,
    "time_outside": TimeOutside,
    "is_new": IsNew,
    "after": After,
    "copied_from": CopiedFrom,
    "session_id_equals": SessionIdEquals,
    "session_age_greater_than": SessionAgeGreaterThan,
    "state_equals": StateEquals,
    "state_greater_than": StateGreaterThan,
    "all": All,
    "any": Any_,
    "not": Not,
}


def flattened(conditions: Iterable[Any]) -> Iterable[Any]:
    """The conditions and those within them."""
    for condition in conditions:
        yield condition
        if isinstance(condition, All | Any_):
            yield from flattened(condition.conditions)
        elif isinstance(condition, Not):
            yield from flattened([condition.condition])


_read_condition = read_one(CONDITIONS, "condition")
READERS["condition"] = Reader(_read_condition, {"$ref": "#/$defs/condition"})
READERS["conditions"] = Reader(
    read_many(_read_condition), {"type": "array", "items": {"$ref": "#/$defs/condition"}}
)
