"""Several servers in one file: what is asked for of each, and of all of them together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import structs

from penstock.config.check import Section, finds_tools
from penstock.config.formats.document import Path
from penstock.config.model import CommandUpstream, Member, SeveralUpstreams, UrlUpstream, patterns_in
from penstock.digests import sha256
from penstock.errors import ConfigError
from penstock.policy.faults import did_you_mean, spoken_place
from penstock.policy.patterns.patterns import Pattern, compile_pattern
from penstock.policy.several.terms import (
    KNOWN_AS,
    QUESTIONS,
    SEPARATOR,
    FrontTerms,
    ListTerms,
    MemberTerms,
    NameTerms,
    SearchTerms,
    SeveralTerms,
    slug_of,
)
from penstock.policy.tools.tool_filter import ToolFilter

if TYPE_CHECKING:
    from penstock.config.file import ConfigReading, Servers, Upstream

ONLY_AMONG_SEVERAL = ("rename", "prefix", "lazy", "idle_stop", "required", "ask", "uris", "methods", "share")
"""Keys of an entry that mean something only where we stand for it: one that has any is not just passed on."""

_LEAST_BUDGET = 16
_WORD = re.compile(r"[A-Za-z0-9_-]+").fullmatch


class MembersReading:
    """Reads the entries of `mcpServers` as members of one whole, and the sections about that whole."""

    def __init__(self, reading: ConfigReading) -> None:
        self._reading = reading
        self._findings = reading.findings

    def only(
        self, servers: Servers, picked: tuple[str, ...] | None = None, where: Path = ()
    ) -> tuple[Upstream, Section]:
        """The upstream that the servers make which count, those that were picked or those that are not
        disabled; and the entry of the only one, if it is passed on as it is."""
        for name in [] if picked is None else picked:
            if name not in servers:
                hint = did_you_mean(name, list(servers))
                known = f"the servers are {', '.join(servers)}" if servers else "there is no mcpServers"
                self._findings.add(where, f'no server is called "{name}"; {known}', hint)
                return None, {}
        active = {
            name: (path, server)
            for name, (path, server) in servers.items()
            if (
                name in picked
                if picked is not None
                else not server.get("disabled") and server.get("enabled", True)
            )
        }
        if not active:
            if servers:
                first = next(iter(servers.values()))[0]
                self._findings.add(first[:1], "every server here is disabled")
            return None, {}
        if self.is_several(active):
            return self.read(active), {}
        path, server = next(iter(active.values()))
        return self._reading.reach(server, path), server

    def is_several(self, active: Servers) -> bool:
        """Whether the servers are served as one whole, and not the only one as it is."""
        entries = [server for _, server in active.values()]
        return (
            len(active) > 1
            or self.terms_of_one() is not None
            or any(name in entry for entry in entries for name in ONLY_AMONG_SEVERAL)
            or any("swap" in cast(Section, entry.get("auth") or {}) for entry in entries)
        )

    def terms_of_one(self) -> SeveralTerms | None:
        """What is asked for of the whole where even one server is a whole; None where it is not."""
        root = self._reading.root
        is_named = cast(Section, root.get("names") or {}).get("prefix") == "always"
        return self._whole() if is_named or finds_tools(root) else None

    def read(self, active: Servers) -> SeveralUpstreams | None:
        """The members and what is asked for of them; None when they have faults."""
        before = len(self._findings.all)
        members = []
        slugs: dict[str, str] = {}
        for name, (path, server) in active.items():
            member = self._member(name, server, path)
            if member is None:
                continue
            slug = member.terms.slug
            if slug.casefold() in slugs:
                other = slugs[slug.casefold()]
                self._findings.add(
                    path, f'"{name}" and "{other}" would have the same prefix {slug}', "give one a prefix:"
                )
            slugs[slug.casefold()] = name
            members.append(member)
        terms = self._whole()
        if len(self._findings.all) != before:
            return None
        terms = structs.replace(terms, members=tuple(member.terms for member in members))
        return SeveralUpstreams(tuple(members), terms)

    # --- one of them -------------------------------------------------------------------------------------

    def _member(self, name: str, server: Section, path: Path) -> Member | None:
        upstream = self._reading.reach(server, path)
        slug = str(server.get("prefix", slug_of(name)))
        if not _WORD(slug):
            self._findings.add(
                (*path, "prefix") if "prefix" in server else path,
                f'"{slug}" cannot stand before a name: it must have letters, digits, _ and - only',
            )
        times = cast(Section, server.get("timeouts") or {})
        own = cast(Section, server.get("tools") or {})
        choice = ToolFilter(
            deny=self.patterns(server, "deny", path),
            allow=self.patterns(server, "allow", path),
            read_only=bool(own.get("read_only")),
        )
        terms = MemberTerms(
            name=name,
            slug=slug,
            choice=choice,
            rename=self._renamed(server, path),
            is_lazy=bool(server.get("lazy")),
            idle_seconds=cast("float | None", server.get("idle_stop")),
            is_required=bool(server.get("required")),
            asks=self._asks(server, path),
            uris=self._compiled(server, "uris", path),
            methods=self._compiled(server, "methods", path),
            exits_on_loss=server.get("on_loss") == "exit",
            is_shared=bool(server.get("share")),
            shows_origin=bool(server.get("show_origin", True)),
            list_seconds=cast("float", times.get("list", MemberTerms("", "").list_seconds)),
            digest=_digest(upstream),
            credential=_credential(upstream),
            lists_by_caller=isinstance(upstream, UrlUpstream) and upstream.lists_by_caller,
        )
        if upstream is None:
            return None
        if isinstance(upstream, CommandUpstream):
            upstream = structs.replace(upstream, inherits=bool(server.get("inherit_env")), reconnect=False)
        else:
            if server.get("share"):
                text = "share is for a command: who is at a url serves all sessions as it likes"
                self._findings.add((*path, "share"), f"{spoken_place((*path, 'share'))}: {text}")
            place = spoken_place((*path, "auth"))
            if upstream.is_stripped is False:
                text = "is for a single upstream: several never see all of a client's own headers"
                self._findings.add((*path, "auth"), f"{place}: pass {text}")
            if upstream.swap is not None and "jwt" not in cast(Section, self._reading.root.get("auth") or {}):
                self._findings.add((*path, "auth"), f"{place}: swap needs auth.jwt: whose tokens are swapped")
            upstream = structs.replace(upstream, reconnect=False, renews=True)
        return Member(
            terms,
            upstream,
            connect_seconds=cast("float | None", times.get("connect")),
            start_seconds=cast("float | None", times.get("start")),
            call_seconds=cast("float | None", times.get("call")),
        )

    def _asks(self, server: Section, path: Path) -> frozenset[str]:
        if "ask" not in server:
            return frozenset(QUESTIONS)
        found = cast("list[str]", server["ask"])
        for word in found:
            if word not in QUESTIONS:
                text = f'{spoken_place((*path, "ask"))} must be some of {", ".join(QUESTIONS)}, not "{word}"'
                self._findings.add((*path, "ask"), text, did_you_mean(word, QUESTIONS))
        return frozenset(found)

    def _renamed(self, server: Section, path: Path) -> tuple[tuple[str, str], ...]:
        renamed = cast("dict[str, str]", server.get("rename") or {})
        budget = self._names().budget
        for old, new in renamed.items():
            here = (*path, "rename", old)
            if not new or not new.isprintable() or " " in new:
                self._findings.add(here, f'no tool can be called "{new}"')
            elif len(new) > budget:
                self._findings.add(here, f'"{new}" is too long for clients: {budget} characters at most')
        if len({new.casefold() for new in renamed.values()}) < len(renamed):
            self._findings.add((*path, "rename"), "two tools are renamed to one name")
        return tuple(renamed.items())

    def patterns(self, server: Section, name: str, path: Path = ("mcpServers",)) -> tuple[Pattern, ...]:
        """What an entry denies or allows: its patterns, and the names that AI clients write there."""
        own = cast(Section, server.get("tools") or {})
        word = {"deny": "disabled", "allow": "enabled"}[name]
        named = [
            *cast("list[str]", server.get(f"{word}Tools", [])),
            *cast("list[str]", server.get(f"{word}_tools", [])),
        ]
        texts = [
            piece
            for text in cast("list[str]", own.get(name, []))
            for piece in patterns_in(text, is_needed=name == "allow")
        ]
        found = self._compile_all(texts, f"tools.{name}", (*path, "tools", name))
        return found + self._compile_all((f"^{re.escape(text)}$" for text in named), f"{word}Tools", path)

    def _compiled(self, server: Section, name: str, path: Path) -> tuple[Pattern, ...]:
        return self._compile_all(cast("list[str]", server.get(name, [])), name, (*path, name))

    def _compile_all(self, texts: Iterable[str], origin: str, path: Path) -> tuple[Pattern, ...]:
        out = []
        for text in texts:
            try:
                out.append(compile_pattern(text, origin))
            except ConfigError as error:
                self._findings.add_error(path, error)
        return tuple(out)

    # --- all of them -------------------------------------------------------------------------------------

    def _whole(self) -> SeveralTerms:
        root = self._reading.root
        lists, front = (cast(Section, root.get(name) or {}) for name in ("lists", "server"))
        kept = ListTerms()
        return SeveralTerms(
            names=self._names(),
            lists=ListTerms(
                wait_seconds=cast("float", lists.get("wait", kept.wait_seconds)),
                keep=cast("str | None", lists.get("keep")),
                hides_lost=lists.get("when_down") == "hide",
                debounce_seconds=cast("float", lists.get("debounce", kept.debounce_seconds)),
            ),
            front=FrontTerms(str(front.get("name", KNOWN_AS)), str(front.get("instructions", "merge"))),
            search=self.search(cast(Section, root["search"]), ("search",)) if "search" in root else None,
        )

    def search(self, section: Section, path: Path) -> SearchTerms:
        """What a section asks for about finding tools."""
        usual = SearchTerms()
        return SearchTerms(
            keep=self._compile_all(cast("list[str]", section.get("keep", [])), "keep", (*path, "keep")),
            limit=cast("int", section.get("limit", usual.limit)),
            from_tokens=cast("int", section.get("from_tokens", usual.from_tokens)),
        )

    def _names(self) -> NameTerms:
        names = cast(Section, self._reading.root.get("names") or {})
        terms = NameTerms(
            str(names.get("prefix", "on-conflict")),
            str(names.get("separator", SEPARATOR)),
            str(names.get("known_as", KNOWN_AS)),
        )
        for name, text in (("separator", terms.separator), ("known_as", terms.known_as)):
            message = f'names.{name} must have letters, digits, _ and - only, not "{text}"'
            if not _WORD(text) and not self._is_told(message):
                self._findings.add(("names", name), message)
        message = f"names.known_as leaves {terms.budget} characters for a tool's name; that is too few"
        if terms.budget < _LEAST_BUDGET and not self._is_told(message):
            self._findings.add(("names", "known_as"), message)
        return terms

    def _is_told(self, message: str) -> bool:
        return any(fault.message == message for fault in self._findings.all)


def as_one_of_several(upstream: CommandUpstream | UrlUpstream, terms: SeveralTerms) -> SeveralUpstreams:
    """One upstream that was named without a table of servers, where it shall be one of several."""
    member = MemberTerms("upstream", "upstream", digest=_digest(upstream))
    return SeveralUpstreams((Member(member, upstream),), structs.replace(terms, members=(member,)))


def _credential(upstream: CommandUpstream | UrlUpstream | None) -> str:
    """What of each caller's own an upstream gets."""
    if not isinstance(upstream, UrlUpstream):
        return ""
    return "swap" if upstream.swap is not None else "relay" if upstream.relays else ""


def _digest(upstream: CommandUpstream | UrlUpstream | None) -> bytes:
    """What tells one way to reach an upstream from another. Credentials are not in it: they change."""
    if isinstance(upstream, CommandUpstream):
        words: list[str] = [*upstream.command, upstream.cwd or "", *(name for name, _ in upstream.env)]
    elif upstream is not None:
        words = [upstream.url.origin, upstream.url.target.decode()]
    else:
        words = []
    return sha256(msgspec.json.encode(words))
