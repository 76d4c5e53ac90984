"""Fixtures that say what rules shall do: read, checked, and compared with what they do."""

from __future__ import annotations

import json
import os
from typing import cast

import msgspec
from msgspec import Struct

from penstock.commands.dry_run import Answer, DryRun, DryRunEffects, blocker_of, read_message, verdict_of
from penstock.config.check import Findings, Section, check_section
from penstock.config.file import ConfigReading, read_bytes, read_document_or_fail, say_faults
from penstock.config.formats.document import Document, Path
from penstock.errors import FaultyFile, ProtocolError
from penstock.policy.exchange import Session
from penstock.policy.rules.exchange import Direction
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.verdict import Answer as Answered
from penstock.policy.verdict import Decided, Forward
from penstock.wire.mcp.message import Message


class Expectation(Struct, frozen=True):
    """What shall become of a message. What is None may be anything."""

    verdict: str | None = None
    rule: str | None = None
    reason: str | None = None
    changed: bool | None = None
    message: bytes | None = None
    reply: bytes | None = None

    def differences(self, message: Message, verdict: Decided) -> list[str]:
        """Where the outcome is another, in words."""
        changed = verdict.message if isinstance(verdict, Forward) else None
        passed = (changed or message).raw if isinstance(verdict, Forward) else None
        reply = verdict.raw if isinstance(verdict, Answered) else None
        blocker = blocker_of(verdict)
        reason = verdict.why.reason if blocker is not None and verdict.why is not None else None
        out = []
        for name, expected, found in (
            ("", self.verdict, verdict_of(verdict)),
            ("rule ", self.rule, blocker),
            ("reason ", self.reason, reason),
        ):
            if expected is not None and expected != found:
                why = f" (rule {blocker}: {reason})" if not name and found == "block" else ""
                out.append(f"expected {name}{expected}, got {found}{why}")
        if self.changed is not None and self.changed != (changed is not None):
            out.append("expected a changed message" if self.changed else "expected the message unchanged")
        for what, wanted, raw in (("message", self.message, passed), ("reply", self.reply, reply)):
            if wanted is not None and (raw is None or _canonical(wanted) != _canonical(raw)):
                shown = "none" if raw is None else raw.decode("utf-8", "replace")
                out.append(f"expected the {what} {wanted.decode()}, got {shown}")
        return out


class Step(Struct, frozen=True):
    """One message of a test."""

    message: Message
    direction: Direction
    after: float
    expect: Expectation


class RuleTest(Struct, frozen=True):
    """A name, a session, and the messages that come by in it."""

    name: str
    place: str  # FILE:LINE
    steps: tuple[Step, ...]
    request: Message | None
    session: Section
    webhook: Answer
    script: Answer

    def run(self, config: InterceptorConfig) -> list[str]:
        """What went otherwise than expected; nothing if the test holds."""
        effects = DryRunEffects(self.webhook, self.script)
        session = Session(
            id=str(self.session.get("id", "test")),
            started=effects.now - cast(float, self.session.get("age", 0.0)),
            mcp_session_id=cast("str | None", self.session.get("mcp_session_id")),
            client_name=cast("str | None", self.session.get("client_name")),
            values=dict(cast("dict[str, str | int | float | bool | None]", self.session.get("values") or {})),
        )
        headers = cast("dict[str, str]", self.session.get("headers") or {})
        pairs = tuple((name.encode(), value.encode()) for name, value in headers.items())
        dry_run = DryRun(config, effects, session, pairs, maybe_time(self.session.get("at")))
        if self.request is not None:
            dry_run.context(self.request, "client")
        faults = []
        for number, step in enumerate(self.steps, 1):
            effects.now += step.after
            found = step.expect.differences(step.message, dry_run.play(step.message, step.direction))
            where = f"message {number}: " if len(self.steps) > 1 else ""
            faults += [where + fault for fault in found]
        return faults


def read_tests(reading: ConfigReading) -> list[RuleTest]:
    """The tests in a configuration file and in the file beside it. Raises FaultyFile, also for its rules."""
    tests = _Fixtures(reading.path, reading.document, reading.root, reading.findings).tests
    beside = maybe_tests_file(reading.path)
    try:
        reading.raise_faults()
    except FaultyFile as faulty:
        if beside is not None:
            try:
                _tests_beside(beside)
            except FaultyFile as other:
                raise faulty.and_also(other) from None
        raise
    return tests if beside is None else tests + _tests_beside(beside)


def _tests_beside(path: str) -> list[RuleTest]:
    document = read_document_or_fail(path, read_bytes(path))
    findings = Findings()
    root = check_section(document.tree, "tests file", (), findings)
    tests = _Fixtures(path, document, root, findings).tests
    say_faults(path, document, findings)
    return tests


def maybe_tests_file(path: str) -> str | None:
    """FILE.tests.yaml, or the same without FILE's own ending, if there is one."""
    for name in (f"{path}.tests.yaml", f"{os.path.splitext(path)[0]}.tests.yaml"):
        if os.path.exists(name):
            return name
    return None


class _Fixtures:
    def __init__(self, name: str, document: Document, root: Section, findings: Findings) -> None:
        self._name = name
        self._document = document
        self._findings = findings
        sections = cast("list[Section]", root.get("tests", []))
        self.tests = [self._test(section, ("tests", number)) for number, section in enumerate(sections)]

    def _test(self, section: Section, path: Path) -> RuleTest:
        direction = cast(Direction, section.get("direction", "client"))
        steps = []
        if ("message" in section) == ("messages" in section):
            self._findings.add(path, "a test needs either message or messages")
        if "messages" in section:
            for number, step in enumerate(cast("list[Section]", section["messages"])):
                if "message" not in step:
                    self._findings.add((*path, "messages", number), "a step needs a message")
                steps.append(self._step(step, (*path, "messages", number), direction))
            if steps and "expect" in section:
                last = steps.pop()
                if last is not None:
                    last = msgspec.structs.replace(last, expect=self._expectation(section, path))
                steps.append(last)
        else:
            steps.append(self._step(section, path, direction))
        if "expect" not in section and not any(
            "expect" in step for step in cast("list[Section]", section.get("messages", []))
        ):
            self._findings.add(path, "a test needs expect: pass, block, drop or answer")
        about = cast(Section, section.get("session") or {})
        try:
            maybe_time(about.get("at"))
        except ValueError:
            words = "at must be a time such as 2026-11-16T09:30, with +01:00 behind it or in UTC"
            self._findings.add((*path, "session", "at"), words)
        values = about.get("values")
        if values is not None and not isinstance(values, dict):
            self._findings.add((*path, "session", "values"), "values must be names with values")
        return RuleTest(
            name=str(section.get("name", f"test {path[-1]}")),
            place=f"{self._name}:{self._document.line_of(path)}",
            steps=tuple(step for step in steps if step is not None),
            request=self._message(section, path, "request", "client"),
            session=cast(Section, section.get("session") or {}),
            webhook=cast(Answer, section.get("webhook", "allow")),
            script=cast(Answer, section.get("script", "allow")),
        )

    def _step(self, section: Section, path: Path, direction: Direction) -> Step | None:
        direction = cast(Direction, section.get("direction", direction))
        message = self._message(section, path, "message", direction)
        if message is None:
            return None
        expect = self._expectation(section, path)
        return Step(message, direction, cast(float, section.get("after", 0.0)), expect)

    def _message(self, section: Section, path: Path, name: str, direction: Direction) -> Message | None:
        if name not in section:
            return None
        try:
            return read_message(as_bytes(section[name]), direction)
        except ProtocolError as error:
            self._findings.add((*path, name), error.reason)
            return None

    def _expectation(self, section: Section, path: Path) -> Expectation:
        expect = cast(Section, section.get("expect") or {})
        messages = {}
        for name in ("message", "reply"):
            if name in expect:
                messages[name] = as_bytes(expect[name])
                try:
                    msgspec.json.decode(messages[name])
                except msgspec.DecodeError as why:
                    self._findings.add((*path, "expect", name), f"not JSON: {why}")
        return Expectation(
            verdict=cast("str | None", expect.get("verdict")),
            rule=cast("str | None", expect.get("rule")),
            reason=cast("str | None", expect.get("reason")),
            changed=cast("bool | None", expect.get("changed")),
            message=messages.get("message"),
            reply=messages.get("reply"),
        )


def maybe_time(text: object) -> float | None:
    """Seconds since the epoch out of 2026-11-16T09:30+01:00; in UTC if it does not say. Raises ValueError."""
    if text is None:
        return None
    from datetime import UTC, datetime

    time = datetime.fromisoformat(str(text))
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def as_bytes(message: object) -> bytes:
    """A message as it travels: JSON text as it is written; an object gets its jsonrpc if it has none."""
    if isinstance(message, str):
        return message.strip().encode("utf-8", "surrogatepass")
    assert isinstance(message, dict)
    return msgspec.json.encode({"jsonrpc": "2.0", **message})


def _canonical(raw: bytes) -> str:
    return json.dumps(json.loads(raw), sort_keys=True)
