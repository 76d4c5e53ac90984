"""One tool list out of several: each tool as its upstream describes it, but for a name that had to change."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct, structs

from penstock.policy.several.naming import NameLedger
from penstock.policy.several.terms import MemberTerms
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.upstream_tools import Tool, UpstreamTools, is_tool_name
from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, members
from penstock.wire.json.splice import with_value

_encode = msgspec.json.Encoder().encode


class Owner(Struct, frozen=True, gc=False):
    """Whose a name is."""

    member: str
    own: str  # what its upstream calls it
    is_renamed: bool


class MergedTools(Struct, frozen=True):
    """What clients see of the tools of several upstreams, and who owns which."""

    catalog: ToolCatalog
    owners: dict[str, Owner]  # by the name that clients see
    left_out: tuple[tuple[str, str], ...] = ()  # server and tool: no name was left
    shown: dict[str, int] = {}  # how many of each server are listed
    renamed: dict[str, int] = {}  # and how many under another name
    hidden: dict[str, int] = {}
    denied: dict[str, Owner] = {}  # whose the names are that are denied by what clients would see


def member_choice(terms: MemberTerms, whole: ToolFilter) -> ToolFilter:
    """What of a member's tools counts, by its own names: what is denied to all is denied under any name."""
    choice = terms.choice
    also: ToolFilter | None = whole
    while also is not None:
        choice = structs.replace(
            choice, deny=choice.deny + also.deny, read_only=choice.read_only or also.read_only
        )
        also = also.also
    return choice


def merge_tools(
    known: Iterable[tuple[MemberTerms, ToolCatalog]],
    ledger: NameLedger,
    whole: ToolFilter,
) -> MergedTools:
    """The merged list. `known` has each member with its own list, in the order of trust.
    Raises BadToolList, ToolListRefused."""
    tools: list[Tool] = []
    owners: dict[str, Owner] = {}
    left_out: list[tuple[str, str]] = []
    hidden: dict[str, int] = {}
    for terms, catalog in known:
        hidden[terms.name] = len(catalog.denied)
        for tool in catalog.allowed:
            name = ledger.give(terms, tool.name)
            shown_as = None if name is None or name in owners else _maybe_named(tool, name)
            if name is None or shown_as is None:
                left_out.append((terms.name, tool.name))
                continue
            owners[name] = Owner(terms.name, tool.name, name != tool.name)
            tools.append(shown_as)
    page = b'{"tools":[%b]}' % b",".join(tool.raw for tool in tools)
    merged = view(UpstreamTools(page, tuple(tools)), whole)
    allowed = {tool.name for tool in merged.allowed}
    shown: dict[str, int] = {}
    renamed: dict[str, int] = {}
    denied: dict[str, Owner] = {}
    for name, owner in list(owners.items()):
        if name not in allowed:
            hidden[owner.member] = hidden.get(owner.member, 0) + 1
            denied[name] = owners.pop(name)
            continue
        shown[owner.member] = shown.get(owner.member, 0) + 1
        if owner.is_renamed:
            renamed[owner.member] = renamed.get(owner.member, 0) + 1
    return MergedTools(merged, owners, tuple(left_out), shown, renamed, hidden, denied)


def _maybe_named(tool: Tool, name: str) -> Tool | None:
    """The tool under the name that it has here. All else was read in its own list, and is not read again:
    that took most of the time in which several servers start."""
    if name == tool.name:
        return tool
    return structs.replace(tool, name=name, raw=renamed_entry(tool.raw, name)) if is_tool_name(name) else None


def renamed_entry(raw: bytes, name: str) -> bytes:
    """A tool or prompt under another name, and no other byte changed."""
    return with_value(raw, members(raw), "name", _encode(name))


class MergedPrompts(Struct, frozen=True):
    """The same for prompts."""

    result: bytes
    owners: dict[str, Owner]


def merge_prompts(known: Iterable[tuple[MemberTerms, list[bytes]]], ledger: NameLedger) -> MergedPrompts:
    """The merged list of prompts; what has no name is left out."""
    entries: list[bytes] = []
    owners: dict[str, Owner] = {}
    for terms, prompts in known:
        for raw in prompts:
            own = maybe_name(raw)
            name = ledger.give(terms, own) if own is not None else None
            if own is None or name is None or name in owners:
                continue
            owners[name] = Owner(terms.name, own, name != own)
            entries.append(raw if name == own else renamed_entry(raw, name))
    return MergedPrompts(b'{"prompts":[%b]}' % b",".join(entries), owners)


def maybe_name(raw: bytes) -> str | None:
    """The name of an entry of a list."""
    try:
        return _decode_text(members(raw)["name"])
    except (Ambiguous, NotJson, NotAnObject, KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return None


_decode_text = msgspec.json.Decoder(str).decode
