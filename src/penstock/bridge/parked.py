"""Calls of modern clients over a legacy upstream, which may ask in the middle of them.

The legacy upstream asks with requests of its own and waits. The modern client gets its call answered with the
questions, and sends it again with the answers. In between the call is parked here; the upstream's own request
goes on all the while, and is never sent twice.
"""

from __future__ import annotations

import hashlib

from msgspec import Struct, field

from penstock.bridge.envelope import maybe_members, maybe_value, object_of
from penstock.bridge.modern_results import meta_of
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Message

GATHER_SECONDS, GATHER_MOST = 0.02, 0.1
OUTSIDE_SECONDS = 30.0
PARKED_MOST, PARKED_IN_ALL = 64, 256
"""How many calls may wait for clients: of those that are alike, and of all."""
HELD_PROGRESS, HELD_PROGRESS_BYTES = 64, 64 * 1024
"""Messages about progress that wait with a call, and how long each may be."""


class Asked(Struct, frozen=True):
    """A question of the upstream's."""

    message: Message
    key: str

    def as_input(self) -> bytes:
        """As it stands among `inputRequests`."""
        params = self.message.envelope.get("params")
        values = {"method": bytes(self.message.envelope["method"])}
        if params is not None:
            values["params"] = bytes(params)
        return object_of(values)


class ParkedCall(Struct):
    """A request of the client's, over all its legs."""

    asked: Message  # the first leg
    leg: bytes  # the id under which the client waits now
    upstream_id: bytes  # the id under which the upstream knows it
    token: bytes | None = None  # the progress token of the leg under way
    upstream_token: bytes | None = None  # that of the first leg
    questions: dict[str, Asked] = field(default_factory=dict)  # not answered yet, by key
    state: str | None = None  # what the client must show to go on; None while it is not parked
    gather_until: float = 0.0  # when the leg is answered with the questions
    gather_most: float = 0.0
    expires: float = 0.0  # of a parked call
    is_unsent: bool = False  # it goes upstream only when the questions are answered
    final: bytes | None = None  # the upstream's answer, while nobody waits for it
    held: list[bytes] = field(default_factory=list)  # progress that came meanwhile

    @property
    def is_parked(self) -> bool:
        """Whether the client has the questions, and nobody waits."""
        return self.state is not None

    @property
    def binding(self) -> bytes:
        """What must be the same in every leg."""
        return binding_of(self.asked)

    def ask(self, question: Asked, now: float) -> None:
        """Takes a question, to be told together with those that come right after it."""
        if not self.questions:
            self.gather_most = now + GATHER_MOST
        self.questions[question.key] = question
        self.gather_until = min(now + GATHER_SECONDS, self.gather_most)

    def go_on(self, leg: Message) -> None:
        """The client is back, under another id."""
        assert leg.id_token is not None
        self.leg = leg.id_token
        self.token = progress_token(leg)
        self.state = None
        self.expires = 0.0


def binding_of(message: Message) -> bytes:
    """A digest of what is called and with what, without what differs from leg to leg."""
    params = message.params or {}
    parts = [(message.method or "").encode()]
    for name in sorted(params):
        if name not in ("_meta", "inputResponses", "requestState"):
            parts += [name.encode(), bytes(params[name])]
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()


def progress_token(message: Message) -> bytes | None:
    """The progress token of a request, as written."""
    token = meta_of(message).get("progressToken")
    return bytes(token) if token is not None else None


def key_for(message: Message, taken: dict[str, Asked]) -> str:
    """The key of a question: the upstream's id as text; with a suffix if another looks alike."""
    token = message.id_token or b"null"
    value = maybe_value(token)
    key = value if isinstance(value, str) else token.decode()
    while key in taken:
        key += "_"
    return key


def unanswered(call: ParkedCall, answers: Members) -> list[str]:
    """The keys of the questions to which `answers` has no object."""
    return [key for key in call.questions if maybe_members(answers.get(key)) is None]


def same_id(one: bytes, other: bytes) -> bool:
    """Whether two tokens are one id."""
    return id_key(one) == id_key(other)
