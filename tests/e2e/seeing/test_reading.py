"""What `show`, `stats` and `why` say of a recording is what happened."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from records import CALL, record
from test_recordings import write_rules

from gate import wait_until
from penstock.observe.record import Session
from penstock.observe.recorder import Recorder
from penstock.observe.recording import FORMAT, Header, encode_record, header_line
from penstock.observe.settings import RecordSettings
from watched import PENSTOCK, Watched, penstock, rows, run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session under rules, with one of everything."""
    work = tmp_path_factory.mktemp("recorded")
    path = work / "r.jsonl"
    rules = write_rules(work)
    with Watched(work, "stdio", "stdio", "--record", str(path), "--config", rules, deny="") as watched:
        door = watched.connect()
        for name, where in [("write_file", "/a"), ("echo", "/a.key"), ("echo", "/old"), ("read_file", "/b")]:
            door.call(name, b'{"path":"%b"}' % where.encode())
        door.ask("tools/list")
        door.ask("ping")
        watched.end()
    return path


def test_a_newer_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"penstock":"recording","v":2}\n')
    done = run("show", str(path))
    assert done.returncode == 1
    assert b"made by a newer Penstock" in done.stderr


def test_an_unknown_field_is_a_usage_error_with_a_hint(recorded: Path) -> None:
    done = run("show", str(recorded), "verdct:x")
    assert done.returncode == 2
    assert b'did you mean "verdict"' in done.stderr


def test_the_table_has_a_row_for_every_message(recorded: Path) -> None:
    lines = penstock("show", str(recorded)).splitlines()
    assert len(lines) == 1 + len(rows(recorded))
    assert any("no-keys" in line and "block" in line for line in lines)


def test_filters_find_what_they_say(recorded: Path) -> None:
    assert [row["tool"] for row in rows(recorded, "verdict:deny,block")] == ["write_file", "echo"]
    assert [row["tool"] for row in rows(recorded, "verdict:deny,block", "-rule:no-keys")] == ["write_file"]
    assert len(rows(recorded, "arg.path~^/(old|b)$")) == 2
    assert len(rows(recorded, "(method:ping or method:tools/list) from:client")) == 2
    assert rows(recorded, "result.called:read_file")[0]["status"] == "ok"


def test_following_shows_what_comes(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Watched(tmp_path, "stdio", "stdio", "--record", str(path)) as watched:
        door = watched.connect()
        assert wait_until(path.exists)
        out = tmp_path / "out"
        with out.open("wb") as file:
            words = [*PENSTOCK, "show", str(path), "method:tools/call", "--follow", "--format", "raw"]
            follower = subprocess.Popen(words, stdout=file)
        for _ in range(3):
            assert door.is_alive()
        assert wait_until(lambda: out.read_bytes().count(b"\n") == 6), out.read_bytes()
        follower.send_signal(signal.SIGINT)
        follower.wait(10)
        watched.end()


def test_statistics_count_calls_errors_and_blocks(recorded: Path) -> None:
    found = json.loads(penstock("stats", str(recorded), "--by", "tool", "--format", "json"))
    assert {name: row["count"] for name, row in found["rows"].items()} == {
        "write_file": 1,
        "echo": 2,
        "read_file": 1,
    }
    assert found["rows"]["echo"]["blocked"] == 1
    assert found["rows"]["read_file"]["p50_ms"] > 0
    assert found["total"]["unanswered"] == 0
    assert found["sessions"] == 1
    by_rule = json.loads(penstock("stats", str(recorded), "--by", "rule", "--format", "json"))
    assert by_rule["rows"]["no-keys"]["count"] == 1


def test_statistics_name_rules_that_were_never_hit(recorded: Path) -> None:
    rules = str(recorded.parent / "rules.yaml")
    assert "never hit: keep\n" in penstock("stats", str(recorded), "--config", rules)


def test_comparing_names_new_tools_and_new_arguments(recorded: Path, tmp_path: Path) -> None:
    older = tmp_path / "old.jsonl"
    kept = [
        line
        for line in recorded.read_bytes().splitlines(keepends=True)
        if b"read_file" not in line or b'"method"' not in line
    ]
    older.write_bytes(
        b"".join(kept)
        .replace(b'"path":"/old"', b'"file":"/old"')
        .replace(b'"path":"/a.key"', b'"file":"/a.key"')
    )
    done = run("stats", str(recorded), "--compare", str(older))
    assert done.returncode == 3
    assert b"new tool: read_file" in done.stdout
    assert b"new argument of echo: path" in done.stdout
    assert run("stats", str(recorded), "--compare", str(recorded)).returncode == 0


def test_why_tells_the_rule_its_conditions_and_the_reply(recorded: Path) -> None:
    blocked = rows(recorded, "verdict:block", "kind:request")[0]["i"]
    rules = str(recorded.parent / "rules.yaml")
    told = penstock("why", str(recorded), str(blocked), "--config", rules)
    assert "verdict: block by no-keys" in told
    assert "Keys are secret" in told
    assert re.search(r"answered: by message \d+ of Penstock", told)
    assert re.search(r"rule no-keys: applies\n +holds:", told)
    assert "does not hold" in told
    assert "session so far:" in told
    changed = rows(recorded, "verdict:change")[0]["i"]
    told = penstock("why", str(recorded), str(changed))
    assert "- byte" in told
    assert "+ byte" in told
    assert run("why", str(recorded), "99999").returncode == 1


def test_statistics_of_a_large_file_stay_small(recorded: Path, tmp_path: Path) -> None:
    """A stream of 60 MB through a pipe; what is held does not grow with it."""
    lines = recorded.read_bytes().splitlines(keepends=True)
    big = b"".join(lines[1:])
    program = (
        "import sys\n"
        "head, body = sys.argv[1].encode().decode('unicode_escape'), open(sys.argv[2], 'rb').read()\n"
        "out = sys.stdout.buffer\n"
        "for _ in range(int(sys.argv[3])): out.write(body)\n"
    )
    body = tmp_path / "body"
    body.write_bytes(lines[0] + big * 200)
    times = str(60_000_000 // body.stat().st_size)
    with subprocess.Popen(["python3", "-c", program, "", str(body), times], stdout=subprocess.PIPE) as writer:
        words = [*PENSTOCK, "stats", "/dev/stdin", "--format", "json"]
        probe = (
            "import resource, subprocess, sys\n"
            "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
            "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        )
        done = subprocess.run(
            ["python3", "-c", probe, *words],
            stdin=writer.stdout,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    code, peak = map(int, done.stdout.split())
    assert code == 0
    assert peak < 60 * 1024, f"{peak} KiB"


def test_secrets_are_masked_in_a_copy(tmp_path: Path) -> None:
    source, out = tmp_path / "r.jsonl", tmp_path / "masked.jsonl"
    secret = CALL.replace(b'"/a"', b'"AKIAABCDEFGHIJKLMNOP","password":"hunter2","n":1e400')
    lines = [header_line(Header(penstock="recording", v=FORMAT))]
    lines += encode_record(record(secret, index=1)) + encode_record(
        record(b"Bearer abcdefghijk", index=2, kind="other")
    )
    source.write_bytes(b"".join(lines))
    penstock("mask", str(source), str(out))
    masked = out.read_text()
    for text in ("AKIAABCDEFGHIJKLMNOP", "hunter2", "abcdefghijk"):
        assert text not in masked
    assert '"n":1e400' in masked
    assert [row["i"] for row in rows(out)] == [1, 2]
    assert json.loads(masked.splitlines()[0])["masked"] is True
    assert os.stat(out).st_mode & 0o777 == 0o600
    assert run("mask", str(source), str(out)).returncode == 1  # it is there already


def test_a_recording_becomes_an_archive_and_spans(recorded: Path, tmp_path: Path) -> None:
    penstock("export", str(recorded), "--to", "har", str(tmp_path / "r.har"))
    entries = json.loads((tmp_path / "r.har").read_text())["log"]["entries"]
    assert {json.loads(one["request"]["postData"]["text"])["method"] for one in entries} >= {
        "tools/call",
        "ping",
    }
    penstock("export", str(recorded), "--to", "otlp", str(tmp_path / "r.json"))
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans = ParseDict(json.loads((tmp_path / "r.json").read_text()), ExportTraceServiceRequest())
    names = [span.name for span in spans.resource_spans[0].scope_spans[0].spans]
    assert "tools/call read_file" in names


def test_the_log_says_each_message_at_debug_and_each_denial_once_at_info(tmp_path: Path) -> None:
    rules = write_rules(tmp_path)
    for level in ("debug", "info"):
        work = tmp_path / level
        work.mkdir()
        with Watched(work, "stdio", "stdio", "--config", rules, "--log-level", level, deny="") as watched:
            door = watched.connect()
            for _ in range(3):
                door.call("write_file", b'{"path":"AKIAABCDEFGHIJKLMNOP"}')
                door.call("echo", b'{"path":"/a.key"}')
            watched.end()
            said = watched.stderr
        assert said.count("Denied a call of write_file") == 1
        assert said.count("Rule no-keys blocked tools/call echo") == 1
        each = re.findall(
            r"^penstock: \w{8} client tools/call \w+: (?:deny|block) by [\w -]+ \d+ bytes$", said, re.M
        )
        assert len(each) == (6 if level == "debug" else 0), said
        assert "AKIAABCDEFGHIJKLMNOP" not in said


def test_a_folder_stands_for_the_recordings_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    assert run("show", str(folder)).returncode == 1
    for number, name in enumerate(("b.jsonl", "a.jsonl")):
        recorder = Recorder(RecordSettings(str(folder / name)))
        recorder.write_batch([record(index=1, session=Session(id=f"s{number}"))])
        recorder.close()
        os.utime(folder / name, (1_000_000 + number, 1_000_000 + number))
    (folder / "notes.txt").write_text("no recording")
    shown = [json.loads(line) for line in penstock("show", str(folder), "--format", "json").splitlines()]
    assert [row["session"] for row in shown] == ["s0", "s1"]
    assert [Path(row["file"]).name for row in shown] == ["b.jsonl", "a.jsonl"]
    one = penstock("show", str(folder / "a.jsonl"), "--format", "json").splitlines()
    assert ["file" in json.loads(line) for line in one] == [False]
    both = [str(folder / "a.jsonl"), str(folder / "b.jsonl")]
    assert len(penstock("show", *both, "session:s1", "--format", "json").splitlines()) == 1
    counted = json.loads(penstock("stats", str(folder), "--by", "session", "--format", "json"))
    assert all(name in json.dumps(counted) for name in ("s0", "s1"))
    assert run("show", *both, "--follow").returncode == 2


def test_why_for_programs(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(RecordSettings(str(path)))
    recorder.write_batch([record(index=1)])
    recorder.close()
    told = json.loads(penstock("why", str(path), "1", "--format", "json"))
    assert told["message"]["tool"] == "read_file"
    assert any("verdict: pass" in line for line in told["why"])
    assert penstock("why", str(path), "1", "--format", "text") == penstock("why", str(path), "1")
