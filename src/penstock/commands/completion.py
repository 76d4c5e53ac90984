"""`penstock completion SHELL`: the completions of a shell, as they come with the package."""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files

from penstock.arguments import Parser

SHELLS = ("bash", "zsh", "fish")


def parser() -> Parser:
    """The parser of `penstock completion`."""
    made = Parser(
        prog="penstock completion",
        usage="penstock completion bash|zsh|fish",
        description="Print the completions of a shell. For bash: source <(penstock completion bash)",
    )
    made.add_argument("shell", choices=SHELLS, metavar="bash|zsh|fish", help="the shell")
    return made


def run(options: argparse.Namespace) -> int:
    """Prints them."""
    sys.stdout.write((files("penstock") / "completions" / f"penstock.{options.shell}").read_text("utf-8"))
    return 0
