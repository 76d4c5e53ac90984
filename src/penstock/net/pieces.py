"""Writing several pieces at once with backpressure intact, whoever made the transport."""

from __future__ import annotations

import asyncio


def write_pieces(transport: asyncio.Transport, pieces: tuple[bytes, ...]) -> None:
    """Sends pieces in one call, and without joining them where the transport is our own.

    From Python 3.12 on asyncio's own `writelines` does not tell the protocol when more waits than the
    high-water mark, so that who does not read would not slow its sender down. There the pieces are joined.
    """
    if getattr(transport, "marks_pieces", False):
        transport.writelines(pieces)
    else:
        transport.write(b"".join(pieces))


def end_writing(transport: asyncio.Transport) -> None:
    """Tells the other side that nothing more comes; over TLS, which has no half-closed state, closes."""
    if transport.can_write_eof():
        transport.write_eof()
    else:
        transport.close()
