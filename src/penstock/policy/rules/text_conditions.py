"""Conditions on a message as a whole: any text in it, and how long it is."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from msgspec import Struct

from penstock import limits
from penstock.policy.binder import READERS, Misread, Reader, shown
from penstock.policy.faults import Fault, Place
from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import json_within, text_of
from penstock.policy.rules.lax_values import text_forms, written_forms
from penstock.policy.rules.message_parts import member_place
from penstock.wire.json.ambiguity import INHERITED
from penstock.wire.json.json_walk import Budget, TooMany, caseless
from penstock.wire.json.member_names import STRING
from penstock.wire.mcp.message import Message
from penstock.wire.sizes import BadSize, parse_size, spoken_size

_SCALAR = re.compile(rb"(" + STRING + rb")(?:[ \t\r\n]*+(:))?|[^ \t\r\n,:\[\]{}\"]++", re.DOTALL)


class TextMatches(Struct, frozen=True):
    """Holds when the pattern is found in any text of the message, however deep, names of members included.

    A number counts as the text that it is written as.
    Of a request or notification it looks through the params, of a response through its result or error, and
    into texts that hold JSON.
    """

    pattern: Pattern
    whole: ClassVar[str] = "pattern"
    words: ClassVar[str] = "some text in it matches {pattern}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        budget = Budget()
        for member in ("params", "result", "error"):
            place = member_place(message, member)
            if place is None:
                continue
            token = place.text[place.start : place.end]
            if every and _may_be_missed(token):
                continue
            if self._is_found(token, every, budget):
                return True
        return False

    def _is_found(self, value: bytes, every: bool, budget: Budget) -> bool:
        for number, found in enumerate(_SCALAR.finditer(value)):
            if number >= limits.TEXTS_LOOKED_AT:
                raise TooMany(f"more than {limits.TEXTS_LOOKED_AT} texts to look at")
            token = found[1]
            if token is None:
                if not every and self.pattern.holds_in(found[0].decode(), False):
                    return True
                continue
            within = json_within(token)
            if every and (within is not None or found[2]):
                continue  # a name, or a text that some take apart: not everybody reads it as a text
            text = text_of(token)
            forms = written_forms(text) if every else text_forms(text)
            tests = (self.pattern.holds_in(form, every) for form in forms)
            if all(tests) if every else any(tests):
                return True
            if within is not None:
                budget.go_within()
                if self._is_found(within, every, budget):
                    return True
        return False


def _may_be_missed(token: bytes) -> bool:
    """Whether some reader may not see everything: of a name that stands twice to it, it takes one value."""
    import json  # only for rules that allow by what they find

    is_twice = False

    def members(pairs: list[tuple[str, object]]) -> None:
        nonlocal is_twice
        names = {caseless(name) for name, _ in pairs}
        is_twice = is_twice or len(names) < len(pairs) or not names.isdisjoint(INHERITED)

    json.loads(token, object_pairs_hook=members, parse_int=str, parse_float=str)
    return is_twice


class SizeGreaterThan(Struct, frozen=True):
    """Holds when the message, as it came, is longer than this."""

    size: Annotated[int, "size"]
    whole: ClassVar[str] = "size"

    def words(self) -> str:
        return f"it is longer than {spoken_size(self.size)}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return len(message.raw) > self.size


def _read_size(value: object, place: Place, faults: list[Fault]) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Misread(f"must be a size such as 64KiB, not {shown(value)}")
    try:
        size = parse_size(str(value))
    except BadSize as why:
        raise Misread(f'invalid size "{value}"', str(why)) from None
    if size < 1:
        raise Misread("must be 1 byte or more")
    return size


READERS["size"] = Reader(
    _read_size, {"type": ["string", "integer"], "description": "a size such as 64KiB, or bytes"}
)
