"""What holds for every command: how it fails, what it prints where, and how it ends.

The tables have a row for each command. One that is new in `commands/verbs.py` fails here until it has one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet import shared
from gate import SAMPLE, Gate, wait_until
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


REFUSED: list[tuple[str, int, str]] = [
    ("why RECORDING five", 2, "it must be a whole number, not 'five'"),
    ("suggest RECORDING --min-support -1", 2, "it must be a whole number, not '-1'"),
    ("suggest RECORDING --max-refused 1.5", 2, "it must be a whole number, not '1.5'"),
    ("token old somebody", 2, "Argument new: invalid choice: 'old'"),
    ("watch RECORDING --lines --users CONFIG", 2, "--users goes with --web"),
    ("watch RECORDING --lines --no-browser", 2, "--no-browser goes with --web"),
    ("audit query RECORDING", 1, "This is no audit"),
    ("audit head RECORDING", 1, "This is no audit"),
    ("audit head NOTHING", 1, "There is nothing in"),
    ("audit query nowhere", 1, "Cannot read the audit: nowhere\n"),
    ("audit verify nowhere", 1, "Cannot read the audit: nowhere\n"),
    ("rules explain CONFIG", 1, "There is no message on stdin"),
    ("status nowhere", 1, 'Invalid URL: "nowhere"'),
    ("status http://127.0.0.1:9", 1, "Cannot reach Penstock at http://127.0.0.1:9\nConnection refused"),
    ("clients --file nowhere", 1, "Cannot read the client's file: nowhere\nNo such file or directory"),
    ("wrap --all --file .", 1, "Cannot read the client's file: .\nIt is no file"),
    ("doctor --dir nowhere", 1, "There is no folder nowhere"),
    ("unwrap nobody", 1, "No server is called nobody there\npenstock clients lists them"),
    ("unwrap --undo", 1, "There is nothing to undo\n"),
    ("unwrap --undo abcd", 1, "There is no change called abcd\nPenstock has changed nothing here yet"),
    ("export RECORDING --to har CONFIG", 1, "It is there already; name a new file"),
    ("mask RECORDING CONFIG", 1, "It is there already; name a new file"),
    ("--otel collector UPSTREAM", 1, 'Invalid URL: "collector"'),
]
"""Command lines that cannot be carried out, the exit code, and what must be said."""


@pytest.mark.parametrize(("line", "code", "said"), REFUSED, ids=lambda one: str(one)[:40])
def test_what_cannot_be_done_is_said_in_a_headline_and_a_line_that_helps(
    line: str, code: int, said: str, ground: Ground
) -> None:
    (ground.work / "nothing").touch()
    words = [str(ground.work / "nothing") if word == "NOTHING" else word for word in line.split()]
    done = ground.run(ground.filled(words))
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert said in done.stderr
    _is_told(done.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
@pytest.mark.parametrize("line", ["export FIFO --to har OUT", "mask FIFO OUT"])
def test_a_file_that_is_not_finished_is_not_left_behind(
    line: str, number: signal.Signals, ground: Ground, tmp_path: Path
) -> None:
    fifo, out = tmp_path / "fifo", tmp_path / "out"
    os.mkfifo(fifo)
    words = [{"FIFO": str(fifo), "OUT": str(out)}.get(word, word) for word in line.split()]
    process = subprocess.Popen([sys.executable, "-m", "penstock", *words], stderr=subprocess.PIPE)
    with fifo.open("wb") as end:  # which stays open, so that there is always more to come
        end.write(ground.path("RECORDING").read_bytes())
        end.flush()
        assert wait_until(out.exists)
        process.send_signal(number)
        assert process.wait(30) == -number
    assert not out.exists()
    assert process.stderr is not None
    assert process.stderr.read() == b""


@pytest.mark.parametrize("line", ["verify RECORDING --calls none UPSTREAM", "replay RECORDING --stdio"])
def test_a_long_recording_is_told_of_while_it_is_read(line: str, ground: Ground, tmp_path: Path) -> None:
    long = tmp_path / "long.jsonl"
    header, *messages = ground.path("RECORDING").read_bytes().splitlines(keepends=True)
    long.write_bytes(header + b"".join(messages) * 3000)
    words = [str(long) if word == "RECORDING" else word for word in line.split()]
    done = ground.run(ground.filled(words), PENSTOCK_PROGRESS="json")
    assert '{"progress":"messages read","count":' in done.stderr


def test_every_answer_that_is_waited_for_is_told_of(ground: Ground, tmp_path: Path) -> None:
    """Each of them may take long, so a few count as well."""
    upstream = tmp_path / "slow.py"
    upstream.write_text(
        "import json, sys, time\n"
        "for line in sys.stdin:\n"
        "    time.sleep(0.3)\n"
        "    if 'id' in (asked := json.loads(line)):\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {}}), flush=True)\n"
    )
    words = ["verify", "RECORDING", "--calls", "all", "--", sys.executable, str(upstream)]
    done = ground.run(ground.filled(words), PENSTOCK_PROGRESS="json")
    assert '{"progress":"messages","count":' in done.stderr, done.stderr


@pytest.mark.parametrize("line", ["tools", "lock OUT --yes"])
def test_people_at_a_terminal_are_told_whom_a_command_waits_for(
    line: str, ground: Ground, tmp_path: Path
) -> None:
    may_answer = tmp_path / "go"
    late = f"while ! test -e {may_answer}; do sleep 0.1; done; exec {sys.executable} {SAMPLE}"
    words = ground.filled([*line.split(), "--", "sh", "-c", late])
    end, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    said = b""
    while b"Waiting for the upstream to answer; --start-timeout says for how long." not in said:
        said += os.read(end, 4096)
    may_answer.touch()
    assert process.wait(60) == 0
    os.close(end)
