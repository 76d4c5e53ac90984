"""Making a baseline of recordings, and its file: digests and counts, mode 0600, at most 8 MiB."""

from __future__ import annotations

import bisect
import os
import stat
from typing import Any

import msgspec

from penstock.errors import ConfigError
from penstock.learn.events import STOPPED, event_of_row, read_events, read_rows
from penstock.learn.scores import Lesson, SessionScores, learn, lesson_of, score
from penstock.policy.learned.baseline import FORMAT, KINDS, TABLE, Baseline, Model

MOST_BYTES = 8 << 20
_CALIBRATED = 20_000  # scores are kept for so many sessions of a group


class Built(msgspec.Struct):
    """A baseline, and what was left out of it."""

    baseline: Baseline
    sessions: int = 0
    left_out: int = 0  # sessions in which something was refused, or that raised an alert


def build_baseline(files: list[str], group_by: str = "", alerted: frozenset[str] = frozenset()) -> Built:
    """The baseline of recordings: every other session makes the tables, the rest calibrate.

    Read three times, so that no recording is too long: who is left out, what is usual, how the rest scores.
    """
    left_out: set[str] = set()
    sessions: dict[str, str] = {}  # by id: the client
    baseline = Baseline("baseline", group_by=group_by)
    for row in read_rows(files):
        if row.line.verdict in STOPPED and row.line.sender == "client":
            left_out.add(row.line.s)  # whatever it was that was refused
        event = event_of_row(row)
        if event is None:
            continue
        sessions[event.session] = sessions.get(event.session) or event.client
        if event.is_stopped or event.session in alerted:
            left_out.add(event.session)
        baseline.since = min(baseline.since or event.time, event.time)
        baseline.until = max(baseline.until, event.time)
    groups: dict[str, list[str]] = {}
    for session, client in sessions.items():
        if session not in left_out:
            groups.setdefault(client if group_by else "", []).append(session)
    group_of = {session: name for name, members in groups.items() for session in members}
    trains = {session for members in groups.values() for session in members[::2]}
    models = {name: Model(sessions=(len(members) + 1) // 2) for name, members in groups.items()}
    states: dict[str, SessionScores] = {}
    for event in read_events(files):
        if event.session in trains:
            state = states.setdefault(event.session, SessionScores())
            learn(models[group_of[event.session]], event, state)
    states = {session: SessionScores() for session in group_of if session not in trains}
    for event in read_events(files):
        calibrating = states.get(event.session)
        if calibrating is not None:
            model = models[group_of[event.session]]
            score(model, event, calibrating)
            if not event.is_answer:
                remember(model, lesson_of(event, ""))
    for session, state in states.items():
        calibrate(models[group_of[session]], state)
    baseline.groups = models
    return Built(baseline, len(sessions), len(left_out & sessions.keys()))


def calibrate(model: Model, state: SessionScores) -> None:
    """Keeps how a session scored that did not make the tables; in order, as they are asked."""
    for kind in KINDS:
        scores = model.calibration.setdefault(kind, [])
        if len(scores) < _CALIBRATED:
            bisect.insort(scores, round(state.scores.get(kind, 0.0), 3))


def remember(model: Model, lesson: Lesson) -> None:
    """What a calibrating session has is not new either, to whoever asks the whole baseline."""
    for key in (lesson.tool, lesson.shape, *(place for place, _ in lesson.places)):
        if len(model.others) < TABLE and not (
            key in model.tools or key in model.places or key in model.shapes
        ):
            model.others.add(key)


def encode_baseline(baseline: Baseline) -> bytes:
    """The file's bytes. What is too large goes: its kind is then said to be full, and silent."""
    while len(data := msgspec.json.encode(baseline) + b"\n") > MOST_BYTES:
        tables = [
            (len(table), kind, model)
            for model in baseline.groups.values()
            for kind, table in _tables(model).items()
        ]
        count, kind, model = max(tables, key=lambda one: one[0])
        table: Any = _tables(model)[kind]
        if not count:
            raise ConfigError("The baseline is too large", "It has too many groups; leave --group-by out")
        table.clear()
        model.full.add(kind)
    return data


def _tables(model: Model) -> dict[str, Any]:
    return {"place": model.places, "shape": model.shapes, "sequence": model.pairs, "tool": model.tools}


def write_baseline(path: str, baseline: Baseline) -> None:
    """Writes the file whole or not at all. Raises ConfigError."""
    data = encode_baseline(baseline)
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(file, "wb") as out:
                out.write(data)
            os.replace(beside, path)
        except OSError:
            os.unlink(beside)
            raise
    except OSError as why:
        raise ConfigError(f"Cannot write the baseline: {path}", str(why.strerror or why)) from None


def load_baseline(path: str) -> Baseline:
    """The baseline in a file. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"Cannot read the baseline: {path}", "It is no file")
            data = file.read(MOST_BYTES + 1)
    except OSError as why:
        raise ConfigError(f"Cannot read the baseline: {path}", str(why.strerror or why)) from None
    return parse_baseline(data, path)


def parse_baseline(data: bytes, path: str) -> Baseline:
    """The baseline in these bytes. Raises ConfigError."""
    why = "Its lines are not those of penstock baseline"
    if len(data) > MOST_BYTES:
        raise ConfigError(f"This is no baseline: {path}", "It is larger than any")
    try:
        found = msgspec.json.decode(data, type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigError(f"This is no baseline: {path}", why) from None
    if found.penstock != "baseline":
        raise ConfigError(f"This is no baseline: {path}", why)
    if found.v > FORMAT:
        raise ConfigError(f"Cannot read {path}: made by a newer Penstock", f"This one knows format {FORMAT}")
    if any(len(model.hours) != 24 for model in found.groups.values()):
        raise ConfigError(f"This is no baseline: {path}", why)
    for model in found.groups.values():
        for scores in model.calibration.values():
            scores.sort()
    return found
