"""What the arguments of recorded calls are like, field by field: counts and bounds."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from penstock.learn.events import Event
from penstock.policy.learned.features import LEAVES

DISTINCT = 200
"""A field with more different values is none with a few."""

PATTERNS = {
    "a UUID": r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "a date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "a time": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"
    r"(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?$",
    "a hash in hexadecimal digits": r"^([0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})$",
    "a slug": r"^[a-z0-9]+(-[a-z0-9]+)+$",
}
_COMPILED = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}
_URL = re.compile(r"(?i)^(https?)://([^/@:?#\s]+)(?::\d+)?(?:[/?#]|$)")


class FieldProfile(Struct):
    """One field of one tool."""

    count: int = 0
    kinds: set[str] = field(default_factory=set)
    values: Counter[Any] | None = field(default_factory=Counter)  # None: too many
    longest: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    patterns: set[str] = field(default_factory=lambda: set(PATTERNS))
    hosts: Counter[str] | None = field(default_factory=Counter)  # None: not all are URLs, or too many
    directory: list[str] | None = None  # the steps that all paths begin with
    is_path: bool = True

    def add(self, value: Any) -> None:
        """One more value."""
        self.count += 1
        kind = (
            "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "text"
        )
        self.kinds.add(kind)
        if self.values is not None:
            self.values[value if kind == "text" else (value,)] += 1
            if len(self.values) > DISTINCT:
                self.values = None
        if kind == "number":
            self.low, self.high = min(self.low, value), max(self.high, value)
        if kind != "text":
            return
        self.longest = max(self.longest, len(value))
        self.patterns = {name for name in self.patterns if _COMPILED[name].match(value)}
        self._add_host(value)
        self._add_path(value)

    def _add_host(self, value: str) -> None:
        if self.hosts is None:
            return
        found = _URL.match(value)
        if found is None:
            self.hosts = None
            return
        self.hosts[found[2].lower()] += 1
        if len(self.hosts) > DISTINCT:
            self.hosts = None

    def _add_path(self, value: str) -> None:
        if not self.is_path:
            return
        steps = value.split("/")
        if not value.startswith("/") or len(steps) < 3 or any(step in ("", ".", "..") for step in steps[1:]):
            self.is_path = False
            self.directory = None
            return
        own = steps[1:-1]
        if self.directory is None:
            self.directory = own
        else:
            same = 0
            while same < min(len(own), len(self.directory)) and own[same] == self.directory[same]:
                same += 1
            self.directory = self.directory[:same]


class Profiles:
    """All fields of all tools of some sessions."""

    def __init__(self) -> None:
        self.fields: dict[tuple[str, str], FieldProfile] = {}
        self.tools: Counter[str] = Counter()
        self.sessions: set[str] = set()
        self.busiest = 0  # calls of one session within a minute
        self._recent: dict[str, deque[float]] = {}

    def add(self, event: Event) -> None:
        """One more call."""
        if event.is_answer or event.is_stopped:
            return
        self.tools[event.tool] += 1
        self.sessions.add(event.session)
        recent = self._recent.setdefault(event.session, deque())
        recent.append(event.time)
        while recent[0] <= event.time - 60:
            recent.popleft()
        self.busiest = max(self.busiest, len(recent))
        for path, value in scalars(event.arguments):
            profile = self.fields.get((event.tool, path))
            if profile is None:
                profile = self.fields[event.tool, path] = FieldProfile()
            profile.add(value)


def scalars(value: Any) -> Iterator[tuple[str, Any]]:
    """Every text, number and flag with its path; `*` for the entries of a list. Odd names are left out."""
    left = [("arguments", value)]
    count = 0
    while left and count < LEAVES:
        path, value = left.pop()
        count += 1
        if isinstance(value, dict):
            left += [(f"{path}.{name}", inner) for name, inner in value.items() if _NAME(name)]
        elif isinstance(value, list):
            left += [(f"{path}.*", inner) for inner in value[:LEAVES]]
        elif value is not None:
            yield path, value


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}").fullmatch
