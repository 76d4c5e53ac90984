"""How deep JSON nests, counted without building any of it.

Depth is counted, and never left to a decoder: how far one goes down before it runs out of stack is a matter
of the interpreter, and reading what is deeper costs whoever reads it next. Counting looks at brackets outside
strings, in slices, so that ten megabytes of `[],` cost a few milliseconds a slice and no memory.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterator

from penstock import limits

_SCAN_BYTES = 64 * 1024
SHALLOW_BYTES = 2 * limits.NESTING
"""What is opened is closed: so short a text cannot nest deep."""
_COUNTED_BYTES = 4 * 1024  # up to here, counting two bytes is quicker than looking for each of them

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_MARKS = b'{}[]"'
_NOT_MARKS = bytes(byte for byte in range(256) if byte not in _MARKS)
# What can stand behind a backslash stays, so that nothing else comes to stand there.
_NOT_MARKS_NOR_ESCAPES = bytes(byte for byte in range(256) if byte not in _MARKS + rb"\/bfnrtu")
_BACKSLASH = ord("\\")  # as a number: looking for one byte as bytes costs an exception in the interpreter
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")  # one level down, one level up, as signed bytes
_RUN = re.compile(rb"\[+|\]+")
_TYPED_RUN = re.compile(rb"[\[{]+|[\]}]+")
_PEELED_LEVELS = 8
_MUCH = 8  # one part in so many that peeling must take away, to be worth another turn


def nests_too_deep(raw: bytes) -> bool:
    """Whether `raw` has more levels than a message may have."""
    return len(raw) > SHALLOW_BYTES and nests_deeper(raw, limits.NESTING)


def nests_deeper(raw: bytes | memoryview, levels: int) -> bool:
    """Whether the JSON in `raw` has more than `levels` levels of arrays and objects.

    Of text that is not JSON, it counts at least as many levels as a decoder sees before it notices.
    """
    if isinstance(raw, bytes) and not _opens_more(raw, levels):
        return False
    depth = 0
    in_string = False
    held_back = b""
    for start in range(0, len(raw), _SCAN_BYTES):
        piece = bytes(raw[start : start + _SCAN_BYTES])
        if held_back or _BACKSLASH in piece:
            piece, held_back = _without_escapes(held_back + piece)
        brackets, in_string = _outside_strings(piece.translate(_BRACKETS, _NOT_MARKS), in_string)
        after = depth + 2 * brackets.count(b"[") - len(brackets)
        if after > levels:
            return True
        if after < 0:
            # More closed than opened: no JSON. But a decoder goes as deep as this before it notices.
            return depth + max(_depths(brackets)) > levels
        # Where nothing goes down two levels at once, there is room for one.
        if (depth >= levels or b"[[" in brackets) and _peak(brackets, depth, after) > levels:
            return True
        depth = after
    return False


def unescaped_marks(piece: bytes, in_string: bool) -> tuple[bytes, bool]:
    """The brackets of `piece` that are in no string, and whether a string is open at its end.

    `in_string` says whether one is open where it begins. No escape may be cut at either end.
    """
    if _BACKSLASH in piece:
        piece = _without_escapes(piece)[0]
    return _outside_strings(piece.translate(None, _NOT_MARKS), in_string)


def left_open(brackets: bytes, depth: int, levels: int) -> tuple[int, bytes] | None:
    """How many of `depth` open brackets are closed by `brackets`, and those of `brackets` that stay open.

    None when that is no JSON: more is closed than was opened, or it goes down more than `levels` levels.
    Whether each bracket is closed by its own kind is not looked at.
    """
    nest, turns = brackets, 0
    while turns < _PEELED_LEVELS:
        was = len(nest)
        nest = nest.replace(b"[]", b"").replace(b"{}", b"")  # two levels at the most
        turns += 1
        if was - len(nest) <= was // _MUCH:
            break
    closed, opened, peak = 0, b"", 0
    for run in _TYPED_RUN.findall(nest):
        if run[0] in b"[{":
            opened += run
            peak = max(peak, len(opened) - closed)
        else:
            closed += max(0, len(run) - len(opened))
            opened = opened[: -len(run)]
        if closed > depth or depth - closed + len(opened) > levels:
            return None
    if depth + peak + 2 * turns > levels:
        after = depth - closed + len(opened)
        if _peak(brackets.translate(_BRACKETS), depth, after) > levels:
            return None
    return closed, opened


def _opens_more(raw: bytes, levels: int) -> bool:
    """Whether there are more than `levels` opening brackets in `raw`, in strings or not."""
    if len(raw) <= _COUNTED_BYTES:
        return raw.count(b"[") + raw.count(b"{") > levels
    # One byte is found at ten gigabytes a second, and counted at three.
    for bracket in (b"[", b"{"):
        at = raw.find(bracket)
        while at >= 0:
            if not levels:
                return True
            levels -= 1
            at = raw.find(bracket, at + 1)
    return False


def _without_escapes(piece: bytes) -> tuple[bytes, bytes]:
    """`piece` without escapes and most of what is no mark; and a backslash at its end that begins an escape.

    In JSON a backslash stands only inside strings; with the escapes gone, every quote is a border.
    """
    trailing = len(piece) - len(piece.rstrip(b"\\"))
    held_back = b"\\" if trailing % 2 else b""
    if held_back:
        piece = piece[:-1]
    piece = piece.translate(None, _NOT_MARKS_NOR_ESCAPES)
    return piece.replace(b"\\\\", b"").replace(b'\\"', b""), held_back


def _outside_strings(marks: bytes, in_string: bool) -> tuple[bytes, bool]:
    """The brackets among `marks` that are in no string, and whether a string is open at their end."""
    if in_string:
        _, quote, marks = marks.partition(b'"')
        if not quote:
            return b"", True
    brackets = marks.translate(None, b'"')
    quotes = len(marks) - len(brackets)
    if quotes % 2:
        opening = marks.rfind(b'"')
        brackets = brackets[: opening + 1 - quotes]
        marks = marks[:opening]
    if marks.count(b'""') != quotes // 2:
        # A string has a bracket in it. Two quotes side by side change nothing for what stands around them.
        brackets = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
    return brackets, quotes % 2 == 1


def _peak(brackets: bytes, depth: int, after: int) -> int:
    """How deep it goes in a slice that begins at `depth` and ends at `after`.

    Peeling the innermost level is quick where there is much of it; the rest is counted by its runs.
    """
    nest = b"[" * depth + brackets + b"]" * after  # with what came before and what is to come it is whole
    peeled = 0
    while nest and peeled < _PEELED_LEVELS:
        was = len(nest)
        nest = nest.replace(b"[]", b"")
        peeled += 1
        if was - len(nest) < was // _MUCH:
            break
    return peeled + _depth(nest)


def _depth(nest: bytes) -> int:
    """How deep brackets go that all close again, counted by the run: few are short in what was peeled."""
    runs = list(map(len, _RUN.findall(nest)))
    return max(itertools.accumulate(map(operator.sub, runs[::2], [0, *runs[1::2]])), default=0)


def _depths(brackets: bytes) -> Iterator[int]:
    return itertools.accumulate(memoryview(brackets.translate(_STEPS)).cast("b"))
