"""The filter language: one line of words in, one question about a row out. Pure, and linear in its input.

tool:git_*,gh_* ms>500           side by side is and; commas are or
(status:error or size>1M) not method:ping
arg.path~^/etc since:10m         ~ is a regular expression (RE2); - before a term is not
"two words"                      a word alone is looked for in the text of the message
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from penstock.errors import UsageError

WORD_FIELDS = "at session client era link from kind method tool id status verdict rule code".split()
NUMBER_FIELDS = "ms size tokens".split()
TIME_FIELDS = "since until".split()
FIELDS = (*WORD_FIELDS, *NUMBER_FIELDS, *TIME_FIELDS, "text")
PATH_FIELDS = ("arg", "result")
LATER_FIELDS = frozenset({"status", "code", "ms", "result", "verdict", "rule"})
"""What is known only once a message was decided about or answered."""

_CHOICES = {
    "from": ("client", "upstream", "penstock"),
    "kind": tuple(
        "request notification response batch line http lost message start reload repair rotate dropped "
        "checkpoint stop done held decided reveal".split()  # of recordings, then of audits
    ),
    "verdict": ("pass", "change", "answer", "deny", "block", "drop", "refuse", "skip"),
    "status": ("ok", "error", "held", "pending", "withdrawn", "late"),
}
_UNITS = {"": 1.0, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_NUMBER = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)(ms|s|m|k|K|M|G)?")
_TERM = re.compile(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[^\s:~<>=()\"]+)?)(:|~|>=|<=|>|<|=)")
_AGES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
_DEPTH = 100
_KNOWN_WORDS = 4_096


class Row(Protocol):
    """What a filter looks at."""

    @property
    def time(self) -> float: ...

    def words(self, field: str) -> list[str]:
        """The values of one of WORD_FIELDS; none where it has none."""

    def number(self, field: str) -> float | None:
        """The value of one of NUMBER_FIELDS."""

    def text(self) -> str:
        """The message as text."""

    def inner(self, part: str, path: str) -> list[str]:
        """The values at a path of the arguments (`arg`) or of the result, as text."""


Test = Callable[[Row], bool]


class FilterFault(UsageError):
    """Words that are no filter. `column` is where, from 1 on."""

    def __init__(self, text: str, column: int, why: str) -> None:
        super().__init__(
            f"Cannot read the filter: {why}", f"  {text}\n  {' ' * (column - 1)}^ column {column}"
        )
        self.column = column


class Filter(Struct, frozen=True):
    """A filter that was understood."""

    words: str
    matches: Test
    fields: frozenset[str]  # that it asks about


def compile_filter(words: str, now: float | None = None) -> Filter:
    """The filter in `words`; raises FilterFault. `now` is what since:10m counts back from."""
    parser = _Parser(words, time.time() if now is None else now)
    try:
        words.encode()
    except UnicodeEncodeError as why:  # bytes of a command line that are no text
        raise parser.fault("this is not valid UTF-8", why.start) from None
    return Filter(words, parser.parse(), frozenset(parser.fields))


class _Parser:
    def __init__(self, text: str, now: float) -> None:
        self.text = text
        self.at = 0
        self.now = now
        self.depth = 0
        self.fields: set[str] = set()

    def fault(self, why: str, at: int | None = None) -> FilterFault:
        return FilterFault(self.text, (self.at if at is None else at) + 1, why)

    def parse(self) -> Test:
        self._skip()
        if self.at >= len(self.text):
            return lambda row: True
        test = self._either()
        if self.at < len(self.text):
            raise self.fault("there is no ( for this )")
        return test

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _word_ahead(self, word: str) -> bool:
        end = self.at + len(word)
        return self.text[self.at : end] == word and (
            end >= len(self.text) or self.text[end].isspace() or self.text[end] in "()"
        )

    def _either(self) -> Test:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.fault("it is nested too deep")
        tests = [self._all()]
        while self._word_ahead("or"):
            self.at += 2
            self._skip()
            tests.append(self._all())
        self.depth -= 1
        return tests[0] if len(tests) == 1 else lambda row: any(test(row) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while True:
            self._skip()
            if self._word_ahead("and"):
                self.at += 3
                self._skip()
                tests.append(self._one())
            elif self.at < len(self.text) and self.text[self.at] != ")" and not self._word_ahead("or"):
                tests.append(self._one())
            else:
                return tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests)

    def _one(self) -> Test:
        negated = False
        while True:
            self._skip()
            if self._word_ahead("not"):
                self.at += 3
            elif self.text[self.at : self.at + 1] == "-":
                self.at += 1
            else:
                break
            negated = not negated
        if self.at >= len(self.text) or self.text[self.at] == ")" or self._word_ahead("or"):
            raise self.fault("something is missing here")
        test = self._group() if self.text[self.at] == "(" else self._term()
        return (lambda row: not test(row)) if negated else test

    def _group(self) -> Test:
        start = self.at
        self.at += 1
        self._skip()
        test = self._either()
        if self.text[self.at : self.at + 1] != ")":
            raise self.fault("there is no ) for this (", start)
        self.at += 1
        return test

    # --- terms --------------------------------------------------------------------------------------------

    def _term(self) -> Test:
        start = self.at
        found = _TERM.match(self.text, self.at)
        if found is None:
            self.fields.add("text")
            return _contains([self._value("a word", False)])
        field, operator = found[1], found[2]
        head, _, path = field.partition(".")
        if not (field in FIELDS or (head in PATH_FIELDS and path)):
            raise self.fault(self._unknown(field, head), start)
        self.fields.add(head)
        self.at = found.end()
        if operator == ":":
            return self._globs(field, head, path)
        if operator == "~":
            return self._regex(field, head, path)
        return self._compare(field, head, path, operator)

    def _unknown(self, field: str, head: str) -> str:
        if head in PATH_FIELDS:
            return f"{head} needs a path, as in {head}.path"
        import difflib  # only for those who mistype

        match = difflib.get_close_matches(field.lower(), [*FIELDS, *PATH_FIELDS], 1, 0.6)
        hint = (
            f'; did you mean "{match[0]}"?'
            if match
            else f"; the fields are {' '.join(FIELDS)} arg.PATH result.PATH"
        )
        return f'unknown field "{field}"{hint}'

    def _value(self, what: str, is_pattern: bool) -> str:
        """A quoted text, or everything up to a blank or a bracket that was not opened within it."""
        if self.text[self.at : self.at + 1] == '"':
            return self._quoted()
        start, depth = self.at, 0
        while self.at < len(self.text) and not self.text[self.at].isspace():
            char = self.text[self.at]
            if char == "\\" and is_pattern:
                self.at += 1
            elif char in "([" and is_pattern:
                depth += 1
            elif char == ")" and depth == 0:
                break
            elif char in ")]" and is_pattern:
                depth -= 1
            self.at += 1
        if self.at == start:
            raise self.fault(f"{what} is missing here")
        self.at = min(self.at, len(self.text))
        return self.text[start : self.at]

    def _quoted(self) -> str:
        start = self.at
        out: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == '"':
                return "".join(out)
            if char == "\\" and self.text[self.at : self.at + 1] in ('"', "\\"):
                char = self.text[self.at]
                self.at += 1
            out.append(char)
        raise self.fault("this quotation mark is not closed", start)

    def _values(self) -> list[tuple[str, bool, int]]:
        """Values between commas: the text, whether it was quoted (no glob then), and where it stands."""
        out: list[tuple[str, bool, int]] = []
        while True:
            at = self.at
            if self.text[self.at : self.at + 1] == '"':
                out.append((self._quoted(), True, at))
            else:
                start = self.at
                while (
                    self.at < len(self.text)
                    and self.text[self.at] not in ',)"'
                    and not self.text[self.at].isspace()
                ):
                    self.at += 1
                if self.at == start:
                    raise self.fault("a value is missing here")
                out.append((self.text[start : self.at], False, at))
            if self.text[self.at : self.at + 1] != ",":
                return out
            self.at += 1

    def _globs(self, field: str, head: str, path: str) -> Test:
        start = self.at
        values = self._values()
        if field in TIME_FIELDS:
            if len(values) > 1:
                raise self.fault(f"{field} takes one time", start)
            return self._time(field, values[0][0], start)
        if field == "text":
            return _contains([text for text, _, _ in values])
        if field in NUMBER_FIELDS:
            numbers = [self._number(text, at) for text, _, at in values]
            return lambda row: row.number(field) in numbers
        for text, is_quoted, at in values:
            known = _CHOICES.get(field)
            if known is not None and not is_quoted and not set("*?") & set(text) and text not in known:
                raise self.fault(f"{field} is one of {', '.join(known)}", at)
        matches = [self._glob(text, is_quoted, at) for text, is_quoted, at in values]
        return _over(head, path, lambda word: any(match(word) for match in matches))

    def _glob(self, text: str, is_quoted: bool, at: int) -> Callable[[str], bool]:
        if is_quoted or not set("*?") & set(text):
            return lambda word: word == text
        import re2  # a glob with many stars would backtrack badly in re

        options: Any = re2.Options()
        options.dot_nl = True
        options.log_errors = False
        pattern = "".join(".*" if char == "*" else "." if char == "?" else re2.escape(char) for char in text)
        try:
            return _found(re2.compile(pattern, options).fullmatch)
        except re2.error:
            raise self.fault("this is too long", at) from None

    def _regex(self, field: str, head: str, path: str) -> Test:
        start = self.at
        if field in NUMBER_FIELDS or field in TIME_FIELDS:
            raise self.fault(f"{field} is a number: compare it with > or <", start)
        pattern = self._value("a pattern", True)
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = 1 << 20
        try:
            search = _found(re2.compile(pattern, options).search)
        except re2.error as why:
            raise self.fault(f"this is no pattern: {why}", start) from None
        if field == "text":
            return lambda row: search(row.text())
        return _over(head, path, search)

    def _compare(self, field: str, head: str, path: str, operator: str) -> Test:
        start = self.at
        if field in TIME_FIELDS or field == "text":
            raise self.fault(f"{field} cannot be compared; write {field}:VALUE", start)
        wanted = self._number(self._value("a number", False), start)
        holds = _COMPARE[operator]
        if field in NUMBER_FIELDS:

            def compare(row: Row) -> bool:
                found = row.number(field)
                return found is not None and holds(found, wanted)

            return compare
        return _over(head, path, lambda word: _is_number(word) and holds(float(word), wanted))

    def _number(self, text: str, at: int) -> float:
        found = _NUMBER.fullmatch(text)
        if found is None:
            raise self.fault("this must be a number, such as 500, 2s or 1.5M", at)
        return float(found[1]) * _UNITS[found[2] or ""]

    def _time(self, field: str, text: str, at: int) -> Test:
        moment = self._moment(text)
        if moment is None:
            raise self.fault("this must be an age like 10m, or a time like 2026-11-17T05:20", at)
        if field == "since":
            return lambda row: row.time >= moment
        return lambda row: row.time <= moment

    def _moment(self, text: str) -> float | None:
        found = _AGE.fullmatch(text)
        if found is not None:
            return self.now - float(found[1]) * _AGES[found[2]]
        from datetime import UTC, datetime

        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return float(text) if _is_number(text) else None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
}


def _over(head: str, path: str, holds: Callable[[str], bool]) -> Test:
    if path:
        return lambda row: any(holds(word) for word in row.inner(head, path))
    known: dict[str, bool] = {}  # methods, tools and clients are few: each is looked at once

    def test(row: Row) -> bool:
        for word in row.words(head):
            found = known.get(word)
            if found is None:
                if len(known) >= _KNOWN_WORDS:
                    known.clear()
                found = known[word] = holds(word)
            if found:
                return True
        return False

    return test


def _contains(needles: list[str]) -> Test:
    folded = [needle.lower() for needle in needles]

    def test(row: Row) -> bool:
        text = row.text().lower()
        return any(needle in text for needle in folded)

    return test


def _found(look: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether RE2 finds something; half a surrogate pair, which JSON can spell and RE2 not read, is a "?"."""

    def found(word: str) -> bool:
        try:
            return look(word) is not None
        except UnicodeEncodeError:
            return look(word.encode("utf-8", "replace").decode()) is not None

    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
