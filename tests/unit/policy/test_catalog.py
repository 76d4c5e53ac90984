"""The catalog: the upstream's own bytes, less what is hidden."""

from __future__ import annotations

import json

import pytest

from penstock import limits
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.catalog import build_catalog, view
from penstock.policy.tools.token_estimate import estimate_tokens
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.upstream_tools import BadToolList, UpstreamTools
from penstock.wire.json.ambiguity import members


class Named:
    """Denies one exact name."""

    def __init__(self, source: str) -> None:
        self.source = source

    def found_in(self, text: str) -> bool:
        return text == self.source


def _deny(*names: str) -> ToolFilter:
    return ToolFilter(deny=tuple(map(Named, names)))


def _tool(name: str, more: bytes = b"") -> bytes:
    return b'{ "name" : %b ,"inputSchema":{"type":"object"}%b}' % (json.dumps(name).encode(), more)


def _page(*tools: bytes, more: bytes = b"") -> bytes:
    return b'{"tools" : [ %b ]%b}' % (b" , ".join(tools), more)


def test_kept_tools_are_the_upstreams_own_bytes_in_its_order() -> None:
    odd = _tool("b", b', "x":1.0,"y":[1e400, 12345678901234567890123], "title":"\\u65e5", "_meta":{"k":null}')
    catalog = build_catalog([_page(_tool("c"), _tool("a"), odd)], _deny("a"))
    assert catalog.result == b'{"tools" : [%b,%b]}' % (_tool("c"), odd)
    assert catalog.names == {"b", "c"}
    assert [(tool.name, str(tool.why)) for tool in catalog.denied] == [("a", "--deny a")]


def test_a_list_from_which_nothing_is_taken_is_left_as_it_came() -> None:
    page = _page(_tool("a"), _tool("b"), more=b', "ttlMs":1.0')
    assert build_catalog([page], _deny("z")).result == page


def test_all_pages_become_one_without_a_cursor() -> None:
    pages = [
        _page(_tool("a"), more=b',"nextCursor":"","resultType":"complete","ttlMs":5'),
        b'{"nextCursor":"x","tools":[]}',
        _page(_tool("b"), _tool("c")),
    ]
    result = build_catalog(pages, _deny("b")).result
    assert result == b'{"tools" : [%b,%b],"resultType":"complete","ttlMs":5}' % (_tool("a"), _tool("c"))


def test_a_cursor_before_the_tools_goes_too() -> None:
    pages = [b'{ "nextCursor":"n" , "tools":[%b] }' % _tool("a"), _page()]
    assert build_catalog(pages, _deny()).result == b'{ "tools":[%b] }' % _tool("a")


def test_everything_denied_is_an_empty_list() -> None:
    assert json.loads(build_catalog([_page(_tool("a"))], _deny("a")).result) == {"tools": []}


def test_the_first_of_two_tools_with_one_name_is_kept() -> None:
    first, second = _tool("a", b',"x":1'), _tool("a", b',"x":2')
    catalog = build_catalog([_page(first), _page(second)], _deny())
    assert [tool.raw for tool in catalog.allowed] == [first]
    assert "second" in catalog.warnings[0]


@pytest.mark.parametrize(
    "name", ["", "a b", "a\n", "a\x1b[31m", "a\u200b", "\u202ea", "x" * 129, "x" * 100_000]
)
def test_a_name_that_nobody_can_see_or_say_is_left_out_aloud(name: str) -> None:
    catalog = build_catalog([_page(_tool(name), _tool("good"))], _deny())
    assert catalog.names == {"good"}
    assert len(catalog.warnings) == 1
    assert len(catalog.warnings[0]) < 400
    assert catalog.warnings[0].isprintable()


@pytest.mark.parametrize(
    "entry",
    [
        b"5",
        b"null",
        b"[]",
        b"{}",
        b'{"name":5,"inputSchema":{"type":"object"}}',
        b'{"name":"a"}',
        b'{"name":"a","inputSchema":5}',
        b'{"name":"a","name":"b","inputSchema":{"type":"object"}}',
        b'{"name":"a","Name":"b","inputSchema":{"type":"object"}}',
        b'{"name":"a\\ud800","inputSchema":{"type":"object"}}',
    ],
)
def test_an_entry_that_is_no_tool_is_left_out_aloud(entry: bytes) -> None:
    catalog = build_catalog([_page(entry, _tool("good"))], _deny())
    assert catalog.names == {"good"}
    assert len(catalog.warnings) == 1
    assert members(catalog.result)


def test_half_a_pair_in_a_description_stays_as_it_came() -> None:
    odd = _tool("a", b',"description":"\\ud800 x"')
    catalog = build_catalog([_page(odd, _tool("b"))], _deny("b"))
    assert catalog.result == b'{"tools" : [%b]}' % odd


def test_escapes_in_a_name_hide_nothing() -> None:
    escaped = b'{"n\\u0061me":"\\u0061","inputSchema":{"type":"object"}}'
    assert build_catalog([_page(escaped)], _deny("a")).names == frozenset()


@pytest.mark.parametrize(
    "annotations",
    [
        b'{"readOnlyHint":1}',
        b'{"readOnlyHint":"true"}',
        b'{"readOnlyHint":false,"readOnlyHint":true}',
        b"true",
        b"{}",
    ],
)
def test_read_only_must_be_said_plainly(annotations: bytes) -> None:
    keep = ToolFilter(read_only=True)
    tool = _tool("a", b',"annotations":' + annotations)
    assert build_catalog([_page(tool)], keep).names == frozenset()
    assert build_catalog([_page(_tool("a", b',"annotations":{"readOnlyHint": true}'))], keep).names == {"a"}


def test_of_two_tools_with_one_name_both_must_be_read_only() -> None:
    safe, other = _tool("a", b',"annotations":{"readOnlyHint":true}'), _tool("a")
    keep = ToolFilter(read_only=True)
    for entries in ((safe, other), (other, safe), (safe, safe, other)):
        catalog = build_catalog([_page(*entries)], keep)
        assert catalog.names == frozenset()
        assert [(tool.name, tool.why.option[:11]) for tool in catalog.denied] == [("a", "--read-only")]
        assert safe not in catalog.result
    assert build_catalog([_page(safe, safe)], keep).names == {"a"}


@pytest.mark.parametrize("page", [b"{}", b'{"tools":5}', b'{"tools":[],"tools":[]}', b"[]"])
def test_what_is_no_tool_list_is_said_so(page: bytes) -> None:
    with pytest.raises(BadToolList):
        build_catalog([page], _deny())


def test_tokens_are_estimated_from_what_a_model_sees() -> None:
    tool = b'{"name":"abcd","description":"efgh","inputSchema":{"type":"object"},"annotations":{"long":"not counted"}}'  # noqa: E501
    catalog = build_catalog([_page(tool)], _deny())
    shown = '{"name":"abcd","description":"efgh","input_schema":{"type":"object"}}'
    assert catalog.allowed[0].tokens == estimate_tokens(shown)


def test_an_upstream_without_tools_has_an_empty_catalog() -> None:
    catalog = view(UpstreamTools(refusal=b'{"code":-32601}'), ToolFilter())
    assert catalog.names == frozenset()
    assert catalog.refusal == b'{"code":-32601}'


@pytest.mark.parametrize(
    ("entry", "warning"),
    [
        (_tool("a"), 'a second tool named "a" is left out'),
        (
            b'{"name":"b","Name":"c"}',
            'a tool whose members can be read in two ways is left out: {"name":"b","Name":"c"}',
        ),
        (b'{"nome":"b"}', 'an entry that has no name is left out: {"nome":"b"}'),
        (b'{"x":"\\ud800"}', 'an entry that has no name is left out: {"x":"\\ud800"}'),
        (b'["%b"]' % (b"y" * 100), "an entry that has no name is left out: [" + '"' + "y" * 58),
        (_tool("b c"), 'the tool "b c" is left out: a name has 1 to 128 visible characters'),
        (_tool("\x01"), 'the tool "?" is left out: a name has 1 to 128 visible characters'),
        (b'{"name":"b"}', 'the tool "b" is left out: it has no inputSchema'),
        (b'{"name":"b","inputSchema":[]}', 'the tool "b" is left out: its inputSchema is not an object'),
    ],
)
def test_people_are_told_what_was_left_out_and_why(entry: bytes, warning: str) -> None:
    catalog = build_catalog([_page(_tool("a"), entry, _tool("z"))], _deny())
    assert catalog.warnings == (warning,)
    assert catalog.names == {"a", "z"}
    assert [tool.name for tool in catalog.allowed] == ["a", "z"]
    assert catalog.result == b'{"tools" : [%b,%b]}' % (_tool("a"), _tool("z"))


def test_an_entry_cut_inside_a_character_is_still_shown() -> None:
    catalog = build_catalog([_page('["日{}"]'.format("本" * 30).encode())], _deny())
    assert catalog.warnings[0].isprintable()
    assert catalog.warnings[0].startswith('an entry that has no name is left out: ["日本')


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (b"{}", "its tool list has no tools member"),
        (b'{"tools":5}', "its tool list cannot be read"),
        (b'{"tools":[],"Tools":[]}', "its tool list cannot be read"),
        (b"5", "its tool list cannot be read"),
        (b"{", "its tool list cannot be read"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(page: bytes, why: str) -> None:
    with pytest.raises(BadToolList, match=f"^{why}$"):
        build_catalog([page], _deny())


def test_a_name_may_have_128_characters() -> None:
    assert build_catalog([_page(_tool("x" * 128))], _deny()).names == {"x" * 128}


def test_an_upstream_without_tools_lists_none() -> None:
    assert view(UpstreamTools(refusal=b"{}"), ToolFilter()).result == b'{"tools":[]}'


def test_patterns_that_matched_nothing_are_remembered() -> None:
    assert build_catalog([_page(_tool("a"))], _deny("a", "z")).unmatched == ("--deny z",)


def test_a_tool_with_a_crowd_of_members_is_left_out_and_not_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATH_PARTS", 20)
    crowd = b",".join(b'"%d":"%d"' % (number, number) for number in range(20))
    good = _tool("good", b',"annotations":{"readOnlyHint":true}')
    page = _page(
        good, _tool("a", b"," + crowd), _tool("b", b',"annotations":{"readOnlyHint":true,%b}' % crowd)
    )
    catalog = build_catalog([page], ToolFilter(read_only=True))
    assert catalog.names == {"good"}
    assert [tool.name for tool in catalog.denied] == ["b"]
    assert "no name" in catalog.warnings[0]


def test_a_name_that_is_no_utf8_is_no_name() -> None:
    page = b'{"tools":[{"name":"a\xff","inputSchema":{"type":"object"}},%b]}' % _tool("good")
    catalog = build_catalog([page], _deny())
    assert catalog.names == {"good"}
    assert "an entry that has no name is left out" in catalog.warnings[0]


def test_what_lists_hidden_tools_beside_the_list_is_left_out_aloud() -> None:
    choice = ToolFilter(deny=(compile_pattern("^hidden$", "deny list"),))
    hidden = b'{"tools":[{"name":"hidden"}]}'
    page = b'{"x":%b,"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"_meta":%b,"y":{"tools":[]},"z":"tools"}'  # noqa: E501
    catalog = build_catalog([page % (hidden, hidden)], choice)
    assert (
        catalog.result
        == b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"y":{"tools":[]},"z":"tools"}'
    )
    assert catalog.warnings == (
        '"x" beside the tool list is left out: it lists hidden tools',
        '"_meta" beside the tool list is left out: it lists hidden tools',
    )
    harmless = page % (b"{}", b"{}")
    assert build_catalog([harmless], choice).result == harmless


def test_the_error_of_an_upstream_without_tools_lists_none_that_are_hidden() -> None:
    choice = ToolFilter(deny=(compile_pattern("^hidden$", "deny list"),))
    refusal = view(
        UpstreamTools(refusal=b'{"code":-32601,"data":{"tools":[{"name":"hidden"}]}}'), choice
    ).refusal
    assert refusal is not None
    assert b"hidden" not in refusal


def test_a_tool_that_is_there_twice_and_denied_once_is_denied_beside_the_others() -> None:
    safe = b',"annotations":{"readOnlyHint":true}'
    page = _page(_tool("z"), _tool("good", safe), _tool("a", safe), _tool("a"))
    catalog = build_catalog([page], ToolFilter(read_only=True))
    assert catalog.names == {"good"}
    assert [tool.name for tool in catalog.denied] == ["z", "a"]
    assert b'"a"' not in catalog.result
