"""Recorded messages, judged again by the gate with the rules of a file: offline, on the recorded clock."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
from msgspec import Struct, field

from penstock import limits
from penstock.commands.dry_run import DryRunEffects
from penstock.config.model import FileConfig
from penstock.errors import ConfigError, ProtocolError, ToolListFailed
from penstock.gate.gate import Gate
from penstock.gate.ruled import RuledGate, Rules
from penstock.observe import bounds
from penstock.observe.recording import Line
from penstock.policy.exchange import Exchange, Session
from penstock.policy.rules.effect_contract import EffectVerdict, ScriptSpec, WebhookSpec
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.policy.verdict import Answer, Drop, Forward, Hold, Verdict, Wait
from penstock.relay.tool_list_pages import ToolListPages
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Batch, Kind, Message, read_client_message, read_upstream_message

Choice = Literal["allow", "block"]
STOPPED = frozenset({"deny", "block", "drop", "refuse"})
BEFORE_THE_GATE = frozenset({"protocol", "relay"})
"""Who decided where no rule had a say: that stays as it was."""


class Judged(Struct):
    """What the rules make of one message."""

    word: str
    rule: str = ""
    rules: tuple[str, ...] = ()
    sent: bytes | None = None
    is_assumed: bool = False  # a webhook or a script was asked that the recording does not tell of


class _Effects(DryRunEffects):
    """Webhooks and scripts answer as recorded, and else as told."""

    def __init__(self, webhook: Choice, script: Choice) -> None:
        super().__init__(webhook, script)
        self.line = Line()
        self.was_assumed = False

    async def ask_webhook(self, hook: WebhookSpec, body: bytes, sender: str = "") -> EffectVerdict:
        return self._answer(body, self._webhook)

    async def run_script(self, script: ScriptSpec, body: bytes, sender: str = "") -> EffectVerdict:
        return self._answer(body, self._script)

    async def pause(self, seconds: float, sender: str = "") -> None:
        """Nobody waits offline."""

    def _answer(self, body: bytes, told: Choice) -> EffectVerdict:
        rule = msgspec.json.decode(body, type=_Report).rule
        line = self.line
        if rule in line.rules or rule == line.by:
            is_block = line.by == rule and line.verdict in STOPPED
            return EffectVerdict(decision="block" if is_block else "allow", reason=line.why or None)
        self.was_assumed = True
        return EffectVerdict(decision=told)


class _Report(Struct):
    rule: str = ""


class _Sessions(Struct):
    session: Session
    exchanges: dict[int, Exchange] = field(default_factory=dict)


class Judge:
    """The gate of one file, over a recording."""

    def __init__(self, config: FileConfig, webhook: Choice = "allow", script: Choice = "allow") -> None:
        self._config = config
        self._effects = _Effects(webhook, script)
        rules = config.interceptor
        interceptor = Interceptor(rules, self._effects) if rules is not None and rules.enabled else None
        self._gate: Gate = RuledGate(
            config.choice, None, Rules(interceptor), lambda: self._effects.now, lambda: self._effects.now
        )
        self._sessions: dict[str, _Sessions] = {}  # the one that was quiet longest is first
        self.catalog: ToolCatalog | None = None
        self._stopped: dict[int, None] = {}  # requests that these rules keep from the upstream

    def learn(self, pages: list[bytes]) -> None:
        """Takes the upstream's tools from what it listed."""
        fetch = ToolListPages(None)
        try:
            for raw in pages:
                message = read_upstream_message(raw)
                assert isinstance(message, Message)
                fetch.take(message)
            self.catalog = view(fetch.tools(), self._config.choice)
        except (ProtocolError, ToolListFailed) as why:
            raise ConfigError("The recorded tool list cannot be used", str(why)) from None

    @property
    def needs_catalog(self) -> bool:
        """Whether tools are filtered, so that calls cannot be judged without a list."""
        return self._config.choice.is_active and self.catalog is None

    async def judge(self, line: Line) -> Judged | None:
        """What becomes of the message; None where there is nothing to judge, or it would never have come."""
        verdict = self.ask(line)
        return None if verdict is None else self.worded(line, await settled(verdict))

    def ask(self, line: Line) -> Verdict | None:
        """What the gate says, which may be that it is waited for; None as above."""
        if line.sender not in ("client", "upstream") or line.kind not in (
            "request",
            "notification",
            "response",
        ):
            return None
        if line.kind == "response" and line.re in self._stopped:
            return None
        try:
            read = read_client_message if line.sender == "client" else read_upstream_message
            message = read(line.raw)
        except ProtocolError:
            return None
        if isinstance(message, Batch):
            return None
        self._effects.now, self._effects.line, self._effects.was_assumed = line.t, line, False
        exchange = self._exchange(line, message)
        says = self._gate.client_says if line.sender == "client" else self._gate.upstream_says
        return says(message, exchange)

    def _exchange(self, line: Line, message: Message) -> Exchange:
        known = self._sessions.pop(line.s, None)
        if known is None:
            if len(self._sessions) >= limits.STATE_SESSIONS:  # as many as a proxy remembers
                self._sessions.pop(next(iter(self._sessions)))
            era = {"legacy": Era.LEGACY, "modern": Era.MODERN}.get(line.era)
            known = _Sessions(Session(id=line.s, started=line.t, era=era))
        self._sessions[line.s] = known
        session = known.session
        if line.client:
            session.client_name = line.client
        if message.kind is Kind.RESPONSE:
            return known.exchanges.pop(line.re, None) or Exchange(session=session, catalog=self.catalog)
        exchange = Exchange(
            message.id_token or b"", message.method or "", session=session, catalog=self.catalog
        )
        if message.kind is Kind.REQUEST:
            if len(known.exchanges) >= bounds.OPEN_REQUESTS:
                known.exchanges.pop(next(iter(known.exchanges)))
            known.exchanges[line.i] = exchange
        return exchange

    def worded(self, line: Line, verdict: Verdict) -> Judged:
        """What a verdict means for the message; and for its answer, which never comes where it is stopped."""
        assert isinstance(verdict, Forward | Answer | Drop)
        why = verdict.why
        sent = None
        if isinstance(verdict, Forward) and verdict.message is not None:
            sent = verdict.message.raw
        rule, rules = (why.rule, why.rules) if why is not None else ("", ())
        if verdict.word in STOPPED and line.kind == "request":
            if len(self._stopped) >= bounds.OPEN_REQUESTS:
                self._stopped.pop(next(iter(self._stopped)))
            self._stopped[line.i] = None
        return Judged(verdict.word, rule, rules, sent, self._effects.was_assumed)


async def settled(verdict: Verdict) -> Verdict:
    """The verdict, once it is there. Raises ConfigError where it depends on a tool list that is missing."""
    if isinstance(verdict, Hold):
        raise ConfigError(
            "The recording has no tool list", "Which tools a filter keeps cannot be known without one"
        )
    if not isinstance(verdict, Wait):
        return verdict
    future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    verdict.then(future.set_result)
    return await future
