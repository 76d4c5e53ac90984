"""`penstock rules`: trying the rules of a file on messages that are given, before any client meets them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from penstock.config_file import ConfigReading, read_bytes
from penstock.errors import ConfigError, ProtocolError
from penstock.policy.interceptor_config import InterceptorConfig
from penstock.policy.outcome import Outcome, Pass
from penstock.rehearsal import Rehearsal, RehearsedEffects, read_message, verdict_of
from penstock.rule_tests import read_tests
from penstock.say import one_line
from penstock.wire.message import Kind, Message


def run_tests(path: str) -> int:
    """Runs the fixtures of a file and says how each went; 1 if one of them failed."""
    reading, config = _read(path)
    tests = read_tests(reading)
    if not tests:
        raise ConfigError(
            f"There are no tests in {path}", "Add tests: to it, or put FILE.tests.yaml beside it"
        )
    failed = 0
    for test in tests:
        differences = test.run(config)
        if differences:
            failed += 1
            _say(f"FAILED  {test.name}  ({test.place})")
            for difference in differences:
                _say(f"        {difference}")
        else:
            _say(f"ok      {test.name}")
    count = "1 test" if len(tests) == 1 else f"{len(tests)} tests"
    _say(f"{count}, {failed} failed")
    sys.stdout.flush()
    return 1 if failed else 0


def explain(path: str) -> int:
    """Says what the rules of a file would do with the message on stdin, and why."""
    _, config = _read(path)
    raw = sys.stdin.buffer.read().strip()
    try:
        message = read_message(raw, "client")
    except ProtocolError as error:
        raise ConfigError("The message on stdin would be refused", error.reason) from None
    for line in explained(config, message):
        _say(line)
    sys.stdout.flush()
    return 0


def explained(config: InterceptorConfig, message: Message) -> Iterator[str]:
    """Rule by rule, which conditions hold; then what becomes of the message."""
    effects = RehearsedEffects()
    rehearsal = Rehearsal(config, effects)
    kind = message.kind.name.lower()
    yield f"A {kind} of the client's" + (f": {message.method}" if message.method else "")
    context = rehearsal.context(message, "client")
    for rule in rules_in_order(config):
        yield from _explain_rule(rule, message, context)
    yield from _explain_outcome(rehearsal.play(message, "client"), message, effects)


def _explain_rule(rule: Any, message: Message, context: Any) -> Iterator[str]:
    if not rule.enabled:
        yield f"rule {rule.id}: is not enabled"
        return
    if rule.direction not in ("client", "both"):
        yield f"rule {rule.id}: is for messages of the upstream's"
        return
    held = [condition.holds(message, context) for condition in rule.conditions]
    yield f"rule {rule.id}: {'its conditions hold' if all(held) else 'does not apply'}"
    for condition, holds in zip(rule.conditions, held, strict=True):
        yield f"  {'holds ' if holds else 'fails '}  {says(condition)}"
    if all(held):
        for action in rule.actions:
            yield f"  would    {says(action)}"


def _explain_outcome(outcome: Outcome, message: Message, effects: RehearsedEffects) -> Iterator[str]:
    for sentence in effects.told:
        yield f"beside that: {sentence}"
    verdict = outcome.verdict
    name = verdict_of(outcome)
    if isinstance(verdict, Pass):
        if not verdict.changed:
            yield "outcome: it passes, byte for byte"
        else:
            yield "outcome: it passes, changed:"
            yield f"  {verdict.raw.decode('utf-8', 'replace')}"
        return
    by = f" by {outcome.blocked_by}" if outcome.blocked_by else ""
    if name == "drop":
        yield f"outcome: dropped{by}" + (f": {outcome.reason}" if outcome.reason else "")
    else:
        yield f"outcome: {'answered here' if name == 'answer' else 'blocked'}{by}; the client is told:"
        yield f"  {(verdict.raw or b'').decode('utf-8', 'replace')}"


def _read(path: str) -> tuple[ConfigReading, InterceptorConfig]:
    reading = ConfigReading(path, read_bytes(path))
    config = reading.config.interceptor
    if config is None:
        raise ConfigError(f"There are no rules in {path}", "It has no interceptor section")
    return reading, config


def _say(line: str) -> None:
    sys.stdout.write(one_line(line) + "\n")
