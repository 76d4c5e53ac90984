"""Carrying out what `wrap` and `unwrap` have planned: shown, agreed to, written down, undoable."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from penstock.clients.entry import Entry
from penstock.clients.places import Machine
from penstock.commands.selectors import has_terminal, is_agreed, print_json, remark, show_plan
from penstock.errors import ConfigError
from penstock.home.change import Plan, token_for, write_plan
from penstock.home.inventory import FoundFile, reread
from penstock.home.journal import Journal
from penstock.home.state_folder import exclusive

Planner = Callable[[FoundFile, list[Entry]], Plan]


class Job:
    """One run of a command that changes AI clients' files."""

    def __init__(
        self, machine: Machine, options: argparse.Namespace, folder: Path, verb: str, planner: Planner
    ) -> None:
        """`verb` is what the journal calls it; the `planner` is asked again where a file may have changed."""
        self._machine = machine
        self._options = options
        self._folder = folder
        self._verb = verb
        self._planner = planner

    def carry_out(self, plans: list[Plan], nothing: str) -> int:
        """Shows the plans and, if somebody agrees, writes them; says `nothing` if there is nothing to do."""
        plans = [plan for plan in plans if not plan.is_idle]
        if not plans and not _is_for_programs(self._options):
            remark(nothing)
            return 0
        if not is_to_be_written(self._options, plans):
            return 0 if self._options.preview else 1
        with exclusive(self._folder):
            self._write(plans)
        return 0

    def _write(self, plans: list[Plan]) -> None:
        expected = self._options.expect
        if self._options.yes and expected is None:
            plans = [self._again(plan) for plan in plans]  # somebody may have been quicker
            plans = [plan for plan in plans if not plan.is_idle]
        if expected is not None and expected != token_for(plans):
            raise ConfigError("This is not the change that was previewed", "Nothing was written")
        for plan in plans:
            record = write_plan(plan, Journal(self._folder), self._verb)
            names = ", ".join(entry.name for entry in plan.entries)
            say_done(plan, f"{self._verb.capitalize()}ped {names}", record.id)

    def _again(self, plan: Plan) -> Plan:
        found = reread(self._machine, plan.found)
        paths = {entry.path for entry in plan.entries}
        return self._planner(found, [entry for entry in found.entries if entry.path in paths])


def is_to_be_written(options: argparse.Namespace, plans: list[Plan]) -> bool:
    """Shows the plans; whether the options or somebody at the terminal say that they are to be written."""
    if _is_for_programs(options):
        print_json(plans)
        return False
    if not options.yes or options.preview:
        for plan in plans:
            show_plan(plan)
    if options.preview:
        return False
    if options.yes or options.expect is not None:
        return True
    if not has_terminal():
        raise ConfigError(
            "Nothing was written: there is no terminal to ask at", "Say --yes, or --expect TOKEN"
        )
    if is_agreed("Write this?"):
        return True
    remark("Nothing was written.")
    return False


def say_done(plan: Plan, what: str, record_id: str | None) -> None:
    """Says what was done, what the client needs now, and how to undo it."""
    client = plan.found.place.client
    undo = f" Undo: penstock unwrap --undo {record_id}" if record_id else ""
    remark(f"{what}. {client.after.format(title=client.title)}{undo}")


def _is_for_programs(options: argparse.Namespace) -> bool:
    return bool(options.preview and options.format == "json")
