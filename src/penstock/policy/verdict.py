"""What was decided about one message, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from penstock.wire.mcp.message import INVALID_REQUEST, Message

Word = Literal["pass", "change", "answer", "deny", "block", "drop", "refuse", "skip"]
"""A decision in one word, the same for recordings, audit, metrics and tests.

pass: unchanged; change: a rule changed it; answer: answered here with what was asked for (a list, the cache);
deny: the tool filter; block: a rule, the schema or the check for hidden tools; drop: neither passed nor
answered; refuse: the sender broke the protocol; skip: the upstream did.
"""


class Why(Struct, frozen=True, gc=False):
    """The reason for a verdict: who gave it, what it did, in which words, with which code of JSON-RPC."""

    rule: str  # the id of a rule, or which check of ours
    action: str  # block, rate_limit, cache, deny, ...
    reason: str
    code: int = 0
    rules: tuple[str, ...] = ()  # every rule whose conditions held, in the order in which they ran


class Approval(Struct, frozen=True, gc=False):
    """What a rule wants a person to be asked before a message goes on."""

    rule: str
    seconds: float
    note: str = ""
    keeps_alive: bool = False
    is_opaque: bool = False


class Forward(Struct, frozen=True, gc=False):
    """Pass it on: `message` in its place, or, when that is None, the bytes that came.

    A response that must not pass is replaced by an error with its id: somebody waits for it.
    """

    message: Message | None = None
    word: Word = "pass"
    why: Why | None = None
    approval: Approval | None = None  # of rules, for the gate: nothing passes before a person has agreed


class Answer(Struct, frozen=True, gc=False):
    """Answer whoever sent it; nothing goes on. `code` is set when the answer is a protocol error."""

    raw: bytes
    code: int = 0
    is_list: bool = False  # the tool list, from the catalog: an answer like the upstream's own
    word: Word = "answer"
    why: Why | None = None

    @property
    def is_malformed(self) -> bool:
        """Whether the message is refused as one that could not be read is: over HTTP with status 400."""
        return self.word == "refuse" and self.code == INVALID_REQUEST


class Drop(Struct, frozen=True, gc=False):
    """Neither pass it on nor answer it."""

    why: Why
    word: Word = "drop"


class Hold(Struct, frozen=True, gc=False):
    """Wait for the tool list, then ask again."""


class Caller(Protocol):
    """Whose request waits, and how it is reached before there is an answer."""

    def progress(self, raw: bytes, route: object) -> bool:
        """Tells it progress of what came by `route`; False when nobody is there to hear any."""


class Wait:
    """Somebody else has to be asked first. Whoever carries the verdict out says with `then` how to go on."""

    __slots__ = ("_heard", "_next", "_settled", "_then", "is_from_client", "message")

    def __init__(self, message: Message, is_from_client: bool) -> None:
        self.message = message
        self.is_from_client = is_from_client
        self._then: list[Callable[[Verdict], None]] = []
        self._settled: Verdict | None = None
        self._next: Wait | None = None  # what has to be waited for after this
        self._heard: tuple[Message, Caller | None] | None = None

    def then(self, go_on: Callable[[Verdict], None]) -> None:
        """Calls `go_on` with the verdict that ends the waiting, after those who said so before."""
        if self._settled is not None:
            go_on(self._settled)
        else:
            self._then.append(go_on)

    def hear(self, message: Message, caller: Caller | None) -> None:
        """Whose request this is, as it came; None where nothing can be told before the answer."""
        self._heard = message, caller
        if self._next is not None:
            self._next.hear(message, caller)

    def settle(self, verdict: Verdict) -> None:
        """This is the verdict, or what has to be waited for next."""
        if isinstance(verdict, Wait):
            self._next = verdict
            if self._heard is not None:
                verdict.hear(*self._heard)
            verdict.then(self.settle)
        elif self._settled is None:
            self._settled = verdict
            self._heard = None  # which may know us: untied, both are gone without the collector
            waiting, self._then = self._then, []
            for go_on in waiting:
                go_on(verdict)

    def cancel(self) -> None:
        """Whoever sent the message wants no answer any more."""
        raise NotImplementedError

    def fail(self, why: str) -> None:
        """The message will not pass, for this reason; whoever waits for its answer hears it."""
        raise NotImplementedError

    def client_left(self) -> None:
        """The client will say no more. Who asks a person then asks in vain; others decide all the same."""


Decided = Forward | Answer | Drop
"""A verdict that can be carried out."""

Verdict = Decided | Hold | Wait

FORWARD = Forward()
HOLD = Hold()


def is_open(verdict: Verdict) -> bool:
    """Whether rules still have a say: the message would pass, or be answered as the upstream would."""
    return verdict is FORWARD or (isinstance(verdict, Answer) and verdict.is_list)
