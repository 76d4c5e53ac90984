"""Writes the options of every command into docs/cli.md, so that what is written there is what --help says.

.venv/bin/python scripts/cli_docs.py          writes the file
.venv/bin/python scripts/cli_docs.py --check  fails when it is out of date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from penstock.arguments import proxy_parser
from penstock.commands.verbs import VERBS, load

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"

BEGIN, END = "<!-- options:begin -->\n", "<!-- options:end -->\n"


def page() -> str:
    """The page as it should be: its own words, with the tables between the marks made anew."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE.name} has lost its marks")
    parts = [before, BEGIN]
    for parser in [proxy_parser(), *(load(name).parser() for name in VERBS)]:
        parts.append(f"\n## {parser.prog}\n\n{parser.description}\n\n```\n{parser.usage}\n```\n")
        parts.append("\n| option | meaning |\n|---|---|\n")
        for action in parser._actions:
            parts.append(f"| `{_spelling(action)}` | {_meaning(action)} |\n")
    return "".join([*parts, END, after])


def _spelling(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar)
    name = ", ".join(action.option_strings)
    if action.nargs == 0:
        return name
    value = action.metavar or "\\|".join(action.choices or ()) or action.dest.upper()
    return f"{name} {value}"


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("|", "\\|")
    return text if "%" not in text else text % {"prog": "penstock", "default": action.default}


def main() -> int:
    if "--check" in sys.argv:
        if PAGE.read_text() != page():
            print("docs/cli.md is out of date: run scripts/cli_docs.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
