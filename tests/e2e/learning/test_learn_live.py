"""`anomalies: {learn: true}`: a running proxy adds usual sessions to its baseline."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from gate import SAMPLE, Gate
from sessions import START, RecordingMaker, penstock

SECRET = "correct-horse-battery"


def sessions_of(path: Path) -> int:
    """The sessions of a baseline, those that calibrate included."""
    (model,) = json.loads(path.read_text())["groups"].values()
    return int(model["sessions"]) + len(model["calibration"]["tool"])


def test_usual_sessions_are_learned_and_others_are_not(tmp_path: Path) -> None:
    with RecordingMaker(tmp_path / "usual.jsonl") as made:
        for number in range(40):
            made.call(f"s{number}", START + number, "echo", {"text": "x"})
    baseline = tmp_path / "b"
    penstock("baseline", str(tmp_path / "usual.jsonl"), "--out", str(baseline))
    assert sessions_of(baseline) == 40
    config = tmp_path / "penstock.yaml"
    config.write_text(f"anomalies: {{baseline: {baseline}, budget: 1/10, watch: [tool], learn: true}}\n")

    def session(name: str, *calls: bytes) -> str:
        work = tmp_path / name
        work.mkdir()
        words = ["--config", str(config), "--deny", "^delete_"]
        with Gate(work, *words, command=["python3", str(SAMPLE)]) as gate:
            gate.handshake()
            for call in calls:
                gate.ask("tools/call", call)
            assert gate.end() == 0
            return gate.stderr

    usual = b'{"name":"echo","arguments":{"text":"%b"}}' % SECRET.encode()
    said = session("usual", usual, usual)
    assert "Learned 1 sessions" in said
    assert sessions_of(baseline) == 41
    assert stat.S_IMODE(baseline.stat().st_mode) == 0o600
    assert SECRET not in baseline.read_text()
    kept = baseline.read_bytes()
    session("told", usual, b'{"name":"read_file","arguments":{"path":"x"}}')
    assert baseline.read_bytes() == kept
    session("refused", usual, b'{"name":"delete_file","arguments":{"path":"x"}}')
    assert baseline.read_bytes() == kept
    # While one learns, another only watches, and the command does not write either.
    work = tmp_path / "first"
    work.mkdir()
    with Gate(work, "--config", str(config), command=["python3", str(SAMPLE)]) as first:
        first.handshake()
        first.ask("tools/call", usual)
        assert "Another Penstock learns into" in session("second", usual)
        done = penstock("baseline", str(tmp_path / "usual.jsonl"), "--out", str(baseline), code=1)
        assert "Another Penstock learns into" in done.stderr
        assert baseline.read_bytes() == kept
        assert first.end() == 0
    assert sessions_of(baseline) == 42
