"""Writes what is known of each AI client into docs/clients.md, from the table in the code.

.venv/bin/python scripts/client_docs.py          writes the file
.venv/bin/python scripts/client_docs.py --check  fails when it is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.clients.table import CLIENTS, Client

PAGE = Path(__file__).parent.parent / "docs" / "clients.md"
BEGIN, END = "<!-- clients:begin -->\n", "<!-- clients:end -->\n"
FOLDERS = {"{home}": "~", "{config}": "~/.config", "{app}": "APP", "{localapp}": "%LOCALAPPDATA%"}


def page() -> str:
    """The page as it should be: its own words, with the part between the marks made anew."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE.name} has lost its marks")
    return "".join([before, BEGIN, *(_section(client) for client in CLIENTS), END, after])


def _section(client: Client) -> str:
    shape = client.shape
    table = " > ".join(f"`{name}`" for name in shape.table)
    lines = [f"\n## {client.title}\n", f"`--client {client.name}`\n"]
    lines += [f"- user: {_files(client.user)}"]
    for variable, below in client.home_variables:
        lines.append(f"- with `${variable}`: " + (f"`{below}` in that folder" if below else "that file"))
    if client.project:
        lines.append(f"- project: {_files(client.project)}")
    if client.has_local_scope:
        lines.append("- local: `projects` > the project's folder > `mcpServers` in the user's file")
    words = (
        f"`{shape.command}` (the whole array)"
        if shape.args is None
        else f"`{shape.command}` and `{shape.args}`"
    )
    kind = "a list with `name`" if shape.is_list else "by name"
    lines.append(f"- servers under {table}, {kind}: {words}, variables in `{shape.env}`")
    if not shape.takes_urls:
        lines.append("- takes no URLs")
    else:
        lines.append(f"- URLs in {' or '.join(f'`{name}`' for name in shape.urls)}")
    lines.append(f"- after a change: {client.after.format(title='it')}")
    limits = []
    if client.start_seconds is not None:
        limits.append(f"{client.start_seconds} s to start")
    if client.most_tools is not None:
        limits.append(f"{client.most_tools} tools")
    if client.name_length is not None:
        whole = " with the server's" if client.name_counts_server else ""
        limits.append(f"names of {client.name_length} characters{whole}")
    if limits:
        lines.append(f"- limits: {', '.join(limits)}")
    if client.passes is not None:
        lines.append(f"- passes only these variables on: {', '.join(f'`{name}`' for name in client.passes)}")
    if client.note:
        lines.append(f"- {client.note}")
    return "\n".join(lines) + "\n"


def _files(paths: tuple[str, ...]) -> str:
    shown = []
    for path in paths:
        for folder, text in FOLDERS.items():
            path = path.replace(folder, text)
        shown.append(f"`{path}`")
    return ", ".join(shown)


def main() -> int:
    """Writes or checks."""
    text = page()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
