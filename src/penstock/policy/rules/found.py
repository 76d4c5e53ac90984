"""What stands at one path of one message, found once however many rules ask, in every form that it has.

Each question is that of a rule which is content with one reader: does it hold for something that somebody
finds there, as some server would convert it?
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from penstock.policy.patterns.pattern_sets import LAST, PatternSet
from penstock.policy.patterns.patterns import Pattern, as_utf8
from penstock.policy.rules.json_values import compares_exactly, maybe_number, plain_json, same_parts, text_of
from penstock.policy.rules.lax_values import maybe_lone_in, maybe_number_in, maybe_truth_in, text_forms

PatternSets = Mapping[str, PatternSet]
"""The patterns that rules ask about at each path, by the path as it is written."""

_QUOTES_TO_LINES = bytes.maketrans(b'"', b"\n")
_FEW_PATTERNS = 4
_SHORT_BYTES = 1024


class Found:
    """All values at one path."""

    __slots__ = ("_hits", "_is_uri", "_maybe", "_numbers", "_patterns", "_texts", "_tokens", "_truths")

    def __init__(
        self, tokens: list[bytes] | None, is_uri: bool = False, patterns: PatternSet | None = None
    ) -> None:
        self._tokens = tokens
        self._is_uri = is_uri
        self._patterns = patterns
        self._texts: frozenset[str] | set[str] | None = None
        self._numbers: list[Any] | None = None
        self._truths: set[bool] | None = None
        self._hits: dict[str, bool] = {}
        self._maybe: frozenset[str] | None = None

    @classmethod
    def of_text(cls, text: str, patterns: PatternSet | None = None) -> Found:
        """What is found where only this text stands."""
        found = cls(None, False, patterns)
        found._texts = text_forms(text) if ":" in text or "\0" in text else frozenset((text,))
        return found

    @property
    def tokens(self) -> list[bytes]:
        """Every value that somebody finds, as written."""
        if self._tokens is None:
            self._tokens = [plain_json(text) for text in self._texts or ()]
        return self._tokens

    @property
    def texts(self) -> frozenset[str] | set[str]:
        """Every text that somebody finds; numbers and truth values as they are written."""
        if self._texts is None:
            self._texts = set()
            for token in self.tokens:
                head = token[:1]
                if head == b'"':
                    self._texts |= text_forms(text_of(token), self._is_uri)
                elif head not in b"{[n":
                    self._texts.add(token.decode())
        return self._texts

    def equals(self, wanted: Any) -> bool:
        """Whether something is `wanted`, plain data out of a configuration file."""
        if type(wanted) is str:
            return wanted in self.texts
        if isinstance(wanted, bool):
            return wanted in self.truths
        if isinstance(wanted, int | float):
            return self.compares(wanted, operator.eq)
        if wanted is None:
            return b"null" in self.tokens or "null" in self.texts
        return any(
            token[:1] == (b"{" if isinstance(wanted, dict) else b"[")
            and same_parts(token, 0, wanted, False, _could_equal)
            for token in self.tokens
        )

    @property
    def truths(self) -> set[bool]:
        """Every truth value that somebody finds."""
        if self._truths is None:
            found = {maybe_truth_in(text) for text in self.texts} | {bool(one) for one in self.numbers}
            self._truths = {truth for truth in found if truth is not None}
        return self._truths

    @property
    def numbers(self) -> list[Any]:
        """Every number that somebody finds."""
        if self._numbers is None:
            self._numbers = numbers = [n for token in self.tokens if (n := maybe_number(token)) is not None]
            numbers += [n for text in self.texts if (n := maybe_number_in(text)) is not None]
            numbers += [int(truth == "true") for truth in self.texts & {"true", "false"}]
            numbers += [0] if b"null" in self.tokens else []  # to JavaScript
            for token in self.tokens:
                lone = maybe_lone_in(token) if token[:1] == b"[" else None
                numbers += [] if lone is None else Found([lone or b"0"]).numbers
        return self._numbers

    def compares(self, wanted: int | float, test: Callable[[Any, Any], bool]) -> bool:
        """Whether some number stands to `wanted` as `test` says."""
        return any(compares_exactly(number, wanted, test) for number in self.numbers)

    def matches(self, pattern: Pattern) -> bool:
        """Whether the pattern is found in some text."""
        source = pattern.source
        known = self._hits.get(source)
        if known is None:
            known = self._hits[source] = self._may_match(source) and any(
                pattern.holds_in(text, False) for text in self.texts
            )
        return known

    def _may_match(self, source: str) -> bool:
        """Asks all patterns at once, where that is quicker than one after the other."""
        patterns = self._patterns
        if patterns is None or source not in patterns.sources:
            return True
        if self._maybe is None:
            is_much = sum(map(len, self.tokens)) > _SHORT_BYTES
            if not is_much and len(patterns.sources) < _FEW_PATTERNS:
                return True
            self._maybe = patterns.maybe_in(*self._searched())
        return source in self._maybe

    def _searched(self) -> tuple[list[bytes], bool]:
        """All texts, of which each may be several lines, and whether one has line ends of its own. What is
        plain is taken as it stands: between quotes, which become line ends too."""
        plain = LAST
        if self._texts is not None:
            texts = [as_utf8(text) for text in self._texts]
        else:
            plain = b"\n".join((*self.tokens, LAST))
            odd = self.tokens
            if not self._is_uri and b"\\" not in plain:
                odd = [token for token in odd if b":" in token[:64]] if b":" in plain else []
            texts = [
                as_utf8(form)
                for token in odd
                if token[:1] == b'"'
                for form in text_forms(text_of(token), self._is_uri)
            ]
            plain = plain.translate(_QUOTES_TO_LINES)
        lines = [*texts, *(text.rstrip(b"\r\n") for text in texts if text[-1:] in (b"\r", b"\n"))]
        return [*lines, plain], any(b"\n" in text for text in texts)


def _could_equal(text: bytes, start: int, end: int, wanted: object, every: bool) -> bool:
    return Found([text[start:end]]).equals(wanted)
