"""What of a client's own headers goes to an upstream: the key `auth` of one that has a `url`."""

from __future__ import annotations

from typing import cast

from penstock.config.check import Findings, Section
from penstock.config.formats.document import Path
from penstock.config.model import make_header
from penstock.errors import ConfigError
from penstock.policy.faults import spoken_place

_OURS = frozenset(("authorization", "cookie", "origin"))


def read_outbound(
    section: Section, path: Path, findings: Findings
) -> tuple[bool | None, tuple[tuple[bytes, bytes], ...]]:
    """Whether clients' headers stay here, and which go on by another name. What relays, strips the rest."""
    auth = cast(Section, section["auth"] or {})
    relay = cast("dict[str, str]", auth.get("relay") or {})
    place = spoken_place(path)
    if relay and auth.get("mode") == "pass":
        findings.add(path, f"{place} cannot be both pass and relay: what relays, strips all others")
    if not relay and "mode" not in auth:
        findings.add(path, f"{place} must be strip, pass, or {{relay: {{HEADER: HEADER}}}}")
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
    return (bool(relay) or auth.get("mode") == "strip"), tuple(out)
