"""Walking through the pages of a tool list, without any I/O."""

from __future__ import annotations

import json

import pytest

from penstock import limits
from penstock.errors import ToolListFailed
from penstock.policy.tool_filter import ToolFilter
from penstock.relay.list_fetch import ListFetch
from penstock.wire.message import Message, read_client_message, read_upstream_message


def _answer(request: Message, body: bytes) -> Message:
    assert request.id_token is not None
    message = read_upstream_message(b'{"jsonrpc":"2.0","id":%b,%b}' % (request.id_token, body))
    assert isinstance(message, Message)
    return message


def _page(cursor: bytes | None, *names: str) -> bytes:
    tools = b",".join(b'{"name":"%b","inputSchema":{}}' % name.encode() for name in names)
    return b'"result":{"tools":[%b]%b}' % (tools, b"" if cursor is None else b',"nextCursor":' + cursor)


def test_every_page_is_asked_for_with_the_cursor_as_it_came() -> None:
    fetch = ListFetch(None)
    request: Message | None = fetch.first_request()
    seen = []
    for cursor in (b'""', b'"\\u65e5"', b'"b"', None):
        assert request is not None
        seen.append(json.loads(request.raw)["params"])
        request = fetch.take(_answer(request, _page(cursor, f"t{len(seen)}")))
    assert request is None
    assert seen == [{}, {"cursor": ""}, {"cursor": "日"}, {"cursor": "b"}]
    assert fetch.catalog(ToolFilter()).names == {"t1", "t2", "t3", "t4"}


def test_each_request_is_a_proper_message_with_an_id_of_its_own() -> None:
    fetch = ListFetch(b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}')
    first = fetch.first_request()
    second = fetch.take(_answer(first, _page(b'"n"')))
    assert second is not None
    for request in (first, second):
        read = read_client_message(request.raw)
        assert isinstance(read, Message)
        assert (read.id_token, read.method) == (request.id_token, "tools/list")
        assert "io.modelcontextprotocol/protocolVersion" in json.loads(request.raw)["params"]["_meta"]
    assert first.id_token != second.id_token
    assert not fetch.owns(first.id_token)
    assert fetch.owns(second.id_token)
    assert not fetch.owns(None)


def test_a_cursor_that_comes_twice_ends_the_walk() -> None:
    fetch = ListFetch(None)
    second = fetch.take(_answer(fetch.first_request(), _page(b'"a"')))
    assert second is not None
    with pytest.raises(ToolListFailed, match="tool list"):
        fetch.take(_answer(second, _page(b'"a"')))


def test_a_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIST_PAGES", 5)
    fetch = ListFetch(None)
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
    fetch = ListFetch(None)
    with pytest.raises(ToolListFailed):
        fetch.take(_answer(fetch.first_request(), _page(b'"a"', "x" * 100)))


def test_an_upstream_without_the_method_has_no_tools() -> None:
    fetch = ListFetch(None)
    assert fetch.take(_answer(fetch.first_request(), b'"error":{"code":-32601,"message":"no"}')) is None
    assert fetch.catalog(ToolFilter()).refusal == b'{"code":-32601,"message":"no"}'


def test_another_error_is_a_failure_unless_no_tools_were_promised() -> None:
    error = b'"error":{"code":-32000,"message":"bad\\u001b[31m"}'
    fetch = ListFetch(None)
    with pytest.raises(ToolListFailed) as caught:
        fetch.take(_answer(fetch.first_request(), error))
    assert "-32000" in caught.value.detail
    assert "\x1b" not in caught.value.detail
    fetch = ListFetch(None, error_means_none=True)
    assert fetch.take(_answer(fetch.first_request(), error)) is None


@pytest.mark.parametrize("body", [b'"result":5', b'"result":{"tools":[],"tools":[]}', b'"result":{}'])
def test_what_is_no_list_is_a_failure(body: bytes) -> None:
    fetch = ListFetch(None)
    answer = _answer(fetch.first_request(), body)

    def read() -> None:
        fetch.take(answer)
        fetch.catalog(ToolFilter())

    with pytest.raises(ToolListFailed):
        read()
