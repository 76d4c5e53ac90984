"""Ordering the upstream of a cell to be hostile, and saying what the client made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from doors import Lost, is_answer
from trials.attack.cell import Cell, one_by_one
from trials.attack.hostile_upstreams import ATTACKS, as_order
from trials.attack.rows import DEAD, DROPPED, NOISE, PASSED, REFUSED, Hostile, Result


def attack_with_orders(cell: Cell, rows: list[Hostile] = ATTACKS) -> Iterator[Result]:
    """Every row of the table, one after another, in one session."""
    fit = [row for row in rows if cell.transport in row.upstreams and cell.client in row.clients]
    if cell.cross:  # a translated answer has a head of ours, which names no charset
        fit = [row for row in fit if "UTF-7" not in row.what]
    yield from one_by_one(cell, fit, one)


def one(cell: Cell, row: Hostile) -> tuple[str, str]:
    """What came of one order."""
    door = cell.attacker
    token = door.new_id()
    door.begin_order(row.order, token, **as_order(row))
    post = getattr(door, "posts", {}).get(token)
    try:
        door.until(
            lambda: (
                any(is_answer(heard.raw, token) for heard in door.heard)
                or (post is not None and post.is_over)
            ),
            3.0 if cell.direct else 20.0,
        )
    except (Lost, OSError) as lost:
        if not cell.direct:
            return DEAD, str(lost)[:300]
    status = post.status if post is not None else 0
    if post is not None:
        post.close()
        door.posts.pop(token)
    is_cable = not cell.cross and (cell.client, cell.transport) == ("streamable", "streamable")
    expected = row.on_cable if is_cable and row.on_cable else row.verdict
    if found := cell.faults(is_named=expected == PASSED and not cell.direct):
        return found
    answers = [message for message in cell.told() if is_answer(message, token)]
    others = [message for message in cell.told() if not is_answer(message, token)]
    if cell.direct or (expected == PASSED and row.verdict != PASSED):
        return PASSED, ""
    if others:
        return NOISE, f"{status} passed on: {others[0][:200]!r}"
    if expected == DROPPED and expected != row.verdict and not answers:
        return DROPPED, ""
    if len(answers) > 1 or (not answers and status < 400):
        return NOISE, f"{len(answers)} answers, status {status}"
    if row.verdict == PASSED:
        said = row.raw.strip().replace(b"<id>", token)
        more = b',"resultType":"complete"' if cell.cross else b""  # what the newer era wants in every result
        return (
            (PASSED, "")
            if [answer.replace(more, b"") for answer in answers] == [said]
            else (NOISE, f"changed: {answers[0][:200]!r}")
        )
    if row.verdict == DROPPED:
        return (DROPPED, "") if b'"result"' in answers[0] else (NOISE, f"answered {answers[0][:200]!r}")
    if not answers:
        return REFUSED, ""
    error = json.loads(answers[0]).get("error", {})
    return (
        (REFUSED, "")
        if error.get("code") in (-32603, -32601) and "delete" not in str(error)
        else (NOISE, f"answered {answers[0][:200]!r}")
    )
