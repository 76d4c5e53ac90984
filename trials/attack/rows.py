"""What a row of the table is: its number in the threat catalogue, the attack, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from trials.attack.cell import Cell
    from trials.attack.raw_http import Router

DENIED = ("write_file", "delete_file")
DENY = "^(write|delete)_"

# What must come of a message of the client.
NF = "nf"  # "Tool not found" under the request's id
DROP = "drop"  # not passed on; told so, or not
SILENT = "silent"  # not passed on, and on a pipe not a word about it
INVALID = "invalid"  # -32602 under the request's id
UNKNOWN = "unknown"  # -32601 "Method not found"
FORWARD = "forward"  # these very bytes, once
LISTED = "listed"  # answered from the catalog

# What came of it, as the table says it.
REFUSED = "refused"
DROPPED = "dropped"
PASSED = "passed untouched"
ANSWERED = "answered here"
HELD = "held"  # within its limit of memory, and nobody waited for it
LEAK = "LEAK"  # a denied call upstream, or a hidden name at the client
NOISE = "NOISE"  # a wrong or changed message, or words of ours that are nobody's business
DEAD = "DEAD"  # the next allowed call fails, or another session noticed
BAD = (LEAK, NOISE, DEAD)


class ClientBytes(NamedTuple):
    """One message of a client. `in_body`, `on_cable`: what must come of it as an HTTP body, and where both
    sides speak Streamable HTTP, if that differs."""

    row: str
    what: str
    raw: bytes
    verdict: str
    token: bytes = b'"t"'
    in_body: str | None = None
    on_cable: str | None = None


class HttpBytes(NamedTuple):
    """One connection's worth of bytes. `statuses` may answer it; 200 only with the refusal of the call."""

    row: str
    what: str
    build: Callable[[Router], bytes]
    statuses: frozenset[int]
    responses: int = 1  # read so many, or to the end of the connection
    only: str = ""  # the client transport that has such a thing at all
    verdicts: tuple[str, ...] = (REFUSED, DROPPED)


class Hostile(NamedTuple):
    """Something an upstream says when ordered to: `<id>` stands for the id of the order."""

    row: str
    what: str
    raw: bytes
    verdict: str  # DROPPED, REFUSED (the order is answered with -32603) or PASSED
    order: str = "say"
    upstreams: tuple[str, ...] = ("stdio", "sse", "streamable")
    more: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    on_cable: str = ""  # where both sides speak Streamable HTTP, if that differs
    clients: tuple[str, ...] = ("stdio", "sse", "streamable")


class RuleRun(NamedTuple):
    """Something that takes more than one step. `play` gives the verdict, and why."""

    row: str
    what: str
    play: Callable[[Cell], tuple[str, str]]
    eras: tuple[str, ...] = ("legacy", "modern")
    clients: tuple[str, ...] = ("stdio", "sse", "streamable")


class Weight(NamedTuple):
    """Something heavy. `play` gives the verdict, why, and what was measured."""

    row: str
    what: str
    play: Callable[[Cell], tuple[str, str, float]]


class Result(NamedTuple):
    """What came of one attack in one cell."""

    row: str
    what: str
    cell: str
    verdict: str
    why: str = ""
    figure: float = 0.0  # what was measured, where something was

    @property
    def is_bad(self) -> bool:
        return self.verdict in BAD
