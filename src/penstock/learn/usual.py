"""What is usual, made ready for the question that nearly every call is: whether it raises anything at all.

`scores.score` says in words what a call makes more unusual. Nearly always that is nothing, or nothing that
anybody hears of, and to find that out from digests costs more than passing the call on. Here the answers of a
model are kept by tool, shape and place, as they are asked for. What is not plainly usual is left to `score`,
with the session as it was; what is, leaves the session as `score` would have.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
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
    most_lately,
    pair_surprise,
    place_subject,
    shape_subject,
    size_score,
)
from penstock.policy.learned.baseline import Model
from penstock.policy.learned.features import (
    NAME,
    PlaceSeen,
    digest64,
    places_in,
    places_of_value,
    shape_of,
    stem_of,
)

Told = set[tuple[str, str]]
"""Sessions with the subjects that people have heard of."""
SeenCall = tuple[str, Any, int, float]
"""The tool, its arguments, how many bytes the call has, and when it came."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_KEPT = 16_384  # answers, in units of 256 bytes of the call that asked: beyond it they are forgotten
_TEXT = 128  # characters of a text that may come again
_FLAT = 200  # values of a call beyond which `score` counts what it looks at
_SCALARS = frozenset({str, int, float, bool, type(None)})


class _Answer(Struct, gc=False):
    """What the model says about a place."""

    subject: str = ""  # what it is counted by, where it is new
    digest: int = 0  # of its text


class _Found(Struct, gc=False):
    """The places that a text names, each with its kind."""

    places: list[tuple[str, _Answer]]
    calm: SessionScores | None = None  # the session in which they raise nothing more, last of all
    text: str = ""  # that named them last


class _Shape(Struct, gc=False):
    """What the model says about names and types of arguments."""

    subject: str = ""  # what it is counted by, where it is new
    # Name and type of each argument, and what is kept of its texts; None: it is not flat.
    slots: tuple[tuple[str, Any, dict[str, _Found] | None], ...] | None = None


class _Tool(Struct):
    """What the model says about one tool."""

    name: str
    subject: str = ""  # what it is counted by, where it is new
    most: int = 0  # see `size_score`
    half: int = sys.maxsize  # a size up to this raises nothing
    shapes: dict[Any, _Shape] = field(default_factory=dict)
    places: dict[tuple[str, str, str], _Answer] = field(default_factory=dict)  # by name, kind and text
    texts: dict[str, dict[str, _Found]] = field(default_factory=dict)  # by name, and by text or its stem
    deep: dict[PlaceSeen, _Answer] = field(default_factory=dict)  # places that lie deeper
    after: dict[str, float] = field(default_factory=dict)  # surprise, by the tool before
    last: _Shape = field(
        default_factory=_Shape
    )  # that the call before had: nearly always this one has it too


class _Raised(Struct, gc=False):
    """What a call raises that nobody hears of."""

    scores: list[tuple[str, float, str]]  # kind, score and subject
    places: set[tuple[str, int]]  # that the session has not been to


class Usual:
    """A model, asked about one call after another."""

    def __init__(self, model: Model, least: dict[str, float]) -> None:
        """`least`: of each kind the score above which somebody hears of it."""
        self._model = model
        self._least = least
        self._tools: dict[str, _Tool] = {}
        self._size = 0  # of the call that asks
        self._weight = 0  # of what is kept
        self._hour = (0.0, 0.0, 0.0)  # from when to when it lasts, and what a call in it is worth
        self._follows = "sequence" not in model.full

    def taken(self, state: SessionScores, session: str, calls: Sequence[SeenCall], told: Told) -> int:
        """Takes calls into the session's scores, up to the first that somebody may hear of; how many."""
        scores, recent, before = state.scores, state.recent, state.last_tool
        busiest, sequence, at_hour = scores["rate"], scores["sequence"], scores["hour"]
        rate_told = math.inf if (session, "rate") in told else self._least["rate"]
        is_slow = len(recent) + len(calls) <= max(busiest, rate_told)  # nobody hears of the rate
        since, until, surprise_now = self._hour
        follows, known, name_before, count = self._follows, _NO_TOOL, None, 0
        calm_size = 0  # of a call of this tool: up to here it raises nothing
        for tool, arguments, size, when in calls:
            self._size = size
            if tool != name_before:
                known, name_before = self._tools.get(tool) or self._tool(tool), tool
                calm_size = known.half
            shape = known.last
            slots = shape.slots
            if slots is None or type(arguments) is not dict or len(arguments) != len(slots):
                shape = self._shape_of(known, arguments)
                slots = shape.slots
            news: Sequence[_Found] = ()  # texts with places that may raise something
            while slots is not None:
                for name, its_type, kept in slots:
                    value = arguments.get(name)
                    if type(value) is not its_type or (value is None and name not in arguments):
                        break
                    if kept is None:
                        continue
                    found = kept.get(value)
                    if found is None:
                        found = self._text(known, name, kept, value)
                    if found.calm is not state and found is not _NOWHERE:
                        news = [*news, found]
                else:
                    break
                shape, news = self._shape_of(known, arguments), ()  # as many, but others
                slots = shape.slots
            else:
                shape, news = self._look_deeper(known, arguments)
            if (known.subject and not is_counted(state, known.subject)) or (
                shape.subject and not is_counted(state, shape.subject)
            ):
                break
            surprise = 0.0
            if follows and (surprise := known.after.get(before, -1.0)) < 0.0:
                surprise = self._keep(known.after, before, pair_surprise(self._model, before, tool)[2])
            if not since <= when < until:
                since, until, surprise_now = self._hour = self._hour_of(when)
            raised = None
            if (
                news
                or surprise > sequence
                or surprise_now > at_hour
                or (size > calm_size and size_score(size, known.most) > scores["size"])
            ):
                raised = self._raised(state, news, known, size, before, surprise, when)
                if raised is None or any(
                    value > self._least[kind] and (session, subject) not in told
                    for kind, value, subject in raised.scores
                ):
                    break
            elif size > calm_size:
                calm_size = size  # the smaller ones raise no more
            if not is_slow:
                rate = calls_lately(recent, when)
                if rate > busiest and rate > rate_told:
                    recent.pop()
                    break
                busiest = max(busiest, float(rate))
            if raised is not None:
                for kind, score, _ in raised.scores:
                    scores[kind] = score
                for kind, digest in raised.places:
                    state.spread.setdefault(kind, set()).add(digest)
                for found in news:
                    found.calm = state
                sequence, at_hour = scores["sequence"], scores["hour"]
            before = tool
            count += 1
        if is_slow and count:
            busiest = max(busiest, float(most_lately(recent, [call[3] for call in calls[:count]], busiest)))
        scores["rate"], state.last_tool = busiest, before
        return count

    def _raised(
        self,
        state: SessionScores,
        news: Sequence[_Found],
        known: _Tool,
        size: int,
        before: str,
        surprise: float,
        when: float,
    ) -> _Raised | None:
        """What a call raises; None where `score` must count it."""
        scores = state.scores
        made = _Raised([], set())
        for found in news:
            for kind, place in found.places:
                if place.subject and not is_counted(state, place.subject):
                    return None
                seen = state.spread.get(kind)
                if seen is None or place.digest not in seen:
                    made.places.add((kind, place.digest))
        if made.places:
            spread = _widest(state, made.places)
            if spread >= SUBJECTS:
                return None  # not all of them are counted
            if spread > scores["spread"]:
                made.scores += [("spread", spread, f"spread {kind}") for kind, _ in made.places]
        if size > known.half and (value := size_score(size, known.most)) > scores["size"]:
            made.scores.append(("size", value, f"size {known.name}"))
        if surprise > scores["sequence"]:
            made.scores.append(("sequence", surprise, f"sequence {before} {known.name}"))
        if self._hour[2] > scores["hour"]:
            made.scores.append(("hour", self._hour[2], f"hour {hour_of(when)}"))
        return made

    def _hour_of(self, when: float) -> tuple[float, float, float]:
        since = when // 3600 * 3600
        return since, since + 3600, hour_surprise(self._model, hour_of(when))

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
            made.half = (1 << made.most) >> 1
        return self._keep(self._tools, name, made)

    def _shape_of(self, known: _Tool, arguments: Any) -> _Shape:
        """That of arguments, which those of the next call are compared with first."""
        shape = _DEEP
        if type(arguments) is dict and len(arguments) < _FLAT:
            key = (*arguments, *map(type, arguments.values()))
            shape = known.shapes.get(key) or self._shape(known, key, arguments)
        known.last = shape
        return shape

    def _shape(self, known: _Tool, key: Any, arguments: dict[str, Any]) -> _Shape:
        """That of arguments whose names and types are `key`."""
        if not _SCALARS.issuperset(map(type, arguments.values())):
            return self._keep(known.shapes, key, _DEEP)
        slots = tuple(
            (name, type(value), known.texts.setdefault(name, {}) if type(value) is str else None)
            for name, value in arguments.items()
        )
        found = self._deep_shape(known, arguments)
        return self._keep(known.shapes, key, _Shape(found.subject, slots))

    def _deep_shape(self, known: _Tool, arguments: Any) -> _Shape:
        text = shape_of(arguments)
        found = known.shapes.get(text)
        if found is None:
            is_new = self._model.is_new_shape(known.name, text)
            subject = shape_subject(known.name, text) if is_new else ""
            found = self._keep(known.shapes, text, _Shape(subject))
        return found

    def _look_deeper(self, known: _Tool, arguments: Any) -> tuple[_Shape, Sequence[_Found]]:
        """The shape of arguments that are not flat, and their places."""
        places = [
            (one.kind, known.deep.get(one) or self._deep_place(known, one)) for one in places_in(arguments)
        ]
        return self._deep_shape(known, arguments), (_Found(places),) if places else ()

    def _text(self, known: _Tool, name: str, kept: dict[str, _Found], value: str) -> _Found:
        """What a text names that was not kept itself."""
        stem = stem_of(value)
        if stem and (found := kept.get(stem)) is not None:
            if found.text == value and len(value) <= _TEXT:  # it may well come again
                self._keep(kept, value, found)
            found.text = value
            return found
        places = []
        for kind, text in places_of_value(value):
            key = (name, kind, text)
            places.append((kind, known.places.get(key) or self._place(known, key)))
        found = _Found(places) if places else _NOWHERE
        # Agents name the same file or person again and again: in bfcl-eval 65 % of the texts came before.
        return self._keep(kept, stem or value, found) if len(value) <= _TEXT else found

    def _place(self, known: _Tool, key: tuple[str, str, str]) -> _Answer:
        name, kind, text = key
        found = self._answer(known, PlaceSeen(f"arguments.{name[:NAME]}", kind, text))
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


_DEEP = _Shape()
_NOWHERE = _Found([])
_NO_TOOL = _Tool("")
