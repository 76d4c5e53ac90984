"""When a score is an alert: not more often than a budget of false alarms allows, however scores are spread.

Half of the baseline's sessions made the tables, the other half were scored by them. A session's p for a kind
is (1 + how many of those scored as high) / (n + 1): as long as sessions stay like those, p is below a value
no more often than that. The budget is shared by the kinds that are watched.
"""

from __future__ import annotations

import bisect
import math
import re
import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.learn.events import Event
from penstock.learn.scores import Finding, SessionScores, score
from penstock.learn.usual import SeenCall, Told, Usual
from penstock.policy.learned.baseline import KINDS, Baseline, Model

FORMAT = 1
BUDGET = 1 / 500
_BUDGET = re.compile(r"\s*(\d+)\s*/\s*(\d+)\s*(?:sessions?)?\s*").fullmatch


def parse_budget(text: str, where: str = "--budget") -> float:
    """The share of usual sessions that may raise an alert, such as 1/500 sessions. Raises ConfigError."""
    found = _BUDGET(text)
    share = int(found[1]) / int(found[2]) if found is not None and int(found[2]) else 0.0
    if not 0 < share < 1:
        raise ConfigError(f'Invalid {where}: "{text}"', "It must look like 1/500 sessions")
    return share


def check_kinds(words: list[str], where: str = "--watch") -> tuple[str, ...]:
    """The kinds that are watched. Raises ConfigError."""
    for word in words:
        if word not in KINDS:
            raise ConfigError(f'Invalid {where}: "{word}"', f"The kinds are {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if not words or kind in words)


class Alert(Struct):
    """One line of the file of alerts."""

    v: int
    at: str
    session: str
    group: str
    kind: str
    p: float
    baseline: dict[str, Any]
    why: str
    seen_first: int


class Alarm:
    """Watches sessions with one baseline."""

    def __init__(self, baseline: Baseline, budget: float = BUDGET, watch: tuple[str, ...] = KINDS) -> None:
        self.baseline = baseline
        self._watch = watch
        self._limit = budget / max(1, len(watch))
        self._sessions: dict[str, SessionScores] = {}
        self._told: Told = set()
        self._usual: dict[str, Usual | None] = {}  # by group
        self.most_sessions = 100_000
        self.alerts = 0
        self.alerted: set[str] = set()

    def silent(self) -> list[str]:
        """Which kinds cannot raise an alert, and what is missing, in sentences."""
        needed = math.ceil(1 / self._limit - 1e-9) - 1
        said = []
        for name, model in self.baseline.groups.items():
            group = f" for {name}" if name else ""
            short = [kind for kind in self._watch if len(model.calibration.get(kind, ())) < needed]
            if short:
                have = min(len(model.calibration.get(kind, ())) for kind in short)
                said.append(
                    f"Silent{group}: {', '.join(short)}. This budget needs {2 * needed:,} baseline sessions; "
                    f"{2 * (needed - have):,} are missing. A larger budget or fewer kinds to watch need fewer"
                )
            for kind in sorted(model.full & set(self._watch)):
                said.append(f"Silent{group}: {kind}. Its table in the baseline is full")
        if not self.baseline.groups:
            said.append("Silent: everything. The baseline has no session")
        return said

    def taint(self, session: str) -> None:
        """Something of the session was refused that is no call of a tool."""
        state = self._sessions.setdefault(session, SessionScores())
        state.is_tainted = True

    def maybe_scores(self, session: str) -> SessionScores | None:
        """How a session scores so far; None where there is nothing to compare it with."""
        state = self._sessions.get(session)
        return state if state is not None and self.baseline.maybe_model(state.client) is not None else None

    def taken(self, session: str, client: str, calls: Sequence[SeenCall]) -> int:
        """Takes calls that passed, up to the first that may raise an alert, which is there for `take`. Gives
        back how many."""
        state = self._sessions.get(session)
        if state is None:
            state = self._begin(session)
        if not state.client:
            state.client = client
        group = state.client if self.baseline.group_by else ""
        usual = self._usual[group] if group in self._usual else self._ready(group)
        return len(calls) if usual is None else usual.taken(state, session, calls, self._told)

    def _begin(self, session: str) -> SessionScores:
        if len(self._sessions) >= self.most_sessions:
            self._sessions.pop(next(iter(self._sessions)))
        # Was it here before, and was forgotten among very many?
        made = self._sessions[session] = SessionScores(is_tainted=session in self.alerted)
        return made

    def _ready(self, group: str) -> Usual | None:
        model = self.baseline.groups.get(group)
        if model is None:
            return None  # and not kept: clients may call themselves anything
        found = self._usual[group] = Usual(model, {kind: self._least(model, kind) for kind in KINDS})
        return found

    def _least(self, model: Model, kind: str) -> float:
        """The score above which p is within the limit: infinite where the kind is silent."""
        known = model.calibration.get(kind)
        if not known or kind not in self._watch or kind in model.full:
            return math.inf
        count = len(known)
        as_high = count  # so many may score as high
        while as_high >= 0 and (1 + as_high) / (count + 1) > self._limit:
            as_high -= 1
        if as_high < 0:
            return math.inf
        return known[count - 1 - as_high] if as_high < count else -math.inf

    def take(self, event: Event) -> list[Alert]:
        """The alerts that one more event raises."""
        session, client = event.session, event.client
        if not event.is_answer and not event.is_stopped:
            call = (event.tool, event.arguments, event.size, event.time)
            if self.taken(session, client, (call,)):
                return []
        state = self._sessions.get(session) or self._begin(session)
        state.client = state.client or client
        model = self.baseline.maybe_model(state.client)
        if model is None:
            return []
        out = []
        for finding in score(model, event, state):
            if finding.kind not in self._watch or finding.kind in model.full:
                continue
            p = p_value(model, finding.kind, state.scores[finding.kind])
            key = (event.session, finding.subject)
            if p is None or p > self._limit or key in self._told or len(self._told) > self.most_sessions:
                continue
            self._told.add(key)
            state.is_tainted = True
            self.alerted.add(event.session)
            out.append(self._alert(finding, p, model, event, state))
        self.alerts += len(out)
        return out

    def _alert(self, finding: Finding, p: float, model: Model, event: Event, state: SessionScores) -> Alert:
        about = {
            "sessions": model.sessions,
            "calls": model.calls,
            "since": stamp(self.baseline.since),
        }
        group = state.client if self.baseline.group_by else ""
        return Alert(
            FORMAT,
            stamp(finding.time),
            event.session,
            group,
            finding.kind,
            float(f"{p:.3g}"),
            about,
            finding.why,
            finding.index,
        )


def p_value(model: Model, kind: str, value: float) -> float | None:
    """How rarely a usual session scores as high; None when there is nothing to compare with."""
    known = model.calibration.get(kind)
    if not known:
        return None
    as_high = len(known) - bisect.bisect_left(known, value)
    return (1 + as_high) / (len(known) + 1)


def stamp(when: float) -> str:
    """A time as the alerts write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
