"""`penstock wrap`: puts Penstock before servers that an AI client already starts."""

from __future__ import annotations

import argparse
import os

from penstock.arguments import Parser
from penstock.clients.client_file import CannotEdit
from penstock.clients.edits import Edit
from penstock.clients.entry import Entry
from penstock.clients.places import Machine
from penstock.clients.wrapping import wrap_edits
from penstock.commands.carry_out import Job
from penstock.commands.results import FOUND
from penstock.commands.selectors import (
    add_agreement,
    add_selectors,
    choice_of,
    has_terminal,
    remark,
)
from penstock.config.formats.document import Path
from penstock.config.model import count, make_filter
from penstock.errors import ConfigError, UsageError
from penstock.home.change import Plan, make_plan
from penstock.home.inventory import FoundFile, survey, this_machine
from penstock.home.own_path import own_path
from penstock.home.state_folder import state_folder
from penstock.platforms import refuse_unfit_system

USAGE = "penstock wrap (SERVER... | --all) [--client C] [--deny P] [--allow P] [--read-only] [OPTIONS]"


def parser() -> Parser:
    """The parser of `penstock wrap`."""
    made = Parser(
        prog="penstock wrap",
        usage=USAGE,
        description="Put Penstock before servers that an AI client already starts. Only the entry's command "
        "and arguments change, every other byte of the file stays; penstock unwrap --undo brings it back.",
    )
    add = made.add_argument
    add("servers", nargs="*", metavar="SERVER", help="the servers; without one, all of --client or --file")
    add("--all", action="store_true", help="every server of every client")
    add_selectors(made)
    add("--deny", action="append", default=[], metavar="P[,P...]", help="hide tools that match")
    add("--allow", action="append", default=[], metavar="P[,P...]", help="keep only tools that match")
    add("--read-only", action="store_true", help="keep only tools annotated readOnlyHint: true")
    add("--config", metavar="FILE", help="the wrapped server takes rules from FILE")
    add("--lock", metavar="FILE", help="only what is as penstock lock wrote it down passes")
    add("--max-tokens", metavar="N", help="the wrapped server does not start when its tools cost more")
    add("--record", metavar="PATH", help="keep every message; a folder, as in logs/, gets a file a run")
    add("--audit", metavar="PATH", help="keep who asked for what, chained and masked")
    add("--dashboard", choices=("auto",), help="let penstock watch show it, live")
    add("--pick", action="store_true", help="choose tools by hand, with what each costs")
    add("--as", choices=("deny", "allow"), default="deny", dest="kind", help="what a choice by hand becomes")
    add("--plain", action="store_true", help="with --pick: numbered lines instead of a screen")
    where = made.add_mutually_exclusive_group()
    where.add_argument("--bare", action="store_true", help="write plain penstock, to be found on the PATH")
    where.add_argument("--absolute", action="store_true", help="write the whole path of penstock")
    add_agreement(made)
    return made


def run(options: argparse.Namespace) -> int:
    """Wraps; gives back the exit code."""
    refuse_unfit_system()
    if options.servers and options.all:
        raise UsageError("Name servers, or say --all", f"Usage: {USAGE}")
    if not (options.servers or options.all or options.client or options.file):
        raise UsageError("Name the servers to wrap, or a client, or say --all", f"Usage: {USAGE}")
    make_filter(options.deny, options.allow, options.read_only)
    if options.max_tokens is not None:
        count(options.max_tokens, "--max-tokens")
    machine = this_machine(options.dir)
    job = _Wrapping(machine, options)
    found = [
        file
        for file in survey(machine, choice_of(options, tuple(options.servers)))
        if _concerns(file, options)
    ]
    wanted = {id(file): _wanted(file) for file in found}
    job.refuse_missing(found)
    if not job.choose([entry for entries in wanted.values() for entry in entries]):
        remark("Nothing was written.")
        return 1
    plans = [job.plan(file, wanted[id(file)]) for file in found if wanted[id(file)] or file.fault]
    return job.carry_out(plans)


def _concerns(found: FoundFile, options: argparse.Namespace) -> bool:
    # A broken file that nobody asked for must not keep others from being wrapped.
    return bool(found.entries) or (found.fault is not None and bool(options.client or options.file))


def _wanted(found: FoundFile) -> list[Entry]:
    return [entry for entry in found.entries if entry.name not in found.hidden]


class _Wrapping:
    """One run of wrap."""

    def __init__(self, machine: Machine, options: argparse.Namespace) -> None:
        self._machine = machine
        self._options = options
        self._folder = state_folder(machine.home, machine.environ)
        self._words = _option_words(options)
        self._asked: set[str] = set()  # URLs that have been greeted
        self._left: dict[tuple[str, Path], str] = {}  # what cannot be wrapped, and why
        self._is_whole = True  # whether every server can be

    def refuse_missing(self, found: list[FoundFile]) -> None:
        names = {entry.name for file in found for entry in file.entries}
        missing = [name for name in self._options.servers if name not in names]
        faults = [file.fault for file in found if file.fault is not None]
        if missing and faults:
            raise faults[0]
        if missing:
            raise ConfigError(f"No server is called {missing[0]} there", "penstock clients lists them")

    def choose(self, entries: list[Entry]) -> bool:
        """Lets somebody choose tools where no option says which; whether there is something to do."""
        options = self._options
        if self._words and not options.pick:
            return True
        if not options.pick and not has_terminal():
            raise UsageError(
                "Say what the wrapped server shall hide", "Use --deny, --allow, --read-only or --pick"
            )
        if not entries:
            return True
        from penstock.commands.pick_for import pick_for

        picked = pick_for(entries, options.kind, options.plain)
        if picked is not None:
            self._words = (*self._words, *picked)
        return picked is not None

    def plan(self, found: FoundFile, entries: list[Entry]) -> Plan:
        """What wraps these entries of one file."""
        return make_plan(found, entries, self._edits)

    def _edits(self, _found: FoundFile, entry: Entry) -> list[Edit]:
        penstock, words = self._penstock(entry), self._words_for(entry)
        if self._options.servers:
            self._refuse_login(entry)
            return wrap_edits(entry, penstock, words)
        if entry.wrapped is not None:
            return []
        # One server among many that cannot be wrapped must not leave all the others without Penstock.
        try:
            self._refuse_login(entry)
            return wrap_edits(entry, penstock, words)
        except (CannotEdit, ConfigError) as why:
            self._left[(entry.name, entry.path)] = str(why)
            self._is_whole &= entry.refusal is not None  # what is built into a client is no server to wrap
            return []

    def _refuse_login(self, entry: Entry) -> None:
        """Raises ConfigError for a URL that wants a login: only the client can do that."""
        if entry.url_key is None or entry.wrapped is not None:
            return
        url = str(entry.fields[entry.url_key])
        if url in self._asked or "$" in url or entry.fields.get(entry.shape.headers[0]):
            return
        from penstock.home.url_probe import BLOCKED, READY, probe_url

        self._asked.add(url)
        code, text = probe_url(url, {}, 10.0)
        if code == BLOCKED:
            raise ConfigError(
                f"Cannot wrap {entry.name}: only its client can log in ({text})",
                f"Run penstock --listen 8808 --upstream {url} and give the client that address instead",
            )
        if code != READY:
            remark(f"{entry.name} could not be tried: {text}.")

    def _penstock(self, entry: Entry) -> str:
        is_shared = entry.scope == "project"
        if self._options.bare or (is_shared and not self._options.absolute):
            return "penstock"
        return own_path(self._machine.home, self._machine.environ)

    def _words_for(self, entry: Entry) -> tuple[str, ...]:
        words = list(self._words)
        for option in ("--config", "--lock", "--record", "--audit"):
            if option in words and entry.scope != "project":
                at = words.index(option) + 1
                is_folder = words[at].endswith("/")
                words[at] = os.path.abspath(words[at]) + ("/" if is_folder else "")
        if self._options.dashboard is not None and _is_plain_name(entry.name):
            words[words.index("--dashboard") + 1] += f":{entry.name}"  # as its client calls it
        return tuple(words)

    def carry_out(self, plans: list[Plan]) -> int:
        """Shows the plans and, if somebody agrees, writes them."""
        job = Job(self._machine, self._options, self._folder, "wrap", self.plan)
        nothing = "Already so; nothing to write."
        if not self._options.servers:
            nothing = "Nothing to write. To give a wrapped server other options, name it."
        code = job.carry_out(plans, nothing)
        if code == 0 and not self._options.preview:
            self._make_folders()
        for (name, _path), why in self._left.items():
            remark(f"{name} stays without Penstock: {why}.")
        return code if code or self._is_whole else FOUND

    def _make_folders(self) -> None:
        """Makes the folders that are recorded into: without them no wrapped server would start."""
        for path in (self._options.record, self._options.audit):
            if path is not None and path.endswith("/") and not os.path.isdir(path):
                os.makedirs(path, mode=0o700)
                remark(f"Made the folder {path}")


def _is_plain_name(name: str) -> bool:
    """Whether a name can stand in a command: no number of an entry that has none, nothing that clients
    put something else in place of."""
    return name.isprintable() and not name.isdigit() and not set(name) & set("$%{}") and bool(name.strip())


def _option_words(options: argparse.Namespace) -> tuple[str, ...]:
    words: list[str] = []
    for name in ("deny", "allow"):
        for value in getattr(options, name):
            words += [f"--{name}", value]
    if options.read_only:
        words.append("--read-only")
    for name in ("config", "lock", "max_tokens", "record", "audit", "dashboard"):
        if getattr(options, name) is not None:
            words += [f"--{name.replace('_', '-')}", getattr(options, name)]
    return tuple(words)
