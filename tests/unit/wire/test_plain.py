"""The quick reading of plain messages sees what the strict reading sees, or leaves the message to it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate_messages import client
from penstock.errors import ProtocolError
from penstock.wire.json import fast_path as plain
from penstock.wire.mcp import message as reading
from penstock.wire.mcp.message import Batch, Kind, Message, read_client_message, read_upstream_message
from two_readings import edits, outcome

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1,"x"]}}}'
ANSWER = b'{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"hi"}]}}'

NOT_PLAIN = {
    "a name twice": CALL.replace(b'"name":"echo"', b'"name":"echo","name":"shell"'),
    "params twice": CALL[:-1] + b',"params":{"name":"shell"}}',
    "an id twice": CALL[:-1] + b',"id":8}',
    "a method twice": CALL.replace(b'"method"', b'"method":"ping","method"'),
    "an escaped key": CALL.replace(b'"name"', b'"n\\u0061me"'),
    "an escaped name": CALL.replace(b"echo", b"ech\\u006f"),
    "an escaped slash": CALL.replace(b"tools/call", b"tools\\/call"),
    "blanks": CALL.replace(b":", b": "),
    "a member more": CALL[:-1] + b',"x":1}',
    "a look-alike": CALL.replace(b'"arguments"', b'"Name":"shell","arguments"'),
    "jsonrpc written longer": CALL.replace(b"2.0", b"2\\u002e0"),
    "another jsonrpc": CALL.replace(b"2.0", b"1.0"),
    "no jsonrpc": CALL.replace(b'"jsonrpc":"2.0",', b""),
    "a number for a name": CALL.replace(b'"echo"', b"5"),
    "null for params": b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":null}',
    "null for an id": CALL.replace(b":7", b":null"),
    "an array for an id": CALL.replace(b":7", b":[]"),
    "no id": CALL.replace(b'"id":7,', b""),
    "a result as well": CALL[:-1] + b',"result":{}}',
    "not UTF-8": CALL.replace(b"echo", b"ech\xff"),
    "not UTF-8 in arguments": CALL.replace(b'"x"', b'"\xff"'),
    "not UTF-8 in a long one": CALL.replace(b'"x"', b'"%b\xff"' % (b"x" * 70_000)),
    "too deep": CALL.replace(b"[1", b"[" + b"[" * 126 + b"]" * 126 + b",1"),
    "cut off": CALL[:-1],
    "something after": CALL + b"{}",
    "an array": b"[" + CALL + b"]",
    "a long one, a name twice": CALL.replace(b'"echo"', b'"echo","name":"%b"' % (b"e" * 20_000)),
    "a long one, params twice": CALL[:-1] + b',"params":{"name":"%b"}}' % (b"e" * 20_000),
    "a long one, an escape": CALL.replace(b"1,", b'"%b",' % (b"x" * 20_000)).replace(b"echo", b"ech\\u006f"),
    "a long one, blanks": CALL.replace(b"1,", b'"%b",' % (b"x" * 20_000)).replace(b":", b": "),
}


@pytest.mark.parametrize("member", ["id", "method", "jsonrpc", "params"])
def test_the_order_of_members_does_not_matter(member: str) -> None:
    import json

    whole = json.loads(CALL)
    moved = {**{k: v for k, v in whole.items() if k != member}, member: whole[member]}
    message = client(json.dumps(moved, separators=(",", ":")).encode())
    assert (message.tool, message.id_token, message.members) == ("echo", b"7", None)


def test_a_plain_call_tells_its_tool_without_a_second_look() -> None:
    message = client(CALL)
    assert (message.kind, message.tool, message.members) == (Kind.REQUEST, "echo", None)
    assert bytes((message.params or {})["arguments"]) == b'{"a":[1,"x"]}'


def test_a_plain_answer_needs_no_second_look() -> None:
    message = read_upstream_message(ANSWER)
    assert isinstance(message, Message)
    assert (message.kind, message.id_token, message.members) == (Kind.RESPONSE, b'"a"', None)
    assert message.params is None
    assert message.result is not None
    assert list(message.result) == ["content"]


@pytest.mark.parametrize("cut", [b"", b'"id":7,', b'"name":"echo",', b',"arguments":{"a":[1,"x"]}'])
@pytest.mark.parametrize("meta", [b"", b',"_meta":{"progressToken":1}'])
def test_a_long_message_is_plain_like_a_short_one(cut: bytes, meta: bytes) -> None:
    raw = CALL.replace(cut, b"")
    raw = raw[:-2] + (meta if raw[-3:-2] != b"{" else meta[1:]) + b"}}"
    padded = raw.replace(b"echo", b"e" * 20_000).replace(b'"x"', b'"%b"' % (b"x" * 20_000))
    for text in (raw, padded):
        found = outcome(read_client_message, text)
        assert found == outcome(reading._read_client_strictly, text)
        message = client(text)
        assert (message.members is None) == (b'"id"' in text)  # a notification is always read strictly


def test_other_scripts_are_plain_too() -> None:
    message = client(CALL.replace(b"echo", "\u00e9cho".encode()))
    assert (message.tool, message.members) == ("\u00e9cho", None)
    answer = read_upstream_message(ANSWER.replace(b"hi", "h\u00e9".encode()))
    assert isinstance(answer, Message)
    assert answer.result is not None
    assert list(answer.result) == ["content"]


@pytest.mark.parametrize("raw", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_what_is_not_plain_is_read_strictly(raw: bytes) -> None:
    found = outcome(read_client_message, raw)
    assert found == outcome(reading._read_client_strictly, raw)
    try:
        message = read_client_message(raw)
    except ProtocolError:
        return
    assert isinstance(message, Batch) or message.tool is None or message.tool == "echo"


@settings(max_examples=1500, deadline=None)
@given(edits(CALL))
def test_both_readings_of_a_client_agree(raw: bytes) -> None:
    assert outcome(read_client_message, raw) == outcome(reading._read_client_strictly, raw)


@settings(max_examples=1500, deadline=None)
@given(edits(ANSWER))
def test_both_readings_of_an_upstream_agree(raw: bytes) -> None:
    assert outcome(read_upstream_message, raw) == outcome(reading._read_upstream_strictly, raw)


@pytest.mark.parametrize("raw", [b"[" + CALL, b"[" + CALL + b",", b"[,]", b"[" + CALL + b"}"])
def test_a_broken_array_is_a_parse_error_and_nothing_else(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="Parse error"):
        read_client_message(raw)
    with pytest.raises(ProtocolError, match="Parse error"):
        read_upstream_message(raw)


_PAD = b"x" * plain.COPIED_BYTES
_REQUESTS = {
    "no more than it must have": b'{"jsonrpc":"2.0","method":"<pad>"}',
    "an id": b'{"jsonrpc":"2.0","method":"m<pad>","id":"i"}',
    "empty params": b'{"jsonrpc":"2.0","method":"m","id":"<pad>","params":{}}',
    "a name": b'{"jsonrpc":"2.0","method":"m","id":1,"params":{"name":"<pad>"}}',
    "arguments": b'{"jsonrpc":"2.0","method":"m","id":1,"params":{"arguments":{"a":"<pad>"}}}',
    "meta": b'{"jsonrpc":"2.0","method":"m","id":1,"params":{"_meta":{"a":"<pad>"}}}',
    "two": b'{"jsonrpc":"2.0","method":"m","id":1,"params":{"name":"echo","arguments":"<pad>"}}',
    "all": b'{"jsonrpc":"2.0","method":"m","params":{"name":"\xc3\xa9","arguments":"<pad>","_meta":5}}',
    "no id": b'{"jsonrpc":"2.0","method":"m","params":{"name":"x","_meta":"<pad>"}}',
}


@pytest.mark.parametrize("pad", [b"", _PAD], ids=["small", "large"])
@pytest.mark.parametrize("which", _REQUESTS)
def test_the_plainest_spelling_of_a_request_is_as_long_as_it_says(which: str, pad: bytes) -> None:
    raw = _REQUESTS[which].replace(b"<pad>", pad)
    assert plain.spelt_request_bytes(plain.decode_request(raw), len(raw)) == len(raw)


@pytest.mark.parametrize("pad", [b"", _PAD], ids=["small", "large"])
@pytest.mark.parametrize("which", _REQUESTS)
def test_any_other_spelling_is_longer(which: str, pad: bytes) -> None:
    raw = _REQUESTS[which].replace(b"<pad>", pad)
    others = [
        raw.replace(b":", b": ", 1),
        raw.replace(b"2.0", b"2\\u002e0"),
        raw.replace(b'"method"', b'"m\\u0065thod"'),
        raw.replace(b'"method":"', b'"method":"\\n'),
        raw.replace(b'"name"', b'"name":"other","name"'),
        raw.replace(b'"id"', b'"id":1,"id"'),
        raw.replace(b'"_meta"', b'"_meta":{},"_meta"'),
        raw[:-1] + b',"jsonrpc":"2.0"}',
        raw + b" ",
    ]
    # A line break has no shorter spelling than its escape; where nothing is copied, it counts as longer too.
    allowed = {raw, others[3]} if not pad else {raw}
    for other in others:
        is_plain = plain.spelt_request_bytes(plain.decode_request(other), len(other)) == len(other)
        assert is_plain == (other in allowed), other[:200]


def test_what_is_read_without_a_copy_is_larger_than_what_is_spelt_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the border and below, the message is spelt again; above, only counted."""
    spelt: list[int] = []

    def encode(value: object) -> bytes:
        spelt.append(1)
        return b"x"

    monkeypatch.setattr(plain, "encode", encode)
    request = plain.decode_request(b'{"jsonrpc":"2.0","method":"m"}')
    assert plain.spelt_request_bytes(request, 16 * 1024) == 1
    assert plain.spelt_request_bytes(request, 16 * 1024 + 1) > 1
    assert len(spelt) == 1


PROGRESS = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":2}}'
)
PING = b'{"method":"roots/list","params":{},"jsonrpc":"2.0","id":"p1"}'


@pytest.mark.parametrize("raw", [PROGRESS, PING, b'{"jsonrpc":"2.0","id":5,"method":"ping"}'])
def test_what_an_upstream_says_unasked_needs_no_second_look_when_it_is_plain(raw: bytes) -> None:
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    assert message.members is None
    assert outcome(read_upstream_message, raw) == outcome(reading._read_upstream_strictly, raw)


@settings(max_examples=1500, deadline=None)
@given(st.one_of(edits(PROGRESS), edits(PING)))
def test_both_readings_of_what_is_said_unasked_agree(raw: bytes) -> None:
    assert outcome(read_upstream_message, raw) == outcome(reading._read_upstream_strictly, raw)


@pytest.mark.parametrize("token", [b"null", b"[]", b"{}", b"true", b'"a","id":2', b'1,"id":1'])
def test_a_request_of_an_upstream_with_an_odd_id_is_read_strictly(token: bytes) -> None:
    raw = b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % token
    assert outcome(read_upstream_message, raw) == outcome(reading._read_upstream_strictly, raw)
    if token == b"null":
        message = read_upstream_message(raw)
        assert isinstance(message, Message)
        assert message.members is not None
