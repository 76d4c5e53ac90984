"""Where in a message a rule looks: its method, its params, its result, its error.

A response has no method and no params of its own. For rules it has those of the request that it answers, so
that "the results of tools/call for read_file" can be said. What one rule has found in a message, others find
here: places, paths and values are looked for once, within one budget.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.policy.rules.exchange import Context
from penstock.policy.rules.found import Found, PatternSets
from penstock.policy.rules.paths import Path
from penstock.wire.json.json_walk import Budget
from penstock.wire.json.splice import member_spans
from penstock.wire.mcp.message import Kind, Message

_TOOL = "name"


class _Params(Struct):
    arguments: Raw | UnsetType = UNSET


class _Call(Struct):
    params: _Params


_decode_call = msgspec.json.Decoder(_Call).decode


class Looks:
    """What the rules have found in one message so far."""

    __slots__ = ("budget", "message", "patterns", "places")

    def __init__(self, message: Message, budget: Budget, patterns: PatternSets) -> None:
        self.message = message
        self.budget = budget
        self.patterns = patterns
        self.places: dict[str, Place | None] = {}


class Place:
    """A value within the bytes of a message, and what stands at the paths in it."""

    __slots__ = ("_budget", "_found", "_member", "_message", "_patterns", "_span", "_sure")

    def __init__(self, message: Message, member: str, looks: Looks) -> None:
        self._message = message
        self._member = member
        self._budget = looks.budget  # and not the looks, which know us: both are gone without the collector
        self._patterns = looks.patterns
        self._span: tuple[int, int] | None = None
        self._found: dict[str, Found] = {}
        self._sure: dict[str, list[bytes] | None] = {}

    @property
    def text(self) -> bytes:
        """The bytes of the message."""
        return self._message.raw

    @property
    def start(self) -> int:
        """Where the value begins."""
        return self._located()[0]

    @property
    def end(self) -> int:
        """Where it ends."""
        return self._located()[1]

    def _located(self) -> tuple[int, int]:
        if self._span is None:
            message = self._message
            self._span = member_spans(message.raw, message.envelope)[self._member][1:]
        return self._span

    def found(self, path: Path) -> Found:
        """What somebody finds at the path."""
        known = self._found.get(path.source)
        if known is None:
            patterns = self._patterns.get(path.source)
            if path.source == _TOOL and self._message.tool is not None:
                known = Found.of_text(self._message.tool, patterns)  # whoever read it saw no other
            else:
                known = Found(self._tokens(path), path.is_uri, patterns)
            self._found[path.source] = known
        return known

    def _tokens(self, path: Path) -> list[bytes]:
        budget, message = self._budget, self._message
        if self._member == "params" and path.steps[0] == "arguments" and message.tool is not None:
            # Whoever read the tool's name has seen that nothing else could be taken for the arguments.
            token = _decode_call(message.raw).params.arguments
            return [] if token is UNSET else path.tokens_below(bytes(token), budget)
        start, end = self._located()
        return path.tokens(message.raw, start, end, budget)

    def sure(self, path: Path) -> list[bytes] | None:
        """What everybody finds at the path, None when somebody finds nothing."""
        if path.source not in self._sure:
            start, end = self._located()
            self._sure[path.source] = path.sure(self._message.raw, start, end, self._budget)
        return self._sure[path.source]


def method_of(message: Message, context: Context) -> str | None:
    """The method, or, for a response, that of its request."""
    if message.method is None and context.exchange is not None:
        return context.exchange.request.method
    return message.method


def params_of(message: Message, context: Context) -> Place | None:
    """The params, or, for a response, those of its request."""
    looks: Looks | None = context.looks
    if looks is None or looks.message is not message:
        looks = looks_at(message, context)
    places = looks.places
    if "params" in places:
        return places["params"]
    asked: Message | None = message
    if message.kind is Kind.RESPONSE:
        asked = context.exchange.request if context.exchange is not None else None
    place = None if asked is None else _maybe_place(asked, "params", looks)
    places["params"] = place
    return place


def result_of(message: Message, context: Context | None = None) -> Place | None:
    """The result of a response."""
    return member_place(message, "result", context)


def error_of(message: Message, context: Context | None = None) -> Place | None:
    """The error of a response."""
    return member_place(message, "error", context)


def member_place(message: Message, name: str, context: Context | None = None) -> Place | None:
    """Where one of the outermost members stands; with `context`, what is found in it is remembered."""
    if context is None:
        return _maybe_place(message, name, Looks(message, Budget(), {}))
    looks: Looks | None = context.looks
    if looks is None or looks.message is not message:
        looks = looks_at(message, context)
    if name not in looks.places:
        looks.places[name] = _maybe_place(message, name, looks)
    return looks.places[name]


def looks_at(message: Message, context: Context) -> Looks:
    """Begins to look at a message, also at one that a rule has made of another: the budget stays the same."""
    before: Looks | None = context.looks
    budget = Budget() if before is None else before.budget
    looks = context.looks = Looks(message, budget, {} if before is None else before.patterns)
    return looks


def begin_looking(message: Message, context: Context, patterns: PatternSets) -> None:
    """The same, with the patterns that the rules ask about at each path."""
    context.looks = Looks(message, Budget(), patterns)


def _maybe_place(message: Message, name: str, looks: Looks) -> Place | None:
    has_params = name == "params" and message.tool is not None
    return Place(message, name, looks) if has_params or name in message.envelope else None
