"""Finding tools by words: BM25 over names and descriptions, with plain English stems.

A hundred lines of a library would not be shorter, and bring ten megabytes along (numpy); the database that
Python has inside finds less and takes twice as long (docs/several.md has the figures).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+")
_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_K, _B = 1.2, 0.5
_NAME_WEIGHT = 3
_MOST_WORDS = 64
_COMMON = frozenset(
    "a an and are as at be by can could do for from get has have how i in into is it its me my of on or our "
    "please that the their them these this those to up use used using want was what when where which who "
    "with would you your".split()
)
_ALIKE = {
    "folder": "directory",
    "dir": "directory",
    "repo": "repository",
    "db": "database",
    "website": "url",
    "page": "url",
    "link": "url",
    "rename": "move",
    "remove": "delete",
    "erase": "delete",
    "make": "create",
    "new": "create",
    "show": "list",
    "display": "list",
    "change": "edit",
    "modify": "edit",
    "update": "edit",
    "find": "search",
    "look": "search",
    "locate": "search",
    "fetch": "fetch",
    "download": "fetch",
}


def stem(word: str) -> str:
    """The part of an English word that its forms have in common, roughly."""
    word = _ALIKE.get(word, word)
    for ending, least in (("ations", 4), ("ation", 4), ("ings", 4), ("ing", 4), ("ies", 3), ("ied", 3)):
        if word.endswith(ending) and len(word) - len(ending) >= least - 1:
            base = word[: -len(ending)]
            return _alike(base + ("y" if ending.startswith("ie") else ""))
    for ending in ("ers", "er", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return _alike(word[: -len(ending)])
    return word


def _alike(base: str) -> str:
    if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "aeiosl":
        base = base[:-1]
    return _STEMS.get(base, base)


def words_of(text: str) -> list[str]:
    """The stems in a text, in order; words that say nothing are left out."""
    found = (word.lower() for word in _WORD.findall(_CASE.sub(" ", text)))
    return [stem(word) for word in found if word not in _COMMON]


class Index:
    """Documents that can be found by words."""

    def __init__(self, documents: Iterable[tuple[str, str]]) -> None:
        """Each document is a name, which counts more, and a text."""
        self._names: list[str] = []
        self._postings: dict[str, list[tuple[int, int]]] = {}
        lengths: list[int] = []
        for number, (name, text) in enumerate(documents):
            self._names.append(name)
            counts = Counter(words_of(text))
            for word in words_of(name):
                counts[word] += _NAME_WEIGHT
            for word, count in counts.items():
                self._postings.setdefault(word, []).append((number, count))
            lengths.append(sum(counts.values()))
        mean = sum(lengths) / len(lengths) if lengths else 1.0
        self._norms = [_K * (1 - _B + _B * length / (mean or 1.0)) for length in lengths]

    def search(self, query: str, limit: int) -> list[str]:
        """The names of the best documents for `query`, best first; none that has no word of it."""
        scores: dict[int, float] = {}
        total = len(self._names)
        for word in dict.fromkeys(words_of(query)[:_MOST_WORDS]):
            postings = self._postings.get(word, [])
            weight = math.log(1 + (total - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, count in postings:
                gain = weight * count * (_K + 1) / (count + self._norms[number])
                scores[number] = scores.get(number, 0.0) + gain
        best = sorted(scores, key=lambda number: (-scores[number], number))
        return [self._names[number] for number in best[:limit]]


_STEMS: dict[str, str] = {}
_STEMS.update({stem(word): stem(meant) for word, meant in _ALIKE.items() if stem(word) != stem(meant)})
