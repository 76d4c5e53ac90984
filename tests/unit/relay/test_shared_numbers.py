"""On a shared link, ids and progress tokens become numbers of ours, and no other byte changes."""

from __future__ import annotations

import json

import pytest

import hostile
from memory_doors import ModernDoor


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
