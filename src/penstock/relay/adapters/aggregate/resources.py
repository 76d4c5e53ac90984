"""Lists that are asked of every upstream when a client asks, and whose a resource is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from penstock import limits
from penstock.errors import UpstreamError
from penstock.policy.several.greeting import cache_terms
from penstock.policy.several.spliced import edited, maybe_text
from penstock.policy.several.uri_owner import OwnedUris, maybe_owner
from penstock.relay.adapters.aggregate.member import Member
from penstock.relay.adapters.aggregate.member_link import MemberLink, entries_of
from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, members

log = logging.getLogger("penstock")

LIST = "resources/list"
TEMPLATES = "resources/templates/list"
LISTED = {LIST: "resources", TEMPLATES: "resourceTemplates", "tasks/list": "tasks"}
_MOST_SEEN = 10_000

Terms = list[tuple[int | None, str | None]]


class Resources:
    """One session's view of all resources."""

    def __init__(
        self, find: Callable[[], list[Member]], link_for: Callable[[Member], MemberLink | None]
    ) -> None:
        self._find = find
        self._link_for = link_for
        self._seen: dict[str, str] = {}  # resources that results linked to, and whose results
        self._own: dict[str, tuple[dict[str, list[bytes]], OwnedUris]] = {}

    def _lists(self, member: Member) -> dict[str, list[bytes]]:
        """The last lists that a member gave; what one caller's credential shows is that caller's alone."""
        return self._own_of(member)[0] if member.terms.credential else member.resources

    def _uris(self, member: Member) -> OwnedUris:
        return self._own_of(member)[1] if member.terms.credential else member.uris

    def _own_of(self, member: Member) -> tuple[dict[str, list[bytes]], OwnedUris]:
        return self._own.setdefault(member.name, ({}, OwnedUris()))

    def forget(self, member: Member) -> None:
        """Its resources have changed."""
        self._uris(member).forget()

    def note(self, uri: str, name: str) -> None:
        """A member's result links to a resource. Of two that do, the one that is trusted more has it."""
        if len(uri) > limits.URI_LENGTH:
            return  # nobody links to so long a one to have it read
        known = self._seen.get(uri)
        if known is not None and known != name:
            order = [member.name for member in self._find()]
            if known in order and order.index(known) < order.index(name):
                return
        elif len(self._seen) >= _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[uri] = name

    def with_capability(self, name: str) -> list[Member]:
        """The members that say that they have something, or have not said yet."""
        return [one for one in self._find() if one.known is not None and one.known.greeting.has(name)]

    def maybe_owner(self, uri: str) -> str | None:
        """Whose a resource is, as far as that is known."""
        having = self.with_capability("resources")
        owned = {member.name: self._uris(member) for member in having}
        terms = [member.terms for member in self._find()]
        return maybe_owner(uri, terms, owned, self._seen, [member.name for member in having])

    @property
    def is_known(self) -> bool:
        """Whether every member's lists were asked for."""
        return all(self._uris(member).is_known for member in self.with_capability("resources"))

    async def look_around(self) -> None:
        """Asks for the lists that are not known."""
        having = [one for one in self.with_capability("resources") if not self._uris(one).is_known]
        await asyncio.gather(*(self._ask(one, method) for one in having for method in (LIST, TEMPLATES)))
        for member in having:
            self._take_uris(member)

    async def merged(self, method: str, is_modern: bool) -> bytes:
        """The result of a list that every member is asked for; of one that does not give its
        own in time, the last it gave."""
        having = self.with_capability("tasks" if method == "tasks/list" else "resources")
        found = await asyncio.gather(*(self._ask(member, method) for member in having))
        key = LISTED[method]
        entries: list[bytes] = []
        terms: Terms = []
        seen: set[str] = set()
        for member, (own, own_terms) in zip(having, found, strict=True):
            terms += own_terms
            if method != "tasks/list":
                self._take_uris(member)
            for entry in own:
                uri = _maybe_text(entry, "uri" if method == LIST else "uriTemplate")
                if uri is not None and uri in seen:
                    continue
                if uri is not None:
                    seen.add(uri)
                entries.append(entry)
        extra = b""
        if is_modern:
            extra = b"," + msgspec.json.encode({"resultType": "complete", **cache_terms(terms)})[1:-1]
        return b'{"%b":[%b]%b}' % (key.encode(), b",".join(entries), extra)

    async def _ask(self, member: Member, method: str) -> tuple[list[bytes], Terms]:
        link = self._link_for(member)
        try:
            if link is None:
                raise UpstreamError("It is not there", "")
            async with asyncio.timeout(member.terms.list_seconds):
                await link.until_ready()
            pages, terms = await link.list_pages(method, error_means_none=True)
            entries = entries_of(pages, LISTED[method])
            if method == "tasks/list":
                entries = [with_slug(entry, link.slug) for entry in entries]
            self._lists(member)[method] = entries
            return entries, terms
        except (UpstreamError, TimeoutError, ValueError) as why:
            log.info("%s of %s: its last known is used (%s).", method, member.name, why)
            return self._lists(member).get(method, []) if method != "tasks/list" else [], [(0, "private")]

    def _take_uris(self, member: Member) -> None:
        lists = self._lists(member)
        listed = [_maybe_text(entry, "uri") for entry in lists.get(LIST, [])]
        templates = [_maybe_text(entry, "uriTemplate") for entry in lists.get(TEMPLATES, [])]
        self._uris(member).take(
            (uri for uri in listed if uri is not None),
            (text for text in templates if text is not None),
            LIST in lists and TEMPLATES in lists,
        )


def with_slug(entry: bytes, slug: str) -> bytes:
    """A task of a list with its id as clients shall see it."""

    def add(token: bytes) -> bytes:
        return msgspec.json.encode(f"{slug}+{msgspec.json.decode(token, type=str)}")

    return edited(entry, ("taskId",), add)


def _maybe_text(entry: bytes, name: str) -> str | None:
    try:
        return maybe_text(members(entry).get(name))
    except (Ambiguous, NotJson, NotAnObject):
        return None
