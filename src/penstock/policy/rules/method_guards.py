"""Interceptors for one method: two that come along, and how to write others.

Any class can be named by its import path. It is made with its `config`, a plain mapping, and has one verb:

    def review(self, message, context, effects): ...        # or async def

which gives back None or an EffectVerdict: allow, block with a reason, or allow with other params or another
result. `senders` says whose messages it wants to see ("client", "upstream"); both, if it does not say.
What it raises blocks the message, where the method is reviewed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.policy.binder import READERS, Count, Misread, Reader, Texts, read_struct, struct_schema
from penstock.policy.faults import Fault, Place
from penstock.policy.patterns.patterns import Pattern, compile_pattern
from penstock.policy.rules.effect_contract import Effects, EffectVerdict
from penstock.policy.rules.exchange import Context, Direction
from penstock.policy.rules.globs import glob_source
from penstock.policy.rules.json_values import text_of
from penstock.policy.rules.message_parts import params_of
from penstock.policy.rules.paths import parse_path
from penstock.policy.rules.resource_uris import (
    Location,
    OddUri,
    Resolver,
    locate,
    locate_path,
    true_locations,
    true_root,
)
from penstock.policy.rules.templates import digest
from penstock.wire.json.json_walk import first_byte
from penstock.wire.mcp.message import Kind, Message
from penstock.wire.mcp.replies import printable

_NAME = parse_path("name")
_URI = parse_path("uri")


class Rates(Struct, frozen=True):
    """How many calls may come."""

    per_second: Count | None = None
    per_minute: Count | None = None
    per_hour: Count | None = None

    def windows(self) -> list[tuple[int, float]]:
        """Each limit with its window in seconds."""
        pairs = ((self.per_second, 1.0), (self.per_minute, 60.0), (self.per_hour, 3600.0))
        return [(limit, window) for limit, window in pairs if limit is not None]


class ToolCallConfig(Struct, frozen=True):
    """The config of ToolCallInterceptor."""

    allowed_tools: Texts | None = None
    rate_limit: Rates | None = None


class ToolCallInterceptor:
    """Lets only the named tools be called, and each only so often in one session."""

    senders: ClassVar[tuple[Direction, ...]] = ("client",)
    Config: ClassVar[type[ToolCallConfig]] = ToolCallConfig

    def __init__(self, config: ToolCallConfig, resolve: Resolver | None = None) -> None:
        self._allowed = None if config.allowed_tools is None else frozenset(config.allowed_tools)
        self._windows = [] if config.rate_limit is None else config.rate_limit.windows()

    @property
    def counts_sessions(self) -> bool:
        """Whether it counts the calls of each session."""
        return bool(self._windows)

    def words(self) -> str:
        """What it does, for people."""
        tools = "any tool" if self._allowed is None else ", ".join(sorted(self._allowed))
        rates = "".join(f", at most {limit} in {window:g} seconds each" for limit, window in self._windows)
        return f"allow calls of {tools}{rates}"

    def review(self, message: Message, context: Context, effects: Effects) -> EffectVerdict | None:
        names = self.wrong_or_names(message, context)
        if not isinstance(names, list):
            return names
        for name in names:
            for limit, window in self._windows:
                if not effects.may_pass(self.key_of(name, window, context), limit, window):
                    return EffectVerdict("block", "Rate limit exceeded")
        return None

    def wrong_or_names(self, message: Message, context: Context) -> EffectVerdict | list[str] | None:
        """Why a call is blocked, whatever is counted; else the tools that it names. None: it is no call."""
        if message.kind is Kind.RESPONSE:
            return None
        names = _texts_at(_NAME, message, context)
        if not names:
            return EffectVerdict("block", "The call names no tool")
        for name in names:
            if self._allowed is not None and name not in self._allowed:
                return EffectVerdict("block", f"Tool not allowed: {printable(name)}")
        return names

    def key_of(self, name: str, window: float, context: Context) -> str:
        """Under which the calls of a tool are counted."""
        return digest(["ToolCallInterceptor", context.session.id, name, str(window)]).hex()


class ResourceAccessConfig(Struct, frozen=True):
    """The config of ResourceAccessInterceptor."""

    allowed_paths: Texts | None = None
    deny_patterns: Texts | None = None


class ResourceAccessInterceptor:
    """Lets only resources below the allowed paths be read, and none that a pattern denies.

    A path in `allowed_paths` is a directory of files (`/workspace`) or a URI (`https://host/docs`). A pattern
    is matched, in any case of letters, with each name on the way and with the whole path.
    """

    senders: ClassVar[tuple[Direction, ...]] = ("client",)
    Config: ClassVar[type[ResourceAccessConfig]] = ResourceAccessConfig

    def __init__(self, config: ResourceAccessConfig, resolve: Resolver | None = None) -> None:
        self._paths = config.allowed_paths
        self._patterns = config.deny_patterns or ()
        self._allowed = [_allowed_location(text) for text in config.allowed_paths or ()]
        self._denied = [_glob(text) for text in self._patterns]
        self._resolve = resolve

    def words(self) -> str:
        """What it does, for people."""
        where = "anywhere" if self._paths is None else "below " + ", ".join(self._paths)
        denied = f", never {', '.join(self._patterns)}" if self._patterns else ""
        return f"allow reading {where}{denied}"

    def review(self, message: Message, context: Context, effects: Effects) -> EffectVerdict | None:
        if message.kind is Kind.RESPONSE:
            return None
        uris = _texts_at(_URI, message, context)
        if not uris:
            return EffectVerdict("block", "The request names no resource")
        for uri in uris:
            try:
                is_allowed = self.allows(uri)
            except OddUri:
                return EffectVerdict("block", "The resource URI is not valid")
            if not is_allowed:
                return EffectVerdict("block", "Resource not allowed")
        return None

    def allows(self, uri: str) -> bool:
        """Whether the resource may be read. Raises OddUri."""
        place = locate(uri)
        if not self._allows_place(place, self._allowed):
            return False
        if self._resolve is None or place.scheme != "file":
            return True
        true_allowed = [true_root(allowed, self._resolve) for allowed in self._allowed]
        true_places = true_locations(place, self._resolve)
        return all(self._allows_place(true_place, true_allowed) for true_place in true_places)

    def _allows_place(self, place: Location, allowed: list[Location]) -> bool:
        if self._paths is not None and not any(place.is_within(one) for one in allowed):
            return False
        # Windows reads "x.key::$DATA" as x.key, so what stands before a colon counts as a name too.
        names = [part for name in place.segments for part in {name, name.split(":")[0]}]
        return not any(pattern.found_in(name) for pattern in self._denied for name in (*names, place.path))


BUILT_IN: dict[str, type[Any]] = {
    "ToolCallInterceptor": ToolCallInterceptor,
    "ResourceAccessInterceptor": ResourceAccessInterceptor,
}


def _texts_at(path: Any, message: Message, context: Context) -> list[str]:
    """All strings at the path; none at all when one of the values is no string."""
    place = params_of(message, context)
    if place is None:
        return []
    out = []
    for span in path.find(place.text, place.start, place.end):
        if first_byte(place.text, span.start) != b'"':
            return []
        out.append(text_of(place.text[span.start : span.end]))
    return out


def _allowed_location(text: str) -> Location:
    try:
        return locate_path(text) if text.startswith("/") else locate(text)
    except OddUri as why:
        raise Misread(
            f'invalid allowed path "{text}": {why}', "write /directory or scheme://host/path"
        ) from None


def _glob(text: str) -> Pattern:
    """A shell pattern: * and ? within a name, ** across names, [...] one of some characters."""
    if "/" in text and (text[0] not in "/*[" or (text.endswith("/") and text != "/")):
        # Names have no slash in them, and whole paths begin with one and do not end with one.
        bare = text.strip("/")
        own = "" if "/" in bare else f"{bare}, "
        raise Misread(
            f'the pattern "{text}" matches nothing: a name has no slash, and a whole path begins with one',
            f"write {own}/{bare} (there and nowhere else) or **/{bare} (wherever it is)",
        )
    try:
        return compile_pattern(f"(?is)^{glob_source(text, star='[^/]*', one='[^/]')}$", "deny_patterns")
    except ConfigError as why:
        raise Misread(f'invalid pattern "{text}"', why.detail) from None


def _read_rates(value: object, place: Place, faults: list[Fault]) -> Rates | None:
    rates = read_struct(Rates, value, place, faults)
    if rates is not None and not rates.windows():
        raise Misread("needs per_second, per_minute or per_hour")
    return rates


READERS[Rates] = Reader(_read_rates, struct_schema(Rates))
