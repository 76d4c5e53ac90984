"""Conditions on who sent the message: the client's name for itself, and the headers of its HTTP request.

Headers may be credentials. So no value of one is ever shown, neither what a rule compares with nor what came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from penstock.policy.binder import Misread, Texts
from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.exchange import Context
from penstock.wire.mcp.message import Message


class ClientNameMatches(Struct, frozen=True):
    """Holds when the pattern is found in what the client calls itself; a client without a name has none."""

    pattern: Pattern
    whole: ClassVar[str] = "pattern"
    words: ClassVar[str] = "the client's name matches {pattern}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        name = context.session.client_name
        return name is not None and self.pattern.holds_in(name, every)


class ProfileIn(Struct, frozen=True):
    """Holds when the client sees the whole through one of these profiles; `all` is the whole itself."""

    profiles: Texts
    whole: ClassVar[str] = "profiles"
    words: ClassVar[str] = "the profile is one of {profiles}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return (context.session.profile or "all") in self.profiles


class HeaderEquals(Struct, frozen=True):
    """Holds when the client's HTTP request has this header with exactly this value."""

    name: str
    value: str
    words: ClassVar[str] = "the header {name} has the value that the rule names"

    def __post_init__(self) -> None:
        _check_name(self.name)

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return _header_holds(self.name, context, self.value.__eq__, every)


class HeaderMatches(Struct, frozen=True):
    """Holds when the client's HTTP request has this header and the pattern is found in its value."""

    name: str
    pattern: Pattern
    words: ClassVar[str] = "the header {name} matches the pattern that the rule names"

    def __post_init__(self) -> None:
        _check_name(self.name)

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return _header_holds(self.name, context, lambda text: self.pattern.holds_in(text, every), every)


def _check_name(name: str) -> None:
    if not name or not name.isascii() or any(sign in name for sign in ' \t\r\n:"'):
        raise Misread(f'no header can be called "{name}"')


def _header_holds(name: str, context: Context, test: Callable[[str], bool], every: bool) -> bool:
    """Whether the test holds for a value that somebody reads; with `every`: it is there once and clear.

    Some readers take X_Team for X-Team, and some take bytes beyond ASCII for another alphabet.
    """
    headers = context.exchange.headers if context.exchange is not None else ()
    wanted = name.lower().encode()
    alike = [(own.lower(), value) for own, value in headers if _alike(own) == _alike(wanted)]
    readings = [reading for _, value in alike for reading in _readings(value)]
    if not every:
        return any(map(test, readings))
    return len(alike) == 1 and alike[0][0] == wanted and all(map(test, readings))


def _alike(name: bytes) -> bytes:
    return name.lower().replace(b"_", b"-")


def _readings(value: bytes) -> set[str]:
    value = value.strip(b" \t")
    return {value.decode("latin-1"), value.decode("utf-8", "replace")}
