"""One list of several: each tool as its own list has it, but for a name that it must change."""

from __future__ import annotations

import pytest

from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.several.merged_tools import merge_tools
from penstock.policy.several.naming import NameLedger
from penstock.policy.several.terms import MemberTerms, NameTerms
from penstock.policy.tools.catalog import ToolCatalog, build_catalog
from penstock.policy.tools.tool_filter import ToolFilter

ECHO = b'{ "name":"echo", "inputSchema":{"type":"object"},"description":"as it came"}'
OTHER = b'{"inputSchema":{"type":"object"} ,"name":"echo"}'


def lists(*entries: bytes) -> list[tuple[MemberTerms, ToolCatalog]]:
    """Servers a, b and so on, with a tool each."""
    names = "abc"[: len(entries)]
    return [
        (MemberTerms(name, name), build_catalog([b'{"tools":[%b]}' % entry], ToolFilter()))
        for name, entry in zip(names, entries, strict=True)
    ]


def test_only_what_is_called_otherwise_is_changed_and_nothing_but_its_name() -> None:
    merged = merge_tools(lists(ECHO, OTHER), NameLedger(NameTerms()), ToolFilter())
    renamed = b'{"inputSchema":{"type":"object"} ,"name":"b__echo"}'
    assert merged.catalog.result == b'{"tools":[%b,%b]}' % (ECHO, renamed)
    assert {name: owner.member for name, owner in merged.owners.items()} == {"echo": "a", "b__echo": "b"}
    read = build_catalog([merged.catalog.result], ToolFilter())
    assert (
        [tool.tokens for tool in merged.catalog.allowed] == [tool.tokens for tool in read.allowed] == [18, 15]
    )


def test_a_filter_by_the_new_name_counts_and_hides() -> None:
    choice = ToolFilter(deny=(compile_pattern("^b__", "--deny"),))
    merged = merge_tools(lists(ECHO, OTHER), NameLedger(NameTerms()), choice)
    assert merged.catalog.names == {"echo"}
    assert merged.hidden == {"a": 0, "b": 1}


@pytest.mark.parametrize("name", ["two words", "bell\x07", "x" * 2000], ids=["blank", "control", "long"])
def test_a_name_that_no_tool_can_have_leaves_out_that_tool_alone(name: str) -> None:
    ledger = NameLedger(NameTerms())
    ledger.restore([("b", "echo", name)])
    merged = merge_tools(lists(ECHO, OTHER), ledger, ToolFilter())
    assert merged.left_out == (("b", "echo"),)
    assert merged.catalog.result == b'{"tools":[%b]}' % ECHO
