"""The audit: what is in it, what is masked, and whether tampering shows."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from test_recordings import write_rules

from gate import wait_until
from watched import Watched, entries, penstock, run

BLOCKED_NOTIFICATION = """
interceptor:
  rules:
    - id: quiet
      direction: client
      conditions: [{method_equals: notifications/x-noisy}]
      actions: [{block: no}]
"""


def messages(path: Path) -> list[dict[str, object]]:
    return [entry for entry in entries(path) if entry["kind"] == "message"]


@pytest.mark.parametrize(
    ("client", "upstream"), [("stdio", "stdio"), ("streamable", "streamable"), ("sse", "stdio")]
)
def test_it_keeps_what_matters_and_nothing_else(tmp_path: Path, client: str, upstream: str) -> None:
    path = tmp_path / "a.jsonl"
    rules = write_rules(tmp_path, BLOCKED_NOTIFICATION)
    with Watched(tmp_path, client, upstream, "--audit", str(path), "--config", rules) as watched:
        door = watched.connect()
        door.ask("ping")
        door.ask("tools/list")
        door.ask("resources/list")
        door.ask("x/vendor")
        door.call("echo", b'{"path":"/a"}')
        door.call("write_file")
        door.say(b'{"jsonrpc":"2.0","method":"notifications/x-noisy"}')
        door.say(b'{"jsonrpc":"2.0","method":"notifications/x-quiet"}')
        assert door.is_alive()
        watched.end()
    kept = messages(path)
    methods = [entry["method"] for entry in kept]
    assert methods == [
        "tools/list",
        "resources/list",
        "x/vendor",
        "tools/call",
        "tools/call",
        "notifications/x-noisy",
        "tools/call",
    ]
    assert {entry["from"] for entry in kept} == {"client"}
    assert [entry["class"] for entry in kept] == ["log", "log", "log", "review", "review", "pass", "review"]
    assert kept[3]["args"] == {"path": "/a"}
    assert kept[3]["name"] == "echo"
    assert kept[3]["client"] == "raw"
    assert (kept[4]["verdict"], kept[5]["verdict"], kept[5]["rule"]) == ("deny", "block", "quiet")
    assert penstock("audit", "verify", str(path)).startswith("intact")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of two runs."""
    work = tmp_path_factory.mktemp("audited")
    path = work / "a.jsonl"
    for _ in range(2):
        with Watched(work, "stdio", "stdio", "--audit", str(path)) as watched:
            door = watched.connect()
            for number in range(6):
                door.call("echo", b'{"n":%d}' % number)
            watched.end()
    return path


def rechained(lines: list[bytes], key: bytes = b"") -> list[bytes]:
    """The lines with hashes made anew, as somebody would who has no key."""
    out, previous = [], None
    for line in lines:
        body = line[: line.index(b',"hash":"')]
        if previous is not None:
            body = re.sub(rb'"prev":"[0-9a-f]+"', b'"prev":"%b"' % previous, body)
        digest = hmac.new(key, body, hashlib.sha256) if key else hashlib.sha256(body)
        previous = digest.hexdigest().encode()
        out.append(body + b',"hash":"' + previous + b'"}')
    return out


def test_a_restart_continues_the_chain(audited: Path) -> None:
    found = entries(audited)
    assert [entry["seq"] for entry in found] == list(range(1, len(found) + 1))
    assert [entry["kind"] for entry in found].count("start") == 2
    assert penstock("audit", "verify", str(audited)).startswith("intact")


@pytest.mark.parametrize("how", ["flip", "delete", "swap", "insert"])
def test_tampering_shows_and_the_first_place_is_named(audited: Path, tmp_path: Path, how: str) -> None:
    lines = audited.read_bytes().splitlines()
    if how == "flip":
        lines[5] = lines[5].replace(b'"echo"', b'"ECHO"')
    elif how == "delete":
        del lines[5]
    elif how == "swap":
        lines[5], lines[6] = lines[6], lines[5]
    else:
        lines.insert(5, lines[4])
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    done = run("audit", "verify", str(path))
    assert done.returncode == 3, done.stdout
    assert re.search(rb"a\.jsonl:6: ", done.stdout), done.stdout


def test_a_chain_made_anew_shows_with_a_checkpoint_that_was_kept(audited: Path, tmp_path: Path) -> None:
    lines = audited.read_bytes().splitlines()
    head = penstock("audit", "head", str(audited)).strip()
    lines[5] = lines[5].replace(b'"echo"', b'"ECHO"')
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(rechained(lines)) + b"\n")
    assert run("audit", "verify", str(path)).returncode == 0
    assert run("audit", "verify", str(path), "--expect", head).returncode == 3
    path.write_bytes(b"\n".join(audited.read_bytes().splitlines()[:-3]) + b"\n")
    assert run("audit", "verify", str(path)).returncode == 0
    cut = run("audit", "verify", str(path), "--expect", head)
    assert cut.returncode == 3
    assert b"the tail is cut" in cut.stdout
    assert run("audit", "verify", str(audited), "--expect", head).returncode == 0


def test_a_chain_made_anew_shows_with_a_key(tmp_path: Path) -> None:
    key, path = tmp_path / "key", tmp_path / "a.jsonl"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    key.chmod(0o600)
    config = write_rules(tmp_path, f"audit: {{file: {path}, key_file: {key}, outcomes: true}}\n")
    with Watched(tmp_path, "stdio", "stdio", "--config", config) as watched:
        door = watched.connect()
        assert door.is_alive()
        watched.end()
    done = [entry for entry in entries(path) if entry["kind"] == "done"]
    assert [entry["outcome"] for entry in done] == ["ok"]
    assert penstock("audit", "verify", str(path), "--key-file", str(key)).startswith("intact")
    assert run("audit", "verify", str(path)).returncode == 1
    lines = path.read_bytes().replace(b'"echo"', b'"ECHO"').replace(b'"keyed":true', b'"keyed":false')
    path.write_bytes(b"\n".join(rechained(lines.splitlines())) + b"\n")
    assert run("audit", "verify", str(path)).returncode == 0
    assert run("audit", "verify", str(path), "--key-file", str(key)).returncode == 3


def test_rotation_keeps_the_chain_and_says_what_was_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    config = write_rules(tmp_path, f"audit: {{file: {path}, rotate: 4096, keep: 2}}\n")
    with Watched(tmp_path, "stdio", "stdio", "--config", config) as watched:
        door = watched.connect()
        for _ in range(8):
            for number in range(8):
                door.call("echo", b'{"text":"%b"}' % (b"x" * 100 * number))
            time.sleep(0.2)  # so that they are written in several batches: a file is rotated between batches
        watched.end()
    files = sorted(tmp_path.glob("a*.jsonl"))
    assert len(files) == 3, files
    kinds = [entry["kind"] for file in files for entry in entries(file)]
    assert "dropped" in kinds
    assert "checkpoint" in kinds
    assert penstock("audit", "verify", str(path)).startswith("intact")
    os.unlink(files[0] if files[0] != path else files[1])
    assert run("audit", "verify", str(path)).returncode == 3


def test_secrets_are_masked(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Watched(
        tmp_path, "streamable", "streamable", "--audit", str(path), "--header", "X-Key: our-own-secret-value"
    ) as watched:
        door = watched.connect()
        door.call(
            "echo",
            b'{"aws":"AKIAABCDEFGHIJKLMNOP","Pass-Word":"hunter2","deep":[{"api_key":"k1"}],'
            b'"said":"our-own-secret-value","url":"https://me:pw@x.org/","json":"{\\"token\\":\\"tt\\"}"}',
        )
        door.call("echo", b'{"pad":"%b","password":"hunter3","rest":"%b"}' % (b"x" * 4000, b"y" * 9000))
        watched.end()
    kept = path.read_text()
    for secret in (
        "AKIAABCDEFGHIJKLMNOP",
        "hunter2",
        "k1",
        "our-own-secret-value",
        "me:pw",
        "tt\\",
        "hunter3",
    ):
        assert secret not in kept, secret
    first, second = messages(path)[-2:]
    assert first["args"]["Pass-Word"] == "[masked]"  # type: ignore[index]
    assert isinstance(second["args"], str)
    assert len(second["args"]) <= 4097


@pytest.mark.parametrize("kind", ["record", "audit"])
def test_a_full_disk_never_stops_traffic_and_the_loss_is_exact(tmp_path: Path, kind: str) -> None:
    with tmpfs(tmp_path, "64k") as disk:
        path = disk / "f.jsonl"
        filler = disk / "filler"
        with Watched(tmp_path, "stdio", "stdio", f"--{kind}", str(path)) as watched:
            door = watched.connect()
            assert door.is_alive()
            assert wait_until(lambda: b"echo" in path.read_bytes())
            _fill(filler)
            # More than may wait: the rest is lost, and traffic goes on.
            big = b'{"pad":"%b"}' % (b"x" * 1_000_000)
            for _ in range(90):
                door.call("echo", big)
            assert wait_until(lambda: "cannot be written" in watched.stderr)
            filler.unlink()
            subprocess.run(["mount", "-o", "remount,size=300m", str(disk)], check=True)
            assert wait_until(lambda: "could not be written to" in watched.stderr), watched.stderr
            assert door.is_alive()
            watched.end()
        if kind == "audit":
            assert penstock("audit", "verify", str(path)).startswith("intact")
            lost = [entry for entry in entries(path) if entry["kind"] == "lost"]
            kept = len(messages(path))
            assert kept + sum(entry["count"] for entry in lost) == 92
        else:
            lines = [json.loads(line) for line in path.read_bytes().splitlines()]
            numbers = [line["i"] for line in lines if "i" in line]
            lost = [line["lost"] for line in lines if line.get("kind") == "lost"]
            assert lost
            missing = sum(one["count"] for one in lost)
            # Each loss is a line of its own, under the last number that it stands for.
            assert max(numbers) == len(numbers) + missing - len(lost)
            for one in lost:
                assert one["to"] - one["from"] + 1 == one["count"]


@pytest.mark.parametrize("kind", ["record", "audit"])
def test_where_it_must_be_kept_requests_are_refused_while_it_cannot(tmp_path: Path, kind: str) -> None:
    with tmpfs(tmp_path, "64k") as disk:
        path, filler = disk / "f.jsonl", disk / "filler"
        config = write_rules(tmp_path, f"{kind}: {{file: {path}, on_failure: block}}\n")
        with Watched(tmp_path, "stdio", "stdio", "--config", config) as watched:
            door = watched.connect()
            assert door.is_alive()
            _fill(filler)
            assert wait_until(lambda: "error" in door.call("echo", b'{"pad":"%b"}' % (b"x" * 5000)))
            refused = door.call("echo")
            assert refused["error"]["code"] == -32001
            assert refused["error"]["data"]["rule"] == kind
            before = len(watched.upstream.calls_of("echo"))
            assert "error" in door.call("echo")
            assert len(watched.upstream.calls_of("echo")) == before
            filler.unlink()
            assert wait_until(lambda: "result" in door.call("echo"))
            watched.end()


class tmpfs:  # reads as what it is
    """A small disk of its own."""

    def __init__(self, work: Path, size: str) -> None:
        self.place = work / "disk"
        self.place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.place)],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip("a file system of one's own takes root and mount")

    def __enter__(self) -> Path:
        return self.place

    def __exit__(self, *why: object) -> None:
        subprocess.run(["umount", "-l", str(self.place)], check=False)


def _fill(path: Path) -> None:
    """Takes all the room that is left."""
    with path.open("wb", buffering=0) as file:
        for size in (4096, 256, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass


def test_what_must_be_on_disk_first_is_there_before_the_upstream_hears_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    config = write_rules(tmp_path, f"audit: {{file: {path}, sync: record}}\n")
    with Watched(tmp_path, "stdio", "stdio", "--config", config) as watched:
        door = watched.connect()
        for number in range(5):
            door.call("echo", b'{"n":%d}' % number)
            assert b'"n":%d' % number in path.read_bytes()  # not later: it was there before the answer
        watched.end()
    assert penstock("audit", "verify", str(path)).startswith("intact")


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
def test_a_filter_finds_what_jq_finds(audited: Path) -> None:
    for words, expression in [
        (["method:tools/call"], '.method == "tools/call"'),
        (["kind:message", "-verdict:pass"], '.kind == "message" and .verdict != "pass"'),
        (["arg.n>3"], "(.args.n // -1) > 3"),
        (
            ["(tool:ec* or kind:start) not id:1002"],
            '((.name // "" | startswith("ec")) or .kind == "start") and .id != 1002',
        ),
        (
            ["session~^[0-9a-f]+$", "arg.n:1,2"],
            '(.session // "" | test("^[0-9a-f]+$")) and (.args.n == 1 or .args.n == 2)',
        ),
        (["checkpoint"], '(. | tostring | contains("checkpoint"))'),
        (["until:2020-01-01"], "false"),
        (["since:2020-01-01", "from:client"], '.from == "client"'),
    ]:
        found = penstock("audit", "query", str(audited), *words)
        wanted = subprocess.run(
            ["jq", "-c", f"select({expression})"],
            stdin=audited.open("rb"),
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        assert [json.loads(line) for line in found.splitlines()] == [
            json.loads(line) for line in wanted.splitlines()
        ], words
    assert run("audit", "query", str(audited), "verdct:x").returncode == 2
