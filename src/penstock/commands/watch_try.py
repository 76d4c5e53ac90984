"""Pasted rules, tried on messages that came by. Nothing that they name is run or called; nothing is kept."""

from __future__ import annotations

import asyncio
import logging

from msgspec import Raw

from penstock.commands.backtest_run import Judge
from penstock.config.file import ConfigReading
from penstock.errors import ConfigError, FaultyFile
from penstock.observe.recording import Line
from penstock.policy.rules.plugins import without_code
from penstock.watch.masked_text import masked_text
from penstock.watch.row import HubRow

_NAME = "rules.yaml"
_SHOWN = 200
_ALLOWED = frozenset({"interceptor"})


async def try_rules(text: str, rows: list[HubRow]) -> dict[str, object]:
    """What the rules make of each message: faults by line, or verdicts and what is different."""
    log = logging.getLogger("penstock")
    before = log.level
    log.setLevel(logging.CRITICAL)  # rules that log would talk in the middle of it
    try:
        return await _tried(text, rows)
    except FaultyFile as why:
        return {"faults": [{"line": line, "message": words} for line, words in why.faults]}
    except ConfigError as why:
        return {"faults": [{"line": 1, "message": str(why)}]}
    finally:
        log.setLevel(before)


async def _tried(text: str, rows: list[HubRow]) -> dict[str, object]:
    with without_code():
        reading = _read(text)
    judge = Judge(reading.config)
    blocked = changed = passed = 0
    shown: list[dict[str, object]] = []
    verdicts: list[dict[str, object]] = []
    for number, row in enumerate(rows):
        if number % 100 == 99:
            await asyncio.sleep(0)
        if row.is_cut or (row.sender == "client" and row.method == "initialize" and not row.session):
            continue
        judged = await judge.judge(_line(row))
        if judged is None:
            continue
        verdicts.append({"seq": row.seq, "verdict": judged.word, "rule": judged.rule})
        was = row.verdict
        is_new_block = judged.word in _STOPS and was not in _STOPS
        is_new_pass = was in _STOPS and judged.word not in _STOPS
        blocked += is_new_block
        passed += is_new_pass
        is_changed = judged.word == "change" and (was != "change" or judged.sent != row.sent)
        changed += is_changed
        if (is_new_block or is_new_pass or is_changed) and len(shown) < _SHOWN:
            sent = None if judged.sent is None else masked_text(judged.sent, row.masker)
            text_now = row.masked_text() if sent is not None else None
            shown.append(
                {
                    **row.facts(),
                    "was": was,
                    "now": judged.word,
                    "rule": judged.rule,
                    "assumed": judged.is_assumed,
                    "before": text_now,
                    "after": sent,
                }
            )
    return {
        "faults": [],
        "messages": len(verdicts),
        "blocked": blocked,
        "passed": passed,
        "changed": changed,
        "differences": shown,
        "verdicts": verdicts,
    }


_STOPS = frozenset({"block", "deny", "drop", "refuse"})


def _read(text: str) -> ConfigReading:
    """The rules, and nothing else: other sections name files and addresses, and none is looked at here."""
    from penstock.config.file import read_document_or_fail
    from penstock.config.formats.document import Document

    data = text.encode("utf-8", "replace")
    document: Document = read_document_or_fail(_NAME, data)
    tree = document.tree
    if isinstance(tree, dict) and "rules" in tree and "interceptor" not in tree:
        data = b"interceptor:\n" + b"".join(b"  " + line for line in data.splitlines(keepends=True))
        tree = {"interceptor": tree}
    others = sorted(str(name) for name in tree if name not in _ALLOWED) if isinstance(tree, dict) else []
    if others:
        raise FaultyFile(_NAME, [(1, f"only interceptor is tried here, not {others[0]}")])
    reading = ConfigReading(_NAME, data, {})
    reading.raise_faults()
    return reading


def _line(row: HubRow) -> Line:
    """The row as a line of a recording."""
    line = Line(i=row.seq, t=row.time, s=row.session, sender=row.sender, kind=row.kind, verdict=row.verdict)
    line.by, line.applied = (row.rules[0] if row.rules else ""), row.rules
    line.why, line.re, line.era, line.client = row.why, row.request, row.era, row.client
    line.n, line.msg = len(row.raw), Raw(row.raw)
    return line
