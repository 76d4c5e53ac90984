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


class PatternSet:
    """The patterns that rules ask about at one path."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.sources = frozenset(pattern.source for pattern in patterns)
        self._alone = frozenset(source for source in self.sources if _OF_WHOLE_TEXTS(source))
        self._together = sorted(self.sources - self._alone)
        self._engines: dict[bool, Any] = {}

    def maybe_in(self, texts: list[bytes]) -> frozenset[str]:
        """The patterns that may be found in one of the texts; all others are found in none."""
        has_breaks = any(b"\n" in text for text in texts)
        if has_breaks:
            texts = [*texts, *(text.rstrip(b"\r\n") for text in texts if text[-1:] in (b"\r", b"\n"))]
        else:
            texts = [*texts, *(text.rstrip(b"\r") for text in texts if text[-1:] == b"\r")]
        engine = self._engines.get(has_breaks)
        if engine is None:
            engine = self._engines[has_breaks] = self._compiled(has_breaks)
        hits = engine.Match(b"\n".join(texts)) or ()
        if len(self._together) not in hits:  # the empty pattern is found in every text: the search failed
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
        found.Add("")
        found.Compile()
        return found
