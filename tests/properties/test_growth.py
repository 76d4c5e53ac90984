"""Time grows with the message and no faster, whatever it is full of.

No clock decides. A text of 200 kB that some pattern or loop begins anew at each of its parts takes minutes,
and then the limit of the test run ends it; what is looked at once takes milliseconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from memory_doors import CHOICE, catalog
from penstock.errors import ProtocolError
from penstock.policy.tools import tool_gate, tool_lists
from penstock.policy.tools.catalog import build_catalog
from penstock.policy.tools.upstream_tools import BadToolList
from penstock.wire.http.bodies import to_body
from penstock.wire.http.sse import SseReader
from penstock.wire.json import splice
from penstock.wire.json.ambiguity import Ambiguous
from penstock.wire.mcp import response_id as glance
from penstock.wire.mcp.message import Message, read_client_message, read_upstream_message
from penstock.wire.mcp.ndjson import LineSplitter

SIZE = 200_000


def _of_a_client(text: bytes) -> None:
    message = read_client_message(text)
    if isinstance(message, Message):
        tool_gate.judge(message, catalog())
        to_body(text, True)


def _of_an_upstream(text: bytes) -> None:
    message = read_upstream_message(text)
    if isinstance(message, Message):
        tool_lists.shows_hidden_tools(message, CHOICE)


def _of_events(text: bytes) -> None:
    reader = SseReader(2 * SIZE)
    for start in range(0, len(text), 7):
        reader.feed(text[start : start + 7])


def _of_lines(text: bytes) -> None:
    splitter = LineSplitter()
    for start in range(0, len(text), 7):
        splitter.feed(text[start : start + 7])


SPLITTERS: dict[str, Callable[[bytes], object]] = {"events": _of_events, "lines": _of_lines}
READERS: dict[str, Callable[[bytes], object]] = {
    "client": _of_a_client,
    "upstream": _of_an_upstream,
    "body": lambda text: to_body(text, True),
    "error page": lambda text: tool_lists.text_lists_hidden_tools(text, CHOICE),
    "list": lambda text: build_catalog([text], CHOICE),
    "glance": glance.maybe_response_id,
}
_CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call",\n"params":'
FRAMES = {
    "nothing": b"%b",
    "object": b"{%b",
    "array": b"[%b",
    "string": b'"%b',
    "text": _CALL + b'{"name":"echo","arguments":{"x":"%b"}}}',
    "arguments": _CALL + b'{"name":"echo","arguments":{%b"x":1}}}',
    "params": _CALL + b'{%b"name":"echo"}}',
    "envelope": b'{"jsonrpc":"2.0","id":1,%b"method":"tools/call",\n"params":{"name":"echo"}}',
    "method": b'{"jsonrpc":"2.0","id":1,"method":"%b",\n"params":{"name":"echo"}}',
    "id": b'{"jsonrpc":"2.0","id":"%b","method":"tools/call",\n"params":{"name":"echo"}}',
    "name": _CALL + b'{"name":"%b"}}',
    "unasked text": b'{"jsonrpc":"2.0","method":"n","params":{"\xc3\xa9":1,"tools":[1],"x":"%b"}}',
    "unasked list": b'{"jsonrpc":"2.0","method":"n","params":{"tools":[%b1]}}',
    "result": b'{"jsonrpc":"2.0","id":1,"result":{"tools":[%b1]}}',
    "tool": b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"%b"}]}}',
    "list": b'{"tools":[%b{"name":"x"}]}',
    "entry": b'{"tools":[{%b"name":"x"}]}',
    "description": b'{"tools":[{"name":"x","description":"%b"}]}',
}
UNITS = [
    *(rb"\"t", rb"\"n", rb"\"m", rb"\"tools\":[", rb"\"name\":\"", rb"\\", rb"\ud800", rb"\ud800\udc00"),
    *(rb"\u0061", rb"\udc00", b" ", b"\t", b"\n", b"\r", b"\r\n", b"9", b"0", b"-", b"e", b"\\", b'"', b":"),
    *(b",", b"[", b"]", b"{", b"[],", b"{},", b'"",', b"1,", b'"a":1,', rb'"\u0061":1,', b'"a":"x",'),
    *(b'"a":{},', b'"a":[],', b'{"a":', b'"a', b'"a"', b'{"name":"x"},', b'{"name":"x","name":"y"},'),
    *("\ufdfa".encode(), "\u200b".encode(), b"\x7f", '"\ufdfa\ufdfa\ufdfa":1,'.encode()),
    *("é".encode(), "\uffff".encode(), b"\x80", b"\xed\xa0\x80", b"\0", b"data:\n", b"data: x\n\n", b":\n\n"),
]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("reader", READERS)
def test_a_message_full_of_one_thing_is_looked_at_once(reader: str, frame: str) -> None:
    read = READERS[reader]
    for unit in UNITS:
        text = FRAMES[frame].replace(b"%b", unit * (SIZE // len(unit)))
        with contextlib.suppress(ProtocolError, Ambiguous, BadToolList):
            read(text)


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_a_stream_full_of_one_thing_is_looked_at_once(splitter: str) -> None:
    for unit in UNITS:
        SPLITTERS[splitter](b"data: " + unit * (SIZE // len(unit)))


@pytest.mark.parametrize("unit", UNITS)
def test_a_member_is_looked_for_once(unit: bytes) -> None:
    for frame in (b'{"x":"%b","token":1}', b'{%b"token":1}'):
        text = frame.replace(b"%b", unit * (SIZE // len(unit)))
        with contextlib.suppress(ValueError):
            splice.maybe_sole_span(text, "token")
