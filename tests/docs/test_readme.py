"""Every command of README.md is one, every file in it is right, and what is bundled runs as it says."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

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
