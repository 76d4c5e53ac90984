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


_LOOK = "look"
_DECIDE = "decide"
_KEEP = "keep"
_INSTALL = "install"
_LEARN = "learn"
_OPERATE = "operate"

VERBS: dict[str, Verb] = {
    "tools": Verb(_LOOK, "which tools are allowed and denied, and what each costs", "tools", True),
    "watch": Verb(_LOOK, "what your proxies do, live: terminal or browser", "watch"),
    "show": Verb(_LOOK, "what a recording holds, one message a row", "show", takes_filter=True),
    "stats": Verb(_LOOK, "what recordings come to, and what is new in them", "stats", takes_filter=True),
    "why": Verb(_LOOK, "everything about one recorded message", "why"),
    "check": Verb(_DECIDE, "what is wrong with a configuration, or what it will do", "check"),
    "rules": Verb(_DECIDE, "try the rules of a configuration: test, explain", "rules"),
    "backtest": Verb(_DECIDE, "what other rules would have done to a recording, offline", "backtest"),
    "lock": Verb(
        _DECIDE, "write down the tools you agree to, or see what has changed", "lock", takes_file=True
    ),
    "audit": Verb(_KEEP, "ask an audit, and see whether it is intact", "audit", takes_filter=True),
    "replay": Verb(_KEEP, "a recording in the place of an upstream: a mock", "replay"),
    "verify": Verb(_KEEP, "whether an upstream still answers as recorded", "verify", takes_file=True),
    "export": Verb(_KEEP, "a recording as HAR or OTLP, for other tools", "export"),
    "mask": Verb(_KEEP, "a copy of a recording without its secrets", "mask"),
    "clients": Verb(_INSTALL, "the servers of your AI clients, and which are behind Penstock", "clients"),
    "wrap": Verb(_INSTALL, "put Penstock before servers that a client already starts", "wrap"),
    "unwrap": Verb(_INSTALL, "take it out again, or undo a change byte for byte", "unwrap"),
    "doctor": Verb(
        _INSTALL,
        "whether servers work, as their client would run them",
        "doctor",
        takes_command=True,
        takes_words=True,
    ),
    "completion": Verb(_INSTALL, "the completions of a shell", "completion"),
    "baseline": Verb(_LEARN, "what is usual, kept as digests and counts", "baseline"),
    "anomalies": Verb(_LEARN, "which sessions are unusual, and why", "anomalies"),
    "suggest": Verb(_LEARN, "rules that fit recorded calls, tried on others", "suggest"),
    "variants": Verb(_LEARN, "what several rule sets do, side by side", "variants"),
    "status": Verb(_OPERATE, "how each of several upstreams is", "status"),
    "fleet": Verb(_OPERATE, "the instances that share one Redis, and whether they are alike", "fleet"),
    "token": Verb(_OPERATE, "a new bearer token for a caller of the listener", "token"),
}


def load(name: str) -> Command:
    """The command called `name`."""
    from importlib import import_module

    return cast(Command, import_module(f"penstock.commands.{VERBS[name].module}"))


def listing() -> str:
    """All commands in their groups, a line each, as --help shows them."""
    groups = {"run": ["  penstock              the proxy itself: the options below"]}
    for name, verb in [*VERBS.items(), ("help", Verb("run", "this page, or help VERB for one command", ""))]:
        groups.setdefault(verb.group, []).append(f"  penstock {name:<12} {verb.summary}")
    return "\n\n".join("\n".join([f"{group}:", *lines]) for group, lines in groups.items())
