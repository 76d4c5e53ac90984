"""A change of clients' files from plan to disk: shown, agreed to, backed up, written, or not at all."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from penstock.clients.client_file import CannotEdit
from penstock.clients.edits import Edit
from penstock.clients.entry import Entry
from penstock.errors import ConfigError
from penstock.home.inventory import FoundFile
from penstock.home.journal import Change, Journal, Record
from penstock.home.target import digest, token_of

Editor = Callable[[FoundFile, Entry], list[Edit]]


class Plan(Struct, frozen=True):
    """What shall become of one file."""

    found: FoundFile
    after: bytes
    entries: tuple[Entry, ...]  # those that change

    @property
    def is_idle(self) -> bool:
        """Whether nothing would change."""
        return self.after == self.found.data


def make_plan(found: FoundFile, wanted: list[Entry], editor: Editor) -> Plan:
    """The change of one file. Raises ConfigError when it cannot be made."""
    if found.fault is not None:
        raise found.fault
    assert found.file is not None
    edits: list[Edit] = []
    changed = []
    for entry in wanted:
        try:
            mine = editor(found, entry)
        except CannotEdit as why:
            raise ConfigError(
                f"Cannot change {entry.name} in {found.place.path}", f"{str(why)[:1].upper()}{str(why)[1:]}"
            ) from None
        edits += mine
        if mine:
            changed.append(entry)
    try:
        after = found.file.edited(edits) if edits else found.data
    except CannotEdit as why:
        raise ConfigError(f"Cannot change {found.place.path} safely", f"{why}; nothing was written") from None
    return Plan(found, after, tuple(changed))


def token_for(plans: list[Plan]) -> str:
    """What stands for exactly these changes."""
    tokens = [token_of(plan.found.target.path, plan.found.data, plan.after) for plan in plans]
    return tokens[0] if len(tokens) == 1 else digest("".join(tokens).encode())[:16]


def write_plan(plan: Plan, journal: Journal, action: str, changes: list[Change] | None = None) -> Record:
    """Writes one file, after its backup. Raises ConfigError; the caller holds the lock."""
    target = plan.found.target
    if target.read() != plan.found.data:
        raise ConfigError(f"{target.shown} has changed meanwhile", "Nothing was written; try again")
    target.refuse_unfit()
    noted = changes
    if noted is None:
        noted = [Change(entry.name, entry.path, dict(entry.fields)) for entry in plan.entries]
    digests = digest(plan.found.data), digest(plan.after)
    record = journal.add(action, target.path, plan.found.place.client.name, digests, noted, plan.found.data)
    try:
        target.replace(plan.after)
    except ConfigError:
        if target.read() == plan.found.data:
            journal.drop(record)
        raise
    return record
