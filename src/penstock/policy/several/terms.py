"""What was asked for about several upstreams behind one door, as far as it matters to decide."""

from __future__ import annotations

import re

from msgspec import Struct

from penstock.policy.tools.tool_filter import Pattern, ToolFilter

PREFIXES = ("never", "on-conflict", "always")
QUESTIONS = ("sampling", "elicitation", "roots")
WHEN_DOWN = ("keep", "hide")
SEPARATOR = "__"
KNOWN_AS = "penstock"
NAME_BUDGET = 64  # what most clients allow for mcp__SERVER__TOOL

_NO_SLUG = re.compile(r"[^A-Za-z0-9_-]")


def slug_of(name: str) -> str:
    """A server's name with only what a tool's name may have everywhere."""
    return _NO_SLUG.sub("_", name)


class NameTerms(Struct, frozen=True):
    """How tools and prompts of several upstreams are called."""

    prefix: str = "on-conflict"
    separator: str = SEPARATOR
    known_as: str = KNOWN_AS  # what clients call us: they put it before every name

    @property
    def budget(self) -> int:
        """How long a name may be, so that clients take it with `mcp__KNOWN_AS__` before it."""
        return NAME_BUDGET - len(f"mcp__{self.known_as}__")


class ListTerms(Struct, frozen=True):
    """When the merged lists are there, and what becomes of them when an upstream is not."""

    wait_seconds: float = 10.0
    keep: str | None = None  # the file in which names and lists outlive us
    hides_lost: bool = False
    debounce_seconds: float = 0.25


class FrontTerms(Struct, frozen=True):
    """What we say of ourselves to clients."""

    name: str = KNOWN_AS
    instructions: str = "merge"  # merge, none, or the text itself


class SearchTerms(Struct, frozen=True):
    """Finding tools instead of listing them."""

    keep: tuple[Pattern, ...] = ()  # tools that are listed all the same
    limit: int = 5
    from_tokens: int = 10_000


class MemberTerms(Struct, frozen=True):
    """One upstream among several."""

    name: str
    slug: str
    choice: ToolFilter = ToolFilter()  # by its own names
    rename: tuple[tuple[str, str], ...] = ()
    is_lazy: bool = False
    idle_seconds: float | None = None  # stop it when nobody has used it for so long
    is_required: bool = False
    asks: frozenset[str] = frozenset(QUESTIONS)  # what it may ask of clients
    uris: tuple[Pattern, ...] = ()  # resources that are its own
    methods: tuple[Pattern, ...] = ()  # methods outside MCP that are its own
    exits_on_loss: bool = False
    is_shared: bool = False  # one process for all sessions
    shows_origin: bool = True  # its name before what it asks of people
    list_seconds: float = 10.0
    credential: str = ""  # what it gets of each caller's own: "relay", "swap", or nothing
    lists_by_caller: bool = False  # its lists may be learnt with the first caller's
    digest: bytes = b""  # of how it is reached: lists that were kept of another are of no use


class SeveralTerms(Struct, frozen=True):
    """All of it."""

    members: tuple[MemberTerms, ...] = ()  # in the order of trust
    names: NameTerms = NameTerms()
    lists: ListTerms = ListTerms()
    front: FrontTerms = FrontTerms()
    search: SearchTerms | None = None
