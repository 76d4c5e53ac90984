"""What of a client's own headers goes to an upstream: the key `auth` of one that has a `url`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from penstock.config.check import Findings, Section
from penstock.config.formats.document import Path
from penstock.config.model import make_header
from penstock.errors import ConfigError
from penstock.policy.faults import spoken_place
from penstock.wire.http.url import parse_url

if TYPE_CHECKING:
    from penstock.auth.terms import SwapTerms

Expand = Callable[[str, Path], str]
_OURS = frozenset(("authorization", "cookie", "origin"))


class Outbound(Struct, frozen=True):
    """Whether clients' headers stay here, which go on by another name, and what is made of their tokens."""

    is_stripped: bool | None = None
    relays: tuple[tuple[bytes, bytes], ...] = ()
    swap: SwapTerms | None = None
    lists_by_caller: bool = False


def read_outbound(section: Section, path: Path, findings: Findings, expand: Expand) -> Outbound:
    """What an upstream sees of who calls. What relays or swaps, strips the rest."""
    auth = cast(Section, section["auth"] or {})
    relay = cast("dict[str, str]", auth.get("relay") or {})
    place = spoken_place(path)
    if relay and auth.get("mode") == "pass":
        findings.add(path, f"{place} cannot be both pass and relay: what relays, strips all others")
    if not relay and "mode" not in auth and "swap" not in auth:
        findings.add(path, f"{place} must be strip, pass, {{relay: {{HEADER: HEADER}}}} or {{swap: ...}}")
    injected = {name.lower() for name in cast("dict[str, str]", section.get("headers") or {})}
    out = []
    for ours, theirs in relay.items():
        here: Path = (*path, "relay", ours)
        try:
            source, _ = make_header(ours, "", "relay", {})
            target, _ = make_header(theirs, "", "relay", {})
        except ConfigError as error:
            findings.add_error(here, error)
            continue
        if ours.lower() in _OURS:
            # Authorization is what a client shows to us: it must never go on, nor what a browser adds.
            findings.add(here, f"{ours} is what clients show to us; let them send another header")
        if theirs.lower() in injected:
            findings.add(here, f"{theirs} is in headers, too; it can have one value")
        out.append((source.lower(), target))
    if len({target.lower() for _, target in out}) != len(out):
        findings.add(path, f"{place} gives one header of the upstream's two values")
    swap = _swap(auth, (*path, "swap"), findings, expand) if "swap" in auth else None
    if swap is not None and (relay or auth.get("mode") == "pass" or "authorization" in injected):
        findings.add(path, f"{place}: swap gives Authorization its one value, and strips all others")
    is_stripped = bool(relay) or swap is not None or auth.get("mode") == "strip"
    return Outbound(is_stripped, tuple(out), swap, auth.get("lists") == "caller")


def _swap(auth: Section, path: Path, findings: Findings, expand: Expand) -> SwapTerms:
    from penstock.auth.terms import SwapTerms

    section = cast(Section, auth["swap"] or {})
    url = str(section.get("token_url", ""))
    if not url:
        findings.add(path, f"{spoken_place(path)} needs token_url")
    else:
        maybe_add_url_fault(url, (*path, "token_url"), findings)
    texts = {
        name: expand(str(section.get(name, "")), (*path, name))
        for name in ("client_id", "client_secret", "audience", "resource")
    }
    return SwapTerms(url, **texts, scopes=tuple(cast("list[str]", section.get("scopes") or [])))


def maybe_add_url_fault(url: str, path: Path, findings: Findings) -> None:
    """Says what is wrong with the address of somebody whom secrets are sent to."""
    try:
        found = parse_url(url)
    except ConfigError as error:
        findings.add_error(path, error)
        return
    place = spoken_place(path)
    if "?" in url or "#" in url or "@" in url:
        findings.add(path, f"{place} must have no query, fragment or user")
    elif not found.is_tls and found.host not in ("localhost", "127.0.0.1", "::1"):
        findings.add(path, f"{place} must begin with https://: others could read what is sent there")
