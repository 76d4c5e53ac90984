"""The actions that reach outside: waiting, asking, telling, copying."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from penstock import limits
from penstock.errors import ConfigError
from penstock.policy.binder import Count, Misread, Pairs, Seconds, Texts
from penstock.policy.durations import spoken_duration
from penstock.policy.rules.effect_contract import ALLOWED, EffectVerdict, ForkSpec, ScriptSpec, WebhookSpec
from penstock.policy.rules.rule_run import RuleRun
from penstock.wire.http.url import parse_url
from penstock.wire.mcp.message import Kind


class Delay(Struct, frozen=True):
    """Holds this message, and no other, for a while."""

    time: Seconds
    whole: ClassVar[str] = "time"
    is_waiting: ClassVar[bool] = True
    name: ClassVar[str] = "delay"

    def words(self) -> str:
        return f"hold it for {spoken_duration(self.time)}"

    async def ask(self, scene: RuleRun) -> EffectVerdict:
        await scene.effects.pause(self.time, scene.sender)
        return ALLOWED


class Webhook(Struct, frozen=True):
    """Tells a URL of the message; with `wait: true` the answer decides whether it passes."""

    url: str
    wait: bool = False
    timeout: Seconds = limits.ACTION_SECONDS
    retries: int = 3
    include_message: bool = True
    allow_http: bool = False
    allow_private: bool = False
    headers: Pairs = ()
    short: ClassVar[str] = "url"
    name: ClassVar[str] = "webhook"

    def __post_init__(self) -> None:
        _check_url(self.url, self.allow_http)
        if not 0 <= self.retries <= 10:
            raise Misread("retries must be 0 to 10")

    def words(self) -> str:
        return f"ask {self.url} whether it may pass" if self.wait else f"tell {self.url}"

    @property
    def is_waiting(self) -> bool:
        return self.wait

    @property
    def spec(self) -> WebhookSpec:
        return WebhookSpec(
            self.url,
            self.timeout,
            self.retries,
            self.include_message,
            self.allow_http,
            self.allow_private,
            self.headers,
        )

    def apply(self, scene: RuleRun) -> None:
        scene.effects.notify(self.spec, scene.report(self.include_message))

    async def ask(self, scene: RuleRun) -> EffectVerdict:
        return await scene.effects.ask_webhook(self.spec, scene.report(self.include_message), scene.sender)


class RunScript(Struct, frozen=True):
    """Runs a program with the message on its stdin; what it writes to stdout decides whether it passes. One
    that says nothing is a side effect, unless a verdict is required."""

    path: str | None = None
    command: Texts | None = None
    timeout: Seconds = limits.ACTION_SECONDS
    env: Pairs = ()
    cwd: str | None = None
    verdict: Literal["optional", "required"] = "optional"
    short: ClassVar[str] = "path"
    is_waiting: ClassVar[bool] = True
    name: ClassVar[str] = "run_script"

    def __post_init__(self) -> None:
        if (self.path is None) == (self.command is None):
            raise Misread('needs either "path" or "command"')
        if not self.argv[0] or any("\0" in word for word in self.argv):
            raise Misread("is no command that can be run")

    def words(self) -> str:
        return f"let {' '.join(self.argv)} decide"

    @property
    def argv(self) -> tuple[str, ...]:
        return self.command or (self.path or "",)

    async def ask(self, scene: RuleRun) -> EffectVerdict:
        spec = ScriptSpec(self.argv, self.timeout, self.env, self.cwd, self.verdict == "required")
        return await scene.effects.run_script(spec, scene.report(), scene.sender)


class Shadow(Struct, frozen=True):
    """A second upstream that gets copies; what it answers is thrown away."""

    url: str | None = None
    command: Texts | None = None
    headers: Pairs = ()
    allow_http: bool = False
    allow_private: bool = False
    short: ClassVar[str] = "url"

    def __post_init__(self) -> None:
        if (self.url is None) == (self.command is None):
            raise Misread('needs either "url" or "command": the upstream that gets the copy')
        if self.url is not None:
            _check_url(self.url, self.allow_http)


class Fork(Struct, frozen=True):
    """Copies what the client sends to a second upstream, whose answers are thrown away."""

    url: str | None = None
    command: Texts | None = None
    copies: Count = 1
    headers: Pairs = ()
    allow_http: bool = False
    allow_private: bool = False
    short: ClassVar[str] = "url"

    def __post_init__(self) -> None:
        if self.url is not None and self.command is not None:
            raise Misread('needs either "url" or "command": the upstream that gets the copy')
        if self.url is not None:
            _check_url(self.url, self.allow_http)
        if self.copies > 10:
            raise Misread("copies must be 10 or less")

    @property
    def is_placed(self) -> bool:
        """Whether it says where the copy goes; else it goes to the shadow of the configuration."""
        return self.url is not None or self.command is not None

    def to(self, shadow: Shadow) -> Fork:
        """The same, with this shadow for its place."""
        return Fork(
            shadow.url, shadow.command, self.copies, shadow.headers, shadow.allow_http, shadow.allow_private
        )

    def words(self) -> str:
        return f"copy it to {self.url or ' '.join(self.command or ('the shadow',))}"

    def apply(self, scene: RuleRun) -> None:
        if scene.context.direction == "client" and scene.message.kind is not Kind.RESPONSE:
            spec = ForkSpec(
                self.url,
                self.command or (),
                self.copies,
                self.headers,
                self.allow_http,
                self.allow_private,
            )
            scene.effects.fork(spec, scene.message.raw)


def _check_url(url: str, allow_http: bool) -> None:
    try:
        found = parse_url(url)
    except ConfigError as why:
        raise Misread(why.headline, why.detail) from None
    if not found.is_tls and not allow_http:
        raise Misread(f'"{url}" is not encrypted', "use https, or say allow_http: true")
