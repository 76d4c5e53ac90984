"""Keeping large blocks of memory apart from the heap, so that they are gone when they are freed.

glibc gives large blocks pages of their own, but learns from the first ones freed to take the next from the
heap. There a small thing that is kept, such as a session, lands in the hole that a body has left; the next
body does not fit any more and takes new room. A thousand bodies of which nothing is left but a session each
then cost a thousand bodies. A threshold that is set is not learnt.
"""

from __future__ import annotations

LARGE_BYTES = 128 * 1024
_M_MMAP_THRESHOLD = -3


def keep_apart() -> None:
    """From now on each block of LARGE_BYTES or more has pages of its own. Where there is no such thing, as on
    systems without glibc, nothing happens."""
    import ctypes  # a few milliseconds, for who gets large messages only

    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
    except (OSError, AttributeError, TypeError):
        pass
