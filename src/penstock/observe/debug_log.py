"""Every message as one line on stderr, for `--log-level debug`: who, what, and what became of it. Masked."""

from __future__ import annotations

import logging

from penstock.observe.masking import Masker
from penstock.observe.record import Record
from penstock.wire.mcp.replies import printable

log = logging.getLogger("penstock")


class DebugLog:
    """Says what comes by."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker

    def saw(self, record: Record) -> None:
        """Says it."""
        log.debug("%s", self.line(record), extra={"is_wanted": True})

    def line(self, record: Record) -> str:
        """The line for one message."""
        what = " ".join(self._shown(part) for part in (record.method, record.tool) if part)
        if record.kind == "response":
            what = f"answer {what}".rstrip()
        rule = f" by {self._shown(record.why.rule)}" if record.why is not None and record.why.rule else ""
        asked = record.request
        ms = f" {(record.received - asked.received) * 1000:.1f} ms" if asked is not None else ""
        session = record.session_id[:8] or "-"
        said = f"{session} {record.sender} {what or record.kind}"
        return f"{said}: {record.verdict}{rule}{ms} {len(record.raw)} bytes"

    def _shown(self, text: str) -> str:
        return printable(self._masker.text(text))
