"""Members put into, taken out of and replaced in a message; every other byte stays as its sender wrote it."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from penstock.wire.json.ambiguity import Ambiguous, Members, NotAnObject, NotJson, members
from penstock.wire.json.splice import with_member, without

_encode = msgspec.json.Encoder().encode


def maybe_members(value: bytes | Raw | None) -> Members | None:
    """The members of an object; None when `value` is none that can be read in one way."""
    if value is None:
        return None
    try:
        return members(value)
    except (Ambiguous, NotJson, NotAnObject):
        return None


def with_members(text: bytes, values: dict[str, bytes]) -> bytes:
    """The object in `text` with these members replaced or added at its end."""
    for name, value in values.items():
        text = with_member(text, members(text), name, value)
    return text


def without_members(text: bytes, *names: str) -> bytes:
    """The object in `text` without these members."""
    for name in names:
        found = members(text)
        if name in found:
            text = without(text, found, name)
    return text


def with_params(raw: bytes, params: bytes) -> bytes:
    """A message with other params."""
    return with_members(raw, {"params": params})


def request(id_token: bytes, method: str, params: bytes) -> bytes:
    """A request of our own."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (id_token, _encode(method), params)


def notification(method: str, params: bytes | None = None) -> bytes:
    """A notification of our own."""
    tail = b"" if params is None else b',"params":' + params
    return b'{"jsonrpc":"2.0","method":%b%b}' % (_encode(method), tail)


def object_of(values: dict[str, bytes]) -> bytes:
    """An object of these members, each value as it is."""
    return b"{%b}" % b",".join(b"%b:%b" % (_encode(name), value) for name, value in values.items())


def maybe_value(token: bytes | Raw | None) -> object:
    """A small value, decoded; None when there is none or it is no JSON."""
    if token is None:
        return None
    try:
        return msgspec.json.decode(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
