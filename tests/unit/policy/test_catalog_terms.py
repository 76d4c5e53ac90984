"""What a catalog makes of read-only, a lock, a budget and an order."""

from __future__ import annotations

import pytest

from penstock.errors import ToolListRefused
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.budget import Budget
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.policy.tools.tool_filter import (
    NOT_ANNOTATED,
    NOT_READ_ONLY,
    NOT_THERE_AT_FIRST,
    Denial,
    ToolFilter,
)
from penstock.policy.tools.tool_lock import (
    CHANGED,
    NOT_LOCKED,
    Locked,
    ToolLock,
    definition_of,
    digest_of,
)
from penstock.policy.tools.upstream_tools import UpstreamTools, frozen_to, read_tools

HIDES_ALL = "--read-only hides every tool: this upstream annotates none with readOnlyHint"
SAFE = b',"annotations":{"readOnlyHint":true}'
UNSAFE = b',"annotations":{"readOnlyHint":false}'


def entry(name: str, more: bytes = b"") -> bytes:
    return b'{"name":"%b","inputSchema":{"type":"object"}%b}' % (name.encode(), more)


def tools(*entries: bytes) -> UpstreamTools:
    return read_tools([b'{"tools":[%b]}' % b",".join(entries)])


def deny(*names: str) -> ToolFilter:
    return ToolFilter(deny=tuple(compile_pattern(f"^{name}$", "deny") for name in names))


def lock_of(*entries: bytes, is_strict: bool = False) -> ToolLock:
    names = [tool.name for tool in tools(*entries).tools]
    locked = {
        name: Locked(digest_of(raw), definition_of(raw)) for name, raw in zip(names, entries, strict=True)
    }
    return ToolLock(locked, {}, tuple(names), is_strict=is_strict)


def why(catalog: ToolCatalog) -> dict[str, Denial]:
    return {tool.name: tool.why for tool in catalog.denied}


def names(catalog: ToolCatalog) -> list[str]:
    return [tool.name for tool in catalog.allowed]


def test_a_tool_that_says_it_writes_is_told_from_one_that_says_nothing() -> None:
    catalog = view(
        tools(entry("safe", SAFE), entry("writes", UNSAFE), entry("silent")), ToolFilter(read_only=True)
    )
    assert names(catalog) == ["safe"]
    assert why(catalog) == {"writes": NOT_READ_ONLY, "silent": NOT_ANNOTATED}
    assert catalog.remarks == ()


@pytest.mark.parametrize(
    ("entries", "is_told"),
    [
        ([entry("a"), entry("b")], True),
        ([entry("a"), entry("b", UNSAFE)], False),
        ([entry("a"), entry("b", SAFE)], False),
        ([], False),
    ],
)
def test_people_hear_that_read_only_hides_everything_because_nothing_is_annotated(
    entries: list[bytes], is_told: bool
) -> None:
    catalog = view(tools(*entries), ToolFilter(read_only=True))
    assert catalog.remarks == ((HIDES_ALL,) if is_told else ())


def test_a_denied_tool_is_denied_by_name_whatever_else_hides_it() -> None:
    listed = frozen_to(tools(entry("a"), entry("new")), tools(entry("a")))
    choice = ToolFilter(deny=deny("new").deny, lock=lock_of(entry("a")))
    assert why(view(listed, choice)) == {"new": Denial("--deny", "^new$")}
    assert why(view(listed, ToolFilter(lock=lock_of(entry("a"))))) == {"new": NOT_LOCKED}
    assert why(view(listed, ToolFilter())) == {"new": NOT_THERE_AT_FIRST}


def test_only_what_is_as_it_was_locked_is_kept_and_people_hear_what_is_not() -> None:
    lock = lock_of(entry("same"), entry("changed"), entry("gone"))
    listed = tools(entry("same"), entry("changed", SAFE), entry("new"))
    catalog = view(listed, ToolFilter(lock=lock))
    assert names(catalog) == ["same"]
    assert why(catalog) == {"changed": CHANGED, "new": NOT_LOCKED}
    assert [remark.split("\n")[0].rstrip(":") for remark in catalog.remarks] == [
        "The tool changed has changed",
        "The tool new is new; it looks like gone under a new name",
        "The tool gone is gone.",
    ]


def test_what_is_hidden_anyhow_is_no_difference_to_a_lock() -> None:
    lock = lock_of(entry("same"), is_strict=True)
    listed = tools(entry("same"), entry("new"))
    assert names(view(listed, ToolFilter(deny=deny("new").deny, lock=lock))) == ["same"]
    with pytest.raises(ToolListRefused) as refusal:
        view(listed, ToolFilter(lock=lock))
    assert refusal.value.headline == "The upstream is not what the lock says"
    assert "The tool new is new" in refusal.value.detail


def test_remarks_of_all_kinds_are_told_together() -> None:
    lock = lock_of(entry("a"))
    catalog = view(
        tools(entry("a"), entry("b")), ToolFilter(read_only=True, lock=lock, budget=Budget(most=100, warn=0))
    )
    assert catalog.remarks == (HIDES_ALL,)
    catalog = view(tools(entry("a", SAFE), entry("b")), ToolFilter(lock=lock, budget=Budget(warn=1)))
    assert len(catalog.remarks) == 2
    catalog = view(tools(entry("a"), entry("b")), ToolFilter(lock=lock, budget=Budget(warn=1)))
    assert "The tool b is new" in catalog.remarks[0]
    assert catalog.remarks[1].endswith("more than --warn-tokens 1.")


def test_a_budget_warns_refuses_or_says_nothing() -> None:
    listed = tools(entry("a"), entry("b"))
    cost = sum(tool.tokens for tool in listed.tools)
    assert view(listed, ToolFilter(budget=Budget(most=cost, warn=cost))).remarks == ()
    (remark,) = view(listed, ToolFilter(budget=Budget(warn=cost - 1))).remarks
    assert f"about {cost} tokens" in remark
    with pytest.raises(ToolListRefused):
        view(listed, ToolFilter(budget=Budget(most=cost - 1)))
    hidden = ToolFilter(deny=deny("b").deny, budget=Budget(most=cost - 1))
    assert names(view(listed, hidden)) == ["a"]  # what is hidden costs nothing


@pytest.mark.parametrize(
    ("order", "lock", "found"),
    [
        ("upstream", None, ["c", "a", "b"]),
        ("name", None, ["a", "b", "c"]),
        ("lock", ["b", "c", "a"], ["b", "c", "a"]),
        ("name", ["b", "c", "a"], ["a", "b", "c"]),
        ("upstream", ["b", "c", "a"], ["c", "a", "b"]),
    ],
)
def test_a_list_is_in_the_order_that_was_asked_for(
    order: str, lock: list[str] | None, found: list[str]
) -> None:
    locked = None if lock is None else lock_of(*map(entry, lock))
    catalog = view(tools(entry("c"), entry("a"), entry("b")), ToolFilter(order=order, lock=locked))
    assert names(catalog) == found
    places = [catalog.result.index(b'"name":"%b"' % name.encode()) for name in found]
    assert places == sorted(places)


def test_an_entry_whose_description_is_no_text_is_no_tool() -> None:
    listed = tools(
        entry("good", b',"description":"x"'), entry("bad", b',"description":5'), b'{"name":"none"}'
    )
    assert [tool.name for tool in listed.tools] == ["good"]
    assert listed.warnings[0] == 'the tool "bad" is left out: its description is not a text'
    assert listed.warnings[1].startswith('the tool "none" is left out: it has no inputSchema')


def test_an_upstream_of_which_nothing_is_known_has_one_page_without_tools() -> None:
    assert UpstreamTools().is_one_page
    catalog = view(UpstreamTools(), deny("a"))
    assert (catalog.result, catalog.names, catalog.refusal) == (b'{"tools":[]}', frozenset(), None)


def test_a_list_says_with_which_code_other_tools_are_denied_also_where_there_are_none() -> None:
    choice = ToolFilter(deny_code=-32602)
    assert view(tools(entry("a")), choice).deny_code == -32602
    assert view(UpstreamTools(refusal=b'{"code":-32601}'), choice).deny_code == -32602
