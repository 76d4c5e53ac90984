"""Tries published servers and clients with Penstock between them.

    python -m trials.real_world                          installs what is missing, prints the page
    python -m trials.real_world --write docs/real-world.md   writes the page
    python -m trials.real_world --only time --no-install     what has "time" in its name, and is there already

Exit 1 when a server or client does not work as it does without Penstock.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trials.real_world.clients import HIDDEN, Seen, try_client
from trials.real_world.place import install
from trials.real_world.servers import Outcome, try_server
from trials.real_world.table import CLIENTS, EVERYTHING, SERVERS

HEAD = """# Published servers and clients with Penstock between them

Made by `make real-world`, which installs each package by its name, as it is published that day, into a folder of its own. All of them
start without keys or accounts. What could not be installed or started here has a row that says so.

## Servers

Each is asked for its tools directly, through Penstock (a command over stdio, an address over HTTP), and through `penstock --listen`
with its first tool denied, by the official SDK. "same" means: the same tools in the same order, value for value.

| server | version | tools | through Penstock | with the first tool denied, over HTTP |
|---|---|--:|---|---|
"""
MIDDLE = f"""
## Clients

Each lists the tools of server-everything through Penstock, which hides `{HIDDEN}`, and calls `echo`: over stdio, where Penstock is the
command that the client starts, and over HTTP.

| client | version | over stdio | over HTTP |
|---|---|---|---|
"""


def main() -> int:
    """Prints or writes the tables."""
    parser = argparse.ArgumentParser(prog="python -m trials.real_world", description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", default="", help="only what has this in its name")
    parser.add_argument("--no-install", action="store_true", help="try what is there, and nothing else")
    chosen = parser.parse_args()
    is_installing = not chosen.no_install
    outcomes: list[Outcome] = []
    for server in SERVERS:
        if chosen.only in server.label:
            outcomes.append(try_server(server, is_installing))
            print(" | ".join(map(str, outcomes[-1])), file=sys.stderr, flush=True)
    if is_installing:
        install(EVERYTHING.registry, EVERYTHING.package)
    seen: list[Seen] = []
    for client in CLIENTS:
        if chosen.only in client.package:
            seen.append(try_client(client, EVERYTHING, is_installing))
            print(" | ".join(map(str, seen[-1])), file=sys.stderr, flush=True)
    page = (
        HEAD + "".join(_row(row[:-1]) for row in outcomes) + MIDDLE + "".join(_row(row[:-1]) for row in seen)
    )
    if chosen.write:
        chosen.write.write_text(page)
    else:
        sys.stdout.write(page)
    return 0 if all(row.is_right for row in (*outcomes, *seen)) else 1


def _row(cells: tuple[object, ...]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |\n"


if __name__ == "__main__":
    sys.exit(main())
