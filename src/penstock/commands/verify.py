"""`penstock verify`: does the upstream still answer as it did when it was recorded? For CI."""

from __future__ import annotations

import argparse
import logging
import sys
from xml.sax.saxutils import escape, quoteattr

from penstock import cli
from penstock.arguments import Parser, add_upstream_options, proxy_parser
from penstock.commands.results import FOUND, json_text
from penstock.config.model import NO_FILE, CommandUpstream, ProxyConfig, seconds
from penstock.errors import UpstreamError, UsageError
from penstock.observe.progress import Progress
from penstock.observe.reader import open_recording
from penstock.observe.verification import (
    Result,
    Session,
    Verification,
    read_sessions,
    shown_question,
    writes_in,
)
from penstock.wire.mcp.replies import one_line

log = logging.getLogger("penstock")

USAGE = "penstock verify FILE [OPTIONS] (--upstream URL | --config FILE | -- COMMAND [ARGS...])"
_OWN = {"--calls": 1, "--ignore": 1, "--update": 1, "--format": 1, "--timeout": 1}


def parser() -> Parser:
    """The parser of `penstock verify`."""
    made = Parser(
        prog="penstock verify",
        usage=USAGE,
        description="Ask an upstream again what clients asked it in a recording, and compare its answers. "
        "What was denied, blocked or refused is never sent. With --deny, --allow, --read-only or --config "
        "the gate stands between. Exit 3 when an answer differs.",
    )
    add_upstream_options(made)
    add = made.add_argument
    add(
        "--calls",
        choices=("all", "read-only", "none"),
        help="which tool calls are sent; needed if some may write",
    )
    add(
        "--ignore",
        action="append",
        default=[],
        metavar="PATH",
        help="such as result.content.0.text; repeatable",
    )
    add("--update", metavar="OUT", help="write the recording with the answers of today to OUT")
    made.add_format("how to tell the result", "junit")
    add("--timeout", metavar="TIME", default="60s", help="for each answer")
    return made


def run(options: argparse.Namespace) -> int:
    """Asks the upstream again; gives back the exit code."""
    path = options.file
    within = seconds(options.timeout, "--timeout")
    is_gated = bool(options.deny or options.allow or options.read_only or options.config)
    config = _config(options, options.words, is_gated)
    with open_recording(path):
        pass
    sessions, read_only = read_sessions(path, is_gated)
    writes = writes_in(sessions, read_only)
    if options.calls is None and writes:
        raise UsageError(
            f"{writes} of the recorded calls are not annotated read-only",
            "Say --calls all to send them all the same, --calls read-only to leave them out, or --calls none",
        )
    allowed = {"all": None, None: read_only, "read-only": read_only, "none": set()}[options.calls]
    from penstock.net import loop

    loop.import_asyncio("whole")
    results: list[Result] = []
    loop.run(lambda: _run(config, sessions, allowed, within, options.ignore, results), "whole")
    if options.update:
        _update(path, options.update, results)
    sys.stdout.write(_FORMS[options.format](results))
    return FOUND if any(result.state in ("different", "failed") for result in results) else 0


def _config(options: argparse.Namespace, words: list[str], is_gated: bool) -> ProxyConfig:
    if not is_gated:
        return cli.make_config(options, NO_FILE)
    border = words.index("--") if "--" in words else len(words)
    flags, command = words[:border], words[border:]
    kept = []
    while flags:
        word = flags.pop(0)
        name = word.split("=", 1)[0]
        if name in _OWN:
            if "=" not in word and flags:
                flags.pop(0)
        else:
            kept.append(word)
    own = (sys.executable, "-m", "penstock", "--stdio", *kept, *command)
    bare = cli.parse_words(proxy_parser(), ["--", "true"])
    from msgspec import structs

    return structs.replace(cli.make_config(bare, NO_FILE), upstream=CommandUpstream(own))


async def _run(
    config: ProxyConfig,
    sessions: list[Session],
    allowed: set[str] | None,
    seconds: float,
    ignored: list[str],
    results: list[Result],
) -> int:
    from penstock.net.warden import Warden
    from penstock.open_links import open_upstream

    warden = Warden()
    progress = Progress("messages", sum(len(session.steps) for session in sessions), every=1)
    try:
        for session in sessions:
            link = open_upstream(config, warden)
            try:
                results += await Verification(link, session, allowed, seconds).run(ignored, progress.add)
            except UpstreamError as why:
                log.error("%s", why.headline)
                results += [
                    Result(step, "failed", why=why.headline) for step in session.steps if step.is_request
                ]
            finally:
                await link.close()
    finally:
        progress.end()
        warden.dismiss()
    return 0


def _update(path: str, out: str, results: list[Result]) -> None:
    """Copies the recording with new answers in the place of the old ones."""
    from penstock.observe.rewriting import rewrite

    fresh = {result.step.answer_index: result.raw for result in results if result.raw is not None}
    rewrite(path, out, lambda line: fresh.get(line.i, line.raw))


# --- forms ------------------------------------------------------------------------------------------------


def _summary(results: list[Result]) -> str:
    counted = {state: sum(result.state == state for result in results) for state in ("same", "different")}
    text = f"{len(results)} requests: {counted['same']} same, {counted['different']} different"
    for state in ("failed", "skipped"):
        count = sum(result.state == state for result in results)
        text += f", {count} {state}" if count else ""
    return text


def _as_text(results: list[Result]) -> str:
    lines = []
    for result in results:
        if result.state in ("different", "failed"):
            where = ", ".join(result.paths) or result.why
            lines.append(
                one_line(f"{result.state:<9}  {result.step.index}  {shown_question(result.step)}  {where}")
            )
    return "\n".join([*lines, _summary(results)]) + "\n"


def _as_json(results: list[Result]) -> str:
    report = {
        "summary": _summary(results),
        "results": [
            {
                "i": result.step.index,
                "method": result.step.method,
                "tool": result.step.tool,
                "state": result.state,
                "paths": result.paths,
                "why": result.why,
            }
            for result in results
        ],
    }
    return json_text(report)


def _as_junit(results: list[Result]) -> str:
    counted = {
        state: sum(result.state == state for result in results)
        for state in ("different", "failed", "skipped")
    }
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="penstock verify" tests="{len(results)}" failures="{counted["different"]}" '
        f'errors="{counted["failed"]}" skipped="{counted["skipped"]}">',
    ]
    for result in results:
        name = quoteattr(one_line(f"{result.step.index} {shown_question(result.step)}"))
        lines.append(f'  <testcase classname="penstock.verify" name={name}>')
        if result.state == "different":
            lines.append(f"    <failure>{escape(one_line(', '.join(result.paths)))}</failure>")
        elif result.state == "failed":
            lines.append(f"    <error>{escape(one_line(result.why))}</error>")
        elif result.state == "skipped":
            lines.append("    <skipped/>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>"]) + "\n"


_FORMS = {"table": _as_text, "json": _as_json, "junit": _as_junit}
