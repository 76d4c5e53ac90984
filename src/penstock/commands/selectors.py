"""Options that say which client, scope, file and server is meant; and how a change is agreed to."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from penstock.arguments import Parser
from penstock.clients.places import SCOPES
from penstock.clients.preview import changed_lines
from penstock.clients.table import BY_NAME
from penstock.commands.results import json_text
from penstock.home.change import Plan, token_for
from penstock.home.inventory import Choice
from penstock.wire.mcp.replies import one_line


def add_selectors(parser: argparse.ArgumentParser) -> None:
    """Adds --client, --scope, --dir and --file."""
    add = parser.add_argument
    add("--client", metavar="CLIENT", choices=list(BY_NAME), help="only this client; see penstock clients")
    add(
        "--scope",
        choices=SCOPES,
        default="all",
        help="only entries of the user, of the project, or of the user in it (local); default all",
    )
    add("--dir", metavar="DIR", help="the project's folder; default here")
    add("--file", metavar="FILE", help="this file of a client and no other")


def add_agreement(parser: Parser) -> None:
    """Adds what a change needs to be carried out."""
    add = parser.add_argument
    add("--preview", action="store_true", help="show what would change, and write nothing")
    parser.add_format("how to print the preview")
    add("--expect", metavar="TOKEN", help="write only if the change is exactly the one previewed so")
    add("--yes", action="store_true", help="write without asking")


def choice_of(options: argparse.Namespace, servers: tuple[str, ...] = ()) -> Choice:
    """What the selectors mean."""
    return Choice(options.client, options.scope, options.file, servers)


def short_path(path: Path) -> str:
    """A path as people write it."""
    home = os.path.expanduser("~")
    text = str(path)
    if text.startswith(os.getcwd() + os.sep):
        return os.path.relpath(text)
    return f"~{text[len(home) :]}" if text.startswith(home + os.sep) else text


def show_plan(plan: Plan) -> None:
    """Prints the lines that change."""
    names = ", ".join(".".join(map(str, entry.path)) for entry in plan.entries)
    sys.stdout.write(one_line(f"--- {short_path(plan.found.place.path)}  [{names}]") + "\n")
    for line in changed_lines(plan.found.data, plan.after):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def print_json(plans: list[Plan]) -> None:
    """Prints what would change, for programs, with the token that --expect takes."""
    report = {
        "token": token_for(plans) if plans else None,
        "files": [
            {
                "file": str(plan.found.target.path),
                "servers": [entry.name for entry in plan.entries],
                "lines": list(changed_lines(plan.found.data, plan.after)),
            }
            for plan in plans
        ],
    }
    sys.stdout.write(json_text(report))


def has_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def is_agreed(question: str) -> bool:
    """Asks somebody at the terminal."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def remark(sentence: str) -> None:
    """Says something to people."""
    sys.stderr.write(one_line(sentence) + "\n")
