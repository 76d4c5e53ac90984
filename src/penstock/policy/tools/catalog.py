"""The upstream's tools after filtering: what is listed, what may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

if TYPE_CHECKING:
    from penstock.policy.tools.budget import Budget

from penstock import limits
from penstock.policy.tools.token_estimate import tool_tokens
from penstock.policy.tools.tool_filter import (
    NOT_ANNOTATED,
    NOT_READ_ONLY,
    NOT_THERE_AT_FIRST,
    Denial,
    ToolFilter,
)
from penstock.policy.tools.tool_lists import member_lists_hidden_tools, shown_error
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
from penstock.wire.json.splice import with_value, without
from penstock.wire.mcp.replies import TOOL_NOT_FOUND, printable

if TYPE_CHECKING:
    from penstock.policy.tools.argument_types import ArgumentTypes


class BadToolList(ValueError):
    """What the upstream sent is no tool list."""


class Tool(Struct, frozen=True):
    """One tool as the upstream describes it."""

    name: str
    raw: bytes
    tokens: int


class DeniedTool(Struct, frozen=True):
    """A tool that is hidden, and why."""

    name: str
    why: Denial
    tokens: int


class ToolCatalog(Struct, frozen=True):
    """What clients see of the upstream's tools."""

    names: frozenset[str]
    result: bytes  # the result of tools/list, ready to send
    allowed: tuple[Tool, ...]
    denied: tuple[DeniedTool, ...]
    unmatched: tuple[str, ...]  # patterns that matched no tool
    warnings: tuple[str, ...]  # entries that were left out because they are no tools
    refusal: bytes | None = None  # the upstream's own error object, when it has no tools at all
    typed: dict[str, ArgumentTypes] | None = (
        None  # tools whose arguments are checked; then none is in `names`
    )
    remarks: tuple[str, ...] = ()  # what people should hear of the list as a whole
    deny_code: int = TOOL_NOT_FOUND  # what a call of any other tool is answered with


_decode_text = msgspec.json.Decoder(str).decode


def build_catalog(pages: list[bytes], choice: ToolFilter) -> ToolCatalog:
    """The catalog of the tools in `pages`, the results of tools/list in order.

    Kept tools are the upstream's own bytes in its own order. Raises BadToolList.
    """
    allowed: list[Tool] = []
    denied: list[DeniedTool] = []
    warnings: list[str] = []
    seen: set[str] = set()
    doubtful: dict[str, Denial] = {}  # there twice, and one of the two is denied
    lock = choice.lock
    found: dict[str, bytes] = {}  # every tool, where there is a lock to compare with
    for raw in (entry for page in pages for entry in _entries(page)):
        try:
            name, is_read_only, tokens = _inspect(raw)
        except BadToolList as why:
            warnings.append(str(why))
            continue
        denial = choice.maybe_denial(name, is_read_only)
        if denial is NOT_READ_ONLY and b"readOnlyHint" not in raw:
            denial = NOT_ANNOTATED
        if lock is not None:
            found[name] = raw
            if denial is None:
                denial = lock.maybe_denial(name, raw)
        if name in seen:
            warnings.append(f'a second tool named "{printable(name)}" is left out')
            if denial is not None:
                doubtful[name] = denial
            continue
        seen.add(name)
        if denial is None:
            allowed.append(Tool(name, raw, tokens))
        else:
            denied.append(DeniedTool(name, denial, tokens))
    if doubtful:
        # Which of the two a call would run, only the upstream knows.
        denied += [DeniedTool(t.name, doubtful[t.name], t.tokens) for t in allowed if t.name in doubtful]
        allowed = [tool for tool in allowed if tool.name not in doubtful]
    remarks: list[str] = []
    if denied and not allowed and all(tool.why is NOT_ANNOTATED for tool in denied):
        remarks.append("--read-only hides every tool: this upstream annotates none with readOnlyHint")
    if lock is not None:
        remarks += lock.differences(found, (tool.name for tool in denied if tool.why.option[:6] != "--lock"))
        lock.refuse_differences(remarks)
    if choice.budget is not None:
        remarks += _checked_cost(choice.budget, allowed)
    first = _without_hidden_lists(pages[0], choice, warnings)
    is_whole = len(pages) == 1 and not denied and not warnings
    if choice.order != "upstream":
        allowed, is_whole = _ordered(allowed, choice), False
    return ToolCatalog(
        # The short way to a verdict is for tools whose arguments nobody looks at.
        names=frozenset(() if choice.strict_arguments else (tool.name for tool in allowed)),
        result=first if is_whole else _list_result(first, allowed),
        allowed=tuple(allowed),
        denied=tuple(denied),
        unmatched=tuple(choice.unmatched(sorted(seen))),
        warnings=tuple(warnings),
        typed=_types_of(allowed) if choice.strict_arguments else None,
        deny_code=choice.deny_code,
        remarks=tuple(remarks),
    )


def _types_of(tools: list[Tool]) -> dict[str, ArgumentTypes]:
    from penstock.policy.tools.argument_types import ArgumentTypes  # only where somebody asks for it

    return {tool.name: ArgumentTypes(bytes(members(tool.raw)["inputSchema"])) for tool in tools}


def empty_catalog(refusal: bytes, choice: ToolFilter) -> ToolCatalog:
    """The catalog of an upstream that answers tools/list with the error object `refusal`."""
    return ToolCatalog(frozenset(), b'{"tools":[]}', (), (), (), (), shown_error(refusal, choice))


def _entries(page: bytes) -> list[bytes]:
    try:
        return elements(members(page)["tools"])
    except KeyError:
        raise BadToolList("its tool list has no tools member") from None
    except (Ambiguous, NotJson, NotAnObject, NotAnArray):
        raise BadToolList("its tool list cannot be read") from None


def _without_hidden_lists(page: bytes, choice: ToolFilter, warnings: list[str]) -> bytes:
    """`page` without what lists hidden tools beside the list itself."""
    found = members(page)
    for name in [name for name in found if name != "tools"]:
        if member_lists_hidden_tools(name, found[name], choice):
            warnings.append(f'"{printable(name)}" beside the tool list is left out: it lists hidden tools')
            page = without(page, found, name)
            found = members(page)
    return page


def _inspect(raw: bytes) -> tuple[str, bool, int]:
    """Name, read-only hint and token estimate of one entry; BadToolList when it is no tool."""
    try:
        entry = members(raw)
        name = _decode_text(entry["name"])
    except Ambiguous:
        raise BadToolList(
            f"a tool whose members can be read in two ways is left out: {_glimpse(raw)}"
        ) from None
    except (NotJson, NotAnObject, KeyError, msgspec.DecodeError, UnicodeDecodeError):
        raise BadToolList(f"an entry that has no name is left out: {_glimpse(raw)}") from None
    if not 0 < len(name) <= limits.NAME_LENGTH or not name.isprintable() or " " in name:
        raise BadToolList(
            f'the tool "{printable(name)}" is left out: '
            f"a name has 1 to {limits.NAME_LENGTH} visible characters"
        )
    fault = _maybe_fault(entry)
    if fault is not None:
        raise BadToolList(f'the tool "{printable(name)}" is left out: {fault}')
    return name, _is_read_only(entry), tool_tokens(entry)


def _maybe_fault(entry: Members) -> str | None:
    """Why an entry with a name is no tool all the same."""
    fault = maybe_schema_fault(bytes(entry.get("inputSchema", b"")))
    if fault is None and bytes(entry.get("description", b'"'))[:1] != b'"':
        return "its description is not a text"
    return fault


def frozen_to(found: ToolCatalog, first: ToolCatalog) -> ToolCatalog:
    """`found`, the list of another era, without tools that were not there when the list was frozen."""
    known = {tool.name for tool in first.allowed} | {tool.name for tool in first.denied}
    kept = [tool for tool in found.allowed if tool.name in known]
    if first.refusal is not None or len(kept) == len(found.allowed):
        return found
    late = tuple(
        DeniedTool(tool.name, NOT_THERE_AT_FIRST, tool.tokens)
        for tool in found.allowed
        if tool.name not in known
    )
    typed = (
        None if found.typed is None else {name: found.typed[name] for name in found.typed if name in known}
    )
    return structs.replace(
        found,
        names=found.names & known,
        result=_list_result(found.result, kept),
        allowed=tuple(kept),
        denied=found.denied + late,
        typed=typed,
    )


def _is_read_only(entry: Members) -> bool:
    try:
        # Strictly true: a hint that a lax reader might take for true is not a promise.
        annotations = members(entry["annotations"])
        return bytes(annotations.get("readOnlyHint", b"")) == b"true"
    except (KeyError, Ambiguous, NotJson, NotAnObject):
        return False


def _checked_cost(budget: Budget, allowed: list[Tool]) -> list[str]:
    """What is to be said of the cost of the list. Raises ToolListRefused when it is too high."""
    from penstock.policy.tools.budget import Cost

    costs = [Cost(tool.name, tool.tokens) for tool in allowed]
    budget.refuse_excess(costs)
    warning = budget.maybe_warning(costs)
    return [] if warning is None else [warning]


def _ordered(tools: list[Tool], choice: ToolFilter) -> list[Tool]:
    """The tools in the order that was asked for."""
    if choice.order == "lock" and choice.lock is not None:
        places = {name: place for place, name in enumerate(choice.lock.order)}
        return sorted(tools, key=lambda tool: places.get(tool.name, len(places)))
    return sorted(tools, key=lambda tool: tool.name)


def _glimpse(raw: bytes) -> str:
    return printable(raw[:60].decode("utf-8", "replace"))


def _list_result(first_page: bytes, tools: list[Tool]) -> bytes:
    """The first page's result with all kept tools in it and no cursor; its other members as they were."""
    result = with_value(
        first_page, members(first_page), "tools", b"[%b]" % b",".join(tool.raw for tool in tools)
    )
    found = members(result)
    return without(result, found, "nextCursor") if "nextCursor" in found else result
