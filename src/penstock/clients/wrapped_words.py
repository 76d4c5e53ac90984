"""Recognising Penstock in the words of a command, and taking them apart.

An entry that is wrapped describes itself: `penstock OPTIONS -- ORIGINAL`. There is no marker, because clients
that rewrite their file drop members they do not know.
"""

from __future__ import annotations

import re
import shlex

from msgspec import Struct

_PYTHON = re.compile(r"python[0-9.]*(\.exe)?\Z")
_PACKAGE = re.compile(r"penstock(\[[a-z,]*\])?([@=<>~!].*)?\Z")
_FLAGS = frozenset({"--read-only", "--stdio", "--lock-strict"})


class Wrapped(Struct, frozen=True):
    """The parts of a command that runs Penstock."""

    options: tuple[str, ...]  # without the upstream, and without headers that were moved into variables
    upstream: tuple[str, ...]  # the original command; empty when the upstream is a URL
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()  # header and variable

    @property
    def shown(self) -> str:
        """The options as people write them."""
        return shlex.join(self.options)


def maybe_wrapped(words: tuple[str, ...]) -> Wrapped | None:
    """The parts of `words` if they run Penstock as a proxy; None if they run something else."""
    size = _launcher_size(words)
    if not size:
        return None
    rest = words[size:]
    if "--" in rest:
        border = rest.index("--")
        return Wrapped(rest[:border], rest[border + 1 :])
    if rest and not rest[0].startswith("-"):
        return Wrapped((), rest)
    return _with_url(rest)


def wrapped_words(launcher: str, wrapped: Wrapped) -> tuple[str, ...]:
    """All words of the command that `wrapped` describes."""
    if wrapped.url is None:
        return (launcher, *wrapped.options, "--", *wrapped.upstream)
    headers = tuple(word for pair in wrapped.headers for word in ("--header-from", "=".join(pair)))
    return (launcher, *wrapped.options, *headers, "--upstream", wrapped.url)


def _launcher_size(words: tuple[str, ...]) -> int:
    """How many words it takes to run Penstock; 0 when they run something else."""
    if not words:
        return 0
    first = words[0].replace("\\", "/").rpartition("/")[2]
    if first in ("penstock", "penstock.exe"):
        return 1
    if _PYTHON.match(first) and words[1:3] == ("-m", "penstock"):
        return 3
    runners = {
        "uvx": 1,
        "uv": 3 if words[1:3] == ("tool", "run") else 0,
        "pipx": 2 if words[1:2] == ("run",) else 0,
    }
    at = runners.get(first.removesuffix(".exe"), 0)
    while at and at < len(words):
        if words[at] in ("--from", "--spec", "--python", "--with"):
            at += 2
        elif words[at].startswith("-"):
            at += 1
        else:
            return at + 1 if _PACKAGE.match(words[at]) else 0
    return 0


def _with_url(rest: tuple[str, ...]) -> Wrapped | None:
    options: list[str] = []
    headers: list[tuple[str, str]] = []
    url = None
    at = 0
    while at < len(rest):
        word, following = rest[at], rest[at + 1 : at + 2]
        if word == "--upstream" and following:
            url = following[0]
        elif word == "--header-from" and following:
            name, _, variable = following[0].partition("=")
            headers.append((name, variable))
        elif word in _FLAGS or "=" in word or not following:
            options.append(word)
            at += 1
            continue
        else:
            options += [word, *following]
        at += 2
    if url is None:
        return Wrapped(rest, ())  # by --config or --upstream-cmd
    return Wrapped(tuple(options), (), url, tuple(headers))
