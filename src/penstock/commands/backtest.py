"""`penstock backtest`: what other rules would have done to what was recorded. Nothing is sent anywhere."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from msgspec import Struct, field

from penstock.arguments import Parser
from penstock.commands.backtest_run import BEFORE_THE_GATE, STOPPED, Judge, Judged
from penstock.commands.filtered import recordings_of
from penstock.commands.results import FOUND, json_text
from penstock.config.file import load_file
from penstock.config.model import FileConfig
from penstock.errors import ConfigError
from penstock.observe.recording import Line
from penstock.observe.rows import MessageRow
from penstock.observe.told_rows import told_rows
from penstock.wire.mcp.replies import one_line

USAGE = (
    "penstock backtest FILE... --config FILE [--against FILE] [--webhook allow|block] [--script allow|block] "
    "[--format table|json]"
)
_KEPT_INDEXES = 10_000

log = logging.getLogger("penstock")


def parser() -> Parser:
    """The parser of `penstock backtest`."""
    made = Parser(
        prog="penstock backtest",
        usage=USAGE,
        description="Say what the rules of a configuration would have done to recordings: which messages "
        "they would have blocked, passed or changed otherwise. The recorded clock drives limits, ages and "
        "caches; no socket is opened and nothing is started. Exit 3 when something would have differed.",
    )
    add = made.add_argument
    add("files", nargs="+", metavar="FILE", help="recordings, or folders of them")
    add("--config", metavar="FILE", required=True, help="the configuration to try")
    add("--against", metavar="FILE", help="compare with these rules, and not with what was recorded")
    add(
        "--webhook",
        choices=("allow", "block"),
        default="allow",
        help="what webhooks answer that were not asked",
    )
    add("--script", choices=("allow", "block"), default="allow", help="what scripts decide that were not run")
    made.add_format("how to tell the result")
    return made


class Difference(Struct):
    """Messages that went another way, alike in method, name and rule."""

    kind: str
    rule: str
    what: str
    file: str
    count: int = 0
    indexes: list[int] = field(default_factory=list)


class Report(Struct):
    """What a backtest found."""

    messages: int = 0
    sessions: int = 0
    same: int = 0
    newly_blocked: int = 0
    newly_passed: int = 0
    changed: int = 0
    assumed: int = 0
    differences: list[Difference] = field(default_factory=list)
    never_hit: list[str] = field(default_factory=list)

    @property
    def is_different(self) -> bool:
        """Whether anything went another way."""
        return bool(self.newly_blocked or self.newly_passed or self.changed)


def run(options: argparse.Namespace) -> int:
    """Judges everything again; gives back the exit code."""
    log.setLevel(logging.ERROR)  # rules that log would talk between the lines
    new = load_file(options.config)
    old = None if options.against is None else load_file(options.against)
    files = recordings_of(options.files)
    report = Report()
    found = Found([rule.id for rule in new.interceptor.rules if rule.enabled] if new.interceptor else [])
    for path in files:
        # Each file is one process: its limits, its caches, and the tools of its upstream.
        asyncio.run(_Backtest(options, path, (new, old), report, found).run(is_alone=len(files) == 1))
    report.sessions = len(found.sessions)
    report.differences = sorted(
        found.differences.values(), key=lambda one: (one.kind, -one.count, one.rule, one.file)
    )
    report.never_hit = [rule for rule in found.ids if rule not in found.hit]
    sys.stdout.write(json_text(report) if options.format == "json" else _as_text(report, len(files) > 1))
    return FOUND if report.is_different else 0


class Found(Struct):
    """What is known so far, over all files."""

    ids: list[str]  # of the rules that could be hit
    hit: set[str] = field(default_factory=set)
    differences: dict[tuple[str, str, str, str], Difference] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)


class _Backtest:
    """One recording, judged again."""

    def __init__(
        self,
        options: argparse.Namespace,
        path: str,
        configs: tuple[FileConfig, FileConfig | None],
        report: Report,
        found: Found,
    ) -> None:
        new, old = configs
        self._path = path
        self._new = Judge(new, options.webhook, options.script)
        self._old = None if old is None else Judge(old, options.webhook, options.script)
        self._found = found
        self._report = report

    async def run(self, is_alone: bool) -> None:
        """Adds what differs to the report."""
        pages = _first_list(self._path)
        for judge in (self._new, self._old):
            if judge is not None and pages:
                judge.learn(pages)
            if judge is not None and judge.needs_catalog:
                if not is_alone:
                    log.error("%s has no tool list and was left out.", self._path)
                    return
                raise ConfigError(
                    f"There is no tool list in {self._path}",
                    "Which tools a filter keeps cannot be known without one",
                )
        for row in told_rows(self._path, "messages"):
            await self._take(row)

    async def _take(self, row: MessageRow) -> None:
        line, report = row.line, self._report
        if line.sender == "penstock" or line.lost is not None or _is_ours(row):
            return
        self._found.sessions.add(line.s)
        is_outside = line.by in BEFORE_THE_GATE
        new = None if is_outside else await self._new.judge(line)
        old = _recorded(line)
        if self._old is not None and not is_outside:
            old = await self._old.judge(line) or old
        report.messages += 1
        if new is None:
            report.same += 1
            return
        self._found.hit.update((new.rule, *new.rules))
        report.assumed += new.is_assumed
        kind = _difference(old, new)
        if kind is None:
            report.same += 1
            return
        self._note(kind, new.rule if kind == "newly blocked" else old.rule or new.rule, row)

    def _note(self, kind: str, rule: str, row: MessageRow) -> None:
        report = self._report
        report.newly_blocked += kind == "newly blocked"
        report.newly_passed += kind == "newly passed"
        report.changed += kind == "changed otherwise"
        what = f"{row.method} {row.tool}".strip() or row.line.kind
        key = (kind, rule, what, self._path)
        found = self._found.differences.setdefault(key, Difference(*key))
        found.count += 1
        if len(found.indexes) < _KEPT_INDEXES:
            found.indexes.append(row.line.i)
        else:
            found.indexes[-1] = row.line.i


def _is_ours(row: MessageRow) -> bool:
    return row.asked is not None and row.asked.sender == "penstock"


def _recorded(line: Line) -> Judged:
    sent = line.sent if line.verdict == "change" or line.kind == "response" else None
    return Judged(line.verdict, line.by, tuple(line.rules), sent)


def _difference(old: Judged, new: Judged) -> str | None:
    was_stopped, is_stopped = old.word in STOPPED, new.word in STOPPED
    if is_stopped and not was_stopped:
        return "newly blocked"
    if was_stopped and not is_stopped:
        return "newly passed"
    if old.word != new.word or (not is_stopped and old.sent != new.sent):
        return "changed otherwise"
    return None if not is_stopped or old.rule == new.rule else "changed otherwise"


def _first_list(path: str) -> list[bytes]:
    """The pages of the first whole tool list that the upstream gave, whoever asked for it."""
    pages: dict[str, list[bytes]] = {}
    for row in told_rows(path):
        line = row.line
        if (
            line.sender == "upstream"
            and line.kind == "response"
            and row.method == "tools/list"
            and not row.is_error
        ):
            pages.setdefault(line.s, []).append(line.raw)
            if not row.inner("result", "nextCursor"):
                return pages[line.s]
    return []


# --- forms ------------------------------------------------------------------------------------------------


def _as_text(report: Report, is_many: bool) -> str:
    lines = [
        f"{report.messages:,} messages, {report.sessions:,} sessions: {report.same:,} same, "
        f"{report.newly_blocked:,} newly blocked, {report.newly_passed:,} newly passed, "
        f"{report.changed:,} changed otherwise; {report.assumed:,} assumed"
    ]
    for one in report.differences:
        where = f"first {one.indexes[0]:,}, last {one.indexes[-1]:,}" + (f"  {one.file}" if is_many else "")
        lines.append(one_line(f"{one.kind}  {one.rule or '-'}  {one.count:,}  {one.what}  {where}"))
    if report.never_hit:
        lines.append(one_line(f"never hit: {', '.join(report.never_hit)}"))
    return "\n".join(lines) + "\n"
