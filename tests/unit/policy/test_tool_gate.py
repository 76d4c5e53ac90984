"""Clients are kept to the catalog, whatever they call and however they spell it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.policy import tool_gate
from penstock.policy.catalog import ToolCatalog, build_catalog, empty_catalog
from penstock.policy.patterns import compile_pattern
from penstock.policy.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Verdict
from penstock.wire.message import Message, read_client_message, read_upstream_message

CATALOG = build_catalog([b'{"tools":[{"name":"echo","inputSchema":{}}]}'], ToolFilter())
HIDING = ToolFilter(deny=(compile_pattern("hidden", "deny list"),))


def _judge(raw: bytes, catalog: ToolCatalog | None = CATALOG) -> Verdict:
    message = read_client_message(raw)
    assert isinstance(message, Message)
    return tool_gate.judge(message, catalog)


def _call(name: str) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":%b}}' % json.dumps(name).encode()
    )


def _error(verdict: Verdict) -> tuple[int, str]:
    assert isinstance(verdict, Answer)
    error = json.loads(verdict.raw)["error"]
    return error["code"], error["message"]


def test_what_is_in_the_catalog_passes() -> None:
    assert _judge(_call("echo")) is FORWARD


@given(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name != "echo"))
def test_every_other_name_gets_the_same_answer(name: str) -> None:
    verdict = _judge(_call(name))
    assert isinstance(verdict, Answer)
    plain = _judge(_call("p"))
    assert isinstance(plain, Answer)
    shown = json.loads(verdict.raw)["error"]["message"].removeprefix("Tool not found: ")
    assert shown.isprintable()
    assert len(shown) <= 128
    assert verdict.raw == plain.raw.replace(
        b': p"', b": " + json.dumps(shown, ensure_ascii=False).encode()[1:]
    )


@pytest.mark.parametrize(
    "name", ["Echo", "echo ", "echo\0", "e\u200bcho", "ｅcho", "ECHO", "./echo", "echo\u202e"]
)
def test_look_alikes_are_not_the_tool(name: str) -> None:
    assert _error(_judge(_call(name)))[0] == -32601


@pytest.mark.parametrize(
    "params", [b"null", b"[]", b'["echo"]', b"5", b"{}", b'{"name":5}', b'{"name":["echo"]}']
)
def test_a_call_that_names_no_tool_has_invalid_params(params: bytes) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params
    assert _error(_judge(raw))[0] == -32602


def test_a_call_without_params_has_invalid_params() -> None:
    assert _error(_judge(b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'))[0] == -32602


@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_tool_requests_without_an_id_are_dropped(method: str) -> None:
    for head in (b"", b'"id":null,'):
        raw = b'{"jsonrpc":"2.0",%b"method":"%b","params":{"name":"echo"}}' % (head, method.encode())
        assert isinstance(_judge(raw), Drop)


@pytest.mark.parametrize(
    "method",
    [
        *(
            "Tools/Call",
            "tools/call ",
            " tools/call",
            "tools//call",
            "/tools/call",
            "tools/call/",
            "tools\\call",
            "t ools/call",
            "tools/call\x7f",
            "to\x1eols/call",
        ),
        *("tools／call", "to\u200bols/call", "tools/call\0", "TOOLS/LIST", "tools/list\u3000", "ｔools/list"),
    ],
)
def test_a_method_that_merely_looks_gated_is_unknown(method: str) -> None:
    text = json.dumps(method).encode()
    assert _error(_judge(b'{"jsonrpc":"2.0","id":1,"method":%b}' % text)) == (-32601, "Method not found")
    assert isinstance(_judge(b'{"jsonrpc":"2.0","method":%b}' % text), Drop)


@pytest.mark.parametrize(
    "method",
    ["ping", "x/tools.call", "tools/call2", "prompts/get", "logging/setLevel", "notifications/tools/x"],
)
def test_other_methods_are_not_the_gates_business(method: str) -> None:
    assert _judge(b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % method.encode(), None) is FORWARD


def test_tool_requests_wait_for_the_catalog() -> None:
    assert _judge(_call("echo"), None) is HOLD
    assert _judge(_call("write"), None) is HOLD
    assert _judge(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', None) is HOLD


def test_the_list_comes_from_the_catalog() -> None:
    for params in (b"", b',"params":{}', b',"params":{"cursor":null}', b',"params":{"_meta":{"x":1}}'):
        verdict = _judge(b'{"jsonrpc":"2.0","id":1.0,"method":"tools/list"%b}' % params)
        assert isinstance(verdict, Answer)
        assert verdict.raw == b'{"jsonrpc":"2.0","id":1.0,"result":%b}' % CATALOG.result


@pytest.mark.parametrize(
    "params", [b'{"cursor":""}', b'{"cursor":"x"}', b'{"cursor":5}', b"null", b"[]", b'"x"']
)
def test_a_cursor_that_cannot_be_ours_is_refused(params: bytes) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":%b}' % params
    assert _error(_judge(raw))[0] == -32602


def test_an_upstream_without_tools_answers_in_its_own_words() -> None:
    verdict = _judge(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', empty_catalog(b'{"code":1.0}'))
    assert verdict == Answer(b'{"jsonrpc":"2.0","id":1,"error":{"code":1.0}}')


@pytest.mark.parametrize(
    "params",
    [
        b'{"tools":[{"name":"echo"},{"name":"hidden"}]}',
        b'{"tools":[5,{"name":"hidden"}]}',
        b'{"tools":[{"name":"hidden","inputSchema":{}},{"name":5}]}',
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
    assert tool_gate.shows_hidden_tools(message, HIDING)


@pytest.mark.parametrize(
    "params", [b"{}", b'{"tools":[{"name":"echo"}]}', b'{"tools":5}', b'{"data":"tools hidden"}', b"[]", b"5"]
)
def test_what_lists_nothing_hidden_passes(params: bytes) -> None:
    message = read_upstream_message(b'{"jsonrpc":"2.0","method":"notifications/x","params":%b}' % params)
    assert isinstance(message, Message)
    assert not tool_gate.shows_hidden_tools(message, HIDING)


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
        assert tool_gate.shows_hidden_tools(message, HIDING) is is_seen


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'"method":"tools/call"', (-32602, "Invalid params: params must be an object")),
        (b'"method":"tools/call","params":[]', (-32602, "Invalid params: params must be an object")),
        (b'"method":"tools/call","params":{}', (-32602, "Invalid params: name must be a string")),
        (b'"method":"tools/call","params":{"name":5}', (-32602, "Invalid params: name must be a string")),
        (
            b'"method":"tools/call","params":{"name":"\\ud800"}',
            (-32602, "Invalid params: name must be a string"),
        ),
        (b'"method":"tools/list","params":[]', (-32602, "Invalid params: params must be an object")),
        (b'"method":"tools/list","params":{"cursor":"x"}', (-32602, "Invalid params: unknown cursor")),
        (b'"method":"Tools/list"', (-32601, "Method not found")),
        (b'"method":"tools/call","params":{"name":"x"}', (-32601, "Tool not found: x")),
    ],
)
def test_a_refusal_says_what_was_wrong(body: bytes, error: tuple[int, str]) -> None:
    verdict = _judge(b'{"jsonrpc":"2.0","id":1,%b}' % body)
    assert _error(verdict) == error
    assert isinstance(verdict, Answer)
    assert not verdict.is_list
    # A tool that is not there is an answer like any other; what breaks the protocol is told apart over HTTP.
    assert verdict.code == (0 if "Tool not" in error[1] else error[0])


def test_the_tool_list_counts_as_the_upstreams_own_answer() -> None:
    verdict = _judge(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert isinstance(verdict, Answer)
    assert verdict.is_list
    assert verdict.code == 0


def test_what_is_dropped_is_dropped_for_a_reason_that_can_be_logged() -> None:
    for method, why in (
        ("tools/call", "tools/call without an id"),
        ("tools/list", "tools/list without an id"),
        ("TOOLS/call", "a notification whose method merely looks like a tool method"),
    ):
        assert _judge(b'{"jsonrpc":"2.0","method":"%b"}' % method.encode()) == Drop(why)


def test_a_response_of_the_clients_is_not_the_gates_business() -> None:
    assert _judge(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}', None) is FORWARD


@pytest.mark.parametrize(
    "method",
    ["TOOLS/CALL", "Tools/list", "ｔools/list", "\ttools/call", "tools/\u200dcall", "ｔｏｏｌｓ/list"],
)
def test_no_shortcut_lets_a_look_alike_through(method: str) -> None:
    verdict = _judge(b'{"jsonrpc":"2.0","id":1,"method":%b}' % json.dumps(method).encode())
    assert _error(verdict) == (-32601, "Method not found")


def _shows(raw: bytes, choice: ToolFilter = HIDING) -> bool:
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    return tool_gate.shows_hidden_tools(message, choice)


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
        b'"tools":["hidden",{"name":["hidden"]}]',
        b'"x":"\\"tools\\":[{\\"name\\":\\"hidden\\"}]"',
        b'"tools":[],"x":"%b"' % (b'\\"name' * 100_000),
        b'"x":"%b"' % (b'\\"tools' * 100_000),
    ],
    ids=range(8),
)
def test_what_is_too_big_and_lists_nothing_hidden_passes(params: bytes) -> None:
    assert not _shows(_big(params))


def test_a_big_list_is_of_no_read_only_tools_for_all_we_know() -> None:
    tools = b'"tools":[{"name":"x","annotations":{"readOnlyHint":true}}]'
    assert not _shows(b'{"jsonrpc":"2.0","method":"n","params":{%b}}' % tools, ToolFilter(read_only=True))
    assert _shows(_big(tools), ToolFilter(read_only=True))
    raw = b'{"jsonrpc":"2.0","method":"n","params":{"x":"%b",%b}}'
    room = 256 * 1024 - len(b'{"x":"",%b}' % tools)
    assert not _shows(raw % (b"x" * room, tools), ToolFilter(read_only=True))
    assert _shows(raw % (b"x" * (room + 1), tools), ToolFilter(read_only=True))


def test_what_tools_usually_return_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every result of a call comes this way, and some are large."""
    looked: list[bytes] = []

    def look(body: bytes, choice: ToolFilter) -> bool:
        looked.append(bytes(body))
        return False

    monkeypatch.setattr(tool_gate, "_lists_hidden", look)
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
        b'{"tools":["hidden",5,null,["name","hidden"],{"name":"echo"}]}',
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
        '{"ｔools":[{"name":"hidden"}]}'.encode(),
        b"[" * 5_000 + b'{"tools":[{"name":"hidden"}]}' + b"]" * 5_000,
        b'{"x":"%b","tools":[{"name":"hidden"}]}' % _BIG,
        b'{"x":"%b","tools":[%b{}]}' % (_BIG, b'{"n\\u0061":""},' * 50_000),
    ],
    ids=range(9),
)
def test_a_body_that_is_no_message_lists_nothing_hidden(text: bytes) -> None:
    assert tool_gate.text_lists_hidden_tools(text, HIDING)


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
        b'"tools":[ "\\name":"hidden" %b' % _BIG,
    ],
    ids=range(10),
)
def test_words_about_tools_are_free(text: bytes) -> None:
    assert not tool_gate.text_lists_hidden_tools(text, HIDING)


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
        b'{"jsonrpc":"2.0","method":"n","params":[{"tools":[{"name":"hidden"}]}]}',
        b'{"jsonrpc":"2.0","id":1,"result":"tools"}',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":{"name":"hidden"}}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":["hidden",["hidden"],{"name":["hidden"]}]}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"tools":[{"name":"hidden"}]}}',
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
