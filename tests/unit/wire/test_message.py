"""What a message is, found without disturbing a byte of it."""

from __future__ import annotations

import pytest

from gate_messages import client
from penstock import limits
from penstock.errors import ClientProtocolError, UpstreamProtocolError
from penstock.wire.mcp import message
from penstock.wire.mcp.message import (
    Batch,
    Kind,
    Message,
    maybe_sole_id,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import over_limit


def _refusal(raw: bytes) -> ClientProtocolError:
    with pytest.raises(ClientProtocolError) as caught:
        read_client_message(raw)
    return caught.value


@pytest.mark.parametrize(
    ("raw", "kind", "token", "method"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', Kind.REQUEST, b"1", "ping"),
        (b' { "method" : "ping" , "id" : 1.0 , "jsonrpc" : "2.0" } ', Kind.REQUEST, b"1.0", "ping"),
        (b'{"jsonrpc":"2.0","id":"\\u0031","method":"p\\u0069ng"}', Kind.REQUEST, b'"\\u0031"', "ping"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', Kind.REQUEST, b"null", "ping"),
        (b'{"jsonrpc":"2.0","id":-0,"method":"ping"}', Kind.REQUEST, b"-0", "ping"),
        (b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', Kind.REQUEST, b"1e400", "ping"),
        (b'{"jsonrpc":"2.0","method":"notifications/x"}', Kind.NOTIFICATION, None, "notifications/x"),
        (b'{"jsonrpc":"2.0","id":7,"result":{}}', Kind.RESPONSE, b"7", None),
        (b'{"jsonrpc":"2.0","id":7,"error":{}}', Kind.RESPONSE, b"7", None),
        (b'{"jsonrpc":"2.0","error":{}}', Kind.RESPONSE, None, None),
    ],
)
def test_a_message_is_known_by_its_envelope(
    raw: bytes, kind: Kind, token: bytes | None, method: str | None
) -> None:
    for read in (read_client_message, read_upstream_message):
        message = read(raw)
        assert isinstance(message, Message)
        assert (message.raw, message.kind, message.id_token, message.method) == (raw, kind, token, method)


def test_a_long_id_is_kept_to_the_last_digit() -> None:
    digits = b"9" * 5_000
    assert client(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % digits).id_token == digits


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"hello", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}{}', -32700),
        (b"[", -32700),
        (b"[1,2", -32700),
        (b"[1] x", -32700),
        (b'["\\ud800",', -32700),
        (b"5", -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"\\u0032.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":1,"name":2}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"Name":1}}', -32600),
    ],
)
def test_what_is_no_message_is_refused_with_the_right_code(raw: bytes, code: int) -> None:
    assert _refusal(raw).code == code


@pytest.mark.parametrize(
    ("raw", "token"),
    [
        (b'{"jsonrpc":"2.0","id":"a\\u0062","method":"a","method":"b"}', b'"a\\u0062"'),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}', None),
        (b'{"jsonrpc":"2.0","id":1,"Id":2,"method":"a"}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1,"x":2}}', b"1"),
        (b'{"jsonrpc":"1.0","id":1.50,"method":"a"}', b"1.50"),
        (b'{"jsonrpc":"2.0","method":"a","method":"b"}', None),
        (b'{"jsonrpc":"2.0","id":3,"method":"a","method":"b","params":{"t":"\\ud800"}}', b"3"),
        (b'{"jsonrpc":"2.0","id":4,"method":"a","params":' + b"[" * 200 + b"]" * 200 + b"}", b"4"),
        (b'{"method":"a","params":' + b"[" * 200 + b"]" * 200 + b',"jsonrpc":"2.0","id":5}', b"5"),
    ],
)
def test_a_refusal_carries_the_id_when_there_is_just_one(raw: bytes, token: bytes | None) -> None:
    assert _refusal(raw).id_token == token


def test_an_upstream_is_blamed_for_its_own_messages() -> None:
    with pytest.raises(UpstreamProtocolError):
        read_upstream_message(b'{"jsonrpc":"2.0","id":1,"result":1,"result":2}')


def test_only_a_clients_params_are_looked_into() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}'
    assert isinstance(read_upstream_message(raw), Message)
    assert _refusal(raw).code == -32600


def test_params_that_are_no_object_are_not_read() -> None:
    for params in (b"[1]", b"null", b'"x"', b"5"):
        assert client(b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b}' % params).params is None


def test_a_batch_has_only_so_many_messages() -> None:
    assert isinstance(read_client_message(b"[" + b"1," * (limits.BATCH_MESSAGES - 1) + b"1]"), Batch)
    with pytest.raises(ClientProtocolError, match=r"^Invalid request: a batch of more than 1000 messages$"):
        read_client_message(b"[" + b"1," * limits.BATCH_MESSAGES + b"1]")


def test_an_array_is_a_batch_of_its_parts() -> None:
    raw = b' [ {"a":1} , 5, [ ] ] '
    batch = read_client_message(raw)
    assert isinstance(batch, Batch)
    assert batch.parts == [b'{"a":1}', b"5", b"[ ]"]


def test_half_a_pair_stays_as_written_wherever_it_stands() -> None:
    message = client(b'{"jsonrpc":"2.0", "id":"\\ud800","method":"x","params":{"a":"\\udc00"}}')
    assert message.id_token == b'"\\ud800"'
    assert message.params is not None
    assert bytes(message.params["a"]) == b'"\\udc00"'
    batch = read_client_message(b'[ {"a":"\\ud800"} , "\\udfff"]')
    assert isinstance(batch, Batch)
    assert batch.parts == [b'{"a":"\\ud800"}', b'"\\udfff"']


def test_the_size_limit_is_exact_and_named() -> None:
    head, tail = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"t":"', b'"}}'
    fits = head + b"x" * (limits.MESSAGE_BYTES - len(head) - len(tail)) + tail
    assert len(fits) == 10 * 1024 * 1024
    assert client(fits).raw is fits
    assert f"{limits.MESSAGE_BYTES + 1:,}" in _refusal(fits + b" ").reason


def test_the_depth_limit_is_exact() -> None:
    def nested(levels: int) -> bytes:
        inner = levels - 2
        return b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":%b%b}}' % (b"[" * inner, b"]" * inner)

    assert client(nested(128)).id_token == b"1"
    assert "128" in _refusal(nested(129)).reason
    assert "128" in _refusal(nested(100_000)).reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"5", "Invalid request: it is not an object"),
        (b'"[1]"', "Invalid request: it is not an object"),
        (b'{"jsonrpc":"1.0","id":1,"method":"a"}', 'Invalid request: jsonrpc must be "2.0"'),
        (b'{"jsonrpc":"2.0","id":true,"method":"a"}', "Invalid request: id must be a string or a number"),
        (b'{"jsonrpc":"2.0","id":1}', "Invalid request: neither a request nor a response"),
        (
            b'{"jsonrpc":"2.0","id":1,"result":1,"error":1}',
            "Invalid request: neither a request nor a response",
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"a","error":1}',
            "Invalid request: both a request and a response",
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', "Invalid request: method must be a string"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', "Invalid request: method must be a string"),
        (b'{"a":1,"a":2}', "Invalid request: a member name stands twice"),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":1,"a":2}}',
            "Invalid request: in params, a member name stands twice",
        ),
        (b"\xff", "Parse error: it is not valid UTF-8"),
    ],
)
def test_a_refusal_says_what_was_wrong(raw: bytes, reason: str) -> None:
    assert _refusal(raw).reason == reason
    if b"params" not in raw:
        with pytest.raises(UpstreamProtocolError) as caught:
            read_upstream_message(raw)
        assert caught.value.reason == reason


def test_what_is_no_json_is_a_parse_error_with_the_readers_reason() -> None:
    assert _refusal(b"{").reason.startswith("Parse error: ")
    assert len(_refusal(b"{").reason) > len("Parse error: ")


def test_a_message_too_big_is_told_both_sizes() -> None:
    raw = b" " * (limits.MESSAGE_BYTES + 1)
    refusal = _refusal(raw)
    assert refusal.reason == f"Invalid request. {over_limit(len(raw))}"
    assert "10 MiB" in refusal.reason
    assert "--max-message" in refusal.reason
    assert refusal.code == -32600


@pytest.mark.parametrize("start", [b'"', b"-", *(b"%d" % digit for digit in range(10))])
def test_an_id_may_begin_with_a_quote_a_sign_or_a_digit(start: bytes) -> None:
    token = {b'"': b'"x"', b"-": b"-1"}.get(start, start)
    assert client(b'{"jsonrpc":"2.0","id":%b,"method":"a"}' % token).id_token == token


@pytest.mark.parametrize("blank", [b"", b" ", b"\t", b"\r", b"\n"])
def test_an_array_is_a_batch_whatever_stands_before_it(blank: bytes) -> None:
    for read in (read_client_message, read_upstream_message):
        batch = read(blank + b"[1,2]" + blank)
        assert isinstance(batch, Batch)
        assert batch.parts == [b"1", b"2"]
        assert batch.raw == blank + b"[1,2]" + blank


@pytest.mark.parametrize(
    ("raw", "token"),
    [
        (b'{"id":1,"a":1,"a":2}', b"1"),
        (b'{"id":"x","a":1,"a":2}', b'"x"'),
        (b'{"id":null,"a":1,"a":2}', b"null"),
        (b'{"id":true,"a":1,"a":2}', None),
        (b'{"id":1,"\\u0069d":2,"a":1,"a":2}', None),
        (b'{"ID":1,"a":1,"a":2}', None),
        (b'{"id":1,"ID":1}', None),
        (b'{"id":%b,"a":1,"a":2}' % (b"1" * 5_000), b"1" * 5_000),
        (b'{"id":1.50,"a":1,"a":2}', b"1.50"),
        (b'{"a":1,"a":2}', None),
        (b"[", None),
        (b'{"id":1,"a":%b%b}' % (b"[" * 30_000, b"]" * 30_000), None),  # short enough to be looked at
    ],
)
def test_a_refused_message_has_an_id_only_if_everybody_sees_the_same(raw: bytes, token: bytes | None) -> None:
    assert maybe_sole_id(raw) == token


def test_the_id_of_a_refused_message_is_not_looked_for_in_megabytes() -> None:
    raw = b'{"id":1,"a":1,"a":"%b"}'
    room = 64 * 1024 - len(raw % b"")
    assert maybe_sole_id(raw % (b"x" * room)) == b"1"
    assert maybe_sole_id(raw % (b"x" * (room + 1))) is None


def test_an_unreadable_message_may_still_show_its_id() -> None:
    assert _refusal(b'{"jsonrpc":"2.0","id":7,"method":').id_token == b"7"
    assert _refusal(b'{"method":x,"jsonrpc":"2.0","id":8}').id_token == b"8"


def test_the_members_of_params_are_at_hand_as_written() -> None:
    message = client(b'{"jsonrpc":"2.0","id":1,"method":"a","params": {"x":1.0 } }')
    assert message.params is not None
    assert {name: bytes(value) for name, value in message.params.items()} == {"x": b"1.0"}
    upstream = read_upstream_message(b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1}}')
    assert isinstance(upstream, Message)
    assert upstream.params is None


def test_the_codes_are_those_of_json_rpc() -> None:
    assert [message.PARSE_ERROR, message.INVALID_REQUEST, message.METHOD_NOT_FOUND] == [
        -32700,
        -32600,
        -32601,
    ]
    assert [message.INVALID_PARAMS, message.INTERNAL_ERROR] == [-32602, -32603]


@pytest.mark.parametrize(
    ("raw", "has_result"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{"x":1}}', True),
        (b'{"jsonrpc": "2.0","id":1,"result":5}', True),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', True),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"result"}}', False),
        (b'{"jsonrpc":"2.0","method":"result"}', False),
    ],
)
def test_a_result_is_told_from_an_error_however_it_was_read(raw: bytes, has_result: bool) -> None:
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    assert message.has_result is has_result


def test_no_reading_is_quick_enough_to_skip_the_limits() -> None:
    """Written as plainly as can be, so that one look would be enough."""
    call = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":%b}}'
    answer = b'{"jsonrpc":"2.0","id":1,"result":{"content":%b}}'
    for read, blame, frame in (
        (read_client_message, ClientProtocolError, call),
        (read_upstream_message, UpstreamProtocolError, answer),
    ):
        room = limits.MESSAGE_BYTES - len(frame) + len(b"%b") - len(b'""')
        fits = frame % (b'"%b"' % (b"x" * room))
        assert len(fits) == limits.MESSAGE_BYTES
        assert read(fits).raw is fits
        for bad in (b'"%b"' % (b"x" * (room + 1)), b"[" * 127 + b"]" * 127, b'"\xff"'):
            with pytest.raises(blame):
                read(frame % bad)


@pytest.mark.parametrize("depth", [120, 1_000, 20_000])
@pytest.mark.parametrize("surplus", [b"}", b"}}", b"}" * 3_000])
def test_depth_that_is_closed_too_often_is_refused_like_any_other(depth: int, surplus: bytes) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth + surplus
    for raw in (
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":%b}}' % deep,
        b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}' % deep,
        b'[{"x":%b}]' % deep,
    ):
        with pytest.raises(ClientProtocolError):
            read_client_message(raw)
        with pytest.raises(UpstreamProtocolError):
            read_upstream_message(raw)
