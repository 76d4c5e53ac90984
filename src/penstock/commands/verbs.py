"""The commands beside the proxy itself: one row each, loaded when it is named.

A command is a module with `parser()`, the parser of its options, and `run(options)`, which gives back the
exit code. A new command is a module and a row here; help, completion and the documentation follow the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    import argparse


class Verb(NamedTuple):
    """One command: where it is listed, what it does in one line, and the module that has it."""

    group: str
    summary: str
    module: str
    takes_command: bool = False  # whether an upstream's command may follow, after --
    takes_file: bool = False  # whether a file must be named before everything else
    takes_filter: bool = False  # whether words may be a filter, whose terms may begin with -
    takes_words: bool = False  # whether words before -- are its own, and no command


class Command(Protocol):
    """What the module of a command offers."""

    def parser(self) -> argparse.ArgumentParser:
        """The parser of its options."""

    def run(self, options: argparse.Namespace) -> int:
        """Does it; gives back the exit code."""


_SEEING = "what happened"
_AGAIN = "with a recording"
_LEARNING = "what recordings teach"

VERBS: dict[str, Verb] = {
    "tools": Verb(
        "before you start", "which tools are allowed and denied, and what each costs", "tools", True
    ),
    "check": Verb("before you start", "what is wrong with a configuration, or what it will do", "check"),
    "status": Verb("while it runs", "how each of several upstreams is", "status"),
    "rules": Verb("before you start", "try the rules of a configuration: test, explain", "rules"),
    "token": Verb("before you start", "a new bearer token for a caller of the listener", "token"),
    "clients": Verb("at home", "the servers of your AI clients, and which are behind Penstock", "clients"),
    "wrap": Verb("at home", "put Penstock before servers that a client already starts", "wrap"),
    "doctor": Verb(
        "at home",
        "whether servers work, as their client would run them",
        "doctor",
        takes_command=True,
        takes_words=True,
    ),
    "lock": Verb(
        "at home", "write down the tools you agree to, or see what has changed", "lock", takes_file=True
    ),
    "unwrap": Verb("at home", "take it out again, or undo a change byte for byte", "unwrap"),
    "completion": Verb("at home", "the completions of a shell", "completion"),
    "fleet": Verb("among others", "the instances that share one Redis, and whether they are alike", "fleet"),
    "watch": Verb(_SEEING, "what your proxies do, live: terminal or browser", "watch"),
    "show": Verb(_SEEING, "what a recording holds, one message a row", "show", takes_filter=True),
    "stats": Verb(_SEEING, "what recordings come to, and what is new in them", "stats", takes_filter=True),
    "why": Verb(_SEEING, "everything about one recorded message", "why"),
    "audit": Verb(_SEEING, "ask an audit, and see whether it is intact", "audit", takes_filter=True),
    "replay": Verb(_AGAIN, "a recording in the place of an upstream: a mock", "replay"),
    "verify": Verb(_AGAIN, "whether an upstream still answers as recorded", "verify", takes_file=True),
    "backtest": Verb(_AGAIN, "what other rules would have done, offline", "backtest"),
    "export": Verb(_AGAIN, "a recording as HAR or OTLP, for other tools", "export"),
    "baseline": Verb(_LEARNING, "what is usual, kept as digests and counts", "baseline"),
    "suggest": Verb(_LEARNING, "rules that fit recorded calls, tried on others", "suggest"),
    "variants": Verb(_LEARNING, "what several rule sets do, side by side", "variants"),
    "anomalies": Verb(_LEARNING, "which sessions are unusual, and why", "anomalies"),
    "mask": Verb(_AGAIN, "a copy of a recording without its secrets", "mask"),
}


def load(name: str) -> Command:
    """The command called `name`."""
    from importlib import import_module

    return cast(Command, import_module(f"penstock.commands.{VERBS[name].module}"))


def listing() -> str:
    """All commands in their groups, a line each, as --help shows them."""
    groups: dict[str, list[str]] = {}
    for name, verb in [*VERBS.items(), ("help", Verb("help", "this page, or help VERB for one command", ""))]:
        groups.setdefault(verb.group, []).append(f"  penstock {name:<12} {verb.summary}")
    return "\n\n".join("\n".join([f"{group}:", *lines]) for group, lines in groups.items())
