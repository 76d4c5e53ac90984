"""Names as long as messages: whoever remembers what it has seen does not remember them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gate import SAMPLE, Gate
from penstock.cli import main
from sessions import START, RecordingMaker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

MANY = 60
LENGTH = 1_000_000
MOST_MB = 30  # of sixty: a few are under way, and the allocator keeps what was freed
RULES = {"rules": [{"id": "r", "conditions": [{"tool": "zzz"}], "actions": [{"block": "no"}]}]}


def options(what: str, work: Path) -> list[str]:
    """What turns a capability on."""
    if what == "dashboard":
        return ["--dashboard", "auto:names"]
    if what == "files":
        return [
            "--record",
            str(work / "r.jsonl"),
            "--audit",
            str(work / "a.jsonl"),
            "--metrics",
            "127.0.0.1:0",
        ]
    whole: dict[str, Any] = {"interceptor": RULES}
    if what == "anomalies":
        with RecordingMaker(work / "usual.jsonl") as made:
            for number in range(120):
                for step in range(5):
                    made.call(f"s{number}", START + number * 60 + step, "echo", {"text": "a"})
        assert main(["baseline", str(work / "usual.jsonl"), "--out", str(work / "b")]) == 0
        whole = {"anomalies": {"baseline": str(work / "b")}}
    (work / "file.json").write_text(json.dumps(whole))
    return ["--config", str(work / "file.json")]


def resident_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2]
    return int(fields.split()[0]) / 1024


def requests(number: int) -> list[tuple[str, dict[str, Any], str | int]]:
    long = f"{number}" + "x" * LENGTH
    call = {"name": "echo", "arguments": {"text": "a"}}
    return [
        ("tools/call", call, long),
        ("tools/call", {"name": long}, number),
        ("tools/call", {"name": "echo", "arguments": {long: 1}}, number),
        (long, {}, number),
        ("resources/read", {"uri": f"file:///{long}"}, number),
    ]


@pytest.mark.parametrize("what", ["nothing", "dashboard", "files", "rules", "anomalies"])
def test_long_names_are_not_kept(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    words = [] if what == "nothing" else options(what, tmp_path)
    with Gate(tmp_path, "--log-level", "error", *words, command=[sys.executable, str(SAMPLE)]) as gate:
        gate.handshake()
        gate.ask("tools/list")
        before = resident_mb(gate.process.pid)
        for kind in range(len(requests(0))):
            for number in range(MANY):
                method, params, token = requests(number)[kind]
                said = {"jsonrpc": "2.0", "id": token, "method": method, "params": params}
                gate.say(json.dumps(said).encode())
                assert gate.line()
            gate.heard.clear()
        end = time.monotonic() + 20
        while (grown := resident_mb(gate.process.pid) - before) > MOST_MB and time.monotonic() < end:
            time.sleep(0.1)  # what is written in a thread may still be under way
        assert grown < MOST_MB
