"""Every command of README.md is one, every file in it is right, and what is bundled runs as it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gate import SAMPLE, Gate
from penstock.arguments import proxy_parser
from penstock.cli import parse_words
from penstock.commands.filtered import parse_with_filter
from penstock.commands.verbs import VERBS, load
from penstock.observe.filter_words import compile_filter
from watched import PENSTOCK

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "README.md").read_text()


def _commands() -> list[list[str]]:
    """The words of each command of ours, with what a shell would make of them."""
    lines = [
        line
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", TEXT, re.DOTALL)
        for line in block.splitlines()
    ]
    lines += re.findall(r"`([^`\n]*\bpenstock [^`\n]*)`", TEXT)
    found = []
    for line in lines:
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if "penstock" in words:
            after = words[words.index("penstock") + 1 :]
            found.append([word for word in after if word != "&"])
    return found


@pytest.mark.parametrize("words", _commands(), ids=" ".join)
def test_every_command_is_one(words: list[str]) -> None:
    if not words or words[0] not in VERBS:
        parse_words(proxy_parser(), words)
        return
    verb, parser = VERBS[words[0]], load(words[0]).parser()
    if verb.takes_filter:
        options = parse_with_filter(parser, words[1:])
        compile_filter(" ".join(word for word in options.words if not word.endswith(".jsonl")))
    elif verb.takes_file:
        parse_words(parser, words[2:])
    elif words[0] == "tools":
        parse_words(parser, words[1:])
    else:
        parser.parse_args(words[1:])


def test_there_are_commands_to_look_at() -> None:
    verbs = {words[0] for words in _commands() if words and words[0] in VERBS}
    assert {"wrap", "watch", "show", "check", "backtest", "tools"} <= verbs


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL))
def test_every_file_is_right(tmp_path: Path, block: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(block)
    done = subprocess.run([*PENSTOCK, "check", str(file)], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_make_has_every_target_that_is_named() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake ([a-z-]+)", TEXT)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


class Follower:
    """Somebody who types what the page says, with ten servers in two clients and nothing else at home."""

    def __init__(self, folder: Path) -> None:
        self.home, self.here, programs = folder / "home", folder / "here", folder / "programs"
        for made in (self.home / ".cursor", self.here, programs):
            made.mkdir(parents=True)
        # In the place of the registry: whatever is asked for, the bundled server comes.
        npx = programs / "npx"
        npx.write_text(f"#!/bin/sh\nexec {sys.executable} {SAMPLE}\n")
        npx.chmod(0o755)
        (self.here / "my_server.py").write_bytes(SAMPLE.read_bytes())
        servers = {f"server{n}": {"command": "npx", "args": ["-y", f"published-{n}"]} for n in range(4)}
        servers["files"] = {"command": "npx", "args": ["-y", "some-server"]}
        self.files = [self.home / ".claude.json", self.home / ".cursor" / "mcp.json"]
        for file in self.files:
            file.write_text(json.dumps({"mcpServers": servers}, indent=2))
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        self.env = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb"}
        self.env["XDG_RUNTIME_DIR"] = str(self.home)

    def type(self, line: str, *more: str, codes: tuple[int, ...] = (0,)) -> str:
        """Types a line of the page; it must work."""
        words = ["bash", "-c", " ".join([line, *more])]
        done = subprocess.run(
            words, cwd=self.here, env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode in codes, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def work(self, folder: Path, words: list[str]) -> list[str]:
        """An agent's session with what a client starts: the tools it sees."""
        folder.mkdir()
        with Gate(folder, direct=True, command=words, env=self.env, cwd=self.here) as gate:
            gate.handshake()
            names = [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]]
            denied = gate.ask("tools/call", b'{"name":"delete_file","arguments":{"path":"x"}}')
            assert ("error" in denied) == ("delete_file" not in names)
            assert "result" in gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"hi"}}')
            gate.end()
        return names


def _line(start: str) -> str:
    """The one line of the page's commands that begins so, without its remark."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
    (found,) = [line for line in lines if line.startswith(start)]
    return found.partition("  #")[0].rstrip()


def _block_of(name: str) -> str:
    (found,) = [b for b in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL) if b.startswith(f"# {name}")]
    return str(found)


def test_the_first_screen_can_be_followed(tmp_path: Path) -> None:
    reader = Follower(tmp_path)
    before = [file.read_bytes() for file in reader.files]
    assert reader.type(_line("penstock clients")).count(" plain ") == 10
    reader.type(_line("penstock wrap --all"), "--yes")
    assert reader.type("penstock clients").count(" wrapped: ") == 10
    for number, file in enumerate(reader.files):
        entry = json.loads(file.read_text())["mcpServers"]["files"]
        names = reader.work(tmp_path / f"agent{number}", [entry["command"], *entry["args"]])
        assert "read_file" in names
        assert not {"write_file", "delete_file"} & set(names)
    assert "delete_file" in reader.type("penstock show ~/agent/ verdict:deny")
    reader.type(_line("penstock unwrap --all"), "--yes")
    assert [file.read_bytes() for file in reader.files] == before


def test_see_decide_and_combine_can_be_followed(tmp_path: Path) -> None:
    reader = Follower(tmp_path)
    for name in ("rules.yaml", "servers.yaml"):
        (reader.here / name).write_text(_block_of(name))
    reader.work(tmp_path / "seen", shlex.split(_line("penstock --dashboard auto")))
    assert reader.type(_line("penstock show today.jsonl")) is not None
    assert "no-keys-in-arguments" in reader.type(_line("penstock check rules.yaml"))
    assert "0 newly blocked" in reader.type(_line("penstock backtest today.jsonl"))
    assert "echo" in reader.work(tmp_path / "ruled", shlex.split(_line("penstock --config rules.yaml")))
    combined = shlex.split(_line("penstock --config servers.yaml").replace("--listen 8808", "--stdio"))
    assert "echo" in reader.work(tmp_path / "several", combined)


def test_the_live_view_opens_over_what_runs(tmp_path: Path) -> None:
    reader = Follower(tmp_path)
    words = [*shlex.split(_line("penstock watch --web")), "127.0.0.1:0", "--no-browser"]
    hub = subprocess.Popen(
        words, cwd=reader.here, env=reader.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert hub.stdout is not None
        said = hub.stdout.readline().decode()
        assert "http://127.0.0.1:" in said, said
    finally:
        hub.terminate()
        assert hub.wait(20) in (0, -15)
        hub.stdout.close()
