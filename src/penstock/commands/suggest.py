"""`penstock suggest`: rules that fit recorded calls, tried on sessions that they were not made from."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

import msgspec

from penstock.arguments import Parser, whole_number
from penstock.commands.backtest_run import STOPPED, Judge
from penstock.commands.filtered import recordings_of
from penstock.commands.results import json_text
from penstock.config.file import parse_file
from penstock.errors import ConfigError
from penstock.learn.events import event_of_row, read_events, read_rows
from penstock.learn.profiles import Profiles
from penstock.learn.suggestions import Suggestion, Suggestions, suggest
from penstock.wire.mcp.replies import one_line

USAGE = (
    "penstock suggest RECORDING... [--hold-out SHARE] [--min-support N] [--max-refused N] [--out FILE] "
    "[--format table|json]"
)
_LEAST_SESSIONS = 10


def parser() -> Parser:
    """The parser of `penstock suggest`."""
    made = Parser(
        prog="penstock suggest",
        usage=USAGE,
        description="Suggest rules that fit recorded calls. The last sessions are held out: each rule is "
        "tried on them, and one that would have refused more of their calls than --max-refused is not "
        "suggested. Nothing is put in force: the file is for you to read.",
    )
    add = made.add_argument
    add("files", nargs="+", metavar="RECORDING", help="recordings to learn from, or folders of them")
    add("--hold-out", default="30%", metavar="SHARE", help="of the sessions, the last ones; default 30%%")
    add(
        "--min-support",
        type=whole_number,
        default=20,
        metavar="CALLS",
        help="calls that a rule needs; default 20",
    )
    add(
        "--max-refused",
        type=whole_number,
        default=0,
        metavar="CALLS",
        help="held-out calls it may refuse; default 0",
    )
    add("--out", metavar="FILE", help="write the configuration there, and not to stdout")
    made.add_format("the configuration, or one JSON object with its rules, their counts and the reasons")
    return made


def run(options: argparse.Namespace) -> int:
    """Suggests rules; gives back the exit code."""
    logging.getLogger("penstock").setLevel(logging.ERROR)
    files = recordings_of(options.files)
    held, profiles, count = learn(files, _share(options.hold_out))
    found = suggest(profiles, max(1, options.min_support))
    asyncio.run(_try_all(files, held, found, options.max_refused))
    text = as_yaml(found, count, len(held))
    config = parse_file("suggested.yaml", text.encode())  # what check would say
    assert config.interceptor is not None
    shown = text if options.format == "table" else as_json(found, count, len(held), text)
    if options.out is None:
        sys.stdout.write(shown)
    else:
        try:
            with open(options.out, "w", encoding="utf-8") as file:
                file.write(shown)
        except OSError as why:
            raise ConfigError(f"Cannot write {options.out}", str(why.strerror or why)) from None
        sys.stdout.write(
            f"{len(found.rules):,} rules in {options.out}; {len(found.reasons):,} not suggested.\n"
        )
    return 0


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ConfigError(f'Invalid --hold-out: "{text}"', "It must be a share such as 30%")
    return share


def learn(files: list[str], share: float) -> tuple[frozenset[str], Profiles, int]:
    """The sessions that are held out, and what the calls of the others are like."""
    first: dict[str, float] = {}
    for event in read_events(files, "looked at"):
        first.setdefault(event.session, event.time)
    order = sorted(first, key=lambda session: first[session])
    if len(order) < _LEAST_SESSIONS:
        raise ConfigError(
            f"There are {len(order)} sessions with calls in the recordings",
            f"Rules can be suggested from {_LEAST_SESSIONS} on",
        )
    held = frozenset(order[len(order) - max(1, round(len(order) * share)) :])
    profiles = Profiles()
    for event in read_events(files, "learned"):
        if event.session not in held:
            profiles.add(event)
    return held, profiles, len(order)


async def _try_all(files: list[str], held: frozenset[str], found: Suggestions, most: int) -> None:
    """Tries the whole file on what was held out, until no rule in it refuses too much."""
    while True:
        for rule in found.rules:
            rule.held_out = rule.refused = rule.first_refused = 0
        await _try(files, held, found.rules)
        bad = [rule for rule in found.rules if rule.refused > most]
        if not bad:
            return
        found.rules = [rule for rule in found.rules if rule.refused <= most]
        for rule in bad:
            found.reasons.append(
                f"{rule.what}: it would have refused {rule.refused:,} of {rule.held_out:,} held-out calls, "
                f"the first of them message {rule.first_refused:,}"
            )


async def _try(files: list[str], held: frozenset[str], rules: list[Suggestion]) -> None:
    by_id = {rule.id: rule for rule in rules}
    text = msgspec.json.encode({"interceptor": {"rules": [_tree(rule) for rule in rules]}})
    judge = Judge(parse_file("suggested.json", text))
    for row in read_rows(files, "tried"):
        if row.line.s not in held or row.line.verdict in STOPPED:
            continue
        judged = await judge.judge(row.line)
        event = event_of_row(row)
        if event is None or event.is_answer:
            continue
        for rule in rules:
            if rule.tool in ("", event.tool):
                rule.held_out += 1
        if judged is not None and judged.word in STOPPED and judged.rule in by_id:
            rule = by_id[judged.rule]
            rule.refused += 1
            rule.first_refused = rule.first_refused or row.line.i


def _tree(rule: Suggestion) -> dict[str, object]:
    return {"id": rule.id, "conditions": rule.conditions, "actions": rule.actions}


def as_yaml(found: Suggestions, sessions: int, held: int) -> str:
    """The file: each rule under what supports it, and at the end what was not suggested."""
    lines = [
        f"# Suggested by penstock suggest from {sessions - held:,} sessions; {held:,} later ones held out.",
        "# Each rule says how many calls support it, how many held-out calls it is about, and how many of",
        "# those it would have refused. Read it before you use it.",
        "interceptor:",
        "  rules:" if found.rules else "  rules: []",
    ]
    for rule in found.rules:
        lines += [f"    {line}" for line in _rule_lines(rule)]
    if found.reasons:
        lines += ["# not suggested, because", *(f"# - {one_line(reason)}" for reason in found.reasons)]
    return "\n".join(lines) + "\n"


def _rule_lines(rule: Suggestion) -> list[str]:
    about = f"support {rule.support:,} calls; held out {rule.held_out:,} calls, {rule.refused:,} refused"
    return [
        f"# {one_line(rule.what)}",
        f"# {about}",
        f"- id: {_json(rule.id)}",
        "  conditions:",
        *(f"    - {_json(condition)}" for condition in rule.conditions),
        "  actions:",
        *(f"    - {_json(action)}" for action in rule.actions),
    ]


def as_json(found: Suggestions, sessions: int, held: int, text: str) -> str:
    """The same for programs: each rule with its figures and its lines of the file."""
    rules = [
        {
            "id": rule.id,
            "what": one_line(rule.what),
            "support": rule.support,
            "held_out": rule.held_out,
            "refused": rule.refused,
            "yaml": "\n".join(_rule_lines(rule)) + "\n",
        }
        for rule in found.rules
    ]
    reasons = [one_line(reason) for reason in found.reasons]
    whole = {"sessions": sessions, "held": held, "rules": rules, "reasons": reasons, "yaml": text}
    return json_text(whole)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
