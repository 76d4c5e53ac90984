"""The upstream's tools seen through a filter: what is listed, what may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from penstock.policy.tools.tool_filter import (
    NOT_ANNOTATED,
    NOT_READ_ONLY,
    NOT_THERE_AT_FIRST,
    Denial,
    ToolFilter,
)
from penstock.policy.tools.tool_lists import member_lists_hidden_tools, shown_error
from penstock.policy.tools.upstream_tools import NO_TOOLS, Tool, UpstreamTools, read_tools
from penstock.wire.json.ambiguity import members
from penstock.wire.json.splice import with_value, without
from penstock.wire.mcp.replies import TOOL_NOT_FOUND, printable

if TYPE_CHECKING:
    from penstock.policy.tools.argument_types import ArgumentTypes
    from penstock.policy.tools.budget import Budget


class DeniedTool(Struct, frozen=True):
    """A tool that is hidden, and why."""

    tool: Tool
    why: Denial

    @property
    def name(self) -> str:
        """What it is called."""
        return self.tool.name

    @property
    def tokens(self) -> int:
        """About how many tokens are saved by hiding it."""
        return self.tool.tokens


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


def build_catalog(pages: list[bytes], choice: ToolFilter) -> ToolCatalog:
    """The catalog of the tools in `pages`, the results of tools/list in order. Raises BadToolList."""
    return view(read_tools(pages), choice)


def view(tools: UpstreamTools, choice: ToolFilter) -> ToolCatalog:
    """What the upstream listed, as it looks through `choice`. The same list may be viewed through others.

    Kept tools are the upstream's own bytes in its own order. Raises ToolListRefused.
    """
    if tools.refusal is not None:
        refusal = shown_error(tools.refusal, choice)
        return ToolCatalog(frozenset(), NO_TOOLS, (), (), (), (), refusal, deny_code=choice.deny_code)
    allowed: list[Tool] = []
    denied: list[DeniedTool] = []
    seen: set[str] = set()
    doubtful: dict[str, Denial] = {}  # there twice, and one of the two is denied
    lock = choice.lock
    for tool in tools.tools:
        denial = choice.maybe_denial(tool.name, tool.is_read_only)
        if denial is NOT_READ_ONLY and b"readOnlyHint" not in tool.raw:
            denial = NOT_ANNOTATED
        if lock is not None and denial is None:
            denial = lock.maybe_denial(tool.name, tool.raw)
        if denial is None and tools.known is not None and tool.name not in tools.known:
            denial = NOT_THERE_AT_FIRST
        if tool.name in seen:
            if denial is not None:
                doubtful[tool.name] = denial
            continue
        seen.add(tool.name)
        if denial is None:
            allowed.append(tool)
        else:
            denied.append(DeniedTool(tool, denial))
    if doubtful:
        # Which of the two a call would run, only the upstream knows.
        denied += [DeniedTool(tool, doubtful[tool.name]) for tool in allowed if tool.name in doubtful]
        allowed = [tool for tool in allowed if tool.name not in doubtful]
    remarks: list[str] = []
    if denied and not allowed and all(tool.why is NOT_ANNOTATED for tool in denied):
        remarks.append("--read-only hides every tool: this upstream annotates none with readOnlyHint")
    if lock is not None:
        found = {tool.name: tool.raw for tool in tools.tools}
        remarks += lock.differences(found, (tool.name for tool in denied if tool.why.option[:6] != "--lock"))
        lock.refuse_differences(remarks)
    if choice.budget is not None:
        remarks += _checked_cost(choice.budget, allowed)
    warnings = list(tools.warnings)
    first = _without_hidden_lists(tools.first_page, choice, warnings)
    is_whole = tools.is_one_page and not denied and not warnings
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


def _without_hidden_lists(page: bytes, choice: ToolFilter, warnings: list[str]) -> bytes:
    """`page` without what lists hidden tools beside the list itself."""
    found = members(page)
    for name in [name for name in found if name != "tools"]:
        if member_lists_hidden_tools(name, found[name], choice):
            warnings.append(f'"{printable(name)}" beside the tool list is left out: it lists hidden tools')
            page = without(page, found, name)
            found = members(page)
    return page


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


def _list_result(first_page: bytes, tools: list[Tool]) -> bytes:
    """The first page's result with all kept tools in it and no cursor; its other members as they were."""
    result = with_value(
        first_page, members(first_page), "tools", b"[%b]" % b",".join(tool.raw for tool in tools)
    )
    found = members(result)
    return without(result, found, "nextCursor") if "nextCursor" in found else result
