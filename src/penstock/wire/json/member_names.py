"""Members of a certain name anywhere in a valid JSON text, found without building any of it.

Every string is passed over whole, from the quote that opens it, so a quote inside one misleads nobody, and no
byte is looked at more than a few times: text with a million escaped quotes takes as long as any other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from penstock import limits
from penstock.wire.json.ambiguity import Crowded, folded

STRING = rb'"(?:[^"\\]++|\\.)*+"'
_COLON = rb"[ \t\r\n]*+:[ \t\r\n]*+"
_PLAIN = rb'"[!#-\[\]-~]*+"'


def values_called(word: str, value: bytes, text: bytes) -> Iterator[bytes]:
    """What `value` matches of every value whose name somebody could read as `word`, however deep it lies.

    Raises Crowded when there are more odd names to look at than any honest message has.
    """
    for start, end in _spans_called(word, value, text):
        yield text[start:end]


def places_called(word: str, value: bytes, text: bytes) -> Iterator[int]:
    """Where each of those values begins. Raises Crowded likewise."""
    for start, _ in _spans_called(word, value, text):
        yield start


def _spans_called(word: str, value: bytes, text: bytes) -> Iterator[tuple[int, int]]:
    match = _pattern(word, value).match
    position = 0
    for _ in range(limits.PATH_PARTS):
        found = match(text, position)
        if found is None:
            return
        if folded(decoded(found[1])) == word:
            yield found.span(2)
        position = found.end()
    raise Crowded(f"it has more than {limits.PATH_PARTS} odd names")


def decoded(string: bytes) -> str:
    """A string as its reader sees it. Half a surrogate pair stays one."""
    import json  # which lets it stay

    return str(json.loads(string))


@functools.cache
def _pattern(word: str, value: bytes) -> re.Pattern[bytes]:
    other_name = rb'(?!"(?i:%b)")' % re.escape(word.encode()) + _PLAIN
    other_value = STRING + b"(?!" + _COLON + value + b")"
    passed_over = rb'(?:[^"]++|' + other_name + b"|" + other_value + b")*+"
    return re.compile(passed_over + b"(" + STRING + b")" + _COLON + b"(?=(" + value + b"))", re.DOTALL)
