"""What a rule can ask about a message. Conditions look and never wait.

Where a path finds several values, because a name stands twice or the path has a star, nobody knows which of
them the upstream will read. So `every` decides: a rule that allows asks that a condition hold for every value
(and that there be one), any other rule asks that it hold for some value, and `not` turns the question round.
Either way the answer is on the side of caution, whatever is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Protocol

from msgspec import Struct

from penstock.policy.durations import spoken_duration
from penstock.policy.exchange import Context
from penstock.policy.json_values import equals, maybe_number, number, text_of
from penstock.policy.paths import Path, Span, parse_path
from penstock.policy.patterns import Pattern
from penstock.policy.readings import Place, error_of, method_of, params_of, result_of
from penstock.policy.shapes import (
    READERS,
    Json,
    Jsons,
    Number,
    Reader,
    Seconds,
    Texts,
    read_many,
    read_one,
    says,
)
from penstock.wire.json_walk import first_byte
from penstock.wire.message import Message


class Condition(Protocol):
    """One question about a message."""

    def holds(self, message: Message, context: Context, every: bool = False) -> bool: ...


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
        return method is not None and self.pattern.found_in(method)


class MethodIn(Struct, frozen=True):
    """Holds when the method is one of `names`."""

    names: Texts
    whole: ClassVar[str] = "names"
    words: ClassVar[str] = "the method is one of {names}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return method_of(message, context) in self.names


class ParamExists(Struct, frozen=True):
    """Holds when there is a value at the path, null included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "there is a param {field}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return _test(params_of(message, context), self.field, lambda text, span: True, every)


class ParamEquals(Struct, frozen=True):
    """Holds when the value is `value`, with its type: 1 is 1.0 and 1e0, but neither "1" nor true."""

    field: Path
    value: Json
    words: ClassVar[str] = "param {field} is {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return _test(params_of(message, context), self.field, _is(self.value), every)


class ParamMatches(Struct, frozen=True):
    """Holds when the value is a string in which the pattern is found; anchor it with ^ and $."""

    field: Path
    pattern: Pattern
    words: ClassVar[str] = "param {field} matches {pattern}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def matches(text: bytes, span: Span) -> bool:
            if first_byte(text, span.start) != b'"':
                return False
            return self.pattern.found_in(text_of(text[span.start : span.end]))

        return _test(params_of(message, context), self.field, matches, every)


class ParamIn(Struct, frozen=True):
    """Holds when the value is one of `values`, each compared as in param_equals."""

    field: Path
    values: Jsons
    words: ClassVar[str] = "param {field} is one of {values}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_listed(text: bytes, span: Span) -> bool:
            return any(equals(text, span.start, span.end, value) for value in self.values)

        return _test(params_of(message, context), self.field, is_listed, every)


class ParamGreaterThan(Struct, frozen=True):
    """Holds when the value is a number above `value`. A string never is, not even "100"."""

    field: Path
    value: Number
    words: ClassVar[str] = "param {field} is greater than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_greater(text: bytes, span: Span) -> bool:
            found = maybe_number(text[span.start : span.end])
            return found is not None and found > number(self.value)

        return _test(params_of(message, context), self.field, is_greater, every)


class ParamLessThan(Struct, frozen=True):
    """Holds when the value is a number below `value`. A string never is."""

    field: Path
    value: Number
    words: ClassVar[str] = "param {field} is less than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_less(text: bytes, span: Span) -> bool:
            found = maybe_number(text[span.start : span.end])
            return found is not None and found < number(self.value)

        return _test(params_of(message, context), self.field, is_less, every)


class ParamIsNull(Struct, frozen=True):
    """Holds when the value is there and is null."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "param {field} is null"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return _test(params_of(message, context), self.field, _is(None), every)


class ParamIsArray(Struct, frozen=True):
    """Holds when the value is an array, the empty one included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "param {field} is an array"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_array(text: bytes, span: Span) -> bool:
            return first_byte(text, span.start) == b"["

        return _test(params_of(message, context), self.field, is_array, every)


class ResultExists(Struct, frozen=True):
    """Holds for a response whose result has a value at the path, null included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "the result has {field}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return _test(result_of(message), self.field, lambda text, span: True, every)


class ResultEquals(Struct, frozen=True):
    """Holds for a response whose result has `value` at the path, compared as in param_equals."""

    field: Path
    value: Json
    words: ClassVar[str] = "{field} of the result is {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return _test(result_of(message), self.field, _is(self.value), every)


class ErrorCodeEquals(Struct, frozen=True):
    """Holds for an error response with this code."""

    code: int
    whole: ClassVar[str] = "code"
    words: ClassVar[str] = "it is an error with code {code}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return _test(error_of(message), _CODE, _is(self.code), every)


class ErrorMessageContains(Struct, frozen=True):
    """Holds for an error response whose message has `text` in it, letter for letter."""

    text: str
    whole: ClassVar[str] = "text"
    words: ClassVar[str] = "it is an error whose message contains {text}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def contains(text: bytes, span: Span) -> bool:
            token = text[span.start : span.end]
            return first_byte(token, 0) == b'"' and self.text in text_of(token)

        return _test(error_of(message), _MESSAGE, contains, every)


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
    "param_exists": ParamExists,
    "param_equals": ParamEquals,
    "param_matches": ParamMatches,
    "param_in": ParamIn,
    "param_greater_than": ParamGreaterThan,
    "param_less_than": ParamLessThan,
    "param_is_null": ParamIsNull,
    "param_is_array": ParamIsArray,
    "result_exists": ResultExists,
    "result_equals": ResultEquals,
    "error_code_equals": ErrorCodeEquals,
    "error_message_contains": ErrorMessageContains,
    "session_id_equals": SessionIdEquals,
    "session_age_greater_than": SessionAgeGreaterThan,
    "state_equals": StateEquals,
    "state_greater_than": StateGreaterThan,
    "all": All,
    "any": Any_,
    "not": Not,
}

_CODE = parse_path("code")
_MESSAGE = parse_path("message")
Test = Callable[[bytes, Span], bool]


def _test(place: Place | None, path: Path, test: Test, every: bool) -> bool:
    """Whether the test holds for any value at the path; or for every one, if there is one."""
    if place is None:
        return False
    found = False
    for span in path.find(place.text, place.start, place.end):
        found = test(place.text, span)
        if found is not every:
            return found
    return found


def _is(value: object) -> Test:
    return lambda text, span: equals(text, span.start, span.end, value)


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
