"""One of several upstreams: what is known of it, how it is, and when it is looked for again."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from penstock.errors import UpstreamError
from penstock.policy.several.greeting import Greeting
from penstock.policy.several.terms import MemberTerms
from penstock.policy.several.uri_owner import OwnedUris
from penstock.relay.contracts import UpstreamLink

if TYPE_CHECKING:  # loaded where a process is shared
    from penstock.relay.adapters.aggregate.shared_child import SharedChild

FIRST_RETRY_SECONDS = 0.5
MOST_RETRY_SECONDS = 60.0
CALM_SECONDS = 60.0  # after so long without a loss, the next one counts as the first
BREAKER_LOSSES = 5  # in a row: from then on only one attempt in each interval reaches it


class State(enum.StrEnum):
    """How an upstream is."""

    STARTING = "starting"
    READY = "ready"
    IDLE = "idle"  # not started, and known well enough
    DOWN = "down"
    NEEDS_AUTH = "needs-auth"


_OUT = (State.DOWN, State.NEEDS_AUTH)


class Breaker(enum.StrEnum):
    """Whether calls reach an upstream that keeps failing."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"  # the one attempt of this interval is under way


class Known(Struct):
    """What an upstream has told of itself and its lists."""

    greeting: Greeting
    pages: list[bytes]  # of tools/list
    prompts: list[bytes]  # entries of prompts/list
    list_terms: list[tuple[int | None, str | None]]  # ttlMs and cacheScope of those lists
    transport: str | None = None

    def is_same(self, other: Known) -> bool:
        """Whether clients would see no difference."""
        return self.pages == other.pages and self.prompts == other.prompts


class Member:
    """One upstream, for all sessions."""

    def __init__(self, terms: MemberTerms, open_link: Callable[[object | None], UpstreamLink]) -> None:
        """`open_link` gets the credential of the caller whom the link is for, where it has one."""
        self.terms = terms
        self.name = terms.name
        self.open_link = open_link
        self.shared: SharedChild | None = None  # where all sessions have one process
        if terms.is_shared:
            from penstock.relay.adapters.aggregate.shared_child import SharedChild

            shared = self.shared = SharedChild(lambda: open_link(None), terms.idle_seconds)
            self.open_link = lambda credential: shared.lane()
        self.state = State.IDLE
        self.known: Known | None = None
        self.speaks_modern: bool | None = None  # None: nobody has asked
        self.resources: dict[str, list[bytes]] = {}  # the last lists that it gave, by method
        self.uris = OwnedUris()
        self.error = ""
        self.losses = 0
        self.restarts = 0
        self.links = 0
        self.retry_at = 0.0
        self.is_only_kept = False  # its lists are those of an earlier life
        self.was_failed = False  # it could not be had since it was last looked for
        self.is_probed = False  # it is being looked for again
        self._calm_since = 0.0

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is to be waited for at the start."""
        is_known = self.known is not None and (self.terms.is_lazy or not self.is_only_kept)
        return is_known or self.was_failed

    @property
    def is_startable_later(self) -> bool:
        """Whether it is started when it is needed first, and known well enough until then."""
        return self.terms.is_lazy and self.known is not None

    @property
    def waits(self) -> bool:
        """Whether it wants a credential that a caller may bring."""
        return self.terms.lists_by_caller and self.state is State.NEEDS_AUTH

    def greeted(self, now: float) -> None:
        """It has answered a handshake."""
        self.state = State.READY
        self.error = ""
        self.was_failed = self.is_probed = False
        self._calm_since = now
        if self.losses:
            self.restarts += 1

    def lost(self, error: UpstreamError, now: float, wants_credentials: bool) -> float:
        """It is gone, or was never there; gives back when to look for it again. What several links tell of
        one loss is one loss."""
        self.is_probed = False
        if self.state in _OUT and now < self.retry_at:
            return self.retry_at
        if self._calm_since and now - self._calm_since > CALM_SECONDS:
            self.losses = 0
        self.state = State.NEEDS_AUTH if wants_credentials else State.DOWN
        self.error = error.safe_message
        self.was_failed = True
        wait = min(FIRST_RETRY_SECONDS * 2**self.losses, MOST_RETRY_SECONDS)
        self.losses = min(self.losses + 1, 20)
        self._calm_since = 0.0
        self.retry_at = now + wait * random.uniform(0.8, 1.0)  # noqa: S311 - spreads attempts, guards nothing
        return self.retry_at

    @property
    def breaker(self) -> Breaker:
        """Whether calls reach it, or fail at once until an attempt of ours has been answered."""
        if self.losses < BREAKER_LOSSES or self.state not in _OUT:
            return Breaker.CLOSED
        return Breaker.HALF_OPEN if self.is_probed else Breaker.OPEN

    def is_out(self, now: float) -> bool:
        """Whether nothing is sent to it before the next attempt, or, if it keeps failing, its answer."""
        return self.state in _OUT and (now < self.retry_at or self.losses >= BREAKER_LOSSES)
