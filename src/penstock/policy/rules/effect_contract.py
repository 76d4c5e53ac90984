"""What rules ask of the outside: everything that waits, counts or leaves the process.

The policy decides what shall happen and says it in these words; it neither waits nor opens anything itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")


class WebhookSpec(Struct, frozen=True):
    """Where to report a message, and how hard to try."""

    url: str
    timeout: float = 5.0  # seconds for one attempt
    retries: int = 3  # further attempts; a question (wait: true) is asked once
    include_message: bool = True  # the body carries the message; else only who, what and which rule
    allow_http: bool = False  # plain http is refused unless asked for
    allow_private: bool = False  # loopback, private and link-local addresses are refused unless asked for
    headers: tuple[tuple[str, str], ...] = ()


class ScriptSpec(Struct, frozen=True):
    """A program that is given the message on its stdin. Never a shell."""

    argv: tuple[str, ...]
    timeout: float = 5.0
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    needs_verdict: bool = False  # else one that says nothing lets the message pass


class ForkSpec(Struct, frozen=True):
    """A second upstream that gets a copy; what it answers is thrown away. One of url and argv is set."""

    url: str | None = None
    argv: tuple[str, ...] = ()
    copies: int = 1
    headers: tuple[tuple[str, str], ...] = ()
    allow_http: bool = False
    allow_private: bool = False


class EffectVerdict(Struct, frozen=True):
    """What a webhook, a script, a guard or a Python interceptor decided. Bytes are JSON."""

    decision: Literal["allow", "block"] = "allow"
    reason: str | None = None
    set_params: bytes | None = None  # replaces params
    set_result: bytes | None = None  # replaces result


ALLOWED = EffectVerdict()


class Effects(Protocol):
    """What the outside does for rules. Anything raised here counts as a failed rule, never as an allow."""

    def may_pass(self, key: str, limit: int, window: float) -> bool:
        """Counts one more under `key`; False when that makes more than `limit` within `window` seconds."""

    def spend(self, key: str, amount: int, window: float) -> int:
        """Adds to what was spent under `key`; what that makes, within `window` seconds unless that is 0."""

    def cached(self, key: bytes) -> bytes | None:
        """The result object stored under `key` and still fresh, as bytes."""

    def store(self, key: bytes, result: bytes, ttl: float) -> None: ...

    def release(self, key: bytes) -> None:
        """No result will be stored under `key`: who waits for it elsewhere need not."""

    def notify(self, hook: WebhookSpec, body: bytes) -> None:
        """Sends `body` (JSON) some time soon. Queued, bounded, retried; never delays the caller."""

    async def ask_webhook(self, hook: WebhookSpec, body: bytes, sender: str = "") -> EffectVerdict:
        """What a webhook decides. Places to wait in are shared out by `sender`, the id of a session."""

    async def run_script(self, script: ScriptSpec, body: bytes, sender: str = "") -> EffectVerdict: ...

    async def pause(self, seconds: float, sender: str = "") -> None: ...

    def fork(self, spec: ForkSpec, raw: bytes) -> None:
        """Gives a shadow upstream a copy of the message. Never delays the caller."""

    def clock(self) -> float:
        """Seconds on a clock that only goes forward, to see how long something takes."""

    def count(self, name: str, value: float) -> None:
        """Adds `value` to the metric `name`."""

    async def in_thread(self, function: Callable[..., T], *arguments: Any, sender: str = "") -> T:
        """What a function of the user's gives back, run where it stalls nobody."""

    def for_threads(self) -> Effects:
        """The same effects, for code that runs there."""

    async def within(self, seconds: float, work: Awaitable[T]) -> T:
        """What `work` gives; cancelled, with TimeoutError raised, when it takes longer."""

    async def together(self, works: Sequence[Awaitable[Any]]) -> list[Any]:
        """What each of `works` gave, in their order, run side by side.

        An Exception of one stands in its place in the list; cancelling this cancels them all."""
