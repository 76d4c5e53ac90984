"""Finding the program that a word stands for, under somebody else's PATH."""

from __future__ import annotations

import os
from pathlib import Path

_USUAL = ("~/.local/bin", "/opt/homebrew/bin", "/usr/local/bin", "~/.cargo/bin", "~/.bun/bin", "~/.deno/bin")


def maybe_program(word: str, path: str, cwd: str | None = None) -> str | None:
    """The file that `word` would run with this PATH; None when there is none."""
    if "/" in word:
        full = os.path.join(cwd or os.getcwd(), os.path.expanduser(word))
        return full if os.access(full, os.X_OK) and os.path.isfile(full) else None
    for folder in path.split(os.pathsep):
        full = os.path.join(folder or ".", word)
        if os.path.isfile(full) and os.access(full, os.X_OK):
            return full
    return None


def maybe_interpreter(program: str) -> tuple[str, bool] | None:
    """What a script names in its first line: a word to be looked for on the PATH (true), or a file."""
    try:
        with open(program, "rb") as file:
            first = file.readline(512)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode("utf-8", "replace").split()
    if not words:
        return None
    if os.path.basename(words[0]) != "env":
        return words[0], False
    rest = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return (rest[0], True) if rest else None


def missing_part(word: str, path: str, cwd: str | None = None) -> str | None:
    """What keeps `word` from running with this PATH, in words; None when nothing does."""
    program = maybe_program(word, path, cwd)
    if program is None:
        return f"{word} is not on the PATH" if "/" not in word else f"{word} is no program that can be run"
    found = maybe_interpreter(os.path.realpath(program))
    if found is None:
        return None
    name, is_looked_for = found
    if is_looked_for and maybe_program(name, path) is None:
        return f"{program} is run by {name}, which is not on the PATH"
    if not is_looked_for and not os.access(name, os.X_OK):
        return f"{program} is run by {name}, which is not there"
    return None


def maybe_elsewhere(word: str) -> str | None:
    """Where `word` lies outside of a poor PATH, if we can find it."""
    folders = [os.path.expanduser(folder) for folder in _USUAL] + os.environ.get("PATH", "").split(os.pathsep)
    versions = sorted(Path(os.path.expanduser("~/.nvm/versions/node")).glob("*/bin"), reverse=True)
    return maybe_program(word, os.pathsep.join([*folders, *map(str, versions)]))
