"""What one door shows of several upstreams: which of them, which of their tools, under which names."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from penstock.errors import ToolListRefused
from penstock.gate.gate import Gate
from penstock.policy.exchange import Exchange
from penstock.policy.several.greeting import cache_terms
from penstock.policy.several.merged_tools import (
    MergedPrompts,
    MergedTools,
    member_choice,
    merge_prompts,
    merge_tools,
)
from penstock.policy.several.terms import SearchTerms
from penstock.policy.tools.catalog import DeniedTool, ToolCatalog, build_catalog
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.upstream_tools import BadToolList
from penstock.relay.adapters.aggregate.member import Known, Member, State
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message

if TYPE_CHECKING:
    from penstock.policy.several.finder import Finder
    from penstock.relay.adapters.aggregate.hub import Hub

log = logging.getLogger("penstock")

_NO_TOOLS = MergedTools(ToolCatalog(frozenset(), b'{"tools":[]}', (), (), (), ()), {})
_NO_PROMPTS = MergedPrompts(b'{"prompts":[]}', {})


class View:
    """The merged lists of one door, and the gate for its calls. Swapped whole when something changes."""

    def __init__(
        self,
        hub: Hub,
        choice: ToolFilter,
        only: frozenset[str] | None = None,
        search: SearchTerms | None = None,
    ) -> None:
        """`choice` goes by the names that clients see; `only` are the members that count here."""
        self._hub = hub
        self._only = only
        self.choice = choice
        self.search = search
        self.tools = _NO_TOOLS
        self.prompts = _NO_PROMPTS
        self.gate = Gate(choice)
        self.gate.is_filtering = True  # who calls what is not in the table calls nothing
        self.finder: Finder | None = None  # where tools are found and not listed
        self.refusal: ToolListRefused | None = None
        self.calls: dict[str, str] = {}  # tools that the gate lets pass as they are, and whose they are
        self.on_change: list[Callable[[str], None]] = []  # each hears "tools" or "prompts"
        self._gates: dict[Member, Gate] = {}
        self._modern: dict[str, bytes] = {}
        self._modern_catalog: ToolCatalog | None = None
        self._short: ToolCatalog | None = None
        self._exchanges: dict[Era, Exchange] = {}
        self._listed_as: tuple[bytes, msgspec.Raw] | None = None
        self._lists: dict[str, tuple[Known, ToolCatalog]] = {}

    @property
    def members(self) -> list[Member]:
        """The upstreams of this door, in the order of trust."""
        return [
            member for member in self._hub.members.values() if self._only is None or member.name in self._only
        ]

    def gate_of(self, member: Member) -> Gate:
        """Looks at what a member says: does it show tools, by its own names for them, that are hidden?"""
        gate = self._gates.get(member)
        if gate is None:
            gate = self._gates[member] = Gate(member_choice(member.terms, self.choice))
        return gate

    def result(self, kind: str, era: Era) -> bytes:
        """The result of tools/list or prompts/list."""
        plain = self._listed_tools() if kind == "tools" else self.prompts.result
        if era is Era.LEGACY:
            return plain
        if kind not in self._modern:
            terms = [
                one
                for member in self._listed()
                if member.known is not None
                for one in member.known.list_terms
            ]
            extra = msgspec.json.encode({"resultType": "complete", **cache_terms(terms)})
            self._modern[kind] = plain[:-1] + b"," + extra[1:]
        return self._modern[kind]

    def catalog_for(self, era: Era) -> ToolCatalog:
        """The catalog whose list an answer is made of."""
        if era is Era.LEGACY and self.finder is None:
            return self.tools.catalog
        if era is Era.LEGACY:
            return self._found_catalog()
        if self._modern_catalog is None:
            catalog = self.tools.catalog if self.finder is None else self._found_catalog()
            self._modern_catalog = structs.replace(catalog, result=self.result("tools", era))
        return self._modern_catalog

    def _listed_tools(self) -> bytes:
        return self.tools.catalog.result if self.finder is None else self.finder.result

    def _found_catalog(self) -> ToolCatalog:
        """The whole catalog, with the short list in its place and the tool that finds the others."""
        from penstock.policy.several.finder import FIND

        assert self.finder is not None
        if self._short is None:
            catalog = self.tools.catalog
            names = catalog.names | {FIND}
            self._short = structs.replace(catalog, names=names, result=self.finder.result)
        return self._short

    def unwrap(self, message: Message) -> Message | bytes | None:
        """What a wrapped call means; None when a message is none."""
        from penstock.policy.several.finder import wrapper_of

        return self.finder.unwrap(message) if self.finder is not None and wrapper_of(message) else None

    def hidden_of(self, member: Member) -> tuple[DeniedTool, ...]:
        """A member's tools that are hidden by its own names."""
        kept = self._lists.get(member.name)
        return () if kept is None else kept[1].denied

    def forget(self) -> None:
        """The members are others: nothing that was made for one of their names counts any more."""
        self._gates, self._lists = {}, {}

    def exchange_for(self, era: Era) -> Exchange:
        """What the gate is asked with: the catalog is all that it looks at."""
        exchange = self._exchanges.get(era)
        if exchange is None:
            exchange = self._exchanges[era] = Exchange(catalog=self.catalog_for(era))
        return exchange

    def list_result(self, era: Era) -> msgspec.Raw:
        """The result of a list that the gate answers: the same one as long as the list is."""
        listed = self.catalog_for(era).result
        if self._listed_as is None or self._listed_as[0] is not listed:
            self._listed_as = listed, msgspec.Raw(listed)
        return self._listed_as[1]

    def refresh(self) -> list[str]:
        """Makes the lists anew; gives back which of them have changed, and tells who listens."""
        before = self._listed_tools(), self.prompts.result
        listed = self._listed()
        catalogs = [(member.terms, catalog) for member in listed if (catalog := self._catalog(member))]
        try:
            self.tools = merge_tools(catalogs, self._hub.tool_names, self.choice)
            self.refusal = None
        except (ToolListRefused, BadToolList) as why:
            self.tools = _NO_TOOLS
            self.refusal = why if isinstance(why, ToolListRefused) else None
            log.warning("No tools are shown: %s.", why)
        names = self.tools.catalog.names  # of all eras, and whether tools are found or listed
        self.calls = {
            name: owner.member
            for name, owner in self.tools.owners.items()
            if name in names and not owner.is_renamed
        }
        self.prompts = merge_prompts(
            [(member.terms, member.known.prompts) for member in listed if member.known is not None],
            self._hub.prompt_names,
        )
        self._modern = {}
        self._exchanges = {}
        self._modern_catalog = None
        for server, own in self.tools.left_out:
            self._hub.say_left_out(server, own)
        self._find_tools()
        after = self._listed_tools(), self.prompts.result
        changed = [
            kind for kind, old, new in zip(("tools", "prompts"), before, after, strict=True) if old != new
        ]
        for kind in changed:
            for listener in list(self.on_change):
                listener(kind)
        return changed

    def _find_tools(self) -> None:
        self.finder = self._short = None
        if self.search is None:
            return
        tokens = sum(tool.tokens for tool in self.tools.catalog.allowed)
        if tokens >= self.search.from_tokens:
            from penstock.policy.several.finder import Finder

            self.finder = Finder(self.tools.catalog, self.search)

    def _listed(self) -> list[Member]:
        hides = self._hub.terms.lists.hides_lost
        return [
            member
            for member in self.members
            if member.known is not None and not (hides and member.state in (State.DOWN, State.NEEDS_AUTH))
        ]

    def _catalog(self, member: Member) -> ToolCatalog | None:
        """A member's own list, by its own names."""
        known = member.known
        if known is None or not known.pages:
            return None
        kept = self._lists.get(member.name)
        if kept is not None and kept[0] is known:
            return kept[1]
        try:
            catalog = build_catalog(known.pages, member_choice(member.terms, self.choice))
        except BadToolList as why:
            log.warning("The tools of %s are left out: %s.", member.name, why)
            return None
        for warning in catalog.warnings:
            log.warning("%s: %s.", member.name, warning)
        self._lists[member.name] = (known, catalog)
        return catalog
