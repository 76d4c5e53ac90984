"""How unusual a session is, kind by kind: a number that only grows while the session goes on.

So what is true of a whole session holds for its beginning too: a session that still goes on is never called
more unusual than it will be in the end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct, field

from penstock.learn.events import Event
from penstock.policy.learned.baseline import BUCKETS, KINDS, TABLE, Model, place_digest
from penstock.policy.learned.features import NAME, PlaceSeen, digest64, places_in, shape_of

_WINDOW = 60.0  # seconds in which calls are counted for the rate
_DIGESTED = 512  # characters of what is kept with its digest
SUBJECTS = 1_000
"""Of one session; what comes beyond is not counted any more."""
RECENT = 10 * SUBJECTS  # calls that are counted for the rate at most


def _digest(*parts: str) -> int:
    """Of names and shapes, which come again and again, unless they are odd."""
    return _kept_digest(*parts) if len(parts[-1]) <= _DIGESTED else digest64(*parts)


_kept_digest = lru_cache(maxsize=4_096)(digest64)


class Finding(Struct):
    """What made a session more unusual."""

    kind: str
    subject: str  # one alert a session and subject
    why: str
    index: int  # the message
    time: float


class SessionScores(Struct):
    """The state of one session."""

    scores: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))
    subjects: set[str] = field(default_factory=set)
    recent: deque[float] = field(default_factory=deque)
    last_tool: str = ""
    errors: int = 0
    spread: dict[str, set[int]] = field(default_factory=dict)
    client: str = ""
    is_tainted: bool = False  # something was refused, or told of: nothing is learned from it


def bucket_of(size: int) -> int:
    """The power of two that a size is below."""
    return min(size.bit_length(), BUCKETS - 1)


class Lesson(Struct, frozen=True):
    """What one call teaches: digests, a size and an hour, and nothing that was said."""

    tool: int
    bucket: int
    places: tuple[tuple[int, int], ...]  # each with its kind
    shape: int
    pair: int
    hour: int


def lesson_of(event: Event, before: str) -> Lesson:
    """What a call teaches that came after one of the tool `before`."""
    tool = event.tool
    places = tuple(
        (place_digest(tool, place), digest64(tool, place.path, place.kind))
        for place in places_in(event.arguments)
    )
    shape = _digest(tool, shape_of(event.arguments))
    bucket, hour = bucket_of(event.size), hour_of(event.time)
    return Lesson(_digest(tool), bucket, places, shape, _digest(before, tool), hour)


def learn(model: Model, event: Event, state: SessionScores) -> None:
    """Takes one event of a usual session into the tables."""
    if not event.is_answer:
        absorb(model, lesson_of(event, state.last_tool))
        state.last_tool = event.tool


def absorb(model: Model, lesson: Lesson) -> None:
    """Takes what a call teaches into the tables."""
    key, shape, pair = lesson.tool, lesson.shape, lesson.pair
    model.calls += 1
    if key in model.tools or _has_room(model, "tool", model.tools):
        model.tools[key] = model.tools.get(key, 0) + 1
        sizes = model.sizes.setdefault(key, [0] * BUCKETS)
        sizes[lesson.bucket] += 1
    for place, kind in lesson.places:
        if place not in model.places and _has_room(model, "place", model.places):
            model.places.add(place)
            model.place_counts[kind] = model.place_counts.get(kind, 0) + 1
    if shape not in model.shapes and _has_room(model, "shape", model.shapes):
        model.shapes.add(shape)
    if pair in model.pairs or _has_room(model, "sequence", model.pairs):
        model.pairs[pair] = model.pairs.get(pair, 0) + 1
    model.hours[lesson.hour] += 1


def _has_room(model: Model, kind: str, table: dict[int, int] | set[int]) -> bool:
    if len(table) < TABLE:
        return True
    model.full.add(kind)
    return False


def score(model: Model, event: Event, state: SessionScores) -> list[Finding]:
    """What one more event makes more unusual; the scores are those after it."""
    state.is_tainted = state.is_tainted or event.is_stopped
    if event.is_answer:
        return list(_score_answer(model, event, state))
    found = [
        *_score_novelty(model, event, state),
        *_score_size(model, event, state),
        *_score_rate(model, event, state),
        *_score_sequence(model, event, state),
        *_score_hour(model, event, state),
    ]
    state.last_tool = event.tool
    return found


def _raise(state: SessionScores, kind: str, value: float) -> bool:
    if value <= state.scores[kind]:
        return False
    state.scores[kind] = value
    return True


def is_counted(state: SessionScores, subject: str) -> bool:
    """Whether a subject makes the session no more unusual: it was counted, or too many were."""
    return subject in state.subjects or len(state.subjects) >= SUBJECTS


def _is_first(state: SessionScores, subject: str) -> bool:
    if is_counted(state, subject):
        return False
    state.subjects.add(subject)
    return True


def _never(model: Model, more: str = "") -> str:
    return f"never in {model.sessions:,} sessions ({model.calls:,} calls{more})"


def _score_novelty(model: Model, event: Event, state: SessionScores) -> Iterator[Finding]:
    tool = event.tool
    if model.is_new_tool(tool) and _is_first(state, f"tool {tool}"):
        state.scores["tool"] += 1
        yield Finding("tool", f"tool {tool}", f"tool {tool}, {_never(model)}", event.index, event.time)
    for place in places_in(event.arguments):
        seen = state.spread.setdefault(place.kind, set())
        if len(seen) < SUBJECTS:
            seen.add(digest64(place.text))
        if _raise(state, "spread", float(len(seen))):
            words = f"{len(seen)} different {_plural(place.kind)} in one session"
            most = max(model.calibration.get("spread") or [0.0])
            words += f"; the most in {len(model.calibration.get('spread', ())):,} others was {most:.0f}"
            yield Finding("spread", f"spread {place.kind}", words, event.index, event.time)
        subject = place_subject(tool, place)
        if model.is_new_place(tool, place) and _is_first(state, subject):
            state.scores["place"] += 1
            known = model.place_counts.get(digest64(tool, place.path, place.kind), 0)
            more = f", {known:,} {_plural(place.kind) if known != 1 else place.kind}"
            words = f"{tool} {place.path}: {place.kind} {place.text}, {_never(model, more)}"
            yield Finding("place", subject, words, event.index, event.time)
    shape = shape_of(event.arguments)
    subject = shape_subject(tool, shape)
    if model.is_new_shape(tool, shape) and _is_first(state, subject):
        state.scores["shape"] += 1
        found = event.arguments
        names = ", ".join(name[:NAME] for name in sorted(found)[:8]) if isinstance(found, dict) else "none"
        words = f"{tool}: arguments of this shape ({names}), {_never(model)}"
        yield Finding("shape", subject, words, event.index, event.time)


def place_subject(tool: str, place: PlaceSeen) -> str:
    """What a new place is counted by."""
    return f"place {tool} {place.path} {place.kind} {place.text}"


def shape_subject(tool: str, shape: str) -> str:
    """What a new shape is counted by."""
    return f"shape {tool} {_digest(shape)}"


def most_bucket(sizes: list[int]) -> int:
    """The power of two that all known sizes are below."""
    return max(number for number, count in enumerate(sizes) if count)


def size_score(size: int, most: int) -> float:
    """How far a size is above half of that."""
    return math.log2(max(size, 1)) - most + 1


def _score_size(model: Model, event: Event, state: SessionScores) -> Iterator[Finding]:
    sizes = model.sizes.get(_digest(event.tool))
    if sizes is None:
        return
    most = most_bucket(sizes)
    if _raise(state, "size", size_score(event.size, most)):
        words = (
            f"{event.tool}: a call of {event.size:,} bytes; all {sum(sizes):,} known are below {1 << most:,}"
        )
        yield Finding("size", f"size {event.tool}", words, event.index, event.time)


def calls_lately(recent: deque[float], when: float) -> int:
    """How many calls the window has, now that one more came."""
    recent.append(when)
    forget_older(recent, when)
    return len(recent)


def forget_older(recent: deque[float], when: float) -> None:
    """Forgets calls that the window has no more, now that its last one came at `when`."""
    while recent[0] < when - _WINDOW or len(recent) > RECENT:
        recent.popleft()


def most_lately(recent: deque[float], times: list[float], least: float) -> int:
    """How many calls the window had at most while these came; where it was no more than `least`, no more."""
    latest, most = max(times), len(recent) + len(times)
    first = recent[0] if recent else times[0]
    if most <= least or (most <= RECENT and first >= latest - _WINDOW):
        recent.extend(times)
        forget_older(recent, latest)
        return len(recent)
    return max([calls_lately(recent, when) for when in times])


def _score_rate(model: Model, event: Event, state: SessionScores) -> Iterator[Finding]:
    recent = state.recent
    if _raise(state, "rate", float(calls_lately(recent, event.time))):
        most = max(model.calibration.get("rate") or [0.0])
        words = (
            f"{len(recent):,} calls within a minute; the most in {_calibrated(model, 'rate')} was {most:.0f}"
        )
        yield Finding("rate", "rate", words, event.index, event.time)


def pair_surprise(model: Model, before: str, tool: str) -> tuple[int, int, float]:
    """How often a tool follows another, of how many, and how many bits that is worth."""
    pairs = model.pairs.get(_digest(before, tool), 0)
    first = model.tools.get(_digest(before), 0) if before else model.sessions
    return pairs, first, -math.log2((pairs + 0.5) / (first + 0.5 * (len(model.tools) + 1)))


def _score_sequence(model: Model, event: Event, state: SessionScores) -> Iterator[Finding]:
    if "sequence" in model.full:
        return
    before, tool = state.last_tool, event.tool
    pairs, first, surprise = pair_surprise(model, before, tool)
    if _raise(state, "sequence", surprise):
        what = f"{tool} after {before}" if before else f"{tool} at the start of a session"
        words = f"{what}: {pairs:,} times among {first:,} {'calls of ' + before if before else 'sessions'}"
        yield Finding("sequence", f"sequence {before} {tool}", words, event.index, event.time)


def hour_surprise(model: Model, hour: int) -> float:
    """How many bits a call at this hour is worth."""
    return -math.log2((model.hours[hour] + 1) / (sum(model.hours) + 24))


def _score_hour(model: Model, event: Event, state: SessionScores) -> Iterator[Finding]:
    hour = hour_of(event.time)
    if _raise(state, "hour", hour_surprise(model, hour)):
        words = (
            f"a call from {hour:02d}:00 to {hour:02d}:59 UTC: "
            f"{model.hours[hour]:,} of {sum(model.hours):,} calls"
        )
        yield Finding("hour", f"hour {hour}", words, event.index, event.time)


def _score_answer(model: Model, event: Event, state: SessionScores) -> Iterator[Finding]:
    if not event.is_error:
        return
    state.errors += 1
    if _raise(state, "errors", float(state.errors)):
        most = max(model.calibration.get("errors") or [0.0])
        words = f"{state.errors:,} calls failed; the most in {_calibrated(model, 'errors')} was {most:.0f}"
        yield Finding("errors", "errors", words, event.index, event.time)


def _calibrated(model: Model, kind: str) -> str:
    return f"{len(model.calibration.get(kind, ())):,} sessions"


def hour_of(when: float) -> int:
    """The hour of the day (UTC)."""
    return int(when // 3600 % 24)


def _plural(kind: str) -> str:
    return {"directory": "directories"}.get(kind, f"{kind}s")
