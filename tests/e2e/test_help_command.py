"""`penstock --help`, `penstock help` and `penstock help VERB`: where a new user looks first."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.commands.verbs import VERBS, load


def penstock(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("help",)], ids=" ".join)
def test_help_shows_commands_first_then_options_in_groups_then_examples(words: tuple[str, ...]) -> None:
    shown = penstock(*words)
    assert (shown.returncode, shown.stderr) == (0, "")
    text = shown.stdout
    places = [text.index(f"penstock {name} ") for name in VERBS]
    groups = ("the upstream:", "which tools:", "how long to wait:", "where clients connect:", "what passes:")
    places += [text.index(group) for group in groups]
    assert max(places[: len(VERBS)]) < min(places[len(VERBS) :])
    assert text.index("examples:") > max(places)
    assert text[text.index("examples:") :].count("  penstock ") == 3
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_command_is_what_its_own_help_option_says(verb: str) -> None:
    shown, own = penstock("help", verb), penstock(verb, "--help")
    assert shown.returncode == own.returncode == 0
    assert shown.stdout == own.stdout
    assert shown.stdout.startswith(f"usage: penstock {verb}")


def test_help_of_a_command_that_does_not_exist_names_those_that_do() -> None:
    shown = penstock("help", "frobnicate")
    assert shown.returncode == 2
    assert "No command is called frobnicate" in shown.stderr
    assert "tools, watch, show" in shown.stderr


def test_a_mistyped_option_is_met_with_the_one_that_was_meant() -> None:
    shown = penstock("--denny", "x", "--", "server")
    assert shown.returncode == 2
    assert "Did you mean --deny?" in shown.stderr


def test_a_mistyped_command_is_met_with_the_one_that_was_meant() -> None:
    shown = penstock("shwo", "some.jsonl")
    assert shown.returncode == 1
    assert shown.stderr.endswith("Command not found: shwo\nDid you mean penstock show?\n")
    assert "Did you mean" not in penstock("frobnicate", "some.jsonl").stderr
    assert "Did you mean" not in penstock("--", "/nowhere/shwo").stderr


@pytest.mark.parametrize("words", [["tools"], ["lock", "FILE"], ["verify", "FILE"]], ids=" ".join)
def test_a_command_without_its_upstream_shows_its_own_usage(words: list[str], tmp_path: Path) -> None:
    recording = tmp_path / "empty.jsonl"
    recording.touch()
    shown = penstock(*[str(recording) if word == "FILE" else word for word in words])
    assert shown.returncode == 2
    assert f"\nUsage: penstock {words[0]} " in shown.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_usage_names_every_option_or_says_that_there_are_more(verb: str) -> None:
    made = load(verb).parser()
    usage = str(made.usage)
    if "[OPTIONS]" in usage:
        return
    for action in made._actions:
        names = [name for name in action.option_strings if name.startswith("--") and name != "--help"]
        assert not names or any(name in usage for name in names), usage


WRITES_NO_RESULT = {"baseline", "completion", "export", "mask", "replay", "token"}


@pytest.mark.parametrize("verb", [name for name in VERBS if name not in WRITES_NO_RESULT])
def test_every_command_that_prints_a_result_has_the_two_forms(verb: str) -> None:
    shown = penstock(verb, "--help")
    assert re.search(r"--format \{table,json[,}]", shown.stdout), shown.stdout


def test_commands_stand_together_by_what_people_want() -> None:
    groups = [*dict.fromkeys(verb.group for verb in VERBS.values())]
    assert groups == ["look", "decide", "keep", "install", "learn", "operate"]
    text = penstock("--help").stdout
    places = [text.index(f"\n{group}:\n") for group in ["run", *groups]]
    assert places == sorted(places)


@pytest.mark.parametrize("text", ["1.5", "0.5ms", "0.0001s", "1.2345s"])
def test_times_are_whole_milliseconds(text: str) -> None:
    shown = penstock("--stdio", "--connect-timeout", text, "--", "server")
    assert shown.returncode == 1
    assert f'Invalid --connect-timeout: "{text}"\nIt must be a whole number of milliseconds' in shown.stderr


def test_times_in_a_file_are_whole_milliseconds_too(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "c.yaml"
    file.write_text("upstream: {command: [server]}\ntimeouts: {tools: 0.5ms}\n")
    shown = penstock("check", str(file))
    assert shown.returncode == 1
    assert "c.yaml:2" in shown.stderr
    assert "whole number of milliseconds" in shown.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [("10 elephants", "It must be a size like"), ("1kB", "between 64 KiB and"), ("9GB", "and 512 MiB")],
)
def test_a_size_that_is_none_is_refused_with_the_shape_it_must_have(text: str, why: str) -> None:
    shown = penstock("--stdio", "--max-message", text, "--", "server")
    assert shown.returncode == 1
    assert f'Invalid --max-message: "{text}"\n' in shown.stderr
    assert why in shown.stderr
