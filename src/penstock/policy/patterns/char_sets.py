"""Sets of characters, as sorted ranges of code points that neither overlap nor touch."""

from __future__ import annotations

from collections.abc import Iterable

CharSet = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
ANYTHING: CharSet = ((0, LAST),)


def char(code: int) -> CharSet:
    """The set of one character."""
    return ((code, code),)


def union(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """The set of all characters in `ranges`, which may come in any order and overlap."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(chars: CharSet) -> CharSet:
    """Every character that is not in `chars`."""
    edges = [-1, *(edge for pair in chars for edge in pair), LAST + 1]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in gaps if low + 1 <= high - 1)


def share(one: CharSet, other: CharSet) -> bool:
    """Is there a character in both?"""
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i][1] < other[j][0]:
            i += 1
        elif other[j][1] < one[i][0]:
            j += 1
        else:
            return True
    return False


def ignoring_case(chars: CharSet) -> CharSet:
    """`chars` and whatever equals one of them when case does not count.

    Beyond ASCII this gives too much rather than too little: one such character stands for all of them.
    """
    more = list(chars)
    for low, high in chars:
        for first, last, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            if low <= last and high >= first:
                more.append((max(low, first) + shift, min(high, last) + shift))
        if high > 0x7F:
            more.append((0x80, LAST))
    for upper, lower, sign in _ASCII_LETTERS_WITH_A_THIRD_FORM:
        family = union([(upper, upper), (lower, lower), (sign, sign)])
        if share(union(more), family):
            more.extend(family)
    return union(more)


_ASCII_LETTERS_WITH_A_THIRD_FORM = (
    (0x4B, 0x6B, 0x212A),  # K, k and the Kelvin sign
    (0x53, 0x73, 0x017F),  # S, s and the long s
)


def _of(*pieces: str) -> CharSet:
    """The set of single characters and of ranges written as two characters."""
    return union((ord(piece[0]), ord(piece[-1])) for piece in pieces)


DIGIT = _of("09")
WORD = _of("09", "AZ", "az", "_")
ESCAPED = {  # RE2 keeps these to ASCII, and \v out of \s
    "d": DIGIT,
    "D": complement(DIGIT),
    "s": _of("\t", "\n", "\f", "\r", " "),
    "S": complement(_of("\t", "\n", "\f", "\r", " ")),
    "w": WORD,
    "W": complement(WORD),
    "C": ANYTHING,  # any byte, so a part of any character
}
NAMED = {
    "alnum": _of("09", "AZ", "az"),
    "alpha": _of("AZ", "az"),
    "ascii": _of("\x00\x7f"),
    "blank": _of("\t", " "),
    "cntrl": _of("\x00\x1f", "\x7f"),
    "digit": DIGIT,
    "graph": _of("!~"),
    "lower": _of("az"),
    "print": _of(" ~"),
    "punct": _of("!/", ":@", "[`", "{~"),
    "space": _of("\t\r", " "),
    "upper": _of("AZ"),
    "word": WORD,
    "xdigit": _of("09", "AF", "af"),
}
