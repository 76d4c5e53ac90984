"""On a shared link, ids and progress tokens become numbers of ours, and no other byte changes."""

from __future__ import annotations

import json

import pytest

import hostile
from gate_messages import client
from memory_doors import Memory, ModernDoor
from penstock.gate.gate import Gate
from penstock.policy.exchange import Exchange
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.multiplexer import Multiplexer
from penstock.wire.mcp.eras import META_SUBSCRIPTION
from penstock.wire.mcp.message import Message


def _call(more: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":"echo","_meta":%b}}' % (
        hostile.META % more
    )


@pytest.mark.parametrize(
    "more",
    [
        b',"progressToken":%b',
        b',"progr\\u0065ssToken" : %b ',
        b',"a":1,"progressToken":%b,"b":2,"a":"a longer one"',
        b',"a":[{"progressToken":7}],"a":1,"progressToken":%b',
        b',"half":"\\ud800","progressToken":%b',
    ],
)
def test_a_progress_token_is_replaced_where_it_stands(more: bytes) -> None:
    up, back = ModernDoor().take(_call(more % b'"t"'))
    assert not back
    assert up == [_call(more % b"1").replace(b'"id":"i"', b'"id":1') + b"\n"]


def test_two_progress_tokens_are_refused() -> None:
    up, (reply,) = ModernDoor().take(_call(b',"progressToken":1,"progressTok\\u0065n":2'))
    assert not up
    answer = json.loads(reply.partition(b"\r\n\r\n")[2])
    assert (answer["id"], answer["error"]["code"]) == ("i", -32600)


@pytest.mark.parametrize(
    "name", [b"ProgressToken", b"progresstoken", b"progressTo\\u212aen", b"progressToken "]
)
def test_what_some_upstream_takes_for_a_progress_token_is_refused(name: bytes) -> None:
    """It would be the number of somebody else's request."""
    for more in (b',"%b":1' % name, b',"progressToken":7,"%b":1' % name):
        up, (reply,) = ModernDoor().take(_call(more))
        assert not up
        assert b'"error":{"code":-32600,' in reply


CANCEL = b'{"jsonrpc":"2.0",%b"method":"%b","params":%b}'
META = b'"_meta":' + hostile.META % b""


@pytest.mark.parametrize(
    "params",
    [
        b'{"requestId":1,%b}' % META,
        b'{"RequestID":1,%b}' % META,
        b'{"request\\u0049d":1,%b}' % META,
        b'{"requestId ":1,%b}' % META,
        b"[1]",
    ],
)
@pytest.mark.parametrize("method", [b"notifications/cancelled", b"Notifications/Cancelled"])
def test_nobody_cancels_what_is_somebody_elses(method: bytes, params: bytes) -> None:
    """Over HTTP who cancels hangs up; the numbers on the link are ours, and easily guessed."""
    up, (reply,) = ModernDoor().take(CANCEL % (b"", method, params))
    assert not up
    assert reply.startswith(b"HTTP/1.1 202")
    up, (reply,) = ModernDoor().take(CANCEL % (b'"id":"i",', method, params))
    assert not up
    assert b'"error":{"code":-32' in reply


class _Client:
    """Somebody who asks over the shared link."""

    is_full = False
    unread = 0
    exchange = Exchange()

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def push(self, message: Message) -> None:
        self.heard.append(message.raw)

    answer = push


LOG = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%b"}}'


def _ask(shared: Multiplexer, asker: _Client, more: bytes = b"") -> bytes:
    message = client(_call(more))
    asker.exchange = Exchange.of(message)
    return shared.ask(message, asker)  # type: ignore[arg-type]


def test_what_a_cancelled_call_still_says_is_not_heard_by_who_is_left() -> None:
    link, one, other = Memory(), _Client(), _Client()
    shared = Multiplexer(link, Gate(ToolFilter()))  # type: ignore[arg-type]
    number = _ask(shared, one)
    _ask(shared, other)
    shared.cancel(number)
    shared.from_upstream(LOG % b"a secret of the first")
    assert other.heard == []
    shared.from_upstream(b'{"jsonrpc":"2.0","id":%b,"error":{"code":0,"message":"cancelled"}}' % number)
    shared.from_upstream(LOG % b"of the other")
    assert other.heard == [LOG % b"of the other"]


def test_a_subscription_is_only_of_who_listens() -> None:
    link, asker = Memory(), _Client()
    shared = Multiplexer(link, Gate(ToolFilter()))  # type: ignore[arg-type]
    number = _ask(shared, asker)
    said = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"%b":%b}}}'
    shared.from_upstream(said % (META_SUBSCRIPTION.encode(), number))
    assert asker.heard == []
