"""Wrapping what a client has, and getting it back byte for byte."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import tomlkit
import yaml

from gate import SCRIPTED, Gate, request
from home_folder import CODEX, CONTINUE, GOOSE, JSON, OPENCODE, PENSTOCK, ROWS, Home, sha
from penstock import cli
from penstock.clients.table import CLIENTS


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def _undo_id(done: subprocess.CompletedProcess[str]) -> str:
    found = re.search(r"--undo ([0-9a-f]+)", done.stderr)
    assert found, done.stderr
    return found[1]


def test_there_is_a_fixture_for_every_row_of_the_table() -> None:
    assert list(ROWS) == [client.name for client in CLIENTS]


def test_clients_shows_scope_and_state_of_every_client(home: Home) -> None:
    for scope, name, text in ROWS.values():
        home.write(scope, name, text)
    done = home.run("clients", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = {(row["client"], row["server"]): row for row in json.loads(done.stdout)}
    for client, (scope, name, _) in ROWS.items():
        row = rows[client, "files"]
        assert (row["scope"], row["state"]) == (scope, "plain"), client
        assert row["file"].endswith(name)
    assert rows["goose", "memory"]["state"] == "cannot wrap: built in"
    table = home.run("clients").stdout
    assert table.splitlines()[0].split() == ["CLIENT", "SCOPE", "SERVER", "STATE", "FILE"]
    assert "~/.codex/config.toml" in table


def _variants(text: str, name: str) -> dict[str, bytes]:
    out = {
        "as written": text.encode(),
        "CRLF": text.replace("\n", "\r\n").encode(),
        "BOM": b"\xef\xbb\xbf" + text.encode(),
        "no final newline": text.rstrip("\n").encode(),
    }
    if not name.endswith(".yaml"):
        out["tabs"] = text.replace("  ", "\t").encode()
    return out


@pytest.mark.parametrize("variant", ["as written", "CRLF", "BOM", "no final newline", "tabs"])
def test_wrapping_changes_only_command_and_args_and_undo_restores_every_byte(
    home: Home, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, tuple[Path, bytes]] = {}
    for client, (scope, name, text) in ROWS.items():
        data = _variants(text, name).get(variant, text.encode())
        files[client] = home.write(scope, name, data), data
    done = home.run("wrap", "files", "--deny", "^(write|edit)_", "--yes")
    assert done.returncode == 0, done.stderr
    for path, data in files.values():
        after = path.read_bytes()
        assert after.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
        assert after.count(b"\r\n") == (after.count(b"\n") if b"\r\n" in data else 0)
        _only_command_and_args_differ(data, after)
    shown = json.loads(home.run("clients", "--format", "json").stdout)
    states = {row["client"]: row["state"] for row in shown if row["server"] == "files"}
    assert states == dict.fromkeys(ROWS, "wrapped: --deny '^(write|edit)_'")
    # In this process: 110 of them would take minutes.
    monkeypatch.chdir(home.project)
    monkeypatch.setenv("HOME", str(home.root))
    ids = re.findall(r"--undo ([0-9a-f]+)", done.stderr)
    assert len(ids) == len(ROWS)
    for record in ids:
        assert cli.main(["unwrap", "--undo", record]) == 0
    assert {client: path.read_bytes() for client, (path, _) in files.items()} == {
        client: data for client, (_, data) in files.items()
    }


def _only_command_and_args_differ(before: bytes, after: bytes) -> None:
    old = before.decode().splitlines()
    rest = iter(after.decode().splitlines())
    changed = [
        line for line in old if line not in rest and (rest := iter(after.decode().splitlines())) is not None
    ]
    assert 1 <= len(changed) <= 2, changed
    for line in changed:
        assert "npx" in line or "-y" in line, line
    for comment in re.findall(r"//[^\n\r]*|/\*.*?\*/|# [^\n\r]*", before.decode()):
        assert comment in after.decode()


def test_jsonc_with_comments_and_trailing_commas_keeps_both(home: Home) -> None:
    path = home.write("project", ".vscode/mcp.json", JSON % "servers")
    assert home.run("wrap", "files", "--client", "vscode", "--deny", "x", "--yes").returncode == 0
    after = path.read_text()
    assert after == (JSON % "servers").replace('"command": "npx"', '"command": "penstock"').replace(
        '"-y",', '"--deny",\n        "x",\n        "--",\n        "npx",\n        "-y",'
    )


TOMLS = {
    "quoted name": '[mcp_servers."a.b $c"]\ncommand = "npx"\nargs = ["-y", "s"]\n',
    "dotted keys": 'mcp_servers."a.b $c".command = "npx"\nmcp_servers."a.b $c".args = ["-y", "s"]\nx = 1\n',
    "dotted, no args": '[mcp_servers]\n"a.b $c".command = "s"\n"a.b $c".env.A = "1"\n',
    "inline table": '[mcp_servers]\n"a.b $c" = { command = "npx", args = ["-y", "s"], env = { A = "1" } }\n',
    "inline, no args": 'mcp_servers = { "a.b $c" = { command = "s" }, other = { command = "t" } } # end\n',
    "commented array": "[mcp_servers.'a.b $c']\n"
    'command = "npx" # c\nargs = [ # a\n  # b\n  "-y", # c\n  "s" # d\n]\n',
    "no args": '[mcp_servers."a.b $c"]\ncommand = "s"   # mine\n\n[mcp_servers."a.b $c".env]\nA = "1"\n',
    "empty args": '[mcp_servers."a.b $c"]\nargs = []\ncommand = """s"""\n',
}


@pytest.mark.parametrize("text", TOMLS.values(), ids=list(TOMLS))
def test_toml_in_every_spelling(home: Home, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.write("user", ".codex/config.toml", text)
    done = home.run("wrap", "a.b $c", "--client", "codex", "--deny", "^x$", "--yes", "--bare")
    assert done.returncode == 0, done.stderr
    entry = tomllib.loads(path.read_text())["mcp_servers"]["a.b $c"]
    original = tomllib.loads(text)["mcp_servers"]["a.b $c"]
    assert entry["command"] == "penstock"
    assert entry["args"] == ["--deny", "^x$", "--", original["command"], *original.get("args", [])]
    assert entry.get("env") == original.get("env")
    assert tomlkit.dumps(tomlkit.parse(path.read_text())) == path.read_text()  # an editor reads it too
    assert re.findall("#.*", path.read_text()) == re.findall("#.*", text)
    monkeypatch.setenv("HOME", str(home.root))
    assert cli.main(["unwrap", "a.b $c", "--client", "codex", "--yes"]) == 0
    left = tomllib.loads(path.read_text())["mcp_servers"]["a.b $c"]
    assert left.get("args", []) == original.get("args", [])
    assert left["command"] == original["command"]


YAMLS = {
    "flow": "extensions: {files: {type: stdio, cmd: npx, args: [-y, s]}, o: {type: builtin}}\n",
    "flow, no args": "extensions: {files: {type: stdio, cmd: s}}\n",
    "block": GOOSE,
    "block at the key's column": "extensions:\n  files:\n    type: stdio\n"
    '    args:\n    - -y\n    - s\n    cmd: "npx"\n',
    "no args": "extensions:\n  files:\n    cmd: s # mine\n    type: stdio\nx: &a [1]\ny: *a\n",
    "folded texts elsewhere": "note: >\n  a\n  b\nextensions:\n  files: {cmd: s, args: []}\n",
}


@pytest.mark.parametrize("text", YAMLS.values(), ids=list(YAMLS))
def test_yaml_in_every_spelling(home: Home, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.write("user", ".config/goose/config.yaml", text)
    done = home.run("wrap", "files", "--client", "goose", "--deny", "^x: #$", "--yes", "--bare")
    assert done.returncode == 0, done.stderr
    tree, original = yaml.safe_load(path.read_text()), yaml.safe_load(text)
    old, new = original["extensions"]["files"], tree["extensions"]["files"]
    assert new["cmd"] == "penstock"
    assert new["args"] == ["--deny", "^x: #$", "--", old["cmd"], *old.get("args", [])]
    tree["extensions"]["files"] = original["extensions"]["files"] = None
    assert tree == original
    monkeypatch.setenv("HOME", str(home.root))
    assert cli.main(["unwrap", "files", "--client", "goose", "--yes"]) == 0
    left = yaml.safe_load(path.read_text())["extensions"]["files"]
    assert (left["cmd"], left.get("args", [])) == (old["cmd"], old.get("args", []))


def test_an_entry_that_is_an_alias_is_not_changed_behind_anothers_back(home: Home) -> None:
    text = "extensions:\n  one: &one {cmd: s, args: [a]}\n  two: *one\n"
    path = home.write("user", ".config/goose/config.yaml", text)
    done = home.run("wrap", "two", "--client", "goose", "--deny", "x", "--yes")
    assert done.returncode == 1
    assert "more than this entry" in done.stderr
    assert path.read_text() == text


def test_continues_list_and_its_project_files(home: Home) -> None:
    path = home.write("project", ".continue/mcpServers/mine.yaml", CONTINUE)
    other = home.write("project", ".continue/mcpServers/other.json", JSON % "mcpServers")
    assert home.run("wrap", "files", "--client", "continue", "--deny", "x", "--yes").returncode == 0
    servers = yaml.safe_load(path.read_text())["mcpServers"]
    assert servers[1]["args"] == ["--deny", "x", "--", "npx", "-y", "some-server"]
    assert servers[0] == {"name": "first", "command": "first-server"}
    assert '"penstock"' in other.read_text()
    assert sorted(file.name for file in path.parent.iterdir()) == ["mine.yaml", "other.json"]


def test_the_same_wrap_twice_writes_nothing_and_other_options_never_nest(home: Home) -> None:
    paths = [home.write(*ROWS[client]) for client in ("claude-code", "codex", "goose", "opencode", "cursor")]
    words = ("wrap", "files", "--yes", "--deny")
    assert home.run(*words, "x").returncode == 0
    for path in paths:
        os.utime(path, (1, 1))
    again = home.run(*words, "x")
    assert again.returncode == 0
    assert "Already so" in again.stderr
    assert {path.stat().st_mtime for path in paths} == {1}
    assert home.run(*words, "^other$").returncode == 0
    shown = json.loads(home.run("clients", "--format", "json").stdout)
    assert [row["options"] for row in shown if row["server"] == "files"] == [["--deny", "^other$"]] * 5
    for path in paths:
        assert len(re.findall(r"penstock\b", path.read_text())) == 1


def test_the_live_view_calls_a_server_as_its_clients_file_does(home: Home) -> None:
    names = ["files", "a b=c", "0", "${x}", " ", "two\nlines"]
    before = json.dumps({"mcpServers": {name: {"command": "s"} for name in names}})
    path = home.write("project", ".mcp.json", before)
    words = ("wrap", "--client", "claude-code", "--deny", "x", "--dashboard", "auto", "--yes")
    done = home.run(*words)
    assert done.returncode == 0, done.stderr
    after = json.loads(path.read_text())["mcpServers"]
    shown = [after[name]["args"][3] for name in names]
    assert shown == ["auto:files", "auto:a b=c", "auto", "auto", "auto", "auto"]
    assert all(
        after[name]["args"] == ["--deny", "x", "--dashboard", at, "--", "s"]
        for name, at in zip(names, shown, strict=True)
    )
    written = path.read_bytes()
    assert home.run(*words).returncode == 0
    assert home.run("wrap", "files", *words[1:]).returncode == 0
    assert path.read_bytes() == written
    assert home.run("unwrap", "--undo", _undo_id(done)).returncode == 0
    assert path.read_text() == before


def test_an_entry_wrapped_by_hand_is_recognised(home: Home) -> None:
    entries = {
        "a": {"command": "uvx", "args": ["penstock@1.0", "--deny", "x", "--", "s"]},
        "b": {"command": "python3", "args": ["-m", "penstock", "--read-only", "--", "s"]},
        "c": {"command": "pipx", "args": ["run", "penstock", "--deny=y", "--", "s"]},
        "d": {"command": "uvx", "args": ["other-server"]},
        "e": {"command": "/opt/x/penstock", "args": ["s", "t"]},
    }
    home.write("project", ".mcp.json", json.dumps({"mcpServers": entries}))
    rows = json.loads(home.run("clients", "--client", "claude-code", "--format", "json").stdout)
    assert [row["wrapped"] for row in rows] == [True, True, True, False, True]
    assert home.run("wrap", "a", "--client", "claude-code", "--deny", "z", "--yes").returncode == 0
    entry = json.loads((home.project / ".mcp.json").read_text())["mcpServers"]["a"]
    assert entry == {"command": "penstock", "args": ["--deny", "z", "--", "s"]}


def test_the_wrapped_entry_hides_what_is_denied_and_answers_all_else_byte_for_byte(
    home: Home, tmp_path: Path
) -> None:
    entry = {"command": sys.executable, "args": ["-S", str(SCRIPTED)], "env": {"MARK": "here"}}
    path = home.write("project", ".mcp.json", json.dumps({"mcpServers": {"s": entry}}, indent=1))

    def talk() -> list[bytes]:
        now = json.loads(path.read_text())["mcpServers"]["s"]
        with Gate(tmp_path, direct=True, command=[now["command"], *now["args"]], env=now["env"]) as gate:
            gate.handshake()
            asked = [
                request(b"1", "tools/call", b'{"name":"echo","arguments":{}}'),
                request(b"2", "resources/list"),
                request(b'"x"', "ping"),
                request(b"3", "x/env", b'{"name":"MARK"}'),
                request(b"4", "tools/list"),
            ]
            out = []
            for raw in asked:
                gate.say(raw)
                out.append(
                    gate.answer(
                        json.loads(raw, parse_int=str)["id"].encode() if b'"x"' not in raw[:30] else b'"x"'
                    )
                )
            return out

    plain = talk()
    assert (
        home.run(
            "wrap", "s", "--client", "claude-code", "--absolute", "--deny", "^write_", "--yes"
        ).returncode
        == 0
    )
    wrapped = talk()
    assert wrapped[:4] == plain[:4]
    assert b"here" in plain[3]
    assert b"write_file" in plain[4]
    assert b"write_file" not in wrapped[4]


def test_without_a_terminal_and_without_yes_nothing_is_written(home: Home) -> None:
    path = home.write(*ROWS["codex"])
    before = sha(path)
    for words in (("wrap", "files", "--client", "codex", "--deny", "x"), ("wrap", "files", "--deny", "x")):
        done = home.run(*words)
        assert done.returncode == 1
        assert "no terminal" in done.stderr
        assert sha(path) == before
    assert not home.state.exists()


def test_expect_holds_a_write_to_what_was_previewed(home: Home) -> None:
    path = home.write(*ROWS["codex"])
    words = ("wrap", "files", "--client", "codex", "--deny", "x")
    shown = json.loads(home.run(*words, "--preview", "--format", "json").stdout)
    assert shown["files"][0]["lines"][0].startswith("-command")
    path.write_text(path.read_text().replace("o4", "o5"))
    before = sha(path)
    done = home.run(*words, "--expect", shown["token"])
    assert done.returncode == 1
    assert sha(path) == before
    assert not list(home.state.rglob("*.before"))
    path.write_text(path.read_text().replace("o5", "o4"))
    assert home.run(*words, "--expect", shown["token"]).returncode == 0
    assert sha(path) != before


def test_a_preview_shows_changed_lines_only_and_masks_secrets(home: Home) -> None:
    like_a_token = "ghp_" + "a" * 36
    text = json.dumps(
        {"mcpServers": {"s": {"command": "x", "args": ["--token", like_a_token], "env": {"K": like_a_token}}}}
    )
    home.write("project", ".mcp.json", text)
    done = home.run("wrap", "s", "--client", "claude-code", "--deny", "x", "--preview")
    assert done.returncode == 0
    assert like_a_token not in done.stdout + done.stderr
    assert "[masked]" in done.stdout
    assert (home.project / ".mcp.json").read_text() == text


def test_undo_after_a_later_edit_takes_out_only_our_words(home: Home) -> None:
    for client, change in {
        "claude-code": ('"first-server"', '"second-server"'),
        "codex": ('"first-server"', '"second-server"'),
        "goose": ("enabled: true", "enabled: false"),
        "opencode": ('"environment": {', '"enabled": false, "environment": {'),
    }.items():
        scope, name, text = ROWS[client]
        path = home.write(scope, name, text)
        done = home.run("wrap", "files", "--client", client, "--deny", "x", "--yes")
        path.write_text(path.read_text().replace(*change))
        if client == "goose":
            asked = home.run("unwrap", "--undo", _undo_id(done))
            assert asked.returncode == 1, "an edited file is not changed unasked"
        undone = home.run("unwrap", "--undo", _undo_id(done), "--yes")
        assert undone.returncode == 0, undone.stderr
        assert path.read_text() == text.replace(*change)


def test_links_and_modes_stay_and_backups_are_private(home: Home) -> None:
    _, name, text = ROWS["cursor"]
    real = home.write("project", "dotfiles/cursor.json", text)
    real.chmod(0o600)
    link = home.project / name
    link.parent.mkdir()
    link.symlink_to(real)
    assert home.run("wrap", "files", "--client", "cursor", "--deny", "x", "--yes").returncode == 0
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert '"penstock"' in real.read_text()
    assert stat.S_IMODE(home.state.stat().st_mode) == 0o700
    kept = [path for path in home.state.rglob("*") if path.is_file()]
    assert any(path.read_text() == text for path in kept)
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert sorted(p.name for p in home.project.rglob("*") if p.is_file()) == ["cursor.json", "mcp.json"]


def test_hard_links_are_not_parted(home: Home) -> None:
    path = home.write(*ROWS["cursor"])
    os.link(path, path.with_name("other.json"))
    done = home.run("wrap", "files", "--client", "cursor", "--deny", "x", "--yes")
    assert done.returncode == 1
    assert "hard links" in done.stderr
    assert path.read_text() == ROWS["cursor"][2]


def test_two_wraps_at_once_both_come_about(home: Home) -> None:
    servers = {f"s{number}": {"command": "x", "args": ["y"]} for number in range(6)}
    path = home.write("project", ".mcp.json", json.dumps({"mcpServers": servers}, indent=2))
    runs = [
        subprocess.Popen(
            [PENSTOCK, "wrap", name, "--client", "claude-code", "--deny", "z", "--yes"],
            cwd=home.project,
            env=home.environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for name in servers
    ]
    for run in runs:
        _, errors = run.communicate(timeout=60)
        assert run.returncode == 0, errors
    after = json.loads(path.read_text())["mcpServers"]
    assert all(entry["command"] == "penstock" for entry in after.values())


KILL = """
import os, signal, sys
from pathlib import Path
import penstock.commands.wrap, penstock.config.formats.toml_reader, fcntl
from penstock.cli import main

path, words = Path(sys.argv[1]), sys.argv[2:]
old = path.read_bytes()
sys.argv[0] = os.environ["PENSTOCK_TEST_SELF"]
count = limit = 0

def killing(function):
    def call(*words, **named):
        global count
        count += 1
        if count == limit:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*words, **named)
    return call

def run(at):
    global limit
    path.write_bytes(old)
    child = os.fork()
    if not child:
        limit = at
        for name in ("open", "fsync", "replace", "fchmod", "stat", "unlink", "close"):
            setattr(os, name, killing(getattr(os, name)))
        os._exit(main(words))
    return os.waitpid(child, 0)[1]

assert run(-1) == 0
new = path.read_bytes()
assert new != old
seen = set()
for at in range(1, 500):
    status = run(at)
    now = path.read_bytes()
    assert now in (old, new), at
    if status == 0:
        break
    assert os.WIFSIGNALED(status), status
    seen.add(now == new)
print(at, sorted(seen))
"""


def test_killed_at_any_point_the_file_is_the_old_or_the_new_one_whole(home: Home) -> None:
    path = home.write(*ROWS["codex"])
    words = ["wrap", "files", "--client", "codex", "--deny", "x", "--yes"]
    done = subprocess.run(
        [sys.executable, "-c", KILL, str(path), *words],
        cwd=home.project,
        env=home.environment(PENSTOCK_TEST_SELF=str(PENSTOCK)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps, _, outcomes = done.stdout.partition(" ")
    assert int(steps) > 10
    assert outcomes.strip() == "[False, True]", "killed before and after the new file was in place"
    assert [p.name for p in path.parent.iterdir()] == [path.name], "what a killed run left is cleaned up"


def test_user_scope_is_absolute_project_scope_bare_and_a_cache_is_refused(home: Home) -> None:
    user = home.write(*ROWS["claude-code"])
    project = home.write(*ROWS["cursor"])
    assert home.run("wrap", "files", "--deny", "x", "--yes").returncode == 0
    assert f'"command": "{PENSTOCK}"' in user.read_text()
    assert '"command": "penstock"' in project.read_text()
    link = home.root / ".local" / "bin" / "penstock"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(PENSTOCK)
    assert home.run("wrap", "files", "--client", "claude-code", "--deny", "x", "--yes").returncode == 0
    assert f'"command": "{link}"' in user.read_text()
    cached = home.root / ".cache" / "uv" / "archive-v0" / "abc" / "bin" / "penstock"
    cached.parent.mkdir(parents=True)
    shutil.copy(PENSTOCK, cached)
    before = sha(user)
    done = home.run("wrap", "files", "--client", "claude-code", "--deny", "y", "--yes", penstock=cached)
    assert done.returncode == 1
    assert "uv tool install penstock" in done.stderr
    assert sha(user) == before


@pytest.mark.parametrize(
    ("client", "text", "line"),
    [
        ("cursor", '{"mcpServers": {\n"files": {"command": "a"},\n"files": {"command": "b"}}}', 3),
        ("cursor", '{"mcpServers": {\n"files": {"command": }}}', 2),
        ("codex", '[mcp_servers.files]\ncommand = "a"\ncommand = "b"\n', 3),
        ("goose", "extensions:\n  files: {cmd: a}\n  files: {cmd: b}\n", 3),
        ("goose", "extensions:\n  files: {cmd: a\n", 3),
    ],
)
def test_a_repeated_key_or_bad_syntax_is_told_with_its_line(
    home: Home, client: str, text: str, line: int
) -> None:
    scope, name, _ = ROWS[client]
    path = home.write(scope, name, text)
    for words in (
        ("wrap", "files", "--client", client, "--deny", "x", "--yes"),
        ("clients", "--client", client),
    ):
        done = home.run(*words)
        assert done.returncode == 1
        assert f"{path}:{line}: " in done.stderr, done.stderr
        assert path.read_text() == text


def test_the_three_scopes_of_claude_code_are_wrapped_singly(home: Home) -> None:
    entry = {"command": "s", "args": ["a"]}
    user = home.write(
        "user",
        ".claude.json",
        json.dumps(
            {
                "mcpServers": {"x": entry},
                "projects": {str(home.project): {"mcpServers": {"x": entry}}, "/else": {}},
            }
        ),
    )
    project = home.write("project", ".mcp.json", json.dumps({"mcpServers": {"x": entry}}))

    def wrapped() -> list[bool]:
        tree = json.loads(user.read_text())
        local = tree["projects"][str(home.project)]["mcpServers"]["x"]
        shared = json.loads(project.read_text())["mcpServers"]["x"]
        return ["penstock" in one["command"] for one in (tree["mcpServers"]["x"], local, shared)]

    for number, scope in enumerate(("user", "local", "project")):
        done = home.run("wrap", "x", "--client", "claude-code", "--scope", scope, "--deny", "y", "--yes")
        assert done.returncode == 0, done.stderr
        assert wrapped() == [place <= number for place in range(3)]


def test_of_opencodes_two_files_the_one_that_wins_is_edited(home: Home) -> None:
    plain = home.write("user", ".config/opencode/opencode.json", OPENCODE)
    winner = home.write("user", ".config/opencode/opencode.jsonc", OPENCODE.replace("some-server", "winner"))
    rows = json.loads(home.run("clients", "--client", "opencode", "--format", "json").stdout)
    assert [row["state"].partition(":")[0] for row in rows] == ["not used", "plain"]
    assert home.run("wrap", "files", "--client", "opencode", "--deny", "x", "--yes").returncode == 0
    assert plain.read_text() == OPENCODE
    assert '"--deny", "x", "--", "npx", "-y", "winner"]' in winner.read_text()


def test_clients_tells_of_a_wrap_that_a_client_wrote_away(home: Home) -> None:
    path = home.write(*ROWS["claude-code"])
    old = path.read_bytes()
    assert home.run("wrap", "files", "--client", "claude-code", "--deny", "x", "--yes").returncode == 0
    path.write_bytes(old)
    assert "was wrapped, now gone" in home.run("clients").stdout
    assert home.run("wrap", "files", "--client", "claude-code", "--deny", "x", "--yes").returncode == 0
    assert home.run("unwrap", "files", "--client", "claude-code", "--yes").returncode == 0
    assert "was wrapped" not in home.run("clients").stdout


def test_a_folder_for_another_home_of_a_client_is_looked_into(home: Home) -> None:
    home.write("user", "elsewhere/config.toml", CODEX)
    home.write("user", ".codex/config.toml", CODEX)
    rows = json.loads(
        home.run(
            "clients", "--client", "codex", "--format", "json", CODEX_HOME=str(home.root / "elsewhere")
        ).stdout
    )
    assert {Path(row["file"]).parent.name for row in rows} == {"elsewhere"}


def test_a_large_history_is_no_obstacle(home: Home) -> None:
    big = {"history": [{"n": number, "text": "x" * 50} for number in range(5_000)]}
    big["mcpServers"] = {"files": {"command": "npx"}}
    path = home.write("user", ".claude.json", json.dumps(big, indent=2))
    before, began = sha(path), time.monotonic()
    done = home.run("wrap", "files", "--client", "claude-code", "--deny", "x", "--yes")
    assert done.returncode == 0, done.stderr
    assert home.run("unwrap", "--undo").returncode == 0
    assert sha(path) == before
    assert time.monotonic() - began < 60


def test_unwrapping_can_be_previewed_and_held_to_the_preview(home: Home) -> None:
    path = home.write(*ROWS["codex"])
    assert home.run("wrap", "files", "--client", "codex", "--deny", "x", "--yes").returncode == 0
    words = ("unwrap", "files", "--client", "codex")
    shown = json.loads(home.run(*words, "--preview", "--format", "json").stdout)
    wrapped = path.read_text()
    path.write_text(wrapped + "# later\n")
    assert home.run(*words, "--expect", shown["token"]).returncode == 1
    path.write_text(wrapped)
    assert home.run(*words, "--expect", shown["token"]).returncode == 0
    assert tomllib.loads(path.read_text()) == tomllib.loads(CODEX)
    missing = home.run("unwrap", "--undo", "ffffff")
    assert missing.returncode == 1
    assert "There is no change called ffffff" in missing.stderr
