"""Writing a recording anew, line by line, with other messages in the place of some."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.observe.new_file import new_file
from penstock.observe.progress import Progress, size_of
from penstock.observe.reader import Unreadable, maybe_line, open_recording
from penstock.observe.recording import FORMAT, Line, member_of

_encode = msgspec.json.Encoder().encode
_MESSAGE = ("n", "msg", "text", "b64", "nout", "out", "outtext", "outb64")


def rewrite(path: str, out: str, message: Callable[[Line], bytes], is_masked: bool = False) -> int:
    """Copies the recording at `path` to `out`, with what `message` gives in the place of each message (and of
    what was sent instead). Gives the number of lines that had to be left out."""
    left_out = 0
    progress = Progress("lines", size_of([path]))
    with open_recording(path) as source, new_file(out) as target:
        for number, data in enumerate(source):
            progress.add(len(data))
            line = maybe_line(data)
            if line is None:
                if number == 0 and data.endswith(b"\n"):
                    raise Unreadable(f"This is no recording: {path}", "Its first line is not one of ours")
                left_out += 1
            elif line.penstock:
                _refuse_newer(line, path)
                header = {**msgspec.json.decode(data), "masked": is_masked or line.masked}
                target.write(_encode(header) + b"\n")
            elif line.lost is not None:
                target.write(data)
            else:
                target.write(_anew(data, line, message))
    progress.end()
    return left_out


def _refuse_newer(line: Line, path: str) -> None:
    if line.penstock != "recording" or line.v > FORMAT:
        raise Unreadable(f"Cannot read {path}", "It is no recording, or made by a newer Penstock")


def _anew(data: bytes, line: Line, message: Callable[[Line], bytes]) -> bytes:
    entry = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    head = _encode({name: value for name, value in entry.items() if name not in _MESSAGE})[:-1]
    pieces = [head]
    if line.sent is not None:
        sent = message(Line(i=line.i, msg=msgspec.Raw(line.sent)))
        pieces += [b',"nout":%d,' % len(sent), *member_of(sent, b"out", False)]
    raw = message(line)
    pieces += [b',"n":%d,' % len(raw), *member_of(raw, b"", False), b"}\n"]
    return b"".join(pieces)
