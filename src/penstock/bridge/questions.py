"""Questions in the middle of a call, as a client of the legacy era hears them.

A modern upstream answers a call with `input_required`. Each question in it becomes a request to the client;
when all are answered the call is sent again with the answers and with the upstream's own state, byte for
byte.
"""

from __future__ import annotations

from msgspec import Struct, field

from penstock.bridge.codes import URL_NEEDED, code_of
from penstock.bridge.envelope import maybe_members, maybe_value, object_of, with_members
from penstock.wire.json.ambiguity import Members, NotAnArray, NotJson, elements
from penstock.wire.mcp.message import Message

ROUNDS = 10
ROUND_SECONDS = 600.0
STATE_SECONDS = 60.0
"""How long an upstream that only hands out a new state is asked again."""
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0

_NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class Question(Struct, frozen=True):
    """One thing that the upstream wants to know."""

    key: str
    method: str
    params: bytes
    url: bytes  # as written; empty where the question is not about one

    def as_input(self) -> bytes:
        """As it stands among `inputRequests`."""
        return object_of({"method": b'"%b"' % self.method.encode(), "params": self.params})


class Call(Struct):
    """A client's request, over all its rounds."""

    asked: Message  # as the client sent it
    leg: bytes  # the id of the request that is under way upstream
    round: int = 0
    open: dict[bytes, Question] = field(default_factory=dict)  # by the id under which the client was asked
    answers: dict[str, bytes] = field(default_factory=dict)
    state: bytes | None = None  # the upstream's own, as written
    due: float = 0.0  # when the round is over, or the state is shown again
    wait: float = _FIRST_WAIT
    state_until: float = 0.0
    was_resent: bool = False  # after the upstream refused its version, and named it
    accepted: set[bytes] = field(default_factory=set)  # URLs that the client has been to

    @property
    def is_parked(self) -> bool:
        """Whether it waits for the client or for its time, and not for the upstream."""
        return self.due > 0

    def longer_wait(self) -> float:
        """How long to wait before the state is shown again; longer every time."""
        wait, self.wait = self.wait, min(self.wait * 2, _LONGEST_WAIT)
        return wait

    def more_params(self) -> dict[str, bytes]:
        """What the next leg carries beside the client's own params."""
        more = {"inputResponses": object_of(self.answers)} if self.answers else {}
        if self.state is not None:
            more["requestState"] = self.state
        return more


def read_questions(result: Members) -> list[Question]:
    """The questions in an `input_required` result."""
    found = []
    for key, raw in (maybe_members(result.get("inputRequests")) or {}).items():
        question = maybe_members(raw) or {}
        params = maybe_members(question.get("params"))
        text = bytes(question["params"]) if params is not None else b"{}"
        url = bytes((params or {}).get("url", b""))
        found.append(Question(key, str(maybe_value(question.get("method"))), text, url))
    return found


def read_urls(answer: Message) -> list[Question]:
    """What the client must do first, in an error that says that it has to go to URLs."""
    if code_of(answer) != URL_NEEDED:
        return []
    error = maybe_members(answer.envelope.get("error")) or {}
    data = maybe_members(error.get("data")) or {}
    try:
        wanted = elements(bytes(data.get("elicitations", b"[]")))
    except (NotJson, NotAnArray):
        return []
    found: dict[str, Question] = {}
    for number, raw in enumerate(wanted):
        params = maybe_members(raw)
        if params is None or "url" not in params:
            return []
        named = maybe_value(params.get("elicitationId"))
        key = named if isinstance(named, str) and named not in found else f"url-{number}"
        while key in found:
            key += "_"
        text = bytes(raw) if "mode" in params else with_members(bytes(raw), {"mode": b'"url"'})
        found[key] = Question(key, "elicitation/create", text, bytes(params["url"]))
    return list(found.values())


def maybe_undeclared(question: Question, capabilities: Members) -> str | None:
    """What a question needs that the client has not declared; None when it may be asked."""
    need = _NEEDS.get(question.method)
    if need is None:
        return question.method
    declared = maybe_members(capabilities.get(need))
    if declared is None:
        return need
    params = maybe_members(question.params) or {}
    if need == "elicitation" and maybe_value(params.get("mode")) == "url":
        return None if "url" in declared else "elicitation of a URL"
    if need == "sampling" and "tools" in params:
        return None if "tools" in declared else "sampling with tools"
    return None
