"""The body of a request that does not come whole with its head."""

from __future__ import annotations

from penstock.net.byte_budget import ByteBudget
from penstock.wire.http.byte_buffer import ByteBuffer
from penstock.wire.http.chunked import ChunkedReader
from penstock.wire.http.http1 import CHUNKED
from penstock.wire.json.digests import leave, maybe_take


class RequestBody:
    """Gathers the pieces of one body."""

    __slots__ = ("_chunked", "_gathered", "_length", "is_complete")

    def __init__(self, length: int) -> None:
        """`length` is what the head says of it."""
        self._length = length
        self._chunked = ChunkedReader() if length == CHUNKED else None
        self._gathered = ByteBuffer()
        self.is_complete = False

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._gathered.size

    @property
    def is_hopeless(self) -> bool:
        """Whether nothing that may still come could make a message of it."""
        return self._gathered.is_hopeless

    def feed(self, data: bytes, at: int) -> int:
        """Takes what of `data` from `at` on belongs to it, and gives back where that ends."""
        if self._chunked is not None:
            pieces: list[bytes] = []
            at = self._chunked.feed(data, at, pieces)
            self._gathered.add(b"".join(pieces))
            self.is_complete = self._chunked.is_done
        else:
            stop = min(len(data), at + self._length - self.size)
            self._gathered.add(data[at:stop])
            at = stop
            self.is_complete = self.size == self._length
        return at

    def take(self, budget: ByteBudget) -> bytes:
        """All of it, counted in `budget`, and then nothing is left here."""
        whole = self._gathered.take()
        counted = budget.count(whole)  # a copy, so the digest goes over to it
        leave(counted, maybe_take(whole))
        return counted
