"""Many patterns over many texts in one pass (an RE2 set): which of them may be found somewhere.

The texts are searched as lines of one text, so that what is not found in it is in none of them. What is found
may still lie across two texts: whoever needs to know asks that pattern alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from penstock import limits
from penstock.policy.patterns.patterns import Pattern

# What means the very beginning or end of a text, or might switch that meaning, is asked alone.
_OF_WHOLE_TEXTS = re.compile(r"\\[AzZ]|\(\?[a-zA-Z]*-").search

LAST = b"\x01\x02penstock\x03"
"""Stands at the end of what is searched, and is one of the patterns: without it, the search has failed."""


class PatternSet:
    """The patterns that rules ask about at one path."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.sources = frozenset(pattern.source for pattern in patterns)
        self._alone = frozenset(source for source in self.sources if _OF_WHOLE_TEXTS(source))
        self._together = sorted(self.sources - self._alone)
        self._engines: dict[bool, Any] = {}

    def maybe_in(self, texts: list[bytes], has_breaks: bool) -> frozenset[str]:
        """The patterns that may be found in one of the texts; all others are found in none. With `has_breaks`
        a text may have several lines. The last of them must be LAST."""
        engine = self._engines.get(has_breaks)
        if engine is None:
            engine = self._engines[has_breaks] = self._compiled(has_breaks)
        hits = engine.Match(b"\n".join(texts) if len(texts) > 1 else texts[0]) or ()
        if len(self._together) not in hits:  # nothing at all was found: the search itself has failed
            return self.sources
        return self._alone | {self._together[hit] for hit in hits if hit < len(self._together)}

    def _compiled(self, is_dot_all: bool) -> Any:
        import re2

        options = re2.Options()
        options.dot_nl = is_dot_all
        options.log_errors = False
        options.never_capture = True
        options.max_mem = limits.PATTERN_SET_BYTES
        found = re2.Set.SearchSet(options)
        for source in self._together:
            found.Add("(?m)" + source)
        found.Add(LAST.decode())
        found.Compile()
        return found
