"""The upstream's tools as it listed them, before any filter.

Read once and kept, so that a filter is a view (`catalog.view`) and not another fetch.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct, structs

from penstock import limits
from penstock.policy.tools.token_estimate import tool_tokens
from penstock.policy.tools.tool_schema import maybe_schema_fault
from penstock.wire.json.ambiguity import (
    Ambiguous,
    Members,
    NotAnArray,
    NotAnObject,
    NotJson,
    elements,
    members,
)
from penstock.wire.mcp.replies import printable

NO_TOOLS = b'{"tools":[]}'

_decode_text = msgspec.json.Decoder(str).decode

ListCheck = Callable[[bytes, object], dict[int, str]]
"""What is wrong with a page of a tool list in a protocol version, by the places of the entries. Raises
BadToolList where it is the page itself."""


class BadToolList(ValueError):
    """What the upstream sent is no tool list."""


class Tool(Struct, frozen=True):
    """One tool as the upstream describes it."""

    name: str
    raw: bytes
    is_read_only: bool
    counted: int | None = None  # its tokens, where somebody has counted them

    @property
    def tokens(self) -> int:
        """About how many tokens it is. Estimated when asked for: that takes as long as reading the tool does,
        and few who read a list want to know."""
        return tool_tokens(members(self.raw)) if self.counted is None else self.counted


class UpstreamTools(Struct, frozen=True):
    """What the upstream listed, whoever asks."""

    first_page: bytes = NO_TOOLS  # a result of tools/list; the members beside the list are those that count
    tools: tuple[Tool, ...] = ()  # in the upstream's order, from all pages; a name may be there twice
    warnings: tuple[str, ...] = ()  # entries that are no tools, or there twice
    is_one_page: bool = True
    refusal: bytes | None = None  # the upstream's own error object, when it has no tools at all
    known: frozenset[str] | None = None  # names that were there when the list was frozen; others stay hidden


def frozen_to(found: UpstreamTools, first: UpstreamTools) -> UpstreamTools:
    """`found`, the list of another era, as it may be shown where `first` was frozen before it."""
    if first.refusal is not None:
        return found
    return structs.replace(found, known=frozenset(tool.name for tool in first.tools))


def read_tools(pages: list[bytes], check: ListCheck | None = None, version: object = None) -> UpstreamTools:
    """The tools in `pages`, the results of tools/list in order. `check` is asked about each page as well, in
    the protocol version that it came in. Raises BadToolList."""
    tools: list[Tool] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for raw, fault in (entry for page in pages for entry in _entries(page, check, version)):
        try:
            tool = read_tool(raw, fault)
        except BadToolList as why:
            warnings.append(str(why))
            continue
        if tool.name in seen:
            warnings.append(f'a second tool named "{printable(tool.name)}" is left out')
        seen.add(tool.name)
        tools.append(tool)
    return UpstreamTools(pages[0], tuple(tools), tuple(warnings), len(pages) == 1)


def _entries(page: bytes, check: ListCheck | None, version: object) -> list[tuple[bytes, str | None]]:
    """The entries of a page, each with what `check` has against it."""
    try:
        entries = elements(members(page)["tools"])
    except KeyError:
        raise BadToolList("its tool list has no tools member") from None
    except (Ambiguous, NotJson, NotAnObject, NotAnArray):
        raise BadToolList("its tool list cannot be read") from None
    faults = check(page, version) if check is not None else {}
    return [(raw, faults.get(place)) for place, raw in enumerate(entries)]


def read_tool(raw: bytes, fault: str | None = None) -> Tool:
    """One entry of the list; BadToolList when it is no tool, or when somebody else has found a `fault`."""
    try:
        entry = members(raw)
        name = _decode_text(entry["name"])
    except Ambiguous:
        raise BadToolList(
            f"a tool whose members can be read in two ways is left out: {_glimpse(raw)}"
        ) from None
    except (NotJson, NotAnObject, KeyError, msgspec.DecodeError, UnicodeDecodeError):
        raise BadToolList(f"an entry that has no name is left out: {_glimpse(raw)}") from None
    if not is_tool_name(name):
        raise BadToolList(
            f'the tool "{printable(name)}" is left out: '
            f"a name has 1 to {limits.NAME_LENGTH} visible characters"
        )
    fault = _maybe_fault(entry) or fault
    if fault is not None:
        raise BadToolList(f'the tool "{printable(name)}" is left out: {fault}')
    return Tool(name, raw, _is_read_only(entry))


def is_tool_name(name: str) -> bool:
    """Whether a tool can be called so: visible characters, and not too many."""
    return 0 < len(name) <= limits.NAME_LENGTH and name.isprintable() and " " not in name


def _maybe_fault(entry: Members) -> str | None:
    """Why an entry with a name is no tool all the same."""
    fault = maybe_schema_fault(bytes(entry.get("inputSchema", b"")))
    if fault is None and bytes(entry.get("description", b'"'))[:1] != b'"':
        return "its description is not a text"
    return fault


def _is_read_only(entry: Members) -> bool:
    try:
        # Strictly true: a hint that a lax reader might take for true is not a promise.
        annotations = members(entry["annotations"])
        return bytes(annotations.get("readOnlyHint", b"")) == b"true"
    except (KeyError, Ambiguous, NotJson, NotAnObject):
        return False


def _glimpse(raw: bytes) -> str:
    return printable(raw[:60].decode("utf-8", "replace"))
