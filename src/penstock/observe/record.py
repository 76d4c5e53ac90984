"""What an observer is told of one message."""

from __future__ import annotations

from msgspec import Struct, field

from penstock.wire.mcp.eras import Era


class Why(Struct, frozen=True, gc=False):
    """The reason for a verdict."""

    rule: str
    action: str
    reason: str
    code: int = 0
    rules: tuple[str, ...] = ()


class Session(Struct):
    """One client's session."""

    id: str = ""
    client_name: str | None = None
    upstream: str = ""
    era: Era | None = None


class Record(Struct):
    """One message and what became of it."""

    received: float
    session: Session
    sender: str
    kind: str
    method: str | None
    id_token: bytes | None
    raw: bytes
    verdict: str
    sent: bytes | None = None
    why: Why | None = None
    request: Record | None = None
    status: int | None = None
    micros: int = 0
    tool: str | None = None
    index: int = 0
    trace: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def era(self) -> Era | None:
        return self.session.era
