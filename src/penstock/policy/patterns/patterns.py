"""Patterns that people write for tool names: taken apart, checked, compiled.

`compile_pattern` is the only door to RE2. What comes through it matches in linear time, and would not
have been dangerous elsewhere either. RE2 takes 2.5 MB, so the plainest patterns, and most are of that kind,
do without it on short texts: there both engines see the same, which a test compares.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msgspec import Struct

from penstock import limits
from penstock.errors import PatternError, UnsafePattern
from penstock.policy.patterns import backtracking, pattern_tree

_BLANKS = " \t\r\n"

# Characters that stand for themselves, any character, one choice of words, and at most one `.*` or `.+`: on
# a text of limits.PLAIN_TEXT characters nothing of that can take long.
_WORD = r"(?:[A-Za-z0-9_/:\-]|\\[./\-])"
_PIECE = rf"(?:{_WORD}|\.|\((?:\?:)?{_WORD}+(?:\|{_WORD}+)*\))"
_is_plain = re.compile(rf"\^?{_PIECE}*(?:\.[*+]{_PIECE}*)?\$?").fullmatch


class Pattern(Struct, frozen=True):
    """A checked pattern."""

    source: str
    _plain: re.Pattern[str] | None  # None: this one needs RE2

    def found_in(self, text: str) -> bool:
        """Does the pattern match anywhere in `text`?"""
        if self._plain is not None and len(text) <= limits.PLAIN_TEXT:
            return self._plain.search(text) is not None
        return _engine(self.source).search(as_utf8(text)) is not None

    def holds_in(self, text: str, every: bool) -> bool:
        """Does it match anywhere in `text` to everybody (`every`), or to anybody?

        People and engines disagree about line feeds: whether `.` is one, and whether `$` stands before the
        last. Strictly they are neither. But who blocks `^rm .*$` means a command that ends in one as well.
        """
        if every or "\n" not in text or self.found_in(text):
            return self.found_in(text)
        loose = _engine(self.source, is_dot_all=True)
        return any(loose.search(as_utf8(form)) is not None for form in (text, text.rstrip("\r\n")))

    def replaced(self, text: str, by: str) -> str:
        """`text` with `by`, as it is, in the place of every match. Half a surrogate pair becomes U+FFFD."""
        if not self.found_in(text):
            return text
        after = _engine(self.source).sub(lambda found: as_utf8(by), as_utf8(text))
        return bytes(after).decode()


def as_utf8(text: str) -> bytes:
    """The text as RE2 is given it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair is no character, and then `.` would not match it: a name with one
        # in it could slip past `^evil.*$`. It counts as U+FFFD, which most readers show for it.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


@lru_cache(limits.PATTERNS_KEPT)
def _engine(source: str, is_dot_all: bool = False) -> Any:
    import re2  # here, because a proxy without patterns, or with plain ones, has no use for it

    options = re2.Options()
    options.dot_nl = is_dot_all
    options.log_errors = False
    options.never_capture = True
    options.max_mem = limits.PATTERN_BYTES
    return re2.compile(source, options)


def split_patterns(text: str) -> list[str]:
    """The patterns in a list like `a,b{1,3},(c|d)`, without the blanks around them.

    A bracket that is never closed keeps all that follows in its pattern. Nothing is lost by that in
    silence: such a pattern does not compile, whichever bracket it is, so the start fails and names it.
    Splitting there instead could leave halves that are valid and match less than was meant.
    A comma ends a quotation (\\Q without \\E) for the same reason: quoted to the end, it would be valid.
    """
    pieces: list[str] = []
    start = at = parens = 0
    in_brace = in_quote = False
    while at < len(text):
        sign = text[at]
        step = 1
        if text.startswith("\\E", at):  # which means nothing where nothing is quoted
            in_quote, step = False, 2
        elif sign == "," and not parens and not in_brace:
            pieces.append(_without_blanks(text[start:at]))
            start, in_quote = at + 1, False
        elif in_quote:
            pass
        elif sign == "\\":
            in_quote, step = text.startswith("\\Q", at), 2
        elif sign == "[":
            step = _class_length(text, at)
        elif sign in "()":
            parens = max(0, parens + (1 if sign == "(" else -1))
        elif sign in "{}":
            in_brace = sign == "{"
        at += step
    pieces.append(_without_blanks(text[start:]))
    return pieces


def _class_length(text: str, start: int) -> int:
    """How long the character class at `start` is, with its brackets; to the end if it is not closed."""
    at = start + 1 + text.startswith("[^", start)
    first = at
    while at < len(text) and (at == first or text[at] != "]"):
        named = pattern_tree.NAMED_CLASS.match(text, at)
        at = named.end() if named else at + 1 + (text[at] == "\\")
    return at + 1 - start


def _without_blanks(piece: str) -> str:
    bare = piece.strip(_BLANKS)
    backslashes = len(bare) - len(bare.rstrip("\\"))
    if backslashes % 2 and not piece.endswith("\\"):
        bare += piece.lstrip(_BLANKS)[len(bare)]
    return bare


def compile_pattern(source: str, origin: str) -> Pattern:
    """The pattern in `source`; `origin` says in an error where it was written, as in "deny list"."""
    why = _why_unreadable(source)
    if why:
        raise PatternError(source, origin, why)
    try:
        reading = pattern_tree.read(source)
    except pattern_tree.NestedTooDeeply:
        why = f"groups nested more than {limits.PATTERN_NESTING} deep"
        raise PatternError(source, origin, why) from None
    if backtracking.would_backtrack(reading):
        raise UnsafePattern(source)

    if _is_plain(source):
        # Here the end of a text is its last character, also where that is a line feed.
        return Pattern(source, re.compile(re.sub(r"\$\Z", r"\\Z", source)))

    import re2

    try:
        _engine(source)
    except re2.error as refusal:
        raise PatternError(source, origin, _in_plain_words(refusal.args[0], source)) from None
    if reading.has_loose_brace:
        # RE2 takes it for plain text, others for a count ({,3}) or an error, people for alternatives
        # ({a,b}). As plain text it matches next to nothing, so a deny list would hide less than was meant.
        why = r"{ must begin a count such as {1,3}; write \{ for the character itself"
        raise PatternError(source, origin, why)
    return Pattern(source, None)


def _why_unreadable(source: str) -> str:
    if not source:
        return "empty pattern"
    if len(source) > limits.PATTERN_LENGTH:
        return f"longer than {limits.PATTERN_LENGTH} characters"
    try:
        source.encode()
    except UnicodeEncodeError:
        return "not valid Unicode text"
    return ""


_PLAIN_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "nothing after the last \\",
    "no argument for repetition operator": "nothing to repeat before {}",
    "bad repetition operator": "one repetition right after another: {}",
    "invalid repetition size": "impossible count {}",
    "invalid character class range": "backward range {}",
    "invalid escape sequence": "unknown escape {}",
    "invalid named capture group": "bad group name in {}",
    "invalid perl operator": "unknown group syntax {}",
    "pattern too large - compile failed": "too large",
}
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")
_NO_LOOKAROUND = "lookaround such as {} is not supported; use --allow to keep only some tools"
_NO_BACKREFERENCE = "backreferences such as {} are not supported"


def _in_plain_words(refusal: bytes | str, source: str) -> str:
    """RE2's reason for refusing `source`, for people."""
    text = refusal.decode("utf-8", "replace") if isinstance(refusal, bytes) else refusal
    reason, _, fragment = text.partition(": ")
    words = _PLAIN_WORDS.get(reason, text)
    if fragment in _LOOKAROUND:
        words = _NO_LOOKAROUND
    elif fragment == "(?P" and "(?P=" in source:
        words, fragment = _NO_BACKREFERENCE, "(?P=name)"
    elif reason == "invalid escape sequence" and fragment[1:] in tuple("123456789kg"):
        words = _NO_BACKREFERENCE
    elif reason == "invalid character class range" and fragment.startswith(("[:", "\\p", "\\P")):
        words = "unknown character class {}"
    return words.replace("{}", fragment[: limits.PATTERN_ECHO])
