"""Unwrapping: entries as they were before they were wrapped, or the very bytes where nobody has edited since.

Taking our words out again leaves what any entry could have been, such as an empty `args` where there was
none, or one line where there were three. The journal knows better.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.clients.client_file import form_of, read_client_file
from penstock.clients.edits import Edit, is_same
from penstock.clients.entry import Entry
from penstock.clients.wrapping import unwrap_edits
from penstock.config.formats.document import Unreadable
from penstock.errors import ConfigError
from penstock.home.change import Plan, make_plan
from penstock.home.inventory import FoundFile
from penstock.home.journal import Journal, Record
from penstock.home.target import digest


class WayBack:
    """Plans of unwrapping, by what the journal knows."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def plan(self, found: FoundFile, wanted: list[Entry]) -> Plan:
        """What takes Penstock out of these entries. Raises ConfigError."""
        records = [one for one in self._journal.records() if one.path == str(found.target.path)]
        records.reverse()
        plan = make_plan(found, wanted, lambda _found, entry: _edits(entry, records))
        data = self._maybe_exact(plan, records)
        return plan if data is None else Plan(found, data, plan.entries)

    def _maybe_exact(self, plan: Plan, records: list[Record]) -> bytes | None:
        """The newest kept bytes that hold what the plan would write, if every change since was ours."""
        if plan.is_idle:
            return None
        form = form_of(plan.found.place.path.name)
        tree = read_client_file(form, plan.after).tree
        data = plan.found.data
        for record in records:
            if record.after != digest(data):
                continue
            try:
                data = self._journal.backup(record)
                if digest(data) == record.before and is_same(read_client_file(form, data).tree, tree):
                    return data
            except (ConfigError, Unreadable):
                return None
        return None


def _edits(entry: Entry, records: list[Record]) -> list[Edit]:
    return unwrap_edits(entry, _maybe_plain(entry, records))


def _maybe_plain(entry: Entry, records: list[Record]) -> dict[str, Any] | None:
    """The entry as it was when it was last without Penstock."""
    for record in records:
        for change in record.entries:
            if record.action == "wrap" and change.path == entry.path and change.before is not None:
                before = msgspec.structs.replace(entry, fields=change.before)
                if before.wrapped is None:
                    return change.before
    return None
