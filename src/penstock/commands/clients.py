"""`penstock clients`: the MCP servers in every AI client on this machine, and which are wrapped."""

from __future__ import annotations

import argparse
import sys

import msgspec

from penstock.arguments import Parser
from penstock.clients.entry import Entry
from penstock.clients.wrapped_words import Wrapped
from penstock.commands.results import columns, json_text
from penstock.commands.selectors import add_selectors, choice_of, short_path
from penstock.home.inventory import FoundFile, survey, this_machine
from penstock.home.journal import Journal
from penstock.home.state_folder import state_folder
from penstock.wire.mcp.replies import one_line

USAGE = "penstock clients [--client C] [--scope S] [--dir D] [--file F] [--format table|json]"


def parser() -> Parser:
    """The parser of `penstock clients`."""
    made = Parser(
        prog="penstock clients",
        usage=USAGE,
        description="Show the MCP servers that the AI clients on this machine start, and which of them are "
        "behind Penstock. Nothing is changed.",
    )
    add_selectors(made)
    made.add_format("how to print them")
    return made


def run(options: argparse.Namespace) -> int:
    """Prints the table; 1 when a file cannot be read."""
    machine = this_machine(options.dir)
    found = survey(machine, choice_of(options))
    journal = Journal(state_folder(machine.home, machine.environ))
    rows = [row for file in found for row in _rows(file, journal)]
    sys.stdout.write(json_text(rows) if options.format == "json" else _as_table(rows))
    for file in found:
        if file.fault is not None:
            sys.stderr.write(f"Error: {file.fault.detail}\n")
    return 1 if any(file.fault is not None for file in found) else 0


class Row(msgspec.Struct, frozen=True):
    """One server."""

    client: str
    scope: str
    server: str
    state: str
    file: str
    wrapped: bool = False
    options: tuple[str, ...] = ()


def _rows(found: FoundFile, journal: Journal) -> list[Row]:
    place = found.place
    if found.fault is not None:
        line = found.fault.faults[0]
        state = f"cannot be read: line {line[0]}: {line[1]}"
        return [Row(place.client.name, place.scope, "", state, str(place.path))]
    gone = _once_wrapped(found, journal)
    out = []
    for entry in found.entries:
        wrapped = entry.wrapped
        out.append(
            Row(
                place.client.name,
                entry.scope,
                entry.name,
                _state(found, entry, wrapped, gone),
                str(place.path),
                wrapped is not None,
                wrapped.options if wrapped is not None else (),
            )
        )
    return out


def _state(found: FoundFile, entry: Entry, wrapped: Wrapped | None, gone: set[tuple[str | int, ...]]) -> str:
    if entry.name in found.hidden:
        return "not used: another file of this client has it too"
    if wrapped is None and entry.path in gone:
        return "was wrapped, now gone: the client wrote an older copy back"
    return entry.state


def _once_wrapped(found: FoundFile, journal: Journal) -> set[tuple[str | int, ...]]:
    """The entries of this file that were wrapped by us and never unwrapped."""
    out: set[tuple[str | int, ...]] = set()
    for record in journal.records():
        if record.path != str(found.target.path):
            continue
        paths = {change.path for change in record.entries}
        if record.action == "wrap":
            out |= paths
        else:
            out -= paths
    return out


def _as_table(rows: list[Row]) -> str:
    from pathlib import Path

    cells = [("CLIENT", "SCOPE", "SERVER", "STATE", "FILE")]
    cells += [
        (r.client, r.scope, one_line(r.server), one_line(r.state), short_path(Path(r.file))) for r in rows
    ]
    return "".join(f"{line}\n" for line in columns(cells))
