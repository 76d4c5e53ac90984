"""`penstock check FILE`: every fault of a configuration, or what a good one will do, in plain words."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.arguments import Parser
from penstock.commands.results import json_text
from penstock.config.file import ConfigReading, read_bytes
from penstock.config.model import CommandUpstream, FileConfig, SeveralUpstreams, UrlUpstream
from penstock.errors import FaultyFile
from penstock.wire.mcp.replies import one_line

if TYPE_CHECKING:
    from penstock.policy.rules.interceptor_config import InterceptorConfig


def parser() -> Parser:
    """The parser of `penstock check`."""
    found = Parser(
        prog="penstock check",
        usage="penstock check FILE [--format table|json]",
        description="Say whether a configuration file is right: every fault with its line and a hint, or, "
        "if it is, what it will do, in plain words.",
    )
    found.add_argument("file", metavar="FILE", help="the configuration file")
    found.add_format("sentences, or one JSON object with the faults, or with what it will do")
    return found


def run(options: argparse.Namespace) -> int:
    """Checks the file."""
    if options.format == "table":
        return check(options.file)
    try:
        told: dict[str, object] = {"ok": True, "does": list(_checked(options.file))}
    except FaultyFile as why:
        told = {"ok": False, "faults": [{"line": line, "text": text} for line, text in why.faults]}
    sys.stdout.write(json_text(told))
    return 0 if told["ok"] else 1


def check(path: str) -> int:
    """Prints what the file will do; raises FaultyFile with all that is wrong with it."""
    for line in _checked(path):
        sys.stdout.write(one_line(line) + "\n")
    sys.stdout.flush()
    return 0


def _checked(path: str) -> Iterator[str]:
    """What the file will do, a line each. Raises FaultyFile."""
    reading = ConfigReading(path, read_bytes(path))
    from penstock.commands.rule_fixtures import read_tests

    check_meaning(reading)
    read_tests(reading)
    yield from summarize(reading.config)


def check_meaning(reading: ConfigReading) -> None:
    """Notes what is well-formed and yet cannot be meant."""
    if reading.config.interceptor is None:
        return
    from penstock.config.rule_check import check_rules

    check_rules(reading.config.interceptor, reading.findings)
    if reading.config.dashboard is None:
        from penstock.config.approvals import check_approvals

        check_approvals(reading.config.interceptor, reading.findings)


SHARED_SESSIONS = (
    "Note: over HTTP, clients of protocol version 2026-07-28 that send no Authorization header are one "
    "session to these rules, since whatever else tells them apart they could make up. What is counted or "
    "remembered by session they share. To tell them apart, let them authenticate, or key by something in the "
    "call: ${param.PATH}."
)


def _observed(config: FileConfig) -> Iterator[str]:
    """What is kept, counted and traced."""
    if not config.observe:
        return
    from penstock.observe.settings import make_settings

    settings = make_settings(None, dict(config.observe))
    for name, kept in (("Recording", settings.record), ("Audit", settings.audit)):
        if kept is not None:
            then = "requests are refused" if kept.blocks else "traffic goes on"
            yield f"{name}: {kept.file}; when it cannot be written, {then}."
    if settings.metrics is not None:
        yield f"Metrics: at {settings.metrics[0]}:{settings.metrics[1]}/metrics."
    if settings.telemetry is not None:
        yield f"Traces: to {settings.telemetry.otlp or 'where OTEL_* variables say'}."


def _remembers_sessions(config: InterceptorConfig) -> bool:
    """Whether anything is counted or remembered for each session on its own."""
    from penstock.policy.rules.actions import RateLimit, SetState

    return any(
        isinstance(action, SetState) or (isinstance(action, RateLimit) and "session_id" in action.key.source)
        for rule in config.rules + config.transport_rules
        for action in rule.actions
    ) or any(getattr(guard.object, "counts_sessions", False) for _, guard in config.guards)


def summarize(config: FileConfig) -> Iterator[str]:
    """What a configuration does, a line each. Values that may be secrets are not shown."""
    yield f"{config.path} is right."
    yield from _upstream(config.upstream)
    yield from _tools(config)
    yield from _doors(config)
    if config.access is not None:
        from penstock.commands.check_access import summarize_access

        yield from summarize_access(config.access)
    if config.validate == "off":
        yield "Validate: off. What nobody looks at passes as it comes."
    elif config.validate is not None:
        withheld = " and withheld" if config.validate == "strict" else ""
        yield f"Validate: what the upstream sends against the MCP schema is told{withheld}."
    yield from _observed(config)
    from penstock.commands.check_running import summarize_running

    yield from summarize_running(config)
    if config.interceptor is None:
        yield "Rules: none."
        return
    from penstock.policy.rules.interceptor_config import describe
    from penstock.policy.rules.path_words import wide_paths

    yield "Rules:"
    for line in describe(config.interceptor):
        yield f"  {line}"
    reached = list(wide_paths(config.interceptor.rules))
    if reached:
        yield "Paths in these rules, and what they reach:"
        yield from (f"  {words}" for words in reached)
    if not config.is_stdio and _remembers_sessions(config.interceptor):
        yield SHARED_SESSIONS


def _upstream(upstream: CommandUpstream | UrlUpstream | SeveralUpstreams | None) -> Iterator[str]:
    if upstream is None:
        yield "Upstream: none here; the command line must name it."
    elif isinstance(upstream, SeveralUpstreams):
        from penstock.commands.several_words import describe_several

        yield from describe_several(upstream)
    elif isinstance(upstream, UrlUpstream):
        names = ", ".join(name.decode() for name, _ in upstream.headers)
        loss = "look for it again" if upstream.reconnect else "exit"
        yield f"Upstream: {upstream.url.origin}{upstream.url.target.partition(b'?')[0].decode()}"
        if names:
            yield f"  with headers: {names}"
        yield f"  when it goes away: {loss}"
    else:
        yield f"Upstream: spawn {shlex.join(upstream.command)}"
        if upstream.cwd is not None:
            yield f"  in {upstream.cwd}"
        if upstream.env:
            yield f"  with variables: {', '.join(name for name, _ in upstream.env)}"


def _tools(config: FileConfig) -> Iterator[str]:
    choice = config.choice
    if not choice.is_active:
        yield "Tools: all of the upstream's."
        return
    if choice.allow:
        yield f"Tools: only those that match {_or(choice.allow)}"
    else:
        yield "Tools: all of the upstream's"
    if choice.deny:
        yield f"  without those that match {_or(choice.deny)}"
    if choice.read_only:
        yield "  without those that are not annotated readOnlyHint: true"
    if choice.strict_arguments:
        yield "  with arguments of the declared types only"


def _or(patterns: tuple[object, ...]) -> str:
    return " or ".join(str(getattr(pattern, "source", pattern)) for pattern in patterns)


def _doors(config: FileConfig) -> Iterator[str]:
    if config.listen is not None:
        host, port = config.listen
        shown = f"[{host}]" if ":" in host else host
        yield f"Clients: over HTTP at {shown}:{port}, unless the command line says --stdio."
    elif config.is_stdio:
        yield "Clients: one, over stdin and stdout, unless the command line says --listen."
    else:
        yield "Clients: over stdin if it is a pipe, else over HTTP; the command line may say which."
