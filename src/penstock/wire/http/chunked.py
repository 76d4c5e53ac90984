"""Bodies that come in chunks (RFC 9112, 7.1), read strictly.

Extensions and trailers are checked for form and ignored: nothing in them can change what a message means.
"""

from __future__ import annotations

import re

from penstock import limits
from penstock.errors import MalformedHttp

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[\t ]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_match_plain_size = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n").match
_TRAILER_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n")


class ChunkedReader:
    """Takes the body out of its chunks, and knows where it ends."""

    __slots__ = ("_is_in_trailers", "_left", "_line", "_trailer_bytes", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._left = 0  # of the current chunk, with the CRLF after it; 0 means a line comes next
        self._line = b""  # an unfinished line; short, so adding to it is cheap
        self._is_in_trailers = False
        self._trailer_bytes = 0

    def feed(self, data: bytes, start: int, pieces: list[bytes]) -> int:
        """Appends the body bytes in `data` from `start` on to `pieces`; gives where it stopped.

        That is the end of `data`, or of the body.
        """
        at, size = start, len(data)
        if not self._left and not self._line and not self._is_in_trailers:
            # The hot path: small chunks that are here whole, one after another.
            while sized := _match_plain_size(data, at):
                begin = sized.end()
                stop = begin + int(sized[1], 16)
                if stop == begin or data[stop : stop + 2] != b"\r\n":
                    break  # the last one, or one that is not all there
                pieces.append(data[begin:stop])
                at = stop + 2
        while at < size:
            left = self._left
            if left:
                if left > 2:
                    stop = at + left - 2
                    if stop > size:
                        stop = size
                    pieces.append(data[at:stop])  # which is no copy where it is all of it
                    self._left = left - (stop - at)
                    at = stop
                    continue
                if data[at] != (0x0D if left == 2 else 0x0A):
                    raise MalformedHttp("Malformed end of a chunk")
                self._left = left - 1
                at += 1
                continue
            line_feed = data.find(b"\n", at, at + limits.CHUNK_LINE_BYTES)
            if line_feed < 0:
                self._line += data[at : at + limits.CHUNK_LINE_BYTES]
                if len(self._line) >= limits.CHUNK_LINE_BYTES:
                    raise MalformedHttp("Chunk line too long")
                return size
            line = data[at : line_feed + 1]
            at = line_feed + 1
            if self._line:
                line = self._line + line
                self._line = b""
            if self._is_in_trailers:
                if self._take_trailer(line):
                    self.is_done = True
                    return at
                continue
            match = _SIZE_LINE.fullmatch(line)
            if match is None:
                raise MalformedHttp("Malformed chunk size")
            length = int(match[1], 16)
            if length:
                self._left = length + 2
            else:
                self._is_in_trailers = True
        return at

    def _take_trailer(self, line: bytes) -> bool:
        """Whether `line` is the empty one that ends the body."""
        if line == b"\r\n":
            return True
        self._trailer_bytes += len(line)
        if self._trailer_bytes > limits.HTTP_HEAD_BYTES or _TRAILER_LINE.fullmatch(line) is None:
            raise MalformedHttp("Malformed trailer")
        return False
