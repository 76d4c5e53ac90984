"""ByteBuffer gathered: the same bytes however they came, and no object for each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.http.byte_buffer import ByteBuffer

MIB = 1024 * 1024


@given(st.lists(st.binary(max_size=5)))
def test_what_was_added_is_taken_once(pieces: list[bytes]):
    gathered = ByteBuffer()
    for piece in pieces:
        gathered.add(piece)
    assert gathered.take() == b"".join(pieces)
    assert gathered.take() == b""


def test_one_piece_is_not_copied():
    gathered, piece = ByteBuffer(), b"x" * MIB
    gathered.add(piece)
    assert gathered.take() is piece
