"""No list shows a hidden tool, wherever an upstream puts it and however it is written."""

from __future__ import annotations

import pytest

from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools import tool_lists
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.wire.mcp.message import Message, read_upstream_message

HIDING = ToolFilter(deny=(compile_pattern("hidden", "deny list"),))


@pytest.mark.parametrize(
    "params",
    [
        b'{"tools":[{"name":"echo"},{"name":"hidden"}]}',
        b'{"tools":[5,{"name":"hidden"}]}',
        b'{"tools":[{"name":"hidden","inputSchema":{"type":"object"}},{"name":5}]}',
        b'{"\\u0074ools":[{"n\\u0061me":"hidden"}]}',
        b'{"result":{"tools":[{"name":"hidden"}]}}',
        b'{"result":5,"tools":[{"name":"hidden"}]}',
        b'{"data":{"tools":[{"name":"hidden"}]}}',
        b'{"tools":[{"name":"hidden"}],"tools":[]}',
        b'{"tools":[],"Tools":[{"name":"hidden"}]}',
        b'{"tools":[{"name":"hidden","name":"echo"}]}',
        b'{"tools":[{"name":"\\ud800"},{"name":"hidden\\ud800"}]}',
    ],
)
def test_a_list_that_comes_unasked_shows_nothing_hidden(params: bytes) -> None:
    message = read_upstream_message(b'{"jsonrpc":"2.0","method":"notifications/x","params":%b}' % params)
    assert isinstance(message, Message)
    assert tool_lists.shows_hidden_tools(message, HIDING)


@pytest.mark.parametrize(
    "params", [b"{}", b'{"tools":[{"name":"echo"}]}', b'{"tools":5}', b'{"data":"tools hidden"}', b"[]", b"5"]
)
def test_what_lists_nothing_hidden_passes(params: bytes) -> None:
    message = read_upstream_message(b'{"jsonrpc":"2.0","method":"notifications/x","params":%b}' % params)
    assert isinstance(message, Message)
    assert not tool_lists.shows_hidden_tools(message, HIDING)


def test_a_list_that_answers_something_else_is_seen_at_the_top_of_a_result() -> None:
    for result, is_seen in (
        (b'{"tools":[{"name":"hidden"}]}', True),
        (b'{"x":"\\ud800","tools":[{"name":"hid\\u0064en"}]}', True),
        (b'{"tools":[{"name":"hidden"}],"tools":[]}', True),
        (b'{"Tools":[{"name":"hidden"}]}', True),
        (b'{"tools":[{"name":"hidden","name":"echo"}]}', True),
        (b'{"tools":[{"name":"\\ud800"},{"name":"hidden\\ud800"}]}', True),
        (b'{"__proto__":{"tools":[{"name":"hidden"}]}}', True),
        (b'{"tools":[{"name":"echo"}]}', False),
        (b'{"tools":[{"name":"echo","annotations":5}]}', False),
        (b'{"structuredContent":{"tools":[{"name":"hidden"}]}}', False),
        (b'{"content":[{"type":"text","text":"hidden tools"}]}', False),
    ):
        message = read_upstream_message(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result)
        assert isinstance(message, Message)
        assert tool_lists.shows_hidden_tools(message, HIDING) is is_seen


def _shows(raw: bytes, choice: ToolFilter = HIDING) -> bool:
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    return tool_lists.shows_hidden_tools(message, choice)


def test_tools_offered_to_the_clients_model_are_not_the_upstreams() -> None:
    params = b'{"tools":[{"name":"hidden"}]}'
    assert not _shows(b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":%b}' % params)
    assert _shows(b'{"jsonrpc":"2.0","id":1,"method":"sampling/other","params":%b}' % params)


def test_read_only_is_what_an_entry_says_plainly() -> None:
    choice = ToolFilter(read_only=True)
    for said, is_shown in (
        (b'{"readOnlyHint":true}', False),
        (b'{"readOnlyHint":false}', True),
        (b'{"readOnlyHint":1}', True),
        (b'{"readOnlyHint":"true"}', True),
        (b"true", True),
        (b"{}", True),
    ):
        tool = b'{"name":"x","annotations":%b}' % said
        assert _shows(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[%b]}}' % tool, choice) is is_shown
    assert _shows(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"x"}]}}', choice)
    assert _shows(b'{"jsonrpc":"2.0","id":1,"result":{"tools":["x"]}}', choice)


_BIG = b"x" * (256 * 1024)


def _big(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","method":"n","params":{"big":"%b",%b}}' % (_BIG, params)


@pytest.mark.parametrize(
    "params",
    [
        b'"tools":[{"name":"hidden"}]',
        b'"a":[],"tools":[{"name":"echo"},{"name":"hidden"}]',
        b'"a":{"b":[{"Tools" : [{"Name" : "hidden"}]}]}',
        b'"\\u0074ools":[{"n\\u0061me":"h\\u0069dden"}]',
        b'"tools":[{"x" :": ","name":"hidden"}]',
        b'"tools":[{"x":"\\"name\\":\\"echo\\"","name":"hidden"}]',
        b'"tools":[{"name":"echo","name":"hidden"}]',
        b'"tools":[%b{"name":"hidden"}]' % (b'{"name":"echo"},' * 49_999),
        b'"tools":[%b{"name":"echo"}]' % (b'{"name":"echo"},' * 50_000),
    ],
    ids=range(9),
)
def test_what_is_too_big_for_a_tree_is_looked_at_all_the_same(params: bytes) -> None:
    assert _shows(_big(params))


@pytest.mark.parametrize(
    "params",
    [
        b'"tools":[{"name":"echo"}]',
        b'"name":"hidden","toolset":[]',
        b'"tools":{"name":"hidden"}',
        b'"tools":[{"title":"hidden","names":"hidden"}]',
        b'"tools":["echo",{"name":["hidden"]}]',
        b'"x":"\\"tools\\":[{\\"name\\":\\"hidden\\"}]"',
        b'"tools":[],"x":"%b"' % (b'\\"name' * 100_000),
        b'"x":"%b"' % (b'\\"tools' * 100_000),
    ],
    ids=range(8),
)
def test_what_is_too_big_and_lists_nothing_hidden_passes(params: bytes) -> None:
    assert not _shows(_big(params))


def test_a_list_in_a_big_message_is_read_as_in_a_small_one() -> None:
    """Only the lists are looked at there; when they are too much themselves, nobody sees them."""
    choice = ToolFilter(read_only=True)
    tools = b'"tools":[{"name":"x","annotations":{"readOnlyHint":true}}]'
    for text in (tools, tools.replace(b"true", b"false"), tools.replace(b"annotations", b"x")):
        raw = b'{"jsonrpc":"2.0","method":"n","params":{%b}}' % text
        assert _shows(raw, choice) is _shows(_big(text), choice) is (text is not tools)
    room = 256 * 1024 - len(b'[{"name":"x","x":""}]')
    for more, is_shown in ((0, False), (1, True)):
        assert _shows(_big(b'"tools":[{"name":"x","x":"%b"}]' % (b"x" * (room + more)))) is is_shown
    half = b'"tools":[{"name":"x","x":"%b"}]' % (b"x" * (room // 2))
    assert not _shows(_big(half))
    assert _shows(_big(b'%b,"x":{%b},"y":{%b}' % (half, half, half)))


def test_what_tools_usually_return_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every result of a call comes this way, and some are large."""
    looked: list[bytes] = []

    def look(body: bytes, choice: ToolFilter) -> bool:
        looked.append(bytes(body))
        return False

    monkeypatch.setattr(tool_lists, "_result_lists_hidden", look)
    usual = ("content", "isError", "structuredContent", "_meta", "resultType")
    text = b'"about tools"'
    for names in (*((name,) for name in usual), usual, ()):
        result = b",".join(b'"%b":%b' % (name.encode(), text) for name in names)
        _shows(b'{"jsonrpc":"2.0","id":1,"result":{%b}}' % result)
    assert looked == []
    _shows(b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"contents":"about tools"}}')
    assert looked == [b'{"content":[],"contents":"about tools"}']


@pytest.mark.parametrize(
    ("said", "is_shown"),
    [
        (b'"annotations":{"readOnlyHint":true}', False),
        (b'"annotations":{"title":"x","readOnlyHint":true,"openWorldHint":false}', False),
        (b'"annotations":{"readOnlyHint":false}', True),
        (b'"annotations":{"readOnlyHint":1}', True),
        (b'"annotations":{"readOnlyHint":true,"readOnlyHint":false}', True),
        (b'"annotations":{"readOnlyHint":true},"annotations":{"readOnlyHint":false}', True),
        (b'"annotations":{"destructiveHint":true}', True),
        (b'"annotations":[["readOnlyHint",true]]', True),
        (b'"annotations":5', True),
        (b'"meta":{"readOnlyHint":true}', True),
        (b'"x":1', True),
    ],
)
def test_read_only_is_what_an_unasked_entry_says_plainly_and_once(said: bytes, is_shown: bool) -> None:
    params = b'{"tools":[{"name":"x",%b}]}' % said
    raw = b'{"jsonrpc":"2.0","method":"n","params":%b}' % params
    assert _shows(raw, ToolFilter(read_only=True)) is is_shown


@pytest.mark.parametrize(
    "params",
    [
        b'{"tools":[{"title":"hidden"}]}',
        b'{"tools":[{"name":"echo","_meta":{"name":"hidden"}}]}',
        b'{"tools":["echo",5,null,["echo"],{"name":"echo"}]}',
        b'{"tools":{"name":"hidden"}}',
        b'{"tools":"hidden"}',
        b'{"tools":5}',
        b'{"tools":null}',
        b'{"tools":true}',
        b'{"tool":[{"name":"hidden"}]}',
    ],
)
def test_an_unasked_message_without_a_hidden_entry_passes(params: bytes) -> None:
    assert not _shows(b'{"jsonrpc":"2.0","method":"n","params":%b}' % params)


@pytest.mark.parametrize(
    "result",
    [
        b'{"tools":[5,"hidden",["hidden"],{"name":"hidden"}]}',
        b'{"constructor":{"tools":[{"name":"hidden"}]},"x":1}',
        b'{"prototype":{"tools":[{"name":"hidden"}]},"x":1}',
        b'{"other":[{"name":"hidden"}],"tools":[{"name":"hidden"}]}',
    ],
)
def test_a_result_that_lists_a_hidden_tool_is_seen(result: bytes) -> None:
    assert _shows(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result)


@pytest.mark.parametrize(
    "result",
    [
        b'{"other":[{"name":"hidden"}],"tools":[{"name":"echo"}]}',
        b'{"other":[{"name":"hidden"}],"about":"tools"}',
        b'{"tools":[{"title":"hidden"}]}',
        b'{"tools":[{"name":null}]}',
        b'{"content":[],"isError":false,"structuredContent":{"tools":[{"name":"hidden"}]},"_meta":{},"resultType":"x"}',
    ],
)
def test_a_result_that_lists_none_passes(result: bytes) -> None:
    assert not _shows(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result)


@pytest.mark.parametrize(
    "text",
    [
        b'{"tools":[{"name":"hidden"}]}',
        b'{"TOOLS":[{"name":"hidden"}]}',
        b'{"tools":[{"name":"echo"},{"name":"hidden"}]}',
        b'{"error":{"data":{"tools":[{"name":"hidden"}]}}}',
        b'{"\\u0074ools":[{"name":"hidden"}]}',
        b'{"x":"\xed\xa0\x80","tools":[{"name":"hidden"}]}',
        '{"ｔools":[{"name":"hidden"}]}'.encode(),
        b"[" * 5_000 + b'{"tools":[{"name":"hidden"}]}' + b"]" * 5_000,
        b'{"x":"%b","tools":[{"name":"hidden"}]}' % _BIG,
        b'{"x":"%b","tools":[%b{}]}' % (_BIG, b'{"n\\u0061":""},' * 50_000),
        b'{"x":[%b{}],"tools":[{"name":"hidden"}]}' % (b'{"n\\u0061":[]},' * 50_000),
        b'"tools":[ "\\name":"hidden" %b' % _BIG,
    ],
    ids=range(12),
)
def test_a_body_that_is_no_message_lists_nothing_hidden(text: bytes) -> None:
    assert tool_lists.text_lists_hidden_tools(text, HIDING)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"hidden tools",
        b"<html>tools: hidden</html>",
        "tools: hidden é".encode(),
        b'{"tools":[{"name":"echo"}]}',
        b'{"tools":[]}',
        b'{"message":"no tools called hidden"}',
        b'{"name":"hidden"}',
        b'{"x":"%b","tools":[{"name":"echo"}]}' % _BIG,
    ],
    ids=range(9),
)
def test_words_about_tools_are_free(text: bytes) -> None:
    assert not tool_lists.text_lists_hidden_tools(text, HIDING)


@pytest.mark.parametrize(
    ("name", "value", "is_seen"),
    [
        ("tools", b'[{"name":"hidden"}]', True),
        ("Tools", b'[{"name":"hidden"}]', True),
        ("x", b'{"tools":[{"name":"hidden"}]}', True),
        ("x", b'[{"name":"hidden"}]', False),
        ("tools", b'[{"name":"echo"}]', False),
        ('to"ols', b'[{"name":"hidden"}]', False),
    ],
)
def test_a_member_is_looked_at_with_its_name(name: str, value: bytes, is_seen: bool) -> None:
    assert tool_lists.member_lists_hidden_tools(name, value, HIDING) is is_seen


def test_a_big_message_is_looked_at_where_a_list_would_stand() -> None:
    big = b"x" * (256 * 1024)
    top = b'{"jsonrpc":"2.0","method":"n","params":{"x":"%b","tools":[{"name":"hidden"}]}}'
    deep = b'{"jsonrpc":"2.0","method":"n","params":{"x":"%b","y":{"tools":[{"name":"hidden"}]}}}'
    assert _shows(top % big)
    assert _shows(top % b"")
    assert _shows(deep % b"")
    room = 256 * 1024 - len(b'{"x":"","y":{"tools":[{"name":"hidden"}]}}')
    assert _shows(deep % (b"x" * room))
    assert _shows(deep % (b"x" * (room + 1)))
    assert not _shows((deep % big).replace(b"hidden", b"echo"))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","method":"n"}',
        b'{"jsonrpc":"2.0","method":"tools","params":"tools","x":"tools"}',
        b'{"jsonrpc":"2.0","id":"tools","result":"tools"}',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":{"name":"hidden"}}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":{"hidden":{"title":"x"}}}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":["hidden"]}]}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"message":"tools: hidden","data":{"tools":{}}}}',
        b'{"jsonrpc":"2.0","id":1,"error":"tools"}',
        # A form that asks the user about tools has a field of that name.
        b'{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"requestedSchema":{"properties":'
        b'{"tools":{"type":"array","items":{"enum":["hidden"],"properties":{"name":{"title":"hidden"}}}}}}}}',
        b'{"jsonrpc":"2.0","method":"n","params":{"t\\u006fol":[{"name":"hidden"}]}}',
    ],
)
def test_what_is_no_list_of_tools_shows_none(raw: bytes) -> None:
    assert not _shows(raw)


@pytest.mark.parametrize(
    "params",
    [
        b'{"a":[{"tools":[{"name":"hidden"}]}]}',
        b'{"a":[[[{"b":{"tools":[{"name":"hidden"}]}}]]]}',
        b'{"tools":[{"x":{"tools":[{"name":"hidden"}]}}]}',
        b'{"tools":{"tools":[{"name":"hidden"}]}}',
        b'{"x":"\\ud800","\\u0074ools":[{"name":"hidden"}]}',
        b'{"x":"\\udc00","tools":[{"name":"hidden"}]}',
        '{"ｔools":[{"name":"hidden"}]}'.encode(),
    ],
)
def test_a_list_is_found_however_deep_it_lies(params: bytes) -> None:
    assert _shows(b'{"jsonrpc":"2.0","method":"n","params":%b}' % params)


@pytest.mark.parametrize("number", [b"1e400", b"-1e999", b"9" * 5_000, b"[1e400]", b"1.0"])
def test_a_number_that_few_readers_hold_hides_no_list(number: bytes) -> None:
    """Found by mutants: what our decoder could not read was taken for no list, and JavaScript reads 1e400."""
    for raw in (
        b'{"jsonrpc":"2.0","method":"n","params":{"x":%b,"tools":[{"name":"hidden"}]}}',
        b'{"jsonrpc":"2.0","method":"n","params":{"tools":[{"x":%b,"name":"hidden"}]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"x":%b,"tools":[{"name":"hidden"}]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"hidden","x":%b}]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"y":"\\ud800","tools":[{"name":"hidden","x":%b}]}}',
    ):
        assert _shows(raw % number)
        assert not _shows(raw.replace(b"hidden", b"shown") % number)


def test_a_huge_list_with_numbers_that_few_can_hold_is_read_all_the_same() -> None:
    tools = b'{"name":"echo","x":1e400,"y":"%b"}' % (b"y" * (256 * 1024))
    assert not _shows(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[%b]}}' % tools)
    assert _shows(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[%b]}}' % tools.replace(b"echo", b"hidden"))


def test_numbers_of_any_size_pass_where_no_tools_are_listed() -> None:
    for number in (b"1e400", b"9" * 5_000):
        assert not _shows(b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}' % number)
        assert not _shows(b'{"jsonrpc":"2.0","method":"n","params":{"x":%b,"about":"tools"}}' % number)


LISTS = [
    b'[{"name":"hidden"}]',
    b'["hidden"]',
    b'[["echo",["hidden"]]]',
    b'[{"function":{"name":"hidden"}}]',
    b'[{"x":{"y":{"name":"hidden"}}}]',
    b'[{"name":"echo","__proto__":{"name":"hidden"}}]',
    b'[{"name":"echo","name":"hidden"}]',
    b'{"hidden":{"inputSchema":{"type":"object"}}}',
    b'{"0":{"name":"hidden"}}',
    b'{"x":{"name":"echo","inputSchema":{"type":"object"}},"hidden":{"name":"echo","inputSchema":{"type":"object"}}}',
]


@pytest.mark.parametrize("tools", LISTS)
@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":%b}}',
        b'{"jsonrpc":"2.0","id":1,"result":[{"tools":%b}]}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"tools":%b}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"data":{"tools":%b}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":{"tools":%b}}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","tools":%b}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"Tools":%b}',
        b'{"jsonrpc":"2.0","method":"n","params":{"tools":%b}}',
        b'{"jsonrpc":"2.0","method":"n","params":[{"tools":%b}]}',
        b'{"jsonrpc":"2.0","method":"n","tools":%b}',
        b'{"jsonrpc":"2.0","method":"sampling/createMessage","params":{"tools":%b}}',
        b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{},"tools":%b}',
    ],
)
def test_a_hidden_tool_is_seen_wherever_a_list_stands_and_however_it_is_made(
    frame: bytes, tools: bytes
) -> None:
    assert _shows(frame % tools)
    assert not _shows(frame % tools.replace(b"hidden", b"echo"))


@pytest.mark.parametrize("tools", LISTS)
def test_the_same_where_a_message_is_too_big_for_a_tree(tools: bytes) -> None:
    assert _shows(_big(b'"a":{"tools":%b}' % tools))
    assert not _shows(_big(b'"a":{"tools":%b}' % tools.replace(b"hidden", b"echo")))


def test_a_result_with_an_object_of_tools_that_is_too_big_to_look_at_is_not_shown() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"tools":{"x":{"y":"%b"}}}}'
    room = 256 * 1024 - len(b'{"x":{"y":""}}')
    assert not _shows(raw % (b"y" * room))
    assert _shows(raw % (b"y" * (room + 1)))


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_body_lists_nothing_hidden_in_any_coding_that_json_readers_guess(coding: str) -> None:
    text = '{"tools":[{"name":"hidden"}]}'
    assert tool_lists.text_lists_hidden_tools(text.encode(coding), HIDING)
    assert not tool_lists.text_lists_hidden_tools(text.replace("hidden", "echo").encode(coding), HIDING)
    assert not tool_lists.text_lists_hidden_tools(b"\0 hidden tools", HIDING)


def test_an_error_object_is_shown_as_it_is_unless_it_lists_hidden_tools() -> None:
    for error in (b'{"code":-32601,"message":"no tools, not even hidden"}', b'{"code":1.0}', b"5"):
        assert tool_lists.shown_error(error, HIDING) == error
    shown = tool_lists.shown_error(b'{"code":-32601,"data":{"tools":[{"name":"hidden"}]}}', HIDING)
    assert shown == b'{"code":-32603,"message":"The upstream\'s answer is not valid"}'


def test_a_name_alone_is_of_no_read_only_tool_for_all_we_know() -> None:
    for raw in (b'{"jsonrpc":"2.0","method":"n","params":{"tools":["x"]}}',):
        assert _shows(raw, ToolFilter(read_only=True))
        assert not _shows(raw)


def test_what_a_named_entry_has_inside_is_its_own_affair() -> None:
    for tool in (
        b'{"name":"echo","x":{"name":"hidden"}}',
        b'{"name":"echo","_meta":{"y":{"name":"hidden"}}}',
    ):
        assert not _shows(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[%b]}}' % tool)
        assert not _shows(b'{"jsonrpc":"2.0","method":"n","params":{"tools":[%b]}}' % tool)


def test_a_body_with_more_odd_names_than_anybody_looks_at_is_not_shown() -> None:
    odd = b'{"t\\u006fol":[]}'
    assert tool_lists.text_lists_hidden_tools(b"[%b]" % b",".join([odd] * 50_001), HIDING)
    assert not tool_lists.text_lists_hidden_tools(b"[%b]" % b",".join([odd] * 20_000), HIDING)


def test_one_member_lists_hidden_tools_by_itself_or_inside() -> None:
    hidden = b'[{"name":"hidden"}]'
    assert tool_lists.member_lists_hidden_tools("tools", hidden, HIDING)
    assert tool_lists.member_lists_hidden_tools("x", b'{"tools":%b}' % hidden, HIDING)
    assert not tool_lists.member_lists_hidden_tools("x", hidden, HIDING)
    assert not tool_lists.member_lists_hidden_tools("tools", b'[{"name":"echo"}]', HIDING)


_LIST = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"hidden"}]}}'
_DEEP_SCHEMA = b'{"a":' * 130 + b"1" + b"}" * 130


@pytest.mark.parametrize(
    "text",
    [
        _LIST + b"x",
        _LIST + b"\0",
        _LIST + _LIST,
        b"1 " + _LIST,
        b"\0" + _LIST,
        b"/* an error */ " + _LIST,
        b"{} " + _LIST,
        b"{ " + _LIST,
        b"[1, " + _LIST,
        b'"' + _LIST,
        b"\xff" + _LIST,
        b"<pre>" + _LIST + b"</pre>",
        _LIST.decode().encode("utf-16-le") + b"x",
        b"x" + _LIST.decode().encode("utf-16-be"),
        _LIST[:-3],
        _LIST[:-2] + b",}",
        _LIST.replace(b'"', b"'"),
        b'{"x":"%b","tools":[{"name":"hidden","inputSchema":%b}]}' % (_BIG, _DEEP_SCHEMA),
        b'{"x":"%b","tools":[{"name":"hidden"}' % _BIG,
    ],
    ids=range(19),
)
def test_a_list_is_found_whatever_stands_around_it(text: bytes) -> None:
    """Readers that take one value and stop, or one after another, or as much as there is, find it too."""
    assert tool_lists.text_lists_hidden_tools(text, HIDING)
    if len(text) < len(_BIG):
        shown = text
        for coding in ("ascii", "utf-16-le", "utf-16-be"):
            shown = shown.replace("hidden".encode(coding), "echo".encode(coding))
        assert not tool_lists.text_lists_hidden_tools(shown, HIDING)


def test_nearly_json_without_end_is_withheld_before_it_takes_long() -> None:
    rows = b'["tools",' * 800 + b'"x",' * 50_000
    assert tool_lists.text_lists_hidden_tools(rows, HIDING)
    assert not tool_lists.text_lists_hidden_tools(b"tools " + b"[x " * 80_000, HIDING)
