"""Carrying a verdict out, for those who only pass on, answer or leave it."""

from __future__ import annotations

from collections.abc import Callable

from penstock.policy.verdict import Answer, Forward, Verdict, Wait
from penstock.wire.mcp.message import Message


def carry_out(
    verdict: Verdict,
    message: Message,
    forward: Callable[[Message], None],
    answer: Callable[[bytes], None] | None = None,
) -> None:
    """Gives `forward` what may pass, or `answer` what its sender is told; at once, or when it is decided."""
    if isinstance(verdict, Forward):
        forward(verdict.message or message)
    elif isinstance(verdict, Wait):
        verdict.then(lambda settled: carry_out(settled, message, forward, answer))
    elif isinstance(verdict, Answer) and answer is not None:
        answer(verdict.raw)
