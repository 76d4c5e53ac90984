"""Which cells are attacked, and with what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pairs import PAIRS, TRANSPORTS
from trials.attack.cell import ACROSS, Cell
from trials.attack.client_bytes import ATTACKS as MESSAGES
from trials.attack.connections import attack_with_connections
from trials.attack.hostile_upstreams import ATTACKS as ORDERS
from trials.attack.http_bytes import ATTACKS as CONNECTIONS
from trials.attack.messages import attack_with_messages
from trials.attack.orders import attack_with_orders
from trials.attack.reverse_proxies import NAMES, maybe_missing
from trials.attack.review import SCENES as REVIEWED
from trials.attack.review import WEIGHTS as REVIEWED_WEIGHTS
from trials.attack.rows import DEAD, Result
from trials.attack.scenes import SCENES, attack_with_scenes
from trials.attack.several import attack_several
from trials.attack.weights import WEIGHTS, attack_with_weights

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SEVERAL = "several"
OLDER = ("2024-11-05", "2025-03-26", "2025-06-18")


class Plan(NamedTuple):
    """A cell to be."""

    client: str
    upstream: str
    version: str
    direct: bool = False
    ruled: bool = False
    is_heavy: bool = False  # also what takes long and much memory
    behind: str = ""  # the reverse proxy that stands before Penstock; only the HTTP table is fired through it
    cross: bool = False  # the upstream speaks only the other era, and is translated

    @property
    def name(self) -> str:
        way = f"direct {self.client}" if self.direct else f"{self.client}>{self.upstream}"
        more = f" behind {self.behind}" if self.behind else " ruled" if self.ruled else ""
        return f"{way} {self.version}{more}{ACROSS if self.cross else ''}"

    @property
    def maybe_missing(self) -> str | None:
        """Why there cannot be such a cell here; None when there can."""
        return maybe_missing(self.behind) if self.behind else None


def cells_of(is_short: bool, wanted: list[str]) -> list[Plan]:
    """Nine pairs in both eras; older versions, rules and reverse proxies on a few; and no proxy at all."""
    if is_short:
        plans = [Plan("stdio", "stdio", LEGACY), Plan("sse", "streamable", MODERN)]
        plans += [Plan("streamable", "streamable", LEGACY), Plan("streamable", "stdio", MODERN)]
    else:
        plans = [
            Plan(client, upstream, version, is_heavy=True)
            for client, upstream in PAIRS
            for version in (LEGACY, MODERN)
        ]
        plans += [Plan(way, way, version) for way in TRANSPORTS for version in OLDER]
        plans += [
            Plan(client, upstream, version, ruled=True)
            for client, upstream in (("stdio", "stdio"), ("sse", "streamable"), ("streamable", "streamable"))
            for version in (LEGACY, MODERN)
        ] + [Plan("streamable", "stdio", MODERN, ruled=True)]
        plans += [
            Plan(client, upstream, version, behind=name)
            for name in NAMES
            for client, upstream in (("sse", "stdio"), ("streamable", "stdio"), ("streamable", "streamable"))
            for version in (LEGACY, MODERN)
        ]
        plans += [
            Plan(client, upstream, version, cross=True)
            for client, upstream in PAIRS
            for version in (LEGACY, MODERN)
        ]
        plans += [
            Plan(client, upstream, version, ruled=True, cross=True)
            for client, upstream in (("stdio", "streamable"), ("sse", "sse"), ("streamable", "stdio"))
            for version in (LEGACY, MODERN)
        ]
        plans += [Plan(way, SEVERAL, version) for way in TRANSPORTS for version in (LEGACY, MODERN)]
        plans += [Plan(way, way, version, direct=True) for way in TRANSPORTS for version in (LEGACY, MODERN)]
    return [plan for plan in plans if not wanted or any(word in plan.name for word in wanted)]


def run(plan: Plan, work: Path, rows: set[str] | None = None) -> list[Result]:
    """All that is fired in one cell, and what came of it."""
    if plan.upstream == SEVERAL:
        return attack_several(work, plan.client, plan.version, rows or set())
    cell = Cell(
        work,
        plan.client,
        plan.upstream,
        plan.version,
        plan.direct,
        plan.ruled,
        behind=plan.behind,
        cross=plan.cross,
    )
    try:
        results = list(_all(cell, plan, rows or set()))
    finally:
        fault = cell.close()
    if fault and not plan.direct:
        results.append(Result("0", "a bystander from beginning to end", cell.name, DEAD, fault))
    return results


# In one version batches are part of the protocol: they are taken apart, and each message is judged
# (tests/e2e/test_eras.py). In all others an array is refused, which is what these rows expect.
BATCH_VERSION = "2025-03-26"
ABOUT_BATCHES = ("array with an allowed and a denied call", "a batch")


def _all(cell: Cell, plan: Plan, rows: set[str]) -> Iterator[Result]:
    def kept(table: list) -> list:  # type: ignore[type-arg]
        named = [row for row in table if not rows or row.row in rows]
        return [row for row in named if plan.version != BATCH_VERSION or row.what not in ABOUT_BATCHES]

    if plan.behind:
        yield from attack_with_connections(cell, kept(CONNECTIONS))
        return
    yield from attack_with_messages(cell, kept(MESSAGES))
    yield from attack_with_connections(cell, kept(CONNECTIONS))
    if not plan.ruled:
        yield from attack_with_orders(cell, kept(ORDERS))
    if not plan.direct:
        is_reviewed = not plan.ruled and plan.version in (LEGACY, MODERN)  # they bring their own rules
        yield from attack_with_scenes(cell, kept(SCENES + (REVIEWED if is_reviewed else [])))
    if plan.is_heavy:
        yield from attack_with_weights(cell, kept(WEIGHTS + REVIEWED_WEIGHTS))
