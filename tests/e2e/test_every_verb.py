"""What holds for every command: how it fails, what it prints where, and how it ends.

The tables have a row for each command. One that is new in `commands/verbs.py` fails here until it has one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet import shared
from gate import SAMPLE, Gate
from home_folder import Home
from penstock import cli
from penstock.commands.verbs import VERBS, load
from redis_server import PROGRAM, RedisServer
from sessions import START, RecordingMaker
from several import Several, member_entry

UPSTREAM = ["--", sys.executable, str(SAMPLE)]

GOOD: dict[str, str] = {
    "tools": "tools UPSTREAM",
    "watch": "watch RECORDING --lines",
    "show": "show RECORDING",
    "stats": "stats RECORDING",
    "why": "why RECORDING 1",
    "check": "check CONFIG",
    "rules": "rules test CONFIG",
    "backtest": "backtest RECORDING --config CONFIG",
    "lock": "lock LOCK --check UPSTREAM",
    "audit": "audit verify AUDIT",
    "replay": "replay RECORDING --stdio",
    "verify": "verify RECORDING --calls none UPSTREAM",
    "export": "export RECORDING --to har OUT",
    "mask": "mask RECORDING OUT",
    "clients": "clients",
    "wrap": "wrap files --read-only --preview",
    "unwrap": "unwrap --all --preview",
    "doctor": "doctor UPSTREAM",
    "completion": "completion bash",
    "baseline": "baseline RECORDING --out OUT",
    "anomalies": "anomalies RECORDING --baseline BASELINE",
    "suggest": "suggest RECORDING",
    "variants": "variants RECORDING --config CONFIG",
    "status": "status URL",
    "fleet": "fleet --config FLEET",
    "token": "token new somebody",
}
"""A run of each command that does what it is for."""

LINES = {"show", "watch", "anomalies"}
"""Commands that print a JSON line for each thing they find, as they find it."""

CODES = {"doctor": {0, 10, 11, 12}, "status": {0, 3, 4}}
"""What a run that worked may end with, where that is not 0, or 3 for something that was found."""

FILES = ("RECORDING", "CONFIG", "LOCK", "AUDIT", "BASELINE", "FLEET")

CONFIG = """\
interceptor:
  rules:
    - id: no-keys
      conditions: [{method_equals: tools/call}]
      actions: [{block: "No"}]
tests:
  - name: a call is blocked
    message: {id: 1, method: tools/call, params: {name: echo}}
    expect: {verdict: block}
variants:
  sets:
    - {name: now, share: 50}
    - {name: other, share: 50}
"""


class Ground:
    """Files of every kind that a command reads, and whatever must run for it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.home = Home(work)
        self.home.write("user", ".claude.json", '{"mcpServers": {"files": {"command": "npx"}}}\n')
        self.words: dict[str, list[str]] = {"UPSTREAM": UPSTREAM}
        for name in (*FILES, "OUT"):
            self.words[name] = [str(work / name.lower())]
        self._count = 0

    def path(self, name: str) -> Path:
        return Path(self.words[name][0])

    def make(self) -> None:
        with RecordingMaker(self.path("RECORDING")) as made:
            for number in range(12):
                made.call(f"s{number}", START + number * 10, "echo", {"text": f"word{number}"})
        self.path("CONFIG").write_text(CONFIG)
        with Gate(
            self.work, "--audit", str(self.path("AUDIT")), command=[sys.executable, str(SAMPLE)]
        ) as gate:
            gate.handshake()
            gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"hi"}}')
            gate.end()
        for words in (["lock", "LOCK", "--yes", "UPSTREAM"], ["baseline", "RECORDING", "--out", "BASELINE"]):
            done = self.run(self.filled(words))
            assert done.returncode == 0, done.stderr

    def filled(self, words: list[str]) -> list[str]:
        """The words with everything in its place; OUT is a new name each time."""
        self._count += 1
        out = {**self.words, "OUT": [str(self.work / f"out{self._count}")]}
        return [part for word in words for part in out.get(word, [word])]

    def run(self, words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
        penstock = [sys.executable, "-m", "penstock", *words]
        return subprocess.run(
            penstock,
            stdin=subprocess.DEVNULL,
            cwd=self.home.project,
            env=self.home.environment(**env),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    made = Ground(tmp_path_factory.mktemp("ground"))
    made.make()
    (made.work / "several").mkdir()
    several = Several(made.work / "several")
    several.add_entry("one", member_entry("one", "look")).add_entry("two", member_entry("two", "see"))
    redis = None if PROGRAM is None else RedisServer(made.work)
    if redis is not None:
        made.path("FLEET").write_text(json.dumps({"shared": shared(redis.url)}))
    try:
        with several.listening() as port:
            made.words["URL"] = [f"http://127.0.0.1:{port}"]
            yield made
    finally:
        if redis is not None:
            redis.__exit__()


def _words(verb: str) -> list[str]:
    if verb == "fleet" and PROGRAM is None:
        pytest.skip("there is no redis-server here")
    return GOOD[verb].split()


def test_every_command_has_its_row() -> None:
    assert set(GOOD) == set(VERBS)


def _is_told(stderr: str) -> None:
    """A fault is told in a headline and at least one line that helps, and never as a traceback."""
    lines = stderr.splitlines()
    assert any(line.startswith("Error: ") and len(line) > 10 for line in lines), stderr
    assert lines[-1].strip(), stderr
    assert not lines[-1].startswith("Error: "), stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_makes_no_sense(
    verb: str, ground: Ground, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ground.filled(_words(verb))
    place = words.index("--") if "--" in words else len(words)
    assert cli.main([*words[:place], "--frobnicate", *words[place:]]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert "--frobnicate" in said.err
    _is_told(said.err)


BAD = [(verb, name) for verb, words in GOOD.items() for name in words.split() if name in FILES]


@pytest.mark.parametrize("fault", ["missing", "empty", "folder", "noise"])
@pytest.mark.parametrize(("verb", "name"), BAD, ids=lambda one: str(one).lower())
def test_a_file_that_cannot_be_used_is_told(
    verb: str, name: str, fault: str, ground: Ground, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = _words(verb)
    bad = tmp_path / "bad"
    if fault == "empty":
        bad.touch()
    elif fault == "noise":
        bad.write_bytes(b"\x00\xff{]\n" * 20)
    elif fault == "folder":
        bad.mkdir()
    code = cli.main(ground.filled([str(bad) if word == name else word for word in words]))
    said = capfd.readouterr()
    assert "Traceback" not in said.err
    if (verb, fault, code) == ("audit", "noise", 3):
        assert "NOT intact" in said.out
        return
    if code == 0 or (fault == "empty" and code == 3):
        # Nothing was recorded yet: that is no fault, and neither is an empty configuration.
        assert (fault, name in ("RECORDING", "AUDIT", "CONFIG")) == ("empty", True), said.err + said.out
        return
    assert code == 1, said.err
    if verb != "check":  # whose result the faults are
        _is_told(said.err)
        assert said.out == ""
    assert fault == "empty" or "bad" in said.err
    assert not list(ground.work.glob(f"out{ground._count}")), "half a file is left behind"


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_that_works_prints_plain_text(verb: str, ground: Ground) -> None:
    done = ground.run(ground.filled(_words(verb)), NO_COLOR="1", TERM="xterm-256color")
    assert done.returncode in CODES.get(verb, {0, 3}), done.stderr
    assert "Traceback" not in done.stderr
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", done.stdout + done.stderr), (
        "no terminal, no control characters"
    )


TAKE_FOLDERS = ["show", "stats", "backtest", "baseline", "anomalies", "suggest", "variants"]
"""Commands that read many recordings; `wrap --record FOLDER/` makes a file for each run."""


@pytest.mark.parametrize("verb", TAKE_FOLDERS)
def test_a_folder_stands_for_the_recordings_in_it(verb: str, ground: Ground, tmp_path: Path) -> None:
    alone, folder = tmp_path / "alone.jsonl", tmp_path / "folder"
    folder.mkdir()
    for path in (alone, folder / "one.jsonl"):
        path.write_bytes(ground.path("RECORDING").read_bytes())
    (folder / "remarks.txt").write_text("no recording")
    done = [
        ground.run(ground.filled([str(path) if word == "RECORDING" else word for word in _words(verb)]))
        for path in (alone, folder)
    ]
    assert done[0].returncode in (0, 3), done[0].stderr
    assert done[1].returncode == done[0].returncode, done[1].stderr
    assert _without_numbers(done[1].stdout) == _without_numbers(done[0].stdout)


def _without_numbers(text: str) -> str:
    return re.sub(r"out\d+", "out", text)


def test_a_backtest_of_several_files_names_the_file(ground: Ground, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"r{number}.jsonl").write_bytes(ground.path("RECORDING").read_bytes())
    done = ground.run(ground.filled(["backtest", str(tmp_path), "--config", "CONFIG"]))
    assert done.returncode == 3, done.stderr
    assert "24 newly blocked" in done.stdout
    assert [line.split("/")[-1] for line in done.stdout.splitlines()[1:]] == ["r0.jsonl", "r1.jsonl"]
    shown = ground.run(["show", str(tmp_path), "kind:request"])
    assert [line for line in shown.stdout.splitlines() if line.endswith(".jsonl:")] == [
        f"{tmp_path}/r{number}.jsonl:" for number in range(2)
    ]


PRINTS_JSON = [
    verb
    for verb in VERBS
    if any("--format" in action.option_strings for action in load(verb).parser()._actions)
]


@pytest.mark.parametrize("verb", PRINTS_JSON)
def test_json_is_alone_on_stdout_and_the_same_again(verb: str, ground: Ground) -> None:
    words = _words(verb)
    place = words.index("UPSTREAM") if "UPSTREAM" in words else len(words)
    words[place:place] = ["--format", "json"]
    one, two = ground.run(ground.filled(words)), ground.run(ground.filled(words))
    assert one.returncode in CODES.get(verb, {0, 3}), one.stderr
    if verb in LINES:
        found = [[json.loads(line) for line in done.stdout.splitlines()] for done in (one, two)]
    else:
        found = [json.loads(done.stdout) for done in (one, two)]
    assert _shape(found[0]) == _shape(found[1])


def _shape(value: object) -> object:
    """Names and kinds, without what two runs may differ in: times and process ids."""
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return type(value).__name__


@pytest.mark.parametrize("verb", VERBS)
def test_whoever_stops_reading_gets_no_traceback(verb: str, ground: Ground) -> None:
    words = [sys.executable, "-m", "penstock", *ground.filled(_words(verb))]
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        cwd=ground.home.project,
        env=ground.home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=120)
    assert b"Traceback" not in errors
    assert b"Exception ignored" not in errors
    assert process.returncode in {*CODES.get(verb, {0, 3}), 1}


MEANT: dict[str, set[str]] = {
    "--config": {"FILE"},
    "--out": {"FILE"},
    "--baseline": {"FILE"},
    "--lock": {"FILE"},
    "--deny": {"P[,P...]"},
    "--allow": {"P[,P...]"},
    "--listen": {"[HOST:]PORT"},
    "--record": {"PATH"},
    "--audit": {"PATH"},
    "--max-tokens": {"N"},
}
"""Options that several commands have, and what each of them takes everywhere."""


@pytest.mark.parametrize("verb", VERBS)
def test_an_option_takes_the_same_in_every_command(verb: str) -> None:
    for action in load(verb).parser()._actions:
        for name in action.option_strings:
            if name in MEANT:
                assert {action.metavar} <= MEANT[name], f"{verb} {name} {action.metavar}"
