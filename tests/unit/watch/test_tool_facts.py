"""What the live view tells of an upstream's tools: worked out of its lists when somebody asks."""

from __future__ import annotations

from penstock.gate.record import Record
from penstock.policy.exchange import Session
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.watch.tool_facts import ToolFacts

CHOICE = ToolFilter(deny=(compile_pattern("^write_", "--deny"),))


def listed(*entries: bytes, more: bytes = b"", asked: bytes | None = None) -> Record:
    """The answer to a list, as observers are told of it."""
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[%b]%b}}' % (b",".join(entries), more)
    found = Record(1.0, Session(id="s"), "upstream", "response", "tools/list", b"1", raw, "pass")
    if asked is not None:
        found.request = Record(1.0, Session(id="s"), "client", "request", "tools/list", b"1", asked, "pass")
    return found


def tool(name: str) -> bytes:
    return b'{"name":"%b","inputSchema":{"type":"object"}}' % name.encode()


def states(facts: ToolFacts) -> dict[object, object]:
    assert facts.facts is not None
    rows = facts.facts["tools"]
    assert isinstance(rows, list)
    return {row["name"]: row["state"] for row in rows}


def test_the_newest_list_counts_and_one_that_cannot_be_read_does_not() -> None:
    facts = ToolFacts(CHOICE)
    assert facts.facts is None
    assert facts.is_news(listed(tool("read_a"), tool("write_b")))
    assert states(facts) == {"read_a": "allowed", "write_b": "denied"}
    assert facts.is_news(listed(tool("read_c")))
    assert facts.is_news(listed(tool("read_d")))
    assert states(facts) == {"read_d": "allowed"}
    broken = listed()
    broken.raw = b'{"jsonrpc":"2.0","id":1,"result":{"tools":7}}'
    facts.is_news(broken)
    assert states(facts) == {"read_d": "allowed"}


def test_the_pages_of_a_list_are_one_list() -> None:
    facts = ToolFacts(CHOICE)
    further = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}'
    assert not facts.is_news(listed(tool("read_a"), more=b',"nextCursor":"2"'))
    assert facts.facts is None
    assert facts.is_news(listed(tool("write_b"), asked=further))
    assert states(facts) == {"read_a": "allowed", "write_b": "denied"}
