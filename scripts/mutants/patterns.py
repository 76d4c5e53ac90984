"""Small changes to a regular expression: a count, a set of characters, an alternative."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<count>\{\d+(?:,\d*)?\})"
    r"|(?P<open>\((?:\?(?:[:=!]|<[=!]|P<\w+>|[aiLmsux]+:))?)"
    r"|(?P<close>\))"
    r"|(?P<bar>\|)"
    r"|(?P<many>[*+])(?P<own>[+?]?)"
    r"|(?P<maybe>\?)"
    r"|(?P<escape>\\x[0-9a-fA-F]{2}|\\.)"
    r"|(?P<plain>.)",
    re.DOTALL,
)
_MEMBER = re.compile(r"(?:\\x[0-9a-fA-F]{2}|\\.|[^\\])(?:-(?:\\x[0-9a-fA-F]{2}|\\.|[^\\]))?", re.DOTALL)


def changes(pattern: str | bytes) -> Iterator[str | bytes]:
    """`pattern` with one change each time; nothing when it has nothing of a pattern in it."""
    if isinstance(pattern, bytes):
        for text in _changes(pattern.decode("latin-1")):
            yield text.encode("latin-1")
    else:
        yield from _changes(pattern)


def _changes(text: str) -> Iterator[str]:
    tokens = list(_TOKEN.finditer(text))
    for token in tokens:
        for other in _others(token):
            yield text[: token.start()] + other + text[token.end() :]
    for start, end in _alternatives(tokens, len(text)):
        yield text[:start] + text[end:]


def _others(token: re.Match[str]) -> Iterator[str]:
    if token["class"]:
        yield from _other_classes(token["class"])
    elif token["count"]:
        head, comma, last = token["count"][1:-1].partition(",")
        if last:
            yield f"{{{head},{int(last) + 1}}}"
        yield f"{{{int(head) + 1}{comma}{last}}}"
    elif token["many"]:
        yield ("+" if token["many"] == "*" else "*") + token["own"]
    elif token["maybe"]:
        yield ""
    elif token["open"] in ("(?!", "(?="):
        yield "(?=" if token["open"] == "(?!" else "(?!"


def _other_classes(written: str) -> Iterator[str]:
    opening = "[^" if written.startswith("[^") else "["
    inside = written[len(opening) : -1]
    yield ("[" if opening == "[^" else "[^") + inside + "]"
    members = list(_MEMBER.finditer(inside))
    if len(members) > 1:
        for member in members:
            yield opening + inside[: member.start()] + inside[member.end() :] + "]"


def _alternatives(tokens: list[re.Match[str]], size: int) -> Iterator[tuple[int, int]]:
    """The span of each alternative with one bar; only where both its ends are in this text."""
    opened: list[int | None] = [0]  # where the alternative that is being read begins, for each level
    has_bar = [False]
    for token in tokens:
        if token["open"]:
            opened.append(token.end())
            has_bar.append(False)
        elif token["bar"]:
            if opened[-1] is not None:
                yield opened[-1] - has_bar[-1], token.end() - has_bar[-1]
            opened[-1], has_bar[-1] = token.end(), True
        elif token["close"]:
            if opened[-1] is not None and has_bar[-1] and len(opened) > 1:
                yield opened[-1] - 1, token.start()
            if len(opened) > 1:
                opened.pop()
                has_bar.pop()
            else:
                opened[-1], has_bar[-1] = token.end(), False
    if has_bar[-1] and len(opened) == 1 and opened[-1] is not None:
        yield opened[-1] - 1, size
