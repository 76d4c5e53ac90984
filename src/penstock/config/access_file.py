"""The sections of a configuration file about who may come in, and what they get.

Loaded when a file has one of them: `auth`, `tls`, `public_url`, `profiles`, `choose`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import cast

from penstock.auth.terms import (
    ALL,
    AccessTerms,
    AuthTerms,
    CertTerms,
    ChooseTerms,
    JwtTerms,
    ProfileTerms,
    TlsTerms,
    TokenTerms,
)
from penstock.config.check import Findings, Section
from penstock.config.formats.document import Path
from penstock.config.keys import SERVER_TABLES
from penstock.config.model import patterns_in
from penstock.config.outbound import maybe_add_url_fault
from penstock.errors import ConfigError
from penstock.policy.faults import did_you_mean, spoken_place
from penstock.policy.patterns.patterns import Pattern, compile_pattern
from penstock.policy.several.terms import SearchTerms
from penstock.policy.tools.tool_filter import ToolFilter

_DIGEST = re.compile(r"[0-9a-fA-F]{64}").fullmatch
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_ID = re.compile(r"[!-~]{1,64}").fullmatch
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_RESERVED = frozenset(("authorization", "cookie", "host", "origin", "content-type", "content-length"))
_IN_PROFILES = ("deny", "allow", "read_only")
ReadSearch = Callable[[Section, Path], SearchTerms]


class AccessReading:
    """Reads those sections of one file, and notes what is wrong with them."""

    def __init__(self, root: Section, findings: Findings, folder: str, search: ReadSearch | None) -> None:
        """`root` is the file, its kinds already checked; paths in it count from `folder`; `search` reads what
        a section asks for about finding tools."""
        self._root = root
        self._findings = findings
        self._folder = folder
        self._search = search

    def read(self) -> AccessTerms:
        """What they ask for."""
        access = AccessTerms(
            auth=self._auth(),
            tls=self._tls(),
            public_url=self._public_url(),
            profiles=tuple(self._profiles()),
            choose=self._choose(),
        )
        self._check(access)
        return access

    def _section(self, name: str) -> Section:
        return cast(Section, self._root.get(name) or {})

    def _add(self, path: Path, message: str, hint: str | None = None) -> None:
        self._findings.add(path, message, hint)

    # --- credentials -------------------------------------------------------------------------------------

    def _auth(self) -> AuthTerms | None:
        if "auth" not in self._root:
            return None
        section = self._section("auth")
        auth = AuthTerms(tuple(self._tokens(section)), tuple(self._certs(section)), self._jwt(section))
        if auth == AuthTerms():
            # An empty section would let nobody in, or, to somebody else's eye, everybody.
            self._add(("auth",), "auth needs tokens, certs or jwt")
        return auth

    def _tokens(self, section: Section) -> list[TokenTerms]:
        out: list[TokenTerms] = []
        for number, row in enumerate(cast("list[Section]", section.get("tokens") or [])):
            path: Path = ("auth", "tokens", number)
            digest = self._digest(row, path)
            if digest is None:
                self._need(row, path, "sha256", "penstock token new ID makes one")
            if digest is not None and any(digest == other.digest for other in out):
                self._add((*path, "sha256"), f"{spoken_place(path)} is a token that stands here twice")
            admin = bool(row.get("admin"))
            out.append(TokenTerms(self._id(row, path), digest or b"", self._profile(row), admin))
        self._refuse_twins([row.id for row in out], "tokens")
        return out

    def _certs(self, section: Section) -> list[CertTerms]:
        out = []
        for number, row in enumerate(cast("list[Section]", section.get("certs") or [])):
            path: Path = ("auth", "certs", number)
            digest, name = self._digest(row, path), cast("str | None", row.get("name"))
            if ("sha256" in row) == (name is not None):
                self._add(path, f"{spoken_place(path)} needs sha256 or name, and not both")
            out.append(CertTerms(self._id(row, path), digest, name, self._profile(row)))
        self._refuse_twins([row.id for row in out], "certs")
        if out and not self._section("tls").get("client_ca"):
            self._add(("auth", "certs"), "auth.certs needs tls.client_ca: whoever signs them")
        return out

    def _jwt(self, section: Section) -> JwtTerms | None:
        row = cast("Section | None", section.get("jwt"))
        if row is None:
            return None
        path: Path = ("auth", "jwt")
        self._need(row, path, "issuer")
        issuer = str(row.get("issuer", ""))
        for name in ("issuer", "jwks"):
            if row.get(name):
                self._check_url(str(row[name]), (*path, name))
        audiences = tuple(cast("list[str]", row.get("audience") or []))
        if not audiences and "public_url" not in self._root:
            self._add(path, "auth.jwt needs audience, or public_url: tokens for others must not count here")
        if "public_url" not in self._root:
            self._add(path, "auth.jwt needs public_url: clients are told there who we are")
        return JwtTerms(
            issuer,
            audiences,
            tuple(cast("list[str]", row.get("scopes") or [])),
            cast("str | None", row.get("profile_claim")),
            cast("str | None", row.get("jwks")),
        )

    def _id(self, row: Section, path: Path) -> str:
        self._need(row, path, "id")
        name = str(row.get("id", ""))
        if name and not _ID(name):
            self._add((*path, "id"), f"{spoken_place((*path, 'id'))} must be at most 64 plain characters")
        return name

    def _digest(self, row: Section, path: Path) -> bytes | None:
        text = str(row.get("sha256", ""))
        if not text:
            return None
        if not _DIGEST(text):
            # Not shown: it may be the token itself, by mistake.
            self._add((*path, "sha256"), f"{spoken_place((*path, 'sha256'))} must be 64 hexadecimal digits")
            return b""
        return bytes.fromhex(text)

    def _profile(self, row: Section) -> str | None:
        return cast("str | None", row.get("profile"))

    def _need(self, row: Section, path: Path, name: str, hint: str | None = None) -> None:
        if not row.get(name):
            self._add(path, f"{spoken_place(path)} needs {name}", hint)

    def _refuse_twins(self, ids: list[str], where: str) -> None:
        for number, name in enumerate(ids):
            if name and name in ids[:number]:
                self._add(("auth", where, number, "id"), f'two rows of auth.{where} are called "{name}"')

    # --- the listener ------------------------------------------------------------------------------------

    def _tls(self) -> TlsTerms | None:
        if "tls" not in self._root:
            return None
        section = self._section("tls")
        for name in ("cert", "key"):
            self._need(section, ("tls",), name)
        files = {}
        for name in ("cert", "key", "client_ca"):
            if section.get(name):
                files[name] = os.path.join(self._folder, os.path.expanduser(str(section[name])))
        tls = TlsTerms(files.get("cert", ""), files.get("key", ""), files.get("client_ca"))
        if tls.cert and tls.key:
            from penstock.auth.server_tls import server_tls

            try:
                server_tls(tls.cert, tls.key, tls.client_ca, is_asked_for=False)
            except ConfigError as error:
                self._findings.add_error(("tls",), error)
        return tls

    def _public_url(self) -> str | None:
        url = cast("str | None", self._root.get("public_url"))
        if url is None:
            return None
        self._check_url(url, ("public_url",))
        return url.rstrip("/")

    def _check_url(self, url: str, path: Path) -> None:
        maybe_add_url_fault(url, path, self._findings)

    # --- profiles ----------------------------------------------------------------------------------------

    def _profiles(self) -> list[ProfileTerms]:
        out = []
        for name, section in cast("dict[str, Section]", self._root.get("profiles") or {}).items():
            path: Path = ("profiles", name)
            if not _NAME(name) or name == ALL:
                self._add(path, f'no profile can be called "{name}": letters, digits, _ and -, and not {ALL}')
            tools = cast(Section, section.get("tools") or {})
            for key in tools:
                if key not in _IN_PROFILES:
                    self._add((*path, "tools", key), f"a profile's tools have {', '.join(_IN_PROFILES)}")
            choice = ToolFilter(
                deny=self._patterns(tools, "deny", path),
                allow=self._patterns(tools, "allow", path),
                read_only=bool(tools.get("read_only")),
            )
            upstreams = section.get("upstreams")
            only = None if upstreams is None else tuple(cast("list[str]", upstreams))
            found = cast("Section | None", section.get("search"))
            search = self._search(found, (*path, "search")) if found is not None and self._search else None
            out.append(ProfileTerms(name, choice, only, search))
        return out

    def _patterns(self, tools: Section, name: str, path: Path) -> tuple[Pattern, ...]:
        out = []
        for text in cast("list[str]", tools.get(name, [])):
            for piece in patterns_in(text, is_needed=name == "allow"):
                try:
                    out.append(compile_pattern(piece, f"{spoken_place(path)}.tools.{name}"))
                except ConfigError as error:
                    self._findings.add_error((*path, "tools", name), error)
        return tuple(out)

    def _choose(self) -> ChooseTerms:
        section = self._section("choose")
        header = cast("str | None", section.get("header"))
        if header is not None and (not _HEADER(header) or header.lower() in _RESERVED or _is_mcp(header)):
            self._add(("choose", "header"), f'choose.header cannot be "{header}"')
        return ChooseTerms(
            header.lower().encode() if header is not None else None,
            tuple(cast("dict[str, str]", section.get("clients") or {}).items()),
            cast("str | None", section.get("default")),
        )

    def _check(self, access: AccessTerms) -> None:
        known = [profile.name for profile in access.profiles]
        for name, profile in access.choose.clients:
            if profile not in (*known, ALL):
                self._unknown(("choose", "clients", name), profile, known)
        if access.choose.default is not None and access.choose.default not in (*known, ALL):
            self._unknown(("choose", "default"), access.choose.default, known)
        servers = [name for table in SERVER_TABLES for name in cast(Section, self._root.get(table) or {})]
        for row in access.profiles:
            for name in row.upstreams or ():
                if name not in servers:
                    path: Path = ("profiles", row.name, "upstreams")
                    self._add(path, f'no server is called "{name}"', did_you_mean(name, servers))
        auth = access.auth
        if auth is None or not known:
            return
        rows = auth.tokens + auth.certs
        is_free = any(row.profile is None for row in rows) or auth.jwt is not None
        if access.choose.default is None and is_free:
            self._add(
                ("profiles",),
                "with auth, choose.default must say what callers get that nothing pins to a profile",
                f"write choose: {{default: {known[0]}}}, or {ALL} if they may have everything",
            )

    def _unknown(self, path: Path, profile: str, known: list[str]) -> None:
        there = f"the profiles are {', '.join(known)}" if known else "there are none"
        self._add(path, f'no profile is called "{profile}"; {there}')


def _is_mcp(header: str) -> bool:
    return header.lower().startswith("mcp-") or header.lower() == "last-event-id"
