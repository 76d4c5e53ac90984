"""What the user asked for, checked before anything starts, and never changed afterwards."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from penstock import limits
from penstock.errors import ConfigError, UsageError
from penstock.policy.durations import BadDuration, parse_duration
from penstock.policy.patterns.patterns import Pattern, compile_pattern, split_patterns
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.wire.http.url import Url
from penstock.wire.sizes import BadSize, parse_size, spoken_size

if TYPE_CHECKING:
    from penstock.auth.terms import AccessTerms, SwapTerms
    from penstock.config.anomalies import Anomalies
    from penstock.config.shared import PeerSettings, SharedSettings
    from penstock.config.variants import Variants
    from penstock.config.worker_place import WorkerPlace
    from penstock.observe.replay import ReplayBook
    from penstock.observe.settings import ObserveSettings
    from penstock.policy.rules.interceptor_config import InterceptorConfig
    from penstock.policy.several.terms import MemberTerms, SearchTerms, SeveralTerms
    from penstock.watch.settings import DashboardSettings

INHERITED = tuple("HOME LOGNAME PATH SHELL TERM USER LANG LC_ALL LC_CTYPE TMPDIR TZ SYSTEMROOT".split())
"""The variables that one of several upstreams gets of ours, as SDKs pass them to the servers they start."""


class CommandUpstream(Struct, frozen=True):
    """An upstream to spawn and speak stdio with."""

    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    reconnect: bool = False  # start it again when it ends
    inherits: bool = True  # all of our environment, and not only what every program needs

    def environment(self) -> dict[str, str] | None:
        """The child's environment: ours, with what the user adds; None when it is just ours."""
        if not self.inherits:
            ours = {name: os.environ[name] for name in INHERITED if name in os.environ}
            return {**ours, **dict(self.env)}
        return {**os.environ, **dict(self.env)} if self.env else None


class UrlUpstream(Struct, frozen=True):
    """An upstream that is already running, at a URL."""

    url: Url
    headers: tuple[tuple[bytes, bytes], ...] = ()
    reconnect: bool = False  # when it is lost
    passes_cookies: bool = False  # between it and clients over HTTP
    renews: bool = False  # begin a session again that it has forgotten
    is_stripped: bool | None = None  # whether clients' own headers stay here; None: where callers are known
    relays: tuple[tuple[bytes, bytes], ...] = ()  # a client's header (lower case), and its name upstream
    swap: SwapTerms | None = None  # what is made of a caller's token
    lists_by_caller: bool = False  # what the first caller's credential shows of it is shown to all


class ReplayUpstream(Struct, frozen=True):
    """A recording in the place of an upstream."""

    path: str
    book: ReplayBook
    match: str = "params"
    once: bool = False
    is_real_time: bool = False


class Member(Struct, frozen=True):
    """One of several upstreams."""

    terms: MemberTerms
    upstream: CommandUpstream | UrlUpstream
    connect_seconds: float | None = None
    start_seconds: float | None = None
    call_seconds: float | None = None


class SeveralUpstreams(Struct, frozen=True):
    """Several upstreams behind one door, in the order of trust."""

    members: tuple[Member, ...]
    terms: SeveralTerms


class ProxyConfig(Struct, frozen=True):
    """Everything a run needs to know."""

    upstream: CommandUpstream | UrlUpstream | ReplayUpstream | SeveralUpstreams
    choice: ToolFilter
    connect_seconds: float = limits.CONNECT_SECONDS
    start_seconds: float = limits.START_SECONDS
    tools_seconds: float = limits.TOOLS_SECONDS
    call_seconds: float | None = None  # None: a request may take as long as it likes
    session_idle_seconds: float = limits.SESSION_IDLE_SECONDS
    message_bytes: int = limits.MESSAGE_BYTES
    refreshes_tools: bool = False  # follow the upstream when its tool list changes
    era: str = "auto"  # who is led to an upstream of the other era: auto, bridge, legacy, modern, same
    input_seconds: float = limits.INPUT_SECONDS
    batch: str = (
        "inspect"  # what becomes of an array of messages where the protocol has them: inspect, refuse
    )
    on_crash: str = "answer"  # what who waits hears when the upstream is lost: answer, silent
    validate: str | None = None  # "off", "schema" or "strict": whether the upstream is held to the MCP schema
    log_level: str = "info"
    log_format: str = "text"
    listen: tuple[str, int] | None = None  # None: the client is on our stdin and stdout
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    interceptor: InterceptorConfig | None = None  # the rules, when a file has any
    path: str | None = None  # the file that was read, if one was
    digest: bytes = b""  # of what was in it
    observe: ObserveSettings | None = None  # what is kept, counted and traced, where something is
    anomalies: Anomalies | None = None  # what is told of as unusual
    variants: Variants | None = None  # several rule sets
    workers: int = 1  # processes that serve one port; 0: as many as there are cores
    divides_limits: bool = False  # each worker has its part of every limit
    shared: SharedSettings | None = None  # what several instances share
    peer: PeerSettings | None = None  # where they reach us
    worker: WorkerPlace | None = None  # of several processes on one port: which this is
    access: AccessTerms | None = None  # who may come in and which profiles there are, where the file says so
    profile: str = ""  # which profile this is the view of
    dashboard: DashboardSettings | None = None  # the live view, where it was asked for
    only: tuple[str, ...] | None = None  # of several upstreams, those that it shows
    search: SearchTerms | None = None  # how tools are found in it, if not as in the whole

    @property
    def strips(self) -> bool:
        """Whether clients' own headers stay here: by default where callers are known."""
        upstream = self.upstream
        if not isinstance(upstream, UrlUpstream):
            return True
        is_known = self.access is not None and self.access.auth is not None
        return is_known if upstream.is_stripped is None else upstream.is_stripped

    @property
    def reconnects(self) -> bool:
        """Whether a lost upstream is looked for, or started, again."""
        return isinstance(self.upstream, CommandUpstream | UrlUpstream) and self.upstream.reconnect

    @property
    def relayed(self) -> ToolFilter:
        """What relays filter: nothing where several upstreams are one, whose own table lists and gates."""
        return ToolFilter() if isinstance(self.upstream, SeveralUpstreams) else self.choice

    @property
    def first_seconds(self) -> float:
        """How long the upstream may take to its first answer."""
        return self.start_seconds if isinstance(self.upstream, CommandUpstream) else self.connect_seconds


class FileConfig(Struct, frozen=True):
    """What a configuration file says, checked; what it does not say is None or empty. Flags win over it."""

    path: str | None = None
    digest: bytes = b""
    upstream: CommandUpstream | UrlUpstream | SeveralUpstreams | None = None
    several: SeveralTerms | None = None  # where even one upstream counts as one of several
    choice: ToolFilter = ToolFilter()
    connect_seconds: float | None = None
    start_seconds: float | None = None
    tools_seconds: float | None = None
    call_seconds: float | None = None
    session_idle_seconds: float | None = None
    message_bytes: int | None = None
    refreshes_tools: bool = False
    era: str | None = None
    batch: str | None = None
    on_crash: str | None = None
    input_seconds: float | None = None
    validate: str | None = None
    log_level: str | None = None
    log_format: str | None = None
    is_stdio: bool = False
    listen: tuple[str, int] | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    interceptor: InterceptorConfig | None = None
    observe: tuple[tuple[str, dict[str, object]], ...] = ()  # the sections of what watches
    anomalies: Anomalies | None = None  # what is told of as unusual
    variants: Variants | None = None  # several rule sets
    workers: int = 1
    divides_limits: bool = False
    shared: SharedSettings | None = None
    peer: PeerSettings | None = None
    access: AccessTerms | None = None
    dashboard: str | None = None  # auto, or [HOST:]PORT


NO_FILE = FileConfig()


def merge_filters(flags: ToolFilter, file: ToolFilter) -> ToolFilter:
    """Both choices as one: what either denies is denied; --allow takes the place of the file's allow list."""
    return ToolFilter(
        deny=file.deny + flags.deny,
        allow=flags.allow or file.allow,
        read_only=flags.read_only or file.read_only,
        strict_arguments=file.strict_arguments,
        deny_code=file.deny_code,
        lock=flags.lock or file.lock,
        budget=flags.budget or file.budget,
        order=file.order if flags.order == "upstream" else flags.order,
    )


class ListTerms(Struct, frozen=True):
    """What a tool list must be like beside its names, as flags or a file say it."""

    lock: str | None = None
    is_strict: bool = False
    order: str | None = None
    max_tokens: int | None = None
    warn_tokens: int | None = None
    keep: tuple[Pattern, ...] = ()


def with_terms(choice: ToolFilter, terms: ListTerms) -> ToolFilter:
    """`choice` with a lock, a budget and an order; nothing of them is loaded that was not asked for."""
    lock = budget = None
    if terms.lock is not None:
        from penstock.config.lock_file import load_lock

        lock = load_lock(terms.lock, terms.is_strict)
    if terms.max_tokens is not None or terms.warn_tokens is not None:
        from penstock.policy.tools.budget import Budget

        budget = Budget(terms.max_tokens, terms.warn_tokens, terms.keep)
    order = terms.order or ("upstream" if lock is None else "lock")
    return structs.replace(choice, lock=lock, budget=budget, order=order)


def count(text: str, option: str) -> int:
    """A whole number above zero; 8_000 and 8,000 are 8000."""
    digits = text.replace(",", "").replace("_", "")
    if not digits.isdecimal() or not digits.isascii() or not 0 < len(digits) < 12 or not int(digits):
        raise ConfigError(f'Invalid {option}: "{text}"', "It must be a whole number above zero")
    return int(digits)


def make_headers_from(pairs: list[str]) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of `--header-from NAME=VAR`."""
    out = []
    for pair in pairs:
        name, equals, variable = pair.partition("=")
        if not equals or not _VARIABLE.fullmatch(f"${{{variable}}}"):
            raise ConfigError(f'Invalid --header-from: "{pair}"', "It must look like NAME=VARIABLE")
        out.append(make_header(name, f"${{{variable}}}", "--header-from"))
    return tuple(out)


def merge_headers(
    flags: tuple[tuple[bytes, bytes], ...], file: tuple[tuple[bytes, bytes], ...]
) -> tuple[tuple[bytes, bytes], ...]:
    """Both lists of headers; where both name one, the command line's counts."""
    names = {name.lower() for name, _ in flags}
    return tuple(pair for pair in file if pair[0].lower() not in names) + flags


def make_filter(deny: list[str], allow: list[str], read_only: bool) -> ToolFilter:
    """The filter that the patterns describe. Raises PatternError or UnsafePattern."""
    return ToolFilter(
        deny=compile_all(deny, "deny list"),
        allow=compile_all(allow, "allow list", is_needed=True),
        read_only=read_only,
    )


def compile_all(values: list[str], origin: str, is_needed: bool = False) -> tuple[Pattern, ...]:
    """All patterns in `values`. Raises PatternError or UnsafePattern."""
    pieces = (piece for value in values for piece in patterns_in(value, is_needed))
    return tuple(compile_pattern(piece, origin) for piece in pieces)


def patterns_in(text: str, is_needed: bool) -> list[str]:
    """The patterns in a list of them. What is empty, as after a last comma, says nothing and is left out.

    Unless it is all that there is and `is_needed`: a list of what is allowed, with nothing in it, would allow
    everything. It is left to whoever compiles it to refuse that.
    """
    pieces = [piece for piece in split_patterns(text) if piece]
    return pieces or ([""] if is_needed else [])


def make_command(words: list[str] | None, text: str | None) -> tuple[str, ...]:
    """The command of an upstream to spawn, from the words after `--` or from one string."""
    if text is not None:
        try:
            words = shlex.split(text)
        except ValueError as why:
            raise ConfigError(
                f"Invalid upstream command: {text}", f"It cannot be split into words: {why}"
            ) from None
    if not words or not words[0]:
        raise UsageError("The upstream command is empty")
    return tuple(words)


def make_environment(pairs: list[str]) -> tuple[tuple[str, str], ...]:
    """The K=V of `--env`, with variables expanded."""
    out = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or "\0" in pair:
            raise ConfigError(f'Invalid --env: "{pair}"', "It must look like NAME=value")
        out.append((name, expand(value, f"--env {name}")))
    return tuple(out)


_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_UNFIT_IN_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search
_OWN_HEADERS = frozenset(
    "accept accept-encoding connection content-length content-type host keep-alive last-event-id mcp-method "
    "mcp-name mcp-protocol-version mcp-session-id te trailer transfer-encoding upgrade".split()
)


def make_headers(texts: list[str]) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of `--header "Name: value"`, with variables expanded. What may be a secret is not shown."""
    out = []
    for text in texts:
        name, colon, value = text.partition(":")
        name = name.strip()
        if not colon or not _HEADER_NAME(name):
            raise ConfigError("Invalid --header", 'It must look like "Name: value"')
        out.append(make_header(name, value, "--header"))
    return tuple(out)


def make_header(
    name: str, value: str, where: str, environ: Mapping[str, str] = os.environ
) -> tuple[bytes, bytes]:
    """One header, with variables expanded in its value; `where` says in an error which option it is from."""
    if not _HEADER_NAME(name):
        raise ConfigError(f"Invalid {where}: {name}", "No header can have this name")
    if name.lower() in _OWN_HEADERS:
        raise ConfigError(f"Invalid {where}: {name}", "This header is the proxy's own business")
    value = expand(value, f"{where} {name}", environ).strip(" \t")
    if _UNFIT_IN_HEADER(value):
        raise ConfigError(f"Invalid {where}: {name}", "Its value has a control character")
    return name.encode(), value.encode()


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand(text: str, where: str, environ: Mapping[str, str] = os.environ) -> str:
    """`text` with ${VAR} and ${VAR:-default} replaced. Raises ConfigError that names an unset one."""

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        if environ.get(name) or (default is None and name in environ):
            return environ[name]
        if default is None:
            raise ConfigError(
                f"Environment variable {name} is not set",
                f"{where} uses ${{{name}}}; set it, or give a default: ${{{name}:-value}}",
            )
        return str(default)

    return _VARIABLE.sub(value, text)


def seconds(text: str, option: str) -> float:
    """A duration such as 30s, 500ms or 2m; a plain number is milliseconds."""
    try:
        return parse_duration(text)
    except BadDuration as why:
        raise ConfigError(f'Invalid {option}: "{text}"', str(why)) from None


def file_size(text: str, option: str) -> int:
    """The size at which a file is rotated, such as 256MiB; a plain number is bytes."""
    try:
        size = parse_size(text)
    except BadSize as why:
        raise ConfigError(f'Invalid {option}: "{text}"', str(why)) from None
    if size < _LEAST_FILE:
        raise ConfigError(f'Invalid {option}: "{text}"', f"It must be at least {_LEAST_FILE} bytes")
    return size


_LEAST_FILE = 4096


def message_size(text: str, option: str) -> int:
    """The largest message, such as 50MB; a plain number is bytes."""
    try:
        size = parse_size(text)
    except BadSize as why:
        raise ConfigError(f'Invalid {option}: "{text}"', str(why)) from None
    least, most = limits.MESSAGE_LEAST_BYTES, limits.MESSAGE_MOST_BYTES
    if not least <= size <= most:
        raise ConfigError(
            f'Invalid {option}: "{text}"',
            f"It must be between {spoken_size(least)} and {spoken_size(most)}",
        )
    return size
