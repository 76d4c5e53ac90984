"""What clients see tools and prompts of several upstreams called. Names are given once and never read back.

A name belongs to its (upstream, tool) until we end, also while that upstream is down or gone: nobody else
inherits it, with the permissions that people have written down for it.
"""

from __future__ import annotations

import base64

from penstock.digests import sha256
from penstock.policy.several.terms import MemberTerms, NameTerms

_MARK = 7  # an underscore and six characters that tell cut names apart


def folded_name(name: str) -> str:
    """What two names have in common that people, or a client, may take for one."""
    if name.isascii():
        return name.casefold()
    import unicodedata  # a table of 1 MB that plain names never need

    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class NameLedger:
    """Which name was given to whom."""

    def __init__(self, terms: NameTerms, reserved: frozenset[str] = frozenset()) -> None:
        """`reserved` are names of our own: an upstream's tool of that name gets its prefix."""
        self._terms = terms
        self._reserved = {folded_name(name) for name in reserved}
        self._given: dict[tuple[str, str], str] = {}
        self._owners: dict[str, tuple[str, str]] = {}

    def give(self, member: MemberTerms, own: str) -> str | None:
        """The name of a member's tool, given now or before; None when there is none left for it."""
        key = (member.name, own)
        given = self._given.get(key)
        if given is not None:
            return given
        name = self._choose(member, own)
        if name is not None:
            self._enter(key, name)
        return name

    def restore(self, entries: list[tuple[str, str, str]]) -> None:
        """Takes names that were given in an earlier life: server, tool, name."""
        for server, own, name in entries:
            folded = folded_name(name)
            is_free = folded not in self._owners and folded not in self._reserved
            if is_free and (server, own) not in self._given:
                self._enter((server, own), name)

    def entries(self) -> list[tuple[str, str, str]]:
        """All names that were given: server, tool, name."""
        return [(server, own, name) for (server, own), name in self._given.items()]

    def _enter(self, key: tuple[str, str], name: str) -> None:
        self._given[key] = name
        self._owners[folded_name(name)] = key

    def _is_taken(self, name: str) -> bool:
        folded = folded_name(name)
        return folded in self._owners or folded in self._reserved

    def _choose(self, member: MemberTerms, own: str) -> str | None:
        terms = self._terms
        name = dict(member.rename).get(own)
        if name is None:
            prefixed = f"{member.slug}{terms.separator}{own}"
            if terms.prefix == "never":
                return None if self._is_taken(own) else own
            is_prefixed = terms.prefix == "always" or self._is_taken(own)
            name = prefixed if is_prefixed else own
        if len(name) > terms.budget or self._is_taken(name):
            name = f"{name[: terms.budget - _MARK]}_{_mark(member.name, own)}"
        return None if self._is_taken(name) else name


def _mark(server: str, own: str) -> str:
    digest = sha256(f"{server}\0{own}".encode("utf-8", "surrogatepass"))
    return base64.b32encode(digest).decode().lower()[: _MARK - 1]
