"""Learning while traffic passes: what usual sessions do is added to the baseline's file.

A session is learned once it is over, or has been quiet for long, and only if nothing in it was refused or
told of. Until then nothing of it is kept but digests. The process itself goes on judging by the baseline that
it began with, so that nothing a session does makes itself usual; what was learned counts from the next start.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time

from msgspec import Struct, field

from penstock.errors import ConfigError
from penstock.learn.baseline_file import calibrate, load_baseline, remember, write_baseline
from penstock.learn.events import Event
from penstock.learn.scores import Lesson, SessionScores, absorb, lesson_of
from penstock.policy.learned.baseline import Baseline, Model

log = logging.getLogger("penstock")

QUIET_SECONDS = 1_800.0
"""A session that has said nothing for so long is over."""

_SESSIONS = 10_000  # that wait to be learned; the oldest of more are not learned
_LESSONS = 1_000  # of one session; one that goes on longer is not learned
_WRITE_SECONDS = 60.0


class Lock:
    """Only one process writes a baseline: who has the lock beside it."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError where another process has it."""
        try:
            self._file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as why:
            raise ConfigError(f"Cannot lock the baseline: {path}", str(why.strerror or why)) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise ConfigError(f"Another Penstock learns into {path}", "One process at a time does") from None

    def close(self) -> None:
        """Lets others write."""
        os.close(self._file)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Waiting(Struct):
    """A session that may be learned."""

    scores: SessionScores  # the alarm's own, which goes on
    lessons: list[Lesson] = field(default_factory=list)
    last_tool: str = ""
    last_time: float = 0.0


class Learner:
    """Adds usual sessions to one baseline's file."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError where another process learns into the file, or it cannot be read."""
        self._path = path
        self._lock = Lock(path)
        try:
            self._baseline: Baseline = load_baseline(path)
        except ConfigError:
            self._lock.close()
            raise
        self._known = _stamp(path)
        self._waiting: dict[str, _Waiting] = {}  # the one that was quiet longest is first
        self._blind_until = 0.0
        self._is_changed = False
        self._written = time.monotonic()
        self.learned = 0

    def note(self, event: Event, scores: SessionScores | None) -> None:
        """One more event; `scores` are those of its session, None where nobody knows its group."""
        if scores is None:
            return
        waiting = self._waiting.pop(event.session, None)
        if waiting is None or waiting.scores is not scores:
            waiting = _Waiting(scores)
            scores.is_tainted = scores.is_tainted or event.time < self._blind_until
        self._waiting[event.session] = waiting
        waiting.last_time = event.time
        if len(self._waiting) > _SESSIONS:
            self._waiting.pop(next(iter(self._waiting))).scores.is_tainted = True
        if scores.is_tainted or len(waiting.lessons) > _LESSONS:
            waiting.lessons.clear()
            scores.is_tainted = True  # also of one that is too long: half of it would be no session
        elif not event.is_answer:
            waiting.lessons.append(lesson_of(event, waiting.last_tool))
            waiting.last_tool = event.tool

    def forget_waiting(self, now: float) -> None:
        """Some messages were not looked at, and nobody knows what was in them: no session of now is learned,
        nor one that may have begun among them."""
        for waiting in self._waiting.values():
            waiting.scores.is_tainted = True
        self._blind_until = now + QUIET_SECONDS

    def look(self, now: float) -> None:
        """Learns what is over, and writes it now and then."""
        while self._waiting:
            session = next(iter(self._waiting))
            if self._waiting[session].last_time > now - QUIET_SECONDS:
                break
            self._learn(self._waiting.pop(session))
        if self._is_changed and time.monotonic() - self._written >= _WRITE_SECONDS:
            self._write()

    def _learn(self, waiting: _Waiting) -> None:
        scores = waiting.scores
        if scores.is_tainted or not waiting.lessons:
            return
        model = self._baseline.maybe_model(scores.client)
        if model is None:
            return
        if model.sessions <= _calibrated(model):
            model.sessions += 1
            for lesson in waiting.lessons:
                absorb(model, lesson)
        else:
            calibrate(model, scores)
            for lesson in waiting.lessons:
                remember(model, lesson)
        scores.is_tainted = True  # if it goes on after all, it is not learned twice
        self._baseline.until = max(self._baseline.until, waiting.last_time)
        self._is_changed = True
        self.learned += 1

    def _write(self) -> None:
        self._written = time.monotonic()
        self._is_changed = False
        if _stamp(self._path) != self._known:
            log.warning("The baseline was replaced; what was learned since is not written: %s.", self._path)
            return
        try:
            write_baseline(self._path, self._baseline)
        except ConfigError as why:
            log.warning("%s: %s.", why.headline, why.detail)
        self._known = _stamp(self._path)

    def close(self) -> None:
        """All sessions are over: learns them, writes, and lets others write."""
        for waiting in self._waiting.values():
            self._learn(waiting)
        self._waiting.clear()
        if self._is_changed:
            self._write()
        self._lock.close()
        log.info("Learned %d sessions into %s.", self.learned, self._path)


def _calibrated(model: Model) -> int:
    return len(next(iter(model.calibration.values()), ()))


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
