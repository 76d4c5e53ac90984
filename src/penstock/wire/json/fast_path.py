"""Messages in their plainest form, which one look is enough for.

Almost every message is written as an SDK writes it: compact, no escapes in what matters, no member but those
that the protocol names. For each member there is one shortest spelling, and duplicates, blanks and escapes
only make a message longer. So when a message is exactly as long as the plainest spelling of what was read
from it, it has one reading and no other. Whatever is not plain is not refused here: it is read strictly, at
more cost, in wire/mcp/message.py.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

_ABSENT = Raw(b"")
COPIED_BYTES = 16 * 1024  # what is larger is not spelt again: walking its names costs less than the copy


class Params(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """What tools/call and tools/list may carry."""

    name: str | UnsetType = UNSET
    arguments: Raw = _ABSENT
    meta: Raw = msgspec.field(name="_meta", default=_ABSENT)


class Request(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A request about tools, or any that has no more to say than those."""

    jsonrpc: Literal["2.0"]
    method: str
    id: Raw = _ABSENT
    params: Params | UnsetType = UNSET


class Notice(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """What an upstream says or asks of its own accord; nobody looks into its params to read it."""

    jsonrpc: Literal["2.0"]
    method: str
    id: Raw = _ABSENT
    params: Raw = _ABSENT


class Result(Struct, forbid_unknown_fields=True, gc=False):
    """A response that is no error; errors are rare and may be read at length. Large ones: large_result.py."""

    jsonrpc: Literal["2.0"]
    id: Raw
    result: dict[str, Raw]


decode_request = msgspec.json.Decoder(Request).decode
decode_notice = msgspec.json.Decoder(Notice).decode
decode_result = msgspec.json.Decoder(Result).decode
encode = msgspec.json.Encoder().encode
_REQUEST_BYTES = len(b'{"jsonrpc":"2.0","method":""}')
_PARAMS_BYTES = len(b',"params":{}')


def spelt_request_bytes(request: Request, most: int) -> int:
    """How many bytes the plainest spelling of `request` has; `most` is how many its own spelling has."""
    if most <= COPIED_BYTES:
        return len(encode(request))
    # Without the copy, and right only if no text in it needs an escape: else it is one too short.
    size = _REQUEST_BYTES + len(request.method.encode())
    if request.id is not _ABSENT:
        size += len(b',"id":') + len(memoryview(request.id))
    params = request.params
    if params is not UNSET:
        size += _PARAMS_BYTES
        sizes = []
        if params.name is not UNSET:
            sizes.append(len(b'"name":""') + len(params.name.encode()))
        if params.arguments is not _ABSENT:
            sizes.append(len(b'"arguments":') + len(memoryview(params.arguments)))
        if params.meta is not _ABSENT:
            sizes.append(len(b'"_meta":') + len(memoryview(params.meta)))
        size += sum(sizes) + max(0, len(sizes) - 1)
    return size
