"""Every byte in every place of a message: what passes is strict JSON and the same call for every parser."""

from __future__ import annotations

import pytest

from claims import is_strict, wrong_calls
from memory_doors import catalog
from penstock.errors import ClientProtocolError
from penstock.policy.tools import tool_gate
from penstock.policy.verdict import FORWARD
from penstock.wire.mcp.message import Message, read_client_message
from penstock.wire.mcp.ndjson import to_line
from readers import LINE_READERS

BASE = (
    rb'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
    rb'{"name":"echo","arguments":{"a":-1.5e2,"b":[true,"\n\u0041x"]}}}'
)
EVERY_BYTE = [bytes([code]) for code in range(256)]
SOME_READERS = {
    which: LINE_READERS[which]
    for which in (
        "python",
        "first name wins",
        "any case",
        "strings end at NUL",
        "str.splitlines",
        "lines end at CR",
    )
}


def _passes(raw: bytes) -> bool:
    try:
        message = read_client_message(raw)
    except ClientProtocolError:
        return False
    return isinstance(message, Message) and tool_gate.judge(message, catalog()) is FORWARD


@pytest.mark.parametrize("length", [0, 1], ids=["inserted", "replaced"])
def test_every_byte_in_every_place(length: int) -> None:
    passed = 0
    for place in range(len(BASE) + 1):
        for byte in EVERY_BYTE:
            raw = BASE[:place] + byte + BASE[place + length :]
            if _passes(raw):
                passed += 1
                line = to_line(raw)
                assert is_strict(raw), raw
                assert not wrong_calls(line, SOME_READERS), raw
            elif _in_arguments(place):
                assert not is_strict(raw), raw  # nothing that is JSON is refused there
    assert passed > 1000


def _in_arguments(place: int) -> bool:
    return BASE.index(b'"a"') <= place < len(BASE) - 3
