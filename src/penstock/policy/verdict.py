"""What policy decided about one message."""

from __future__ import annotations

from msgspec import Struct


class Forward(Struct, frozen=True, gc=False):
    """Pass it on as it came."""


class Answer(Struct, frozen=True, gc=False):
    """Answer it here; nothing goes upstream. `code` is set when the answer is a protocol error."""

    raw: bytes
    code: int = 0
    is_list: bool = False  # the tool list, from the catalog: an answer like the upstream's own


class Drop(Struct, frozen=True, gc=False):
    """Neither pass it on nor answer it."""

    why: str


class Hold(Struct, frozen=True, gc=False):
    """Wait for the tool list, then ask again."""


Verdict = Forward | Answer | Drop | Hold

FORWARD = Forward()
HOLD = Hold()


def is_open(verdict: Verdict) -> bool:
    """Whether rules still have a say: the message would pass, or be answered as the upstream would."""
    return verdict is FORWARD or (isinstance(verdict, Answer) and verdict.is_list)
