"""Learning while traffic passes: only whole, usual sessions, in bounded memory, by one writer."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.learn import learner as module
from penstock.learn.alerts import Alarm
from penstock.learn.baseline_file import load_baseline, write_baseline
from penstock.learn.events import Event
from penstock.learn.learner import QUIET_SECONDS, Learner, Lock
from penstock.policy.learned.baseline import KINDS, Baseline, Model

START = 1_790_000_000.0


class Learning:
    """An alarm and a learner, as they stand behind a proxy."""

    def __init__(self, path: Path) -> None:
        self.alarm = Alarm(load_baseline(str(path)), 1 / 2, ("tool",))
        self.learner = Learner(str(path))
        self.path = path

    def call(self, session: str, tool: str, when: float = START, is_stopped: bool = False) -> None:
        event = Event(session, "c", when, 1, tool, False, {"q": "secret"}, 20, is_stopped=is_stopped)
        self.alarm.take(event)
        self.learner.note(event, self.alarm.maybe_scores(session))
        self.learner.look(when)

    def end(self) -> Model:
        self.learner.close()
        return load_baseline(str(self.path)).groups[""]


@pytest.fixture
def learning(tmp_path: Path) -> Learning:
    model = Model(sessions=4, calibration={kind: [0.0] * 4 for kind in KINDS})
    path = tmp_path / "b"
    write_baseline(str(path), Baseline("baseline", groups={"": model}))
    made = Learning(path)
    made.alarm.baseline.groups[""].tools[1] = 1  # the alarm's own, which the file has not
    return made


def silent(learning: Learning) -> Learning:
    """One whose alarm never tells of anything."""
    learning.alarm._limit = 0.0
    return learning


def test_usual_sessions_make_tables_and_calibrate_by_turns(learning: Learning) -> None:
    silent(learning)
    for number in range(10):
        learning.call(f"s{number}", "search")
        learning.call(f"s{number}", "read")
    model = learning.end()
    assert model.sessions == 9
    assert {kind: len(scores) for kind, scores in model.calibration.items()} == dict.fromkeys(KINDS, 9)
    assert all(scores == sorted(scores) for scores in model.calibration.values())
    assert model.calls == 10
    assert len(model.tools) == 2
    assert stat.S_IMODE(os.stat(learning.path).st_mode) == 0o600
    assert b"secret" not in learning.path.read_bytes()


def test_what_was_refused_or_told_of_is_not_learned(learning: Learning) -> None:
    learning.call("told", "never-seen")  # the tool is new: an alert
    assert learning.alarm.alerts == 1
    silent(learning)
    learning.call("refused", "search")
    learning.call("refused", "search", is_stopped=True)
    learning.call("list", "search")
    learning.alarm.taint("list")  # something else of it was refused
    before = learning.path.read_bytes()
    assert learning.end().sessions == 4
    assert learning.path.read_bytes() == before


def test_a_session_is_learned_when_it_is_quiet_and_only_once(learning: Learning) -> None:
    silent(learning)
    learning.call("s", "search")
    learning.call("t", "search", START + QUIET_SECONDS - 1)
    assert learning.learner.learned == 0
    learning.call("t", "search", START + QUIET_SECONDS + 1)
    assert learning.learner.learned == 1
    learning.call("s", "evil", START + QUIET_SECONDS + 2)
    model = learning.end()
    assert learning.learner.learned == 2  # s once, t once
    assert model.knows_tool("search")
    assert not model.knows_tool("evil")


def test_what_was_not_looked_at_is_not_learned(learning: Learning) -> None:
    silent(learning)
    learning.call("before", "search")
    learning.learner.forget_waiting(START)
    learning.call("before", "search", START + 1)
    learning.call("among", "search", START + 1)
    learning.call("after", "search", START + QUIET_SECONDS + 1)
    learning.end()
    assert learning.learner.learned == 1


def test_memory_is_bounded(learning: Learning, monkeypatch: pytest.MonkeyPatch) -> None:
    silent(learning)
    monkeypatch.setattr(module, "_SESSIONS", 5)
    monkeypatch.setattr(module, "_LESSONS", 20)
    for number in range(50):
        learning.call(f"s{number}", "search")
        assert len(learning.learner._waiting) <= 5
    for _ in range(100):
        learning.call("long", "search")
    assert all(len(one.lessons) <= 21 for one in learning.learner._waiting.values())
    learning.end()
    assert learning.learner.learned == 4  # those that waited to the end, without the one that is too long


def test_one_process_writes_a_baseline(learning: Learning) -> None:
    with pytest.raises(ConfigError, match="Another Penstock learns into"):
        Learner(str(learning.path))
    learning.learner.close()
    with Lock(str(learning.path)):
        pass


def test_a_baseline_that_somebody_replaced_is_not_written_over(learning: Learning) -> None:
    silent(learning)
    learning.call("s", "search")
    other = Baseline("baseline", groups={"": Model(sessions=77)})
    write_baseline(str(learning.path), other)
    assert learning.end().sessions == 77


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("x")
    (tmp_path / "b.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigError, match="Cannot lock"):
        Lock(str(tmp_path / "b"))
