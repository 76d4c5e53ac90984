"""Firing the bytes of the HTTP table at a cell, and saying what came of each."""

from __future__ import annotations

import json
from collections.abc import Iterator

from doors import Lost
from trials.attack.cell import Cell, one_by_one
from trials.attack.http_bytes import ATTACKS, GATED
from trials.attack.judge import is_refusal
from trials.attack.raw_http import Router, message_in
from trials.attack.rows import DEAD, DROPPED, LEAK, NOISE, REFUSED, HttpBytes, Result


def attack_with_connections(cell: Cell, rows: list[HttpBytes] = ATTACKS) -> Iterator[Result]:
    """Every row of the table, one after another, in the name of one session."""
    if cell.client == "stdio":
        return
    yield from one_by_one(cell, [row for row in rows if row.only in ("", cell.client)], one)


def one(cell: Cell, row: HttpBytes) -> tuple[str, str]:
    """What came of one attack."""
    front = Router(cell.attacker, cell.version)
    within = 0.2 if cell.direct else 20.0
    try:
        responses = front.fire(row.build(front), row.responses, within)
    except (Lost, OSError, ValueError) as lost:
        if not cell.direct:
            return DEAD, str(lost)[:300]
        responses = []
    if found := cell.faults(more=[body for _, body in responses]):
        return found
    if cell.direct:
        return (REFUSED if responses else DROPPED), ""
    if reached := cell.reached():
        return LEAK, f"reached the upstream: {reached[0][:200]!r}"
    for status, body in responses:
        if status not in (_said_behind(row) if cell.behind else row.statuses):
            return NOISE, f"answered {status}, not {sorted(row.statuses)}: {body[:200]!r}"
        if status == 200 and not is_refusal(message_in(body)):
            return NOISE, f"not the refusal: {body[:200]!r}"
    accepted = sum(status == 202 for status, _ in responses)
    refusals = sum(is_refusal(json.loads(message)) for message in cell.told())
    if refusals != accepted:
        return NOISE, f"{accepted} accepted, {refusals} refused"
    if row.statuses == GATED and len(responses) != row.responses:
        return NOISE, f"{len(responses)} responses, not {row.responses}"
    return (REFUSED if responses else DROPPED), ""


def _said_behind(row: HttpBytes) -> frozenset[int]:
    """What may answer an attack through a reverse proxy. Where the bytes are legal: the same. Else a
    refusal of its own, or, once it has made plain requests of what it got, what is said to each of them."""
    return GATED if row.statuses == GATED else GATED | row.statuses | frozenset(range(400, 600))
