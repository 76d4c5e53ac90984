"""What an observer is told of one message. Observers attach here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from penstock.gate.gate import Gate
from penstock.policy.exchange import Headers, Session
from penstock.policy.verdict import Why, Word

if TYPE_CHECKING:  # loaded only where people are asked
    from penstock.gate.held import Asker

Sender = Literal["client", "upstream", "penstock"]
MessageKind = Literal["request", "notification", "response", "other"]


class Record(Struct):
    """One message and what became of it. Bytes are those of the wire, never a copy made of what was read."""

    received: float  # seconds since the epoch
    session: Session  # as it is at the moment; its id does not change
    sender: Sender
    kind: MessageKind  # other: it could not be read
    method: str | None  # of a response: that of its request
    id_token: bytes | None  # as written
    raw: bytes  # as it came, or, from penstock, as it was sent
    verdict: Word
    sent: bytes | None = None  # what went on in its place, or the answer to its sender; None: nothing
    why: Why | None = None
    request: Record | None = None  # of a response: what was told of its request
    status: int | None = None  # of HTTP, where there was one
    micros: int = 0  # spent in here until it was decided, waiting included
    tool: str | None = None  # which tool a call is for, where that can be told
    headers: Headers = ()  # of the HTTP request that brought it
    batch: Record | None = None  # the array that it came in
    # Those who observe may number and mark what they were told:
    index: int = 0
    trace: str = ""

    @property
    def session_id(self) -> str:
        """Whose it is."""
        return self.session.id


Request = tuple[bytes, bytes | None, float, float, int, Session, str | None, str | None, Headers]
Reply = tuple[bytes, bytes | None, float, float, int, Request, int | None]
Passed = Request | Reply
"""A small message that passed unchanged, with what nobody could find out later alone: its bytes, its id, when
it came, when it was decided, its number; then, of what a client says, session, method, tool and headers; of a
reply what it answers, and the status of HTTP. Tuples, because nothing else is made and freed so fast: `told`
makes the record, once somebody asks. They keep neither exchange nor message alive, which may be large."""


def told(one: Passed | Record) -> Record:
    """The record of what was kept."""
    if isinstance(one, Record):
        return one
    if len(one) == 7:  # as a reply is
        raw, id_token, received, decided, index, request, status = one
        asked = told(request)
        return Record(
            received,
            asked.session,
            "upstream",
            "response",
            asked.method,
            id_token,
            raw,
            "pass",
            None,
            None,
            asked,
            status,
            int((decided - received) * 1_000_000),
            asked.tool,
            asked.headers,
            index=index,
        )
    raw, id_token, received, decided, index, session, method, tool, headers = one
    return Record(
        received,
        session,
        "client",
        "notification" if id_token is None else "request",
        method,
        id_token,
        raw,
        "pass",
        micros=int((decided - received) * 1_000_000),
        tool=tool,
        headers=headers,
        index=index,
    )


class CallSeen(Struct, gc=False):
    """A call that passed as it came: all that is kept of it for who wants nothing but calls."""

    received: float
    session: Session
    tool: str
    raw: bytes
    index: int = 0  # its number, where somebody else numbers what passes


class Shortcut(Struct):
    """Where that goes whose one observer keeps it and asks nothing more (see `shortcut.ShortcutGate`)."""

    number: Callable[[], int]  # gives the next record its number
    keep: Callable[[Passed], object]  # may become another one, so it is looked up for each message
    most_bytes: int  # of a message that may be kept whole


class Observer(Protocol):
    """Who watches. It is called in the middle of passing a message on, so it must not wait for anything."""

    async def start(self) -> None:
        """Called once, before the upstream starts. Raises PenstockError when it cannot do what was asked."""

    def saw(self, record: Record) -> None:
        """A message came by. What this raises is logged, and changes nothing."""

    def rules_changed(self, rules: str) -> None:
        """Other rules are in force; `rules` is their hash."""

    def count_custom(self, read: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """Rules may count things of their own; `read` gives name and sum of each."""

    def around(self, gate: Gate) -> Gate:
        """The gate itself, or one around it, for who must be asked before a message passes."""
        return gate

    @property
    def shortcut(self) -> Shortcut | None:
        """Where small messages that pass may go straight to, while nothing more is wanted of them."""
        return None

    @property
    def keep_call(self) -> Callable[[CallSeen], object] | None:
        """Where calls may go straight to, from who wants to hear of these, and of answers that failed, and of
        nothing else that passes as it came (see `calls.CallsGate`)."""
        return None

    def ending(self) -> None:
        """The process is about to end: who waits for a person waits no more."""
        return

    @property
    def asker(self) -> Asker | None:
        """Who asks people, where a rule wants them asked."""
        return None

    def close(self) -> None:
        """No more messages will come: what is not written yet is written now."""
