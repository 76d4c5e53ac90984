"""Bytes that come in pieces, kept without an object for each, which would take thirty times their room."""

from __future__ import annotations

from io import BytesIO


class ByteBuffer:
    """Gathers pieces; one alone, which is the usual case, is given back as it came."""

    __slots__ = ("_more", "_only")

    def __init__(self) -> None:
        self._only = b""
        self._more: BytesIO | None = None

    def add(self, piece: bytes) -> None:
        """One more piece."""
        if self._more is not None:
            self._more.write(piece)
        elif not self._only:
            self._only = piece
        else:
            self._more = BytesIO()
            self._more.write(self._only)
            self._more.write(piece)
            self._only = b""

    def take(self) -> bytes:
        """All of them as one, and then nothing is left here: what is large should be there once."""
        whole = self._only if self._more is None else self._more.getvalue()
        self.clear()
        return whole

    def clear(self) -> None:
        """Lets go of what was gathered."""
        self._only, self._more = b"", None
