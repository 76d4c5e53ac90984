"""Bytes that come in pieces, kept without an object for each, which would take thirty times their room."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from penstock import limits
from penstock.wire.json.digests import leave

if TYPE_CHECKING:
    from penstock.wire.json.arrival import Arrival


class ByteBuffer:
    """Gathers pieces, and has many bytes judged while they come, as if they were a message.

    One piece alone, which is the usual case, is given back as it came.
    """

    __slots__ = ("_arrival", "_more", "_only", "is_hopeless")

    def __init__(self) -> None:
        self._only = b""
        self._more: BytesIO | None = None
        self._arrival: Arrival | None = None
        self.is_hopeless = False  # nothing that may still come could make JSON of what has come

    @property
    def size(self) -> int:
        """Bytes so far."""
        return len(self._only) if self._more is None else self._more.tell()

    def add(self, piece: bytes) -> None:
        """One more piece."""
        more = self._more
        if more is None:
            if not self._only:
                self._only = piece
                return
            more = self._more = BytesIO()
            more.write(self._only)
            self._only = b""
        more.write(piece)
        if limits.MESSAGE_LEAST_BYTES < more.tell() <= limits.MESSAGE_BYTES:
            self._judge(piece, more)

    def _judge(self, piece: bytes, gathered: BytesIO) -> None:
        if self._arrival is None:
            from penstock.wire.json.arrival import Arrival  # many a process never sees so much

            self._arrival = Arrival()
            piece = gathered.getvalue()
        if not self._arrival.takes(piece):
            self.is_hopeless = True

    def take(self) -> bytes:
        """All of them as one, and then nothing is left here: what is large should be there once."""
        whole = self._only if self._more is None else self._more.getvalue()
        if self._arrival is not None:
            leave(whole, self._arrival.maybe_digest())
        self.clear()
        return whole

    def clear(self) -> None:
        """Lets go of what was gathered."""
        self._only, self._more, self._arrival = b"", None, None
        self.is_hopeless = False
