"""Which trace a request belongs to: drawn here, so that the upstream can be told before any span is made."""

from __future__ import annotations

import os

from penstock.observe.record import Record
from penstock.observe.spans import Trace, maybe_traceparent, meta_text


class Tracing:
    """Gives every request of a client its ids."""

    def saw(self, record: Record) -> None:
        """Draws ids, below the parent that the request names in `_meta`, else in its header."""
        if record.kind != "request" or record.sender != "client":
            return
        said = maybe_traceparent(meta_text(record.raw, "traceparent"))
        header = maybe_traceparent(_header(record))
        parent = said or header
        drawn = os.urandom(32).hex()
        link = "".join(header) if said is not None and header is not None and header != said else ""
        record.trace = str(
            Trace(
                parent[0] if parent is not None else drawn[:32],
                drawn[32:48],
                drawn[48:64],
                parent[1] if parent is not None else "",
                link,
            )
        )


def _header(record: Record) -> str | None:
    for name, value in record.headers:
        if name.lower() == b"traceparent":
            return value.decode("latin-1").strip()
    return None
