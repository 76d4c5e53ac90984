"""Reading words of which some are a filter."""

from __future__ import annotations

import argparse
import os

from penstock.errors import ConfigError

_RECORDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def parse_with_filter(made: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parses words of which some are a filter: a term like -rule:x is no option."""
    known = {name for action in made._actions for name in action.option_strings}
    options, terms = [], []
    for word in words:
        if word.startswith("-") and len(word) > 1 and word.split("=")[0] not in known:
            if word.startswith("--"):
                options.append(word)  # argparse complains, with a hint
            else:
                terms.append(word)
        else:
            options.append(word)
    parsed, more = made.parse_known_intermixed_args(options)
    if more:
        made.error(f"unrecognized arguments: {' '.join(more)}")
    parsed.words = _in_order(words, [*parsed.words, *terms])
    return parsed


def _in_order(words: list[str], terms: list[str]) -> list[str]:
    left = list(terms)
    out = []
    for word in words:
        if word in left:
            left.remove(word)
            out.append(word)
    return out


def split_files(words: list[str]) -> tuple[list[str], list[str]]:
    """Files, and the words of a filter: the first word that is no file begins them.

    A folder stands for the files in it, in the order in which they were last written. Raises ConfigError."""
    count = 1
    while count < len(words) and os.path.exists(words[count]):
        count += 1
    return recordings_of(words[:count]), words[count:]


def recordings_of(words: list[str]) -> list[str]:
    """Files as they were named, and those in folders. Raises ConfigError."""
    return [path for word in words for path in files_of(word)]


def files_of(word: str) -> list[str]:
    """The file, or the recordings in a folder, in the order in which they were last written."""
    if not os.path.isdir(word):
        return [word]
    inside = [entry for entry in os.scandir(word) if entry.is_file() and entry.name.endswith(_RECORDINGS)]
    if not inside:
        raise ConfigError(f"There is no recording in {word}", "Files in it end in .jsonl")
    return [entry.path for entry in sorted(inside, key=lambda one: (one.stat().st_mtime, one.name))]
