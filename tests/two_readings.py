"""Two readings of the same bytes, to be compared: what each tells, and bytes to try both on."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from penstock.errors import ProtocolError
from penstock.wire.mcp.message import Batch, Message


def outcome(read: Callable[[bytes], Message | Batch], raw: bytes) -> object:
    """Everything that a reading tells, in a form that compares."""
    try:
        message = read(raw)
    except ProtocolError as refusal:
        return refusal.code, refusal.reason, refusal.id_token
    if isinstance(message, Batch):
        return message.parts
    return (
        message.kind,
        message.id_token,
        message.method,
        {name: bytes(value) for name, value in message.envelope.items()},
        {name: bytes(value) for name, value in (message.params or {}).items()},
    )


def edits(raw: bytes) -> st.SearchStrategy[bytes]:
    """`raw` with a few pieces of itself, or of what attackers like, put in, taken out or repeated."""
    piece = st.one_of(
        st.sampled_from([b'"name":"shell",', b'"id":9,', b'"params":{"name":"shell"},', b"\\u0061", b" "]),
        st.tuples(st.integers(0, len(raw)), st.integers(0, 12)).map(lambda at: raw[at[0] : at[0] + at[1]]),
        st.binary(max_size=2),
    )
    edit = st.tuples(st.integers(0, len(raw)), st.integers(0, 4), piece)

    def apply(edits_made: list[tuple[int, int, bytes]]) -> bytes:
        text = raw
        for at, dropped, put in edits_made:
            text = text[:at] + put + text[at + dropped :]
        return text

    return st.lists(edit, max_size=4).map(apply)
