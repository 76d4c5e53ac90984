"""What a path can reach, in plain words: for `penstock check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from penstock.policy.rules.conditions import flattened
from penstock.policy.rules.path_finding import DEEP
from penstock.policy.rules.paths import Path
from penstock.policy.rules.rules import Rule


def reach_of(path: Path) -> str | None:
    """What a path with a star in it means; None for one that names a single place."""
    steps = list(path.steps)
    if DEEP not in steps and "*" not in steps:
        return None
    return f"{path}: {_said(steps)}"


def _said(steps: list[str]) -> str:
    if not steps:
        return ""
    *before, last = steps
    above = _said(before)
    within = f" {'of' if above.startswith(('every', 'the')) else 'in'} {above}" if above else ""
    if last == DEEP:
        return f"every value{within or ' there'} at any depth that is neither an object nor an array"
    if last == "*":
        return f"every member or element{within}"
    if before and before[-1] == DEEP:
        above = _said(before[:-1])
        return f'every "{last}"{f" in {above}" if above else ""}, however deep it lies'
    return f'"{last}"{within}'


def wide_paths(rules: Iterable[Rule]) -> Iterator[str]:
    """What every path with a star in these rules can reach, each once."""
    said: set[str] = set()
    for rule in rules:
        for part in (*flattened(rule.conditions), *rule.actions):
            for path in _paths_in(part):
                words = reach_of(path)
                if words is not None and words not in said:
                    said.add(words)
                    yield words


def _paths_in(part: Any) -> Iterator[Path]:
    if not isinstance(part, Struct):
        return
    for field in structs.fields(type(part)):
        value = getattr(part, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Path):
                yield one
