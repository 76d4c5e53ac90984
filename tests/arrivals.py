"""Messages that arrive in pieces, in fragments so small that short messages have many of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from penstock.wire.json import arrival, digests
from penstock.wire.json.ambiguity import members
from penstock.wire.json.arrival import ARRIVAL_BYTES, Arrival
from penstock.wire.mcp import message as reading
from penstock.wire.mcp.message import PARSE_ERROR, Batch, Message
from two_readings import outcome

WORD = 24
MB = 1024 * 1024


def large_result(result: bytes) -> bytes:
    """An answer with this result."""
    return b'{"jsonrpc":"2.0","id":1,"result":%b}' % result


TEXT = large_result(b'{"content":[{"type":"text","text":"%b"}]}' % (b"x" * 3 * MB))
_PARAMS = b'{"name":"echo","arguments":{"a":"%b"}}' % (b"x" * 3 * MB)
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % _PARAMS


@contextmanager
def fragments_of(size: int, most: int) -> Iterator[None]:
    """Fragments of `size` bytes, and `most` as many in a digest."""
    names = ("ARRIVAL_BYTES", "_EDGE_BYTES", "_MOST_BYTES", "LONGEST_WORD", "_FILL")
    kept = {name: getattr(arrival, name) for name in names}
    small = (size, max(1, size // 2), most, WORD, b"x" * WORD)
    try:
        for name, value in zip(names, small, strict=True):
            setattr(arrival, name, value)
        yield
    finally:
        for name, value in kept.items():
            setattr(arrival, name, value)


def arrive(raw: bytes, step: int) -> tuple[Arrival, int | None]:
    """Who has judged `raw` in pieces of `step` bytes, and after how many bytes that was hopeless."""
    judge = Arrival()
    for at in range(0, len(raw), step):
        if not judge.takes(raw[at : at + step]):
            return judge, min(at + step, len(raw))
    return judge, None


def check_arrival(raw: bytes, step: int, size: int, most: int = 4096) -> str:
    """Sees that `raw` is judged on its way as the strict readers judge the whole; says by what way."""
    with fragments_of(size, most):
        judge, seen = arrive(raw, step)
        digest = judge.maybe_digest()
        for read, strict in (
            (reading.read_client_message, reading._read_client_strictly),
            (reading.read_upstream_message, reading._read_upstream_strictly),
        ):
            whole = outcome(strict, raw)
            if seen is not None:
                assert _is_parse_error(whole), (raw, whole)
                assert _is_parse_error(outcome(read, raw[:seen])), (raw, seen)
            elif digest is not None:
                message = reading._maybe_judged(raw, digest, read)
                if message is not None:
                    assert outcome(lambda _, found=message: found, raw) == whole, (raw, digest)
                    _check_names(message)
    if seen is not None:
        return "hopeless"
    return "whole" if digest is None else "digest"


def _is_parse_error(seen: object) -> bool:
    return isinstance(seen, tuple) and seen[0] == PARSE_ERROR


def _check_names(message: reading.Message) -> None:
    assert not isinstance(message, Batch)
    if message.tool is not None:
        params = members(message.envelope["params"])
        assert msgspec.json.decode(params["name"]) == message.tool, message.raw
    if message.result is not None:
        assert set(message.result) == set(members(message.envelope["result"])), message.raw


def count_scanned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes are scanned from now on, each time."""
    scanned: list[int] = []
    skip = arrival._skip

    def counted(text: bytes) -> object:
        scanned.append(len(text))
        return skip(text)

    monkeypatch.setattr(arrival, "_skip", counted)
    return scanned


def check_scanned_once(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sees that what is scanned is never scanned again."""
    scanned = count_scanned(monkeypatch)
    judge, seen = arrive(raw, 50_000)
    assert seen is None
    assert judge.maybe_digest() is not None
    assert len(raw) - ARRIVAL_BYTES < sum(scanned) < len(raw) * 1.01
    assert len(scanned) <= len(raw) // ARRIVAL_BYTES + 3  # in fragments that are as large as they may be


def check_what_is_left(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sees that after its last byte a constant amount of work is left."""
    judge, _ = arrive(raw[:-1], 50_000)
    scanned = count_scanned(monkeypatch)
    assert judge.takes(raw[-1:])
    digest = judge.maybe_digest()
    assert digest is not None
    assert len(digest) < 2 * ARRIVAL_BYTES
    assert sum(scanned) < 3 * ARRIVAL_BYTES
    digests.leave(raw, digest)
    message = (reading.read_client_message if raw is CALL else reading.read_upstream_message)(raw)
    assert isinstance(message, Message)
    assert message.members is None, "the whole was read after all"
    assert message.raw is raw
    assert message.tool == "echo" if raw is CALL else message.result
