"""Walking through the pages of a tool list, without any I/O."""

from __future__ import annotations

import json
import re

import pytest

from gate_messages import client
from penstock import limits
from penstock.errors import ToolListFailed
from penstock.policy.tools.catalog import view
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.tool_list_pages import ToolListPages, own_id, own_notification, own_request
from penstock.wire.mcp.message import Message, read_client_message, read_upstream_message
from penstock.wire.mcp.replies import printable


def _answer(request: Message, body: bytes) -> Message:
    assert request.id_token is not None
    message = read_upstream_message(b'{"jsonrpc":"2.0","id":%b,%b}' % (request.id_token, body))
    assert isinstance(message, Message)
    return message


def _page(cursor: bytes | None, *names: str) -> bytes:
    tools = b",".join(b'{"name":"%b","inputSchema":{"type":"object"}}' % name.encode() for name in names)
    return b'"result":{"tools":[%b]%b}' % (tools, b"" if cursor is None else b',"nextCursor":' + cursor)


def test_every_page_is_asked_for_with_the_cursor_as_it_came() -> None:
    fetch = ToolListPages(None)
    request: Message | None = fetch.first_request()
    seen = []
    for cursor in (b'""', b'"\\u65e5"', b'"b"', None):
        assert request is not None
        seen.append(json.loads(request.raw)["params"])
        request = fetch.take(_answer(request, _page(cursor, f"t{len(seen)}")))
    assert request is None
    assert seen == [{}, {"cursor": ""}, {"cursor": "日"}, {"cursor": "b"}]
    assert view(fetch.tools(), ToolFilter()).names == {"t1", "t2", "t3", "t4"}


def test_each_request_is_a_proper_message_with_an_id_of_its_own() -> None:
    fetch = ToolListPages(b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}')
    first = fetch.first_request()
    second = fetch.take(_answer(first, _page(b'"n"')))
    assert second is not None
    for request in (first, second):
        read = client(request.raw)
        assert (read.id_token, read.method) == (request.id_token, "tools/list")
        assert "io.modelcontextprotocol/protocolVersion" in json.loads(request.raw)["params"]["_meta"]
    assert first.id_token != second.id_token
    assert not fetch.owns(first.id_token)
    assert fetch.owns(second.id_token)
    assert not fetch.owns(None)


def test_a_cursor_that_comes_twice_ends_the_walk() -> None:
    fetch = ToolListPages(None)
    second = fetch.take(_answer(fetch.first_request(), _page(b'"a"')))
    assert second is not None
    with pytest.raises(ToolListFailed, match="tool list"):
        fetch.take(_answer(second, _page(b'"a"')))


def test_a_page_with_a_crowd_of_members_is_no_tool_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATH_PARTS", 20)
    fetch = ToolListPages(None)
    crowd = b",".join(b'"%d":"%d"' % (number, number) for number in range(20))
    with pytest.raises(ToolListFailed, match=r"The tool list cannot be read"):
        fetch.take(_answer(fetch.first_request(), b'"result":{"tools":[],%b}' % crowd))


def test_a_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIST_PAGES", 5)
    fetch = ToolListPages(None)
    request: Message | None = fetch.first_request()
    for number in range(4):
        assert request is not None
        request = fetch.take(_answer(request, _page(b'"%d"' % number)))
    assert request is not None
    fifth = _answer(request, _page(b'"last"'))
    with pytest.raises(ToolListFailed):
        fetch.take(fifth)
    assert len(fetch.pages) == 5


def test_a_list_of_too_many_bytes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIST_BYTES", 100)
    fetch = ToolListPages(None)
    with pytest.raises(ToolListFailed):
        fetch.take(_answer(fetch.first_request(), _page(b'"a"', "x" * 100)))


def test_an_upstream_without_the_method_has_no_tools() -> None:
    fetch = ToolListPages(None)
    assert fetch.take(_answer(fetch.first_request(), b'"error":{"code":-32601,"message":"no"}')) is None
    assert view(fetch.tools(), ToolFilter()).refusal == b'{"code":-32601,"message":"no"}'


def test_another_error_is_a_failure_unless_no_tools_were_promised() -> None:
    error = b'"error":{"code":-32000,"message":"bad\\u001b[31m"}'
    fetch = ToolListPages(None)
    with pytest.raises(ToolListFailed) as caught:
        fetch.take(_answer(fetch.first_request(), error))
    assert "-32000" in caught.value.detail
    assert "\x1b" not in caught.value.detail
    fetch = ToolListPages(None, error_means_none=True)
    assert fetch.take(_answer(fetch.first_request(), error)) is None


@pytest.mark.parametrize("body", [b'"result":5', b'"result":{"tools":[],"tools":[]}', b'"result":{}'])
def test_what_is_no_list_is_a_failure(body: bytes) -> None:
    fetch = ToolListPages(None)
    answer = _answer(fetch.first_request(), body)

    def read() -> None:
        fetch.take(answer)
        view(fetch.tools(), ToolFilter())

    with pytest.raises(ToolListFailed):
        read()


def test_a_request_of_our_own_is_what_a_reader_would_make_of_it() -> None:
    request = own_request(b'"i"', "tools/list", b'{"cursor":"c"}')
    assert request.raw == b'{"jsonrpc":"2.0","id":"i","method":"tools/list","params":{"cursor":"c"}}'
    assert request == read_client_message(request.raw)


@pytest.mark.parametrize("params", [None, b"{}", b'{"a":1}'])
def test_a_notification_of_our_own_is_what_a_reader_would_make_of_it(params: bytes | None) -> None:
    notification = own_notification("notifications/x", params)
    assert notification == read_client_message(notification.raw)
    assert ("params" in notification.envelope) is (params is not None)


def test_no_two_ids_of_our_own_are_alike() -> None:
    ids = {own_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(rb'"penstock-[0-9a-f]{32}"', token) for token in ids)


def test_the_params_of_a_request_are_cursor_and_meta_as_given() -> None:
    fetch = ToolListPages(b'{"v":1.0}')
    first = fetch.first_request()
    assert bytes(first.envelope["params"]) == b'{"_meta":{"v":1.0}}'
    second = fetch.take(_answer(first, _page(b'"\\u0061"')))
    assert second is not None
    assert bytes(second.envelope["params"]) == b'{"cursor":"\\u0061","_meta":{"v":1.0}}'


def test_a_cursor_of_null_is_none() -> None:
    fetch = ToolListPages(None)
    assert fetch.take(_answer(fetch.first_request(), _page(b"null", "a"))) is None


def _failure(fetch: ToolListPages, body: bytes) -> str:
    with pytest.raises(ToolListFailed) as caught:
        fetch.take(_answer(fetch.first_request(), body))
    return caught.value.detail


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'"result":5', "The tool list cannot be read"),
        (b'"result":{"a":1,"a":2}', "The tool list cannot be read"),
        (b'"error":{"code":-32000,"message":"no"}', "The upstream answered with error -32000: no"),
        (b'"error":{"message":"\\ud800"}', "The upstream answered with error 0: \uffff"),
        (b'"error":{}', "The upstream answered with error 0: "),
        (b'"error":5', "The upstream answered with error 0: "),
        (b'"error":{"code":"x"}', "The upstream answered with error 0: "),
    ],
)
def test_why_a_list_failed_is_said(body: bytes, detail: str) -> None:
    assert _failure(ToolListPages(None), body) == printable(detail)


def test_a_list_without_end_is_called_that(monkeypatch: pytest.MonkeyPatch) -> None:
    page = _page(b'"a"', "x")
    size = len(page) - len(b'"result":')
    monkeypatch.setattr(limits, "LIST_BYTES", size)
    fetch = ToolListPages(None)
    second = fetch.take(_answer(fetch.first_request(), page))
    assert second is not None
    with pytest.raises(ToolListFailed) as caught:
        fetch.take(_answer(second, _page(b'"b"', "x")))
    assert caught.value.detail == f"The tool list has no end: 2 pages, {2 * size} bytes"
    fetch = ToolListPages(None)
    second = fetch.take(_answer(fetch.first_request(), page))
    assert second is not None
    with pytest.raises(ToolListFailed) as caught:
        fetch.take(_answer(second, page))
    assert caught.value.detail == "The tool list has no end: a cursor came twice"


def test_pages_that_are_no_tool_list_are_said_to_be_none() -> None:
    fetch = ToolListPages(None)
    fetch.take(_answer(fetch.first_request(), b'"result":{}'))
    with pytest.raises(ToolListFailed) as caught:
        view(fetch.tools(), ToolFilter())
    assert caught.value.detail == "The answer is not valid: its tool list has no tools member"


def test_before_anything_was_asked_nothing_is_ours() -> None:
    assert not ToolListPages(None).owns(b'"x"')
    assert ToolListPages(None).refusal is None
