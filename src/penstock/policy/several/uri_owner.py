"""Which of several upstreams a resource belongs to. URIs are never rewritten, and never asked around."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.policy.several.terms import MemberTerms

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_MOST_TEMPLATE = 2_000


class OwnedUris:
    """What one upstream has shown to be its own."""

    def __init__(self) -> None:
        self.listed: frozenset[str] = frozenset()
        self._templates: tuple[UriTemplate, ...] = ()
        self.is_known = False  # its lists were asked for

    def take(self, listed: Iterable[str], templates: Iterable[str], is_all: bool = True) -> None:
        """Takes its lists; a template is also what a client names when it completes one."""
        texts = [text for text in templates if len(text) <= _MOST_TEMPLATE]
        self.listed = frozenset([*listed, *texts])
        # One that could become any URI at all would claim those of others, which may be secrets.
        self._templates = tuple(UriTemplate(text) for text in texts if ":" in text.partition("{")[0])
        self.is_known = is_all

    def forget(self) -> None:
        """The lists have changed; what is known counts until they are asked for again."""
        self.is_known = False

    def has(self, uri: str) -> bool:
        """Whether it lists the resource or has a template for it."""
        return uri in self.listed or any(template.fits(uri) for template in self._templates)


class UriTemplate:
    """A URI template (RFC 6570) as far as it tells what it may become.

    Between its literal parts each expression stands for the shortest text that fits: one walk, however odd
    the template.
    """

    def __init__(self, text: str) -> None:
        self._literals: list[str] = []
        self._operators: list[str] = []
        position = 0
        for found in _EXPRESSION.finditer(text):
            self._literals.append(text[position : found.start()])
            self._operators.append(found[1][:1] if found[1][:1] in "+#?&/.;" else "")
            position = found.end()
        self._literals.append(text[position:])

    def fits(self, uri: str) -> bool:
        """Whether the template may become `uri`."""
        first, *others = self._literals
        if not uri.startswith(first):
            return False
        position = len(first)
        for place, literal in enumerate(others):
            is_last = place == len(others) - 1
            end = len(uri) - len(literal) if is_last else self._end(place, uri, position)
            if end < position or (is_last and not uri.endswith(literal)):
                return False
            if not _fills(self._operators[place], uri[position:end]):
                return False
            position = end + len(literal)
        return position == len(uri)

    def _end(self, place: int, uri: str, position: int) -> int:
        """Where the text of an expression ends: before the next literal, or before what the next expression
        begins with."""
        literal = self._literals[place + 1]
        following = self._operators[place + 1]
        if literal or following in ("", "+"):
            return uri.find(literal, position)
        found = uri.find(following, position)
        return len(uri) if found < 0 else found


def _fills(operator: str, text: str) -> bool:
    if operator == "+" or (operator and not text):
        return True
    if operator:
        return text.startswith(operator)
    return not any(char in text for char in "/?#")


def maybe_owner(
    uri: str,
    members: Iterable[MemberTerms],
    owned: dict[str, OwnedUris],
    seen: dict[str, str],
    with_resources: list[str],
) -> str | None:
    """Whose a resource is: of who claims it by a pattern, of the first who lists it or has a template for it,
    of who linked to it, of the only one that has resources at all; None when it is nobody's."""
    ordered = list(members)
    for terms in ordered:
        if any(pattern.found_in(uri) for pattern in terms.uris):
            return terms.name
    for terms in ordered:
        if terms.name in owned and owned[terms.name].has(uri):
            return terms.name
    if uri in seen:
        return seen[uri]
    return with_resources[0] if len(with_resources) == 1 else None
