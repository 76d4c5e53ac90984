"""Rules that recorded calls suggest: each with what supports it, or why it is not suggested."""

from __future__ import annotations

import math
import re
from typing import Any

from msgspec import Struct

from penstock.learn.profiles import PATTERNS, FieldProfile, Profiles
from penstock.observe.masking import Masker
from penstock.policy.masks import mask_secrets

ENUM = 12
UNSEEN = 0.01
"""Good-Turing: the share of values seen once is about the chance that the next one is new."""

ALLOW_LIST_SESSIONS = 50


class Suggestion(Struct):
    """One rule, and what it is made of."""

    id: str
    what: str  # in words
    conditions: list[Any]
    actions: list[Any]
    support: int  # calls
    tool: str = ""
    path: str = ""
    held_out: int = 0  # calls of the other sessions that it is about
    refused: int = 0  # and of these
    first_refused: int = 0  # the first such message


class Suggestions(Struct):
    """All of them, and those that are none."""

    rules: list[Suggestion]
    reasons: list[str]  # "not suggested, because"


def suggest(profiles: Profiles, least: int) -> Suggestions:
    """What the calls suggest, where at least so many support it."""
    out = Suggestions([], [])
    _suggest_tools(profiles, out)
    for (tool, path), profile in sorted(profiles.fields.items()):
        if profile.count < least:
            out.reasons.append(f"{tool} {path}: {profile.count:,} calls are fewer than {least:,}")
            continue
        if len(profile.kinds) > 1:
            out.reasons.append(f"{tool} {path}: its values are of several types")
            continue
        _suggest_field(tool, path, profile, out)
    if sum(profiles.tools.values()) >= least:
        limit = 2 * profiles.busiest
        out.rules.append(
            Suggestion(
                "rate",
                f"at most {limit:,} calls a minute and session; the busiest minute had {profiles.busiest:,}",
                [{"method_equals": "tools/call"}],
                [{"rate_limit": {"limit": limit, "window": "60s"}}],
                sum(profiles.tools.values()),
            )
        )
    return out


def _suggest_tools(profiles: Profiles, out: Suggestions) -> None:
    if len(profiles.sessions) < ALLOW_LIST_SESSIONS:
        out.reasons.append(
            f"allow-list: {len(profiles.sessions):,} sessions are fewer than {ALLOW_LIST_SESSIONS}"
        )
        return
    names = sorted(profiles.tools)
    if any(sign in name for name in names for sign in "*?["):
        out.reasons.append("allow-list: a tool has a sign in its name that stands for others")
        return
    out.rules.append(
        Suggestion(
            "only-used-tools",
            f"only the {len(names):,} tools that {len(profiles.sessions):,} sessions have called",
            [{"method_equals": "tools/call"}, {"not": {"tool": names}}],
            [{"block": "No session has called this tool"}],
            sum(profiles.tools.values()),
        )
    )


def _suggest_field(tool: str, path: str, profile: FieldProfile, out: Suggestions) -> None:
    if _is_secret(path, profile):
        out.reasons.append(f"{tool} {path}: its values may be secrets, which are not printed")
        return
    if "number" in profile.kinds:
        _add(out, tool, path, profile, *_range(path, profile))
        return
    if "boolean" in profile.kinds:
        return
    values, unseen = profile.values, 1.0
    if values is not None:
        unseen = sum(1 for count in values.values() if count == 1) / profile.count
    if values is not None and len(values) <= ENUM and unseen <= UNSEEN:
        words = f"one of {len(values)} values"
        _add(
            out,
            tool,
            path,
            profile,
            "enum",
            words,
            _not({"param_in": {"field": path, "values": sorted(values)}}),
        )
    elif profile.hosts and len(profile.hosts) <= ENUM and _unseen(profile.hosts, profile.count) <= UNSEEN:
        hosts = "|".join(re.escape(host) for host in sorted(profile.hosts))
        pattern = f"(?i)^https?://({hosts})(:[0-9]+)?([/?#]|$)"
        words = f"a URL with one of {len(profile.hosts)} hosts"
        _add(
            out,
            tool,
            path,
            profile,
            "hosts",
            words,
            _not({"param_matches": {"field": path, "pattern": pattern}}),
        )
    elif profile.is_path and profile.directory is not None and len(profile.directory) >= 2:
        root = "/" + "/".join(profile.directory)
        _add(
            *(out, tool, path, profile, "directory", f"a path below {root}"),
            [{"path_outside": {"fields": path, "roots": root}}],
        )
    elif profile.patterns:
        name = next(name for name in PATTERNS if name in profile.patterns)
        _add(
            *(out, tool, path, profile, "pattern", name),
            _not({"param_matches": {"field": path, "pattern": PATTERNS[name]}}),
        )
    else:
        _suggest_length(tool, path, profile, out, values, unseen)


def _suggest_length(
    tool: str, path: str, profile: FieldProfile, out: Suggestions, values: Any, unseen: float
) -> None:
    why = f"{len(values):,} values" if values is not None else "very many values"
    if values is not None and len(values) <= ENUM:
        why = f"the next value is new with a chance of about {unseen:.0%}"
    out.reasons.append(f"{tool} {path}: a list of values, {why}")
    longest = widened(profile.longest)
    if longest <= 1000:  # what a pattern may count
        pattern = f"(?s)^.{{0,{longest}}}$"
        words = f"at most {longest:,} characters; the longest had {profile.longest:,}"
        _add(
            out,
            tool,
            path,
            profile,
            "length",
            words,
            _not({"param_matches": {"field": path, "pattern": pattern}}),
        )


def _range(path: str, profile: FieldProfile) -> tuple[str, str, list[Any]]:
    high = widened(profile.high) if profile.high > 0 else 0
    low = 0 if profile.low >= 0 else -widened(-profile.low)
    words = f"a number from {low:g} to {high:g}; seen were {profile.low:g} to {profile.high:g}"
    outside = [
        {"param_less_than": {"field": path, "value": low}},
        {"param_greater_than": {"field": path, "value": high}},
    ]
    return "range", words, [{"any": outside}]


def widened(value: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50 ... that is no less."""
    if value <= 1:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return next(int(step * power) for step in (1, 2, 5, 10) if step * power >= value)


def _not(condition: Any) -> list[Any]:
    return [{"not": condition}]


def _unseen(counts: Any, total: int) -> float:
    return sum(1 for count in counts.values() if count == 1) / total


def _add(
    out: Suggestions,
    tool: str,
    path: str,
    profile: FieldProfile,
    kind: str,
    words: str,
    conditions: list[Any],
) -> None:
    if any(sign in tool for sign in "*?["):
        return
    name = re.sub(r"[^a-z0-9]+", "-", f"{tool}-{path.removeprefix('arguments.')}-{kind}".lower()).strip("-")
    known = {rule.id for rule in out.rules}
    number = 2
    unique = name
    while unique in known:
        unique, number = f"{name}-{number}", number + 1
    where = [{"tool": tool}, {"param_exists": path}]
    out.rules.append(
        Suggestion(
            unique,
            f"{tool} {path}: {words}",
            [*where, *conditions],
            [{"block": f"{path.removeprefix('arguments.')} is not as in recorded calls"}],
            profile.count,
            tool,
            path,
        )
    )


def _is_secret(path: str, profile: FieldProfile) -> bool:
    name = path.rpartition(".")[2]
    if Masker().value({name: "x" * 16}) != {name: "x" * 16}:
        return True
    return any(mask_secrets(value) != value for value in profile.values or () if isinstance(value, str))
