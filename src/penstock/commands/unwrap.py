"""`penstock unwrap`: takes Penstock out of an AI client's file again, or undoes a change byte for byte."""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.arguments import Parser
from penstock.clients.places import Machine, Place
from penstock.clients.wrapping import unwrap_edits
from penstock.commands.carry_out import Job, is_to_be_written, say_done
from penstock.commands.selectors import (
    add_agreement,
    add_selectors,
    choice_of,
    remark,
    show_plan,
)
from penstock.errors import ConfigError, UsageError
from penstock.home.change import Plan, make_plan, write_plan
from penstock.home.inventory import Choice, FoundFile, client_called, survey, this_machine
from penstock.home.journal import Change, Journal, Record
from penstock.home.state_folder import exclusive, state_folder
from penstock.home.target import Target, digest
from penstock.home.way_back import WayBack
from penstock.platforms import refuse_unfit_system

USAGE = "penstock unwrap (SERVER... | --all | --undo [ID]) [--client C] [OPTIONS]"


def parser() -> Parser:
    """The parser of `penstock unwrap`."""
    made = Parser(
        prog="penstock unwrap",
        usage=USAGE,
        description="Take Penstock out of the entries of an AI client. With --undo: bring a file back byte "
        "for byte, or, when somebody has edited it since, take out only what we put in.",
    )
    add = made.add_argument
    add("servers", nargs="*", metavar="SERVER", help="the servers to unwrap")
    add("--all", action="store_true", help="every wrapped server")
    add("--undo", nargs="?", const="", metavar="ID", help="undo the newest change, or the one called ID")
    add_selectors(made)
    add_agreement(made)
    return made


def run(options: argparse.Namespace) -> int:
    """Unwraps; gives back the exit code."""
    refuse_unfit_system()
    if sum((bool(options.servers), options.all, options.undo is not None)) != 1:
        raise UsageError("Name servers, or say --all or --undo", f"Usage: {USAGE}")
    machine = this_machine(options.dir)
    folder = state_folder(machine.home, machine.environ)
    if options.undo is not None:
        return _undo(machine, options, Journal(folder), folder)
    found = survey(machine, choice_of(options, tuple(options.servers)))
    names = {entry.name for file in found for entry in file.entries}
    for name in options.servers:
        if name not in names:
            faults = [file.fault for file in found if file.fault is not None]
            raise (
                faults[0]
                if faults
                else ConfigError(f"No server is called {name} there", "penstock clients lists them")
            )
    way_back = WayBack(Journal(folder))
    plans = [
        way_back.plan(file, [entry for entry in file.entries if entry.wrapped is not None])
        for file in found
        if any(entry.wrapped is not None for entry in file.entries)
    ]
    job = Job(machine, options, folder, "unwrap", way_back.plan)
    return job.carry_out(plans, "Nothing there is wrapped.")


def _undo(machine: Machine, options: argparse.Namespace, journal: Journal, folder: Path) -> int:
    record = journal.find(options.undo or None)
    client = client_called(record.client)
    target = Target(Path(record.path))
    data = target.read()
    if digest(data) == record.before:
        remark("The file is as it was before; nothing to undo.")
        return 0
    if digest(data) == record.after:
        # An exact way back needs no question: these are the bytes that were there.
        found = FoundFile(Place(client, "user", target.path), target, data, None, None, ())
        plan = Plan(found, journal.backup(record), ())
    else:
        plan = _around_later_edits(machine, record)
        if plan.is_idle:
            remark("Nothing of it is left in the file.")
            return 0
        remark("The file was edited since: only what Penstock put in is taken out.")
        if not is_to_be_written(options, [plan]):
            return 0 if options.preview else 1
    if options.preview:
        show_plan(plan)
        return 0
    with exclusive(folder):
        changes = [Change(record.id, ()), *(Change(c.name, c.path) for c in record.entries)]
        write_plan(plan, journal, "undo", changes)
    names = ", ".join(change.name for change in record.entries)
    say_done(plan, f"Undone: {names} as before {record.id}", None)
    return 0


def _around_later_edits(machine: Machine, record: Record) -> Plan:
    if record.action != "wrap":
        raise ConfigError(
            f"{record.path} was edited since", "Only a wrap can be undone around later edits; wrap it again"
        )
    before = {change.path: change.before for change in record.entries}
    found = next(
        (file for file in survey(machine, Choice(record.client)) if str(file.target.path) == record.path),
        None,
    )
    if found is None:
        found = survey(machine, Choice(record.client, file=record.path))[0]
    wanted = [entry for entry in found.entries if entry.path in before]
    return make_plan(found, wanted, lambda _found, entry: unwrap_edits(entry, before[entry.path]))
