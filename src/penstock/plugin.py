"""For Python code of yours that rules call: what it is given, and what it may give back.

    from penstock.plugin import Context, Effects, Message, Verdict, block, params

These names are promised. What `review` is given has more members than are shown here; those may change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Literal, Protocol

from penstock.policy.rules import message_parts
from penstock.policy.rules.effect_contract import EffectVerdict as Verdict
from penstock.policy.rules.json_values import has_names_twice, plain_json, plain_value

__all__ = [
    "Context",
    "Effects",
    "Interceptor",
    "Message",
    "Session",
    "TwoReadings",
    "Verdict",
    "allow",
    "block",
    "params",
    "result",
]


class TwoReadings(ValueError):
    """A name stands twice, so that nobody knows what the other side will read. Raised, it blocks a call."""


class Message(Protocol):
    """One JSON-RPC message."""

    @property
    def raw(self) -> bytes:
        """The message as it came, or as rules before this one left it."""

    @property
    def method(self) -> str | None:
        """The method; None for a response."""

    @property
    def id_token(self) -> bytes | None:
        """The id as written: 1, "1" and 1.0 are three. None for a notification."""


class Session(Protocol):
    """One client's session."""

    @property
    def id(self) -> str:
        """Ours."""

    @property
    def mcp_session_id(self) -> str | None:
        """The one that the client knows, over HTTP."""

    @property
    def client_name(self) -> str | None:
        """What the client calls itself."""

    @property
    def started(self) -> float:
        """When it began, on the clock of Context.now."""

    @property
    def values(self) -> dict[str, str | int | float | bool | None]:
        """What set_state has set. Yours to change."""


class Context(Protocol):
    """What is known beside the message."""

    @property
    def session(self) -> Session: ...

    @property
    def direction(self) -> Literal["client", "upstream"]:
        """Who sent it."""

    @property
    def now(self) -> float:
        """Seconds on a clock that never goes back."""

    @property
    def wall(self) -> float:
        """Seconds since the epoch."""


class Effects(Protocol):
    """What can be asked of Penstock."""

    def may_pass(self, key: str, limit: int, window: float) -> bool:
        """Counts one more under `key`; False when that makes more than `limit` within `window` seconds."""

    def count(self, name: str, value: float) -> None:
        """Adds to a metric."""

    async def pause(self, seconds: float) -> None:
        """Waits, in a `review` that is a coroutine."""


class Interceptor(Protocol):
    """A class that `method_interceptors` and `interceptors` can name. It is made with its `config`."""

    def __init__(self, config: Mapping[str, Any]) -> None: ...

    def review(self, message: Any, context: Any, effects: Any) -> Verdict | Awaitable[Verdict | None] | None:
        """Gives back None for no objection, or a Verdict. What it raises blocks a call."""


def allow(*, params: Any = None, result: Any = None) -> Verdict:
    """Lets it pass, with other params or another result if they are given."""
    return Verdict(
        set_params=None if params is None else plain_json(params),
        set_result=None if result is None else plain_json(result),
    )


def block(reason: str) -> Verdict:
    """Stops it; its sender reads the reason."""
    return Verdict("block", reason)


def params(message: Any, context: Any) -> Any:
    """The params as plain Python data; for a response, those of the request that it answers.

    None where there are none. Raises TwoReadings."""
    return _plain(message_parts.params_of(message, context))


def result(message: Any) -> Any:
    """The result of a response as plain Python data; None where there is none. Raises TwoReadings."""
    return _plain(message_parts.result_of(message))


def _plain(place: message_parts.Place | None) -> Any:
    if place is None:
        return None
    token = place.text[place.start : place.end]
    if has_names_twice(token):
        raise TwoReadings("a name stands twice")
    return plain_value(token)
