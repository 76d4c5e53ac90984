"""What is recorded is what was sent, on every transport and in both eras."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import urllib.request
from pathlib import Path

import pytest

from doors import is_answer
from gate import request, wait_until
from pairs import CELLS
from watched import PENSTOCK, Watched, raws, rows, run

MESSAGES = 14  # of each kind, in each of 18 cells: with their answers, a thousand in all


@pytest.mark.parametrize(("client", "upstream", "era"), CELLS, ids=[f"{c}-{u}-{e}" for c, u, e in CELLS])
def test_every_message_is_there_byte_for_byte(tmp_path: Path, client: str, upstream: str, era: str) -> None:
    path = tmp_path / "r.jsonl"
    sent, heard = [], []
    with Watched(tmp_path, client, upstream, "--record", str(path)) as watched:
        door = watched.connect(era)
        for number in range(MESSAGES):
            token = b'"odd-%d"' % number
            params = door.params(b'{ "name":"echo" , "arguments":{"n":1e400,"t":"\\u65e5 %d"}}' % number)
            calls = [request(token, "tools/call", params)]
            denied = door.params(b'{"name":"write_file","arguments":{}}')
            calls.append(request(b"%d" % (number + 5000), "tools/call", denied))
            for raw in calls:
                door.say(raw)
                sent.append(raw)
            heard += [door.answer(token), door.answer(b"%d" % (number + 5000))]
        watched.end()
    assert raws(path, "from:client", "method:tools/call", "kind:request") == sent
    found = rows(path)
    assert [row["i"] for row in found] == list(range(1, len(found) + 1))
    assert [row["t"] for row in found] == sorted(row["t"] for row in found)
    assert {
        row["verdict"] for row in found if row.get("tool") == "write_file" and row["kind"] == "request"
    } == {"deny"}
    answers = raws(path, "kind:response", "method:tools/call", "from:upstream")
    assert len(answers) == MESSAGES
    refusals = raws(path, "kind:response", "method:tools/call", "from:penstock")
    assert len(refusals) == MESSAGES
    for raw in heard:
        assert raw in answers or raw in refusals or _is_renumbered(raw, answers)
    by_number = {row["i"]: row for row in found}
    for row in found:
        if row["kind"] == "response" and row["method"] == "tools/call":
            assert by_number[row["re"]]["kind"] == "request"
    assert {row["from"] for row in found if row["kind"] == "request" and row["method"] == "tools/list"}


def _is_renumbered(raw: bytes, answers: list[bytes]) -> bool:
    """Where one link serves many clients, the upstream answers under another id."""
    result = json.loads(raw).get("result")
    return any(json.loads(answer).get("result") == result for answer in answers) and not is_answer(
        answers[0], b"nothing"
    )


ODD = [
    b'{"jsonrpc":"2.0","id":1234567890123456789012345678901234567890,"method":"x/odd","params":{"a":1e400}}',
    b'{"jsonrpc":"2.0","id":"\\u65e5","method":"x/odd","params":{ "b" : [ ] }}',
    b'{"jsonrpc":"2.0","id":3,"method":"x/odd"}\r',
    b"noise of a client",
    b'{"jsonrpc":"2.0","id":4,"method":"x/\xff"}',
    b"[" * 200 + b"]" * 200,
    b'{"jsonrpc":"2.0","id":5,"method":"a","method":"b"}',
]


def test_odd_bytes_are_kept_as_they_are_and_every_line_passes_jq(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Watched(tmp_path, "stdio", "stdio", "--record", str(path)) as watched:
        door = watched.connect()
        for raw in ODD:
            door.say(raw)
        door.order("say", raw="noise of the upstream\n\xff\xfe broken\n")
        assert door.is_alive()
        watched.end()
    kept = raws(path)
    for raw in ODD:
        assert raw in kept or raw.rstrip(b"\r") in kept, raw
    assert b"noise of the upstream" in kept
    assert b"\xff\xfe broken" in kept
    lines = path.read_bytes().splitlines()
    assert all(json.loads(line) for line in lines)
    if shutil.which("jq") is not None:
        done = subprocess.run(["jq", "-c", ".i // 0"], stdin=path.open("rb"), capture_output=True, check=True)
        assert len(done.stdout.splitlines()) == len(lines)


def test_a_body_over_several_lines_is_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    pretty = (
        b'{\n  "jsonrpc": "2.0",\r\n  "id": 77,\n  "method": "tools/call",\n  "params": {"name": "echo"}\n}'
    )
    with Watched(tmp_path, "streamable", "streamable", "--record", str(path)) as watched:
        door = watched.connect()
        door.say(pretty)
        door.answer(b"77")
        watched.end()
    kept = json.loads(path.read_bytes().splitlines()[-2])
    assert pretty.decode() in [json.loads(line).get("text") for line in path.read_bytes().splitlines()], kept


def _say_hello(*options: str, code: int, work: Path, umask: int = 0o022) -> str:
    mark = work / "spawned"
    done = subprocess.run(
        [*PENSTOCK, *options, "--", "sh", "-c", f"touch {mark}; cat"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
        umask=umask,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert mark.exists() == (code == 0)
    return done.stderr


def test_files_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    record, audit = tmp_path / "r.jsonl", tmp_path / "a.jsonl"
    _say_hello("--stdio", "--record", str(record), "--audit", str(audit), code=0, work=tmp_path, umask=0)
    assert stat.S_IMODE(record.stat().st_mode) == stat.S_IMODE(audit.stat().st_mode) == 0o600


def test_a_recording_can_be_masked_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    config = write_rules(
        tmp_path, f"record: {{file: {path}, mask: true}}\nmask: {{keys: [ssn], patterns: ['zip-[0-9]+']}}\n"
    )
    with Watched(tmp_path, "stdio", "stdio", "--config", config) as watched:
        door = watched.connect()
        door.call(
            "echo", b'{"password":"hunter2","ssn":"123-45","where":"zip-99999","n":1e400,"open":"seen"}'
        )
        watched.end()
    kept = path.read_text()
    for secret in ("hunter2", "123-45", "zip-99999"):
        assert secret not in kept
    assert "seen" in kept
    assert json.loads(kept.splitlines()[0])["masked"] is True


def test_in_a_folder_a_file_is_called_after_its_server(tmp_path: Path) -> None:
    with Watched(
        tmp_path, "stdio", "stdio", "--record", f"{tmp_path}/", "--dashboard", "auto:my files"
    ) as watched:
        door = watched.connect("legacy")
        door.say(request(b"1", "ping", b"{}"))
        assert door.answer(b"1")
        watched.end()
    (path,) = tmp_path.glob("my-files-*.jsonl")
    assert raws(path, "method:ping", "kind:request")


@pytest.mark.parametrize("option", ["--record", "--audit"])
@pytest.mark.parametrize("kind", ["symlink", "fifo", "readable", "missing folder", "folder"])
def test_files_that_are_not_ours_alone_end_it_before_the_upstream_starts(
    tmp_path: Path, option: str, kind: str
) -> None:
    path = tmp_path / "f.jsonl"
    if kind == "symlink":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "readable":
        path.touch(0o644)
        path.chmod(0o644)
    elif kind == "folder":
        path.mkdir()
    else:
        path = tmp_path / "none" / "f.jsonl"
    said = _say_hello("--stdio", option, str(path), code=1, work=tmp_path)
    assert "Cannot write" in said
    assert not (tmp_path / "elsewhere").exists()


def test_a_killed_run_leaves_a_file_that_is_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Watched(tmp_path, "stdio", "stdio", "--record", str(path)) as watched:
        door = watched.connect()
        for _ in range(200):
            door.request(door.new_id(), "tools/call", b'{"name":"echo","arguments":{}}')
        assert wait_until(lambda: path.stat().st_size > 10_000)
        door.process.kill()
        door.process.wait()
    with path.open("ab") as file:
        file.write(b'{"i":99999,"t":1.0,"s":"x","from":"cl')  # what a crash may leave of a line
    done = run("show", str(path), "--format", "json")
    assert done.returncode == 0
    assert done.stderr.count(b"warning") == 1, done.stderr
    before = [json.loads(line)["i"] for line in done.stdout.splitlines()]
    assert before == list(range(1, len(before) + 1))
    with Watched(tmp_path, "stdio", "stdio", "--record", str(path)) as watched:
        assert watched.connect().is_alive()
        watched.end()
        assert "not whole" in watched.stderr
    after = [row["i"] for row in rows(path)]
    assert after[: len(before)] == before
    assert after == list(range(1, len(after) + 1))
    assert len(after) > len(before)


def test_two_processes_with_one_path_write_two_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with (
        Watched(tmp_path, "stdio", "stdio", "--record", str(path)) as one,
        Watched(tmp_path, "stdio", "stdio", "--record", str(path)) as other,
    ):
        doors = [one.connect(), other.connect()]
        for _ in range(20):
            assert all(door.is_alive() for door in doors)
        one.end()
        other.end()
        assert "Another penstock writes" in other.stderr
    files = sorted(tmp_path.glob("r*.jsonl"))
    assert len(files) == 2
    for file in files:
        assert len(raws(file, "method:tools/call", "from:client")) == 20


RULES = """
tools: {deny: ["^write_"]}
interceptor:
  rules:
    - id: no-keys
      conditions: [{param_matches: {field: arguments.path, pattern: "\\\\.key$"}}]
      actions: [{block: Keys are secret}]
    - id: tidy
      conditions: [{param_equals: {field: arguments.path, value: /old}}]
      actions: [{set_param: {field: arguments.path, value: /new}}]
    - id: keep
      conditions: [{param_equals: {field: arguments.path, value: /same}}]
      actions: [{cache: {ttl: 60s}}]
"""


def write_rules(work: Path, text: str = RULES) -> str:
    path = work / "rules.yaml"
    path.write_text(text)
    return str(path)


def test_what_became_of_each_message_is_told(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    rules = write_rules(tmp_path)
    with Watched(tmp_path, "stdio", "stdio", "--record", str(path), "--config", rules, deny="") as watched:
        door = watched.connect()
        for name, where in [
            ("write_file", "/a"),
            ("echo", "/a.key"),
            ("echo", "/old"),
            ("echo", "/same"),
            ("echo", "/same"),
            ("echo", "/plain"),
        ]:
            door.call(name, b'{"path":"%b"}' % where.encode())
        watched.end()
    told = [
        (row["verdict"], row.get("rule", ""), row.get("sent"))
        for row in rows(path, "kind:request", "from:client", "method:tools/call")
    ]
    assert [one[0] for one in told] == ["deny", "block", "change", "pass", "answer", "pass"]
    assert told[1][1] == "no-keys"
    assert told[2][1] == "tidy"
    assert '"path":"/new"' in told[2][2]
    assert told[2][2].replace("/new", "/old") in path.read_text()
    refused = rows(path, "from:penstock", "code:-32001")
    assert len(refused) == 1
    assert "Keys are secret" in refused[0]["text"]


def test_credentials_and_session_ids_are_in_no_file(tmp_path: Path) -> None:
    canaries = ["canary-bearer-31415", "canary-cookie-31415", "canary-header-31415"]
    record, audit = tmp_path / "r.jsonl", tmp_path / "a.jsonl"
    options = ["--record", str(record), "--audit", str(audit), "--log-level", "debug", "--metrics", "0"]
    options += ["--header", f"X-Key: {canaries[2]}"]
    with Watched(tmp_path, "streamable", "streamable", *options) as watched:
        assert watched.proxy is not None
        more = {"authorization": f"Bearer {canaries[0]}", "cookie": f"a={canaries[1]}"}
        door = watched.proxy.connect("streamable", "legacy", more=more)
        watched.doors.append(door)
        door.begin()
        assert door.is_alive()
        session = next(iter(door.responses[0].headers[name] for name in ["mcp-session-id"]))
        port = re.search(r"Metrics on http://127.0.0.1:(\d+)/", watched.stderr)
        assert port is not None
        figures = urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics").read().decode()
        watched.end()
        kept = record.read_text() + audit.read_text() + figures + watched.stderr
    assert "tools/call" in kept
    for canary in [*canaries, session]:
        assert canary not in kept
    headers = [json.loads(line).get("headers") for line in record.read_bytes().splitlines()]
    assert {name for found in headers if found for name in found} <= {
        "content-type",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
    }
    assert any(
        found and found["mcp-protocol-version"] == "2025-11-25"
        for found in headers
        if found and len(found) > 1
    )


def test_a_plain_filter_loads_nothing_of_what_watches(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        "atexit.register(lambda: open(os.environ['SEEN'], 'w').write(' '.join(sys.modules)))\n"
    )
    for options in ([], ["--record", str(tmp_path / "r.jsonl")]):
        seen = tmp_path / "seen"
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "SEEN": str(seen)}
        words = [*PENSTOCK, "--stdio", "--deny", "^x", *options, "--", "cat"]
        subprocess.run(words, stdin=subprocess.DEVNULL, check=True, env=env, timeout=30)
        loaded = [name for name in seen.read_text().split() if name.split(".")[:2] == ["penstock", "observe"]]
        loaded += [name for name in seen.read_text().split() if name == "penstock.gate.observed"]
        assert bool(loaded) == bool(options), loaded


@pytest.mark.parametrize(
    ("client", "upstream"), [("stdio", "stdio"), ("streamable", "streamable"), ("sse", "sse")]
)
def test_watching_changes_no_byte_on_either_side(tmp_path: Path, client: str, upstream: str) -> None:
    wires = []
    for place, options in (
        ("off", []),
        ("on", ["--record", str(tmp_path / "r"), "--audit", str(tmp_path / "a"), "--metrics", "0"]),
    ):
        work = tmp_path / place
        work.mkdir()
        with Watched(work, client, upstream, *options) as watched:
            door = watched.connect()
            for number in range(10):
                door.say(
                    request(b"%d" % (number + 70), "tools/call", b'{ "name":"echo","arguments":{"n":1e400}}')
                )
                door.answer(b"%d" % (number + 70))
            door.call("write_file")
            door.order("big", bytes=200_000)
            heard = [one.raw for one in door.heard]
            reached = [raw for raw in watched.upstream.reached() if b"penstock-" not in raw]
            watched.end()
        wires.append((heard, [raw for raw in reached if b'"name":"penstock"' not in raw]))
    assert wires[0] == wires[1]


@pytest.mark.parametrize(
    ("client", "upstream"), [("stdio", "stdio"), ("streamable", "streamable"), ("streamable", "stdio")]
)
def test_the_messages_of_an_array_refer_to_it(tmp_path: Path, client: str, upstream: str) -> None:
    path = tmp_path / "r.jsonl"
    calls = [
        request(b'"first"', "tools/call", b'{"name":"echo","arguments":{}}'),
        request(b'"second"', "tools/call", b'{"name":"write_file","arguments":{}}'),
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}',
    ]
    array = b"[%b, %b,%b]" % tuple(calls)
    with Watched(tmp_path, client, upstream, "--record", str(path)) as watched:
        door = watched.connect(begins=False)
        door.begin("2025-03-26")
        door.say(array)
        assert wait_until(lambda: raws(path, "tool:write_file", "from:penstock"), within=20)
        watched.end()
    whole = [row for row in rows(path) if row["kind"] == "batch" and row["from"] == "client"]
    assert [row["verdict"] for row in whole] == ["pass"]
    inside = [row for row in rows(path) if row.get("in") == whole[0]["i"]]
    verdicts = {row["tool"]: row["verdict"] for row in inside if "tool" in row}
    assert verdicts == {"echo": "pass", "write_file": "deny"}
    shown = raws(path, "from:client")
    assert array in shown
    assert not any(call in shown for call in calls), "an array would be sent twice"
    assert raws(path, "tool:echo", "kind:request") == calls[:1]
    counted = json.loads(run("stats", str(path), "--by", "tool", "--format", "json").stdout)
    assert "echo" in json.dumps(counted)
