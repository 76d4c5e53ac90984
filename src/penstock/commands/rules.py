"""`penstock rules`: trying the rules of a file on messages that are given, before any client meets them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from penstock.arguments import Parser
from penstock.commands.dry_run import DryRun, DryRunEffects, blocker_of, read_message
from penstock.commands.results import FOUND, json_text, say
from penstock.commands.rule_fixtures import read_tests
from penstock.config.file import ConfigReading, read_bytes
from penstock.errors import ConfigError, ProtocolError
from penstock.logs import set_up_log
from penstock.policy.rules.exchange import Context, Direction
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.rules.rule_entries import says
from penstock.policy.rules.rules import Rule, RuleSet
from penstock.policy.verdict import Answer, Decided, Drop
from penstock.wire.mcp.message import Kind, Message


def parser() -> Parser:
    """The parser of `penstock rules`."""
    found = Parser(
        prog="penstock rules",
        usage="penstock rules (test FILE | explain FILE [--from client|upstream] < MESSAGE) "
        "[--format table|json]",
        description="Try rules without an upstream: run the fixtures in the file or beside it, or say what "
        "the rules would do with the messages on stdin. test exits with 3 when a fixture fails.",
    )
    add = found.add_argument
    add("verb", metavar="test|explain", choices=("test", "explain"), help="what to do with the rules")
    add("--from", choices=("client", "upstream"), dest="sender", help="who sent the messages on stdin")
    add("file", metavar="FILE", help="the configuration file")
    found.add_format("sentences, or one JSON object")
    return found


def run(options: argparse.Namespace) -> int:
    """Tests or explains the rules of the file."""
    if options.verb == "test":
        return run_tests(options.file, options.format)
    return explain(options.file, options.sender, options.format)


def run_tests(path: str, form: str) -> int:
    """Runs the fixtures of a file and says how each went; FOUND if one of them failed."""
    set_up_log("error", "text")  # rules that log would talk between the lines
    reading, config = read_rules_of(path)
    tests = read_tests(reading)
    if not tests:
        raise ConfigError(
            f"There are no tests in {path}", "Add tests: to it, or put them beside it in NAME.tests.yaml"
        )
    results = [(test, list(test.run(config))) for test in tests]
    failed = sum(bool(differences) for _, differences in results)
    if form == "json":
        rows = [{"name": test.name, "place": test.place, "differences": found} for test, found in results]
        sys.stdout.write(json_text({"tests": rows, "failed": failed}))
        return FOUND if failed else 0
    for test, differences in results:
        say(f"FAILED  {test.name}  ({test.place})" if differences else f"ok      {test.name}")
        for difference in differences:
            say(f"        {difference}")
    count = "1 test" if len(tests) == 1 else f"{len(tests)} tests"
    say(f"{count}, {failed} failed")
    sys.stdout.flush()
    return FOUND if failed else 0


def explain(path: str, sender: Direction | None, form: str) -> int:
    """Says what the rules of a file would do with the message on stdin, and why.

    Of several, one a line, the earlier ones are the session so far. Requests and notifications count as the
    client's and responses as the upstream's, unless `sender` says who sent the last one.
    """
    set_up_log("info", "text")
    _, config = read_rules_of(path)
    messages = _messages(sys.stdin.buffer.read(), sender)
    *before, (message, direction) = messages
    effects = DryRunEffects()
    dry_run = DryRun(config, effects)
    for earlier, side in before:
        dry_run.play(earlier, side)
    effects.told.clear()
    lines = list(explained(dry_run, message, direction))
    if form == "json":
        sys.stdout.write(json_text({"explained": lines}))
    else:
        for line in lines:
            say(line)
    sys.stdout.flush()
    return 0


def _messages(data: bytes, sender: Direction | None) -> list[tuple[Message, Direction]]:
    lines = [line for line in data.split(b"\n") if line.strip()]
    if not lines:
        raise ConfigError("There is no message on stdin", "Give it one, as a line of JSON: ... < MESSAGE")
    try:
        return [_message(data.strip(), sender)]
    except ProtocolError as error:
        # One message over several lines that is wrong somewhere, or several messages?
        if len(lines) < 2 or not all(line.lstrip().startswith(b"{") for line in lines):
            raise _refused(error) from None
    try:
        return [_message(line, None) for line in lines[:-1]] + [_message(lines[-1], sender)]
    except ProtocolError as error:
        raise _refused(error) from None


def _refused(error: ProtocolError) -> ConfigError:
    return ConfigError("The message on stdin would be refused", error.reason)


def _message(raw: bytes, sender: Direction | None) -> tuple[Message, Direction]:
    if sender is None:
        sender = "upstream" if read_message(raw, "upstream").kind is Kind.RESPONSE else "client"
    return read_message(raw, sender), sender


def explained(dry_run: DryRun, message: Message, direction: Direction) -> Iterator[str]:
    """Rule by rule, which conditions hold; then what becomes of the message."""
    config = dry_run.interceptor.config
    name = f": {message.method}" if message.method else ""
    yield f"{message.kind.name.capitalize()} of the {direction}{name}"
    if not config.enabled:
        yield "The interceptor is switched off."
    context = dry_run.context(message, direction)
    for method, guard in config.guards:
        if method == message.method and guard.wants(method, direction):
            yield f"method interceptor: {guard.words()}"
    for rule in RuleSet(config.rules).rules:
        yield from _explain_rule(rule, message, context)
    yield from (f"rule {rule.id}: is switched off" for rule in config.rules if not rule.enabled)
    for custom in config.generals:
        if custom.wants(message.method, direction):
            yield f"general interceptor: {custom.words()}"
    yield from _explain_verdict(dry_run.play(message, direction), direction, dry_run.effects)


def _explain_rule(rule: Rule, message: Message, context: Context) -> Iterator[str]:
    """What the rule makes of the message as it came in; an earlier rule may yet change it."""
    if context.direction not in rule.senders:
        yield f"rule {rule.id}: is for messages of the {rule.senders[0]}"
        return
    held = []
    lines = []
    for condition in rule.conditions:
        try:
            holds = condition.holds(message, context, rule.allows)
        except Exception as why:  # as in the chain, a condition that fails is a failed rule
            lines.append(f"  error    {says(condition)}: {why}")
            holds = False
        else:
            lines.append(f"  {'holds' if holds else 'does not hold'}: {says(condition)}")
        held.append(holds)
    yield f"rule {rule.id}: {'applies' if all(held) else 'does not apply'}"
    yield from lines
    if all(held):
        for action in rule.actions:
            yield f"  would: {says(action)}"


def _explain_verdict(verdict: Decided, direction: Direction, effects: DryRunEffects) -> Iterator[str]:
    why = verdict.why
    yield f"rules that applied, in order: {', '.join(why.rules if why is not None else ()) or 'none'}"
    for sentence in effects.told:
        yield f"beside that: {sentence}"
    by = f" by {blocker}" if (blocker := blocker_of(verdict)) else ""
    if isinstance(verdict, Drop):
        yield f"outcome: dropped{by}: {verdict.why.reason}"
        return
    if isinstance(verdict, Answer):
        is_block = verdict.word == "block"
        yield (
            f"outcome: blocked{by}; the {direction} is answered"
            if is_block
            else "outcome: answered from the cache"
        )
        raw = verdict.raw
    elif verdict.message is None:
        yield "outcome: passes, byte for byte"
        return
    else:
        is_block = verdict.word == "block"
        yield f"outcome: blocked{by}; it goes on as an error" if is_block else "outcome: passes, changed to"
        raw = verdict.message.raw
    yield f"  {raw.decode('utf-8', 'replace')}"


def read_rules_of(path: str) -> tuple[ConfigReading, InterceptorConfig]:
    """The file at `path` and its rules. Raises FaultyFile, or ConfigError where it has none."""
    reading = ConfigReading(path, read_bytes(path))
    reading.raise_faults()
    config = reading.config.interceptor
    if config is None:
        raise ConfigError(f"There are no rules in {path}", "It has no interceptor section")
    return reading, config
