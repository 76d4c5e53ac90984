"""Who is at the other end of the relay, as a link to an upstream sees it."""

from __future__ import annotations

from typing import Protocol


class PeerOfUpstream(Protocol):
    """Who is not read while the upstream takes nothing."""

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...

    def cork(self) -> None: ...

    def uncork(self) -> None: ...
