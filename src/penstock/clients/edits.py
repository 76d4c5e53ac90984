"""The few changes that are ever made to a client's file, as values, and what each means for its tree."""

from __future__ import annotations

import copy
from typing import Any

from msgspec import Struct

from penstock.config.formats.document import Path


class Rename(Struct, frozen=True):
    """Another name for the key at `path`; its value stays where it is."""

    path: Path
    name: str


class Replace(Struct, frozen=True):
    """Another value at `path`."""

    path: Path
    value: Any


class ReplaceHead(Struct, frozen=True):
    """Other words in place of the first `count` elements of the array at `path`."""

    path: Path
    count: int
    words: tuple[str, ...]


class InsertAfter(Struct, frozen=True):
    """A new member `name` after the one at `path`."""

    path: Path
    name: str
    value: Any


class Remove(Struct, frozen=True):
    """The member at `path` goes."""

    path: Path


Edit = Rename | Replace | ReplaceHead | InsertAfter | Remove


def applied(tree: object, edits: list[Edit]) -> object:
    """What `tree` shall be after the edits. All paths are those before any of them."""
    out = copy.deepcopy(tree)
    # The deepest names first, so that the paths of the others still lead there.
    renames = [edit for edit in edits if isinstance(edit, Rename)]
    for edit in [edit for edit in edits if not isinstance(edit, Rename)]:
        holder = _at(out, edit.path[:-1])
        last = edit.path[-1]
        if isinstance(edit, Replace):
            holder[last] = copy.deepcopy(edit.value)
        elif isinstance(edit, ReplaceHead):
            holder[last][: edit.count] = list(edit.words)
        elif isinstance(edit, InsertAfter):
            holder[edit.name] = copy.deepcopy(edit.value)
        else:
            del holder[last]
    for rename in sorted(renames, key=lambda edit: -len(edit.path)):
        holder = _at(out, rename.path[:-1])
        holder[rename.name] = holder.pop(rename.path[-1])
    return out


def is_same(one: object, other: object) -> bool:
    """Whether two trees hold the same, where 1, 1.0 and true are not the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and one == other


def _at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree
