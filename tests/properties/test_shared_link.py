"""Whatever a client says on a link that many share: to no parser is it about somebody else's request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

import hostile
from hostile import Choices
from memory_doors import ModernDoor
from penstock.wire.json.ambiguity import folded
from readers import LINE_READERS

ROWS = st.binary(min_size=96, max_size=96)
OTHER = 7
"""The number of somebody else's request; the client's own is the first on its link."""


def named_requests(value: Any) -> Iterator[object]:
    """The requests that `value` is about, for a reader who has read that much."""
    if not isinstance(value, dict):
        return
    params = value.get("params")
    method = value.get("method")
    if isinstance(method, str) and folded(method) == "notifications/cancelled":
        if isinstance(params, list):
            yield from params[:1]
        elif isinstance(params, dict):
            yield from (aim for name, aim in params.items() if name in ("requestId", "requestid"))
    meta = params.get("_meta") if isinstance(params, dict) and "id" in value else None
    if isinstance(meta, dict):
        yield from (aim for name, aim in meta.items() if name in ("progressToken", "progresstoken"))


@given(row=ROWS)
def test_nobody_speaks_of_somebody_elses_request(row: bytes) -> None:
    raw = hostile.interference(Choices(row), OTHER)
    up, _ = ModernDoor().take(raw)
    event("passed" if up else "stopped")
    for wire in up:
        for which, read in LINE_READERS.items():
            for value in read(wire):
                for aim in named_requests(value):
                    assert aim in (1, "1") or str(aim) not in ("7", "7.0"), (which, raw, wire)
