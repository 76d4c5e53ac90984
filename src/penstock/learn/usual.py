"""What is usual, made ready for the question that nearly every call is: whether it raises anything at all.

`scores.score` says in words what a call makes more unusual. Nearly always that is nothing, or nothing that
anybody hears of, and to find that out from digests costs more than passing the call on. Here the answers of a
model are kept by tool, shape and place, as they are asked for. What is not plainly usual is left to `score`,
with the session as it was; what is, leaves the session as `score` would have.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from msgspec import Struct, field

from penstock.learn.scores import (
    SUBJECTS,
    SessionScores,
    calls_lately,
    hour_of,
    hour_surprise,
    is_counted,
    most_bucket,
    pair_surprise,
    place_subject,
    shape_subject,
    size_score,
)
from penstock.policy.learned.baseline import Model
from penstock.policy.learned.features import PlaceSeen, digest64, places_in, places_of_value, shape_of

Told = set[tuple[str, str]]
"""Sessions with the subjects that people have heard of."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_KEPT = 16_384  # answers, in units of 256 bytes of the call that asked: beyond it they are forgotten
_TEXT = 128  # characters of a text that may come again
_FLAT = 200  # values of a call beyond which `score` counts what it looks at
_SCALARS = frozenset({str, int, float, bool, type(None)})


class _Answer(Struct, gc=False):
    """What the model says about a shape or a place."""

    subject: str = ""  # what it is counted by, where it is new
    digest: int = 0  # of a place's text
    is_flat: bool = False  # a shape of which names and types tell everything


class _Tool(Struct):
    """What the model says about one tool."""

    name: str
    subject: str = ""  # what it is counted by, where it is new
    most: int = 0  # see `size_score`
    half: float = math.inf  # a size up to this raises nothing
    shapes: dict[Any, _Answer] = field(default_factory=dict)
    places: dict[tuple[str, str, str], _Answer] = field(default_factory=dict)  # by name, kind and text
    texts: dict[tuple[str, str], list[tuple[str, _Answer]]] = field(default_factory=dict)  # with places
    deep: dict[PlaceSeen, _Answer] = field(default_factory=dict)  # those that lie deeper
    after: dict[str, float] = field(default_factory=dict)  # surprise, by the tool before


class Usual:
    """A model, asked about one call after another."""

    def __init__(self, model: Model, least: dict[str, float]) -> None:
        """`least`: of each kind the score above which somebody hears of it."""
        self._model = model
        self._least = least
        self._rate = least["rate"]
        self._tools: dict[str, _Tool] = {}
        self._size = 0  # of the call that asks
        self._weight = 0  # of what is kept
        self._hours = [hour_surprise(model, hour) for hour in range(24)]
        self._follows = "sequence" not in model.full

    def takes(
        self,
        state: SessionScores,
        session: str,
        tool: str,
        arguments: Any,
        size: int,
        when: float,
        told: Told,
    ) -> bool:
        """Takes a call into the session's scores, if nobody would hear of it."""
        self._size = size
        known = self._tools.get(tool) or self._tool(tool)
        if known.subject and not is_counted(state, known.subject):
            return False
        if arguments.__class__ is dict and len(arguments) < _FLAT:
            key = (*arguments, *map(type, arguments.values()))
            shape = known.shapes.get(key) or self._flat_shape(known, key, arguments)
        else:
            shape = _DEEP
        places: list[tuple[str, _Answer]] = []
        if shape.is_flat:
            for name, value in arguments.items():
                if value.__class__ is str:
                    places += known.texts.get((name, value)) or self._text(known, name, value)
        else:
            shape = self._deep_shape(known, arguments)
            for one in places_in(arguments):
                places.append((one.kind, known.deep.get(one) or self._deep_place(known, one)))
        if shape.subject and not is_counted(state, shape.subject):
            return False
        fresh: set[tuple[str, int]] = _NOTHING  # places that the session has not been to
        for kind, found in places:
            if found.subject and not is_counted(state, found.subject):
                return False
            seen = state.spread.get(kind)
            if seen is None or found.digest not in seen:
                fresh = fresh | {(kind, found.digest)}
        scores = state.scores
        higher: list[tuple[str, float, str]] = []  # kind, score and subject
        if fresh:
            spread = _widest(state, fresh)
            if spread >= SUBJECTS:
                return False  # not all of them are counted
            if spread > scores["spread"]:
                higher += [("spread", spread, f"spread {kind}") for kind, _ in fresh]
        if size > known.half and (value := size_score(size, known.most)) > scores["size"]:
            higher.append(("size", value, f"size {tool}"))
        if self._follows:
            before = state.last_tool
            surprise = known.after.get(before)
            if surprise is None:
                surprise = self._keep(known.after, before, pair_surprise(self._model, before, tool)[2])
            if surprise > scores["sequence"]:
                higher.append(("sequence", surprise, f"sequence {before} {tool}"))
        hour = hour_of(when)
        if self._hours[hour] > scores["hour"]:
            higher.append(("hour", self._hours[hour], f"hour {hour}"))
        for kind, value, subject in higher:
            if value > self._least[kind] and (session, subject) not in told:
                return False
        recent = state.recent
        rate = calls_lately(recent, when)
        if rate > scores["rate"]:
            if rate > self._rate and (session, "rate") not in told:
                recent.pop()
                return False
            scores["rate"] = float(rate)
        for kind, value, _ in higher:
            scores[kind] = value
        for kind, digest in fresh:
            state.spread.setdefault(kind, set()).add(digest)
        state.last_tool = tool
        return True

    def _keep(self, table: dict[_Key, _Value], key: _Key, value: _Value) -> _Value:
        self._weight += 1 + self._size // 256
        if self._weight > _KEPT:
            self._tools.clear()
            self._weight = 0
        table[key] = value
        return value

    def _tool(self, name: str) -> _Tool:
        model = self._model
        made = _Tool(name, f"tool {name}" if model.is_new_tool(name) else "")
        sizes = model.sizes.get(digest64(name))
        if sizes is not None:
            made.most = most_bucket(sizes)
            made.half = 2.0 ** (made.most - 1)
        return self._keep(self._tools, name, made)

    def _flat_shape(self, known: _Tool, key: Any, arguments: dict[str, Any]) -> _Answer:
        if not _SCALARS.issuperset(map(type, arguments.values())):
            return self._keep(known.shapes, key, _DEEP)
        found = self._deep_shape(known, arguments)
        return self._keep(known.shapes, key, _Answer(found.subject, is_flat=True))

    def _deep_shape(self, known: _Tool, arguments: Any) -> _Answer:
        text = shape_of(arguments)
        found = known.shapes.get(text)
        if found is None:
            is_new = self._model.is_new_shape(known.name, text)
            subject = shape_subject(known.name, text) if is_new else ""
            found = self._keep(known.shapes, text, _Answer(subject))
        return found

    def _text(self, known: _Tool, name: str, value: str) -> list[tuple[str, _Answer]]:
        found = []
        for kind, text in places_of_value(value):
            key = (name, kind, text)
            found.append((kind, known.places.get(key) or self._place(known, key)))
        # Agents name the same file or person again and again: in bfcl-eval 65 % of the texts came before.
        return found if not found or len(value) > _TEXT else self._keep(known.texts, (name, value), found)

    def _place(self, known: _Tool, key: tuple[str, str, str]) -> _Answer:
        name, kind, text = key
        found = self._answer(known, PlaceSeen(f"arguments.{name}", kind, text))
        return self._keep(known.places, key, found)

    def _deep_place(self, known: _Tool, place: PlaceSeen) -> _Answer:
        return self._keep(known.deep, place, self._answer(known, place))

    def _answer(self, known: _Tool, place: PlaceSeen) -> _Answer:
        is_new = self._model.is_new_place(known.name, place)
        return _Answer(place_subject(known.name, place) if is_new else "", digest64(place.text))


def _widest(state: SessionScores, fresh: set[tuple[str, int]]) -> float:
    """How many places of one kind the session will have been to."""
    counts = {kind: len(state.spread.get(kind, ())) for kind, _ in fresh}
    for kind, _ in fresh:
        counts[kind] += 1
    return float(max(counts.values()))


_DEEP = _Answer()
_NOTHING: set[tuple[str, int]] = set()
