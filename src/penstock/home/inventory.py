"""The clients' files on this machine and the servers in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from penstock.clients.client_file import ClientFile, form_of, read_client_file
from penstock.clients.entry import Entry, entries
from penstock.clients.places import Machine, Place, places
from penstock.clients.table import BY_NAME, CLIENTS, Client
from penstock.config.formats.document import Unreadable
from penstock.errors import ConfigError, FaultyFile, UsageError
from penstock.home.target import Target
from penstock.wire.mcp.replies import one_line


class FoundFile(Struct, frozen=True):
    """One client's file, read."""

    place: Place
    target: Target
    data: bytes
    file: ClientFile | None  # None when it cannot be read
    fault: FaultyFile | None
    entries: tuple[Entry, ...]
    hidden: frozenset[str] = frozenset()  # servers that a later file has too, which wins


class Choice(Struct, frozen=True):
    """Which clients, scopes and servers are meant."""

    client: str | None = None
    scope: str = "all"
    file: str | None = None
    servers: tuple[str, ...] = ()


def this_machine(folder: str | None = None) -> Machine:
    """The machine we run on, with the project in `folder` or here."""
    project = Path(os.path.abspath(folder or os.getcwd()))
    if not project.is_dir():
        raise ConfigError(f"There is no folder {folder}", "--dir names the folder of a project")
    return Machine(sys.platform, Path(os.path.expanduser("~")), os.environ, project)


def survey(machine: Machine, choice: Choice) -> list[FoundFile]:
    """Every file that is meant, with the servers that are meant in it."""
    out: list[FoundFile] = []
    for place in _places(machine, choice):
        found = _read(machine, place)
        kept = tuple(entry for entry in found.entries if choice.scope in ("all", entry.scope))
        kept = tuple(entry for entry in kept if not choice.servers or entry.name in choice.servers)
        out.append(FoundFile(place, found.target, found.data, found.file, found.fault, kept))
    return _with_hidden(out)


def reread(machine: Machine, found: FoundFile) -> FoundFile:
    """The same file as it is now, with all its servers."""
    return _read(machine, found.place)


def client_called(name: str) -> Client:
    """The client of this name. Raises UsageError."""
    if name not in BY_NAME:
        raise UsageError(f"No client is called {name}", f"The clients are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def _places(machine: Machine, choice: Choice) -> Iterator[Place]:
    clients = CLIENTS if choice.client is None else (client_called(choice.client),)
    if choice.file is None:
        yield from places(machine, clients)
        return
    path = Path(os.path.abspath(choice.file))
    if not path.is_file():
        why = "It is no file" if path.exists() else "No such file or directory"
        raise ConfigError(f"Cannot read the client's file: {choice.file}", why)
    known = [
        place for place in places(machine, clients) if os.path.realpath(place.path) == str(path.resolve())
    ]
    if known:
        yield known[0]
    elif choice.client is not None:
        is_project = path.is_relative_to(machine.project) and not path.is_relative_to(
            machine.home / ".config"
        )
        yield Place(clients[0], "project" if is_project else "user", path)
    else:
        raise UsageError(f"Whose file is {choice.file}?", "Say it with --client")


def _read(machine: Machine, place: Place) -> FoundFile:
    target = Target(place.path)
    data = target.read()
    try:
        file = read_client_file(form_of(place.path.name), data)
    except Unreadable as why:
        fault = FaultyFile(str(place.path), [(why.line, one_line(why.reason))])
        return FoundFile(place, target, data, None, fault, ())
    servers = tuple(entries(file, place.client, place.scope, str(machine.project)))
    return FoundFile(place, target, data, file, None, servers)


def _with_hidden(files: list[FoundFile]) -> list[FoundFile]:
    out = []
    for number, found in enumerate(files):
        later: set[str] = set()
        if found.place.client.last_file_wins:
            for other in files[number + 1 :]:
                if (other.place.client, other.place.scope) == (found.place.client, found.place.scope):
                    later.update(entry.name for entry in other.entries)
        mine = {entry.name for entry in found.entries}
        hidden = frozenset(mine & later)
        out.append(
            FoundFile(found.place, found.target, found.data, found.file, found.fault, found.entries, hidden)
        )
    return out
