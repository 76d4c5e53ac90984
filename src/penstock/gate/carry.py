"""Carrying a verdict out: one place that knows every kind of verdict, and when each is final."""

from __future__ import annotations

from collections.abc import Callable

from penstock.policy.verdict import Answer, Drop, Forward, Verdict, Wait
from penstock.wire.mcp.message import Message


def carry_out(
    verdict: Verdict,
    message: Message,
    forward: Callable[[Message], None],
    answer: Callable[[Answer], None] | None = None,
    drop: Callable[[Drop], None] | None = None,
    hold: Callable[[], None] | None = None,
) -> None:
    """Gives `forward` what may pass, or `answer` what its sender is told, at once or when it is decided.
    What has to wait for the tool list is asked about again by `hold`. Whoever leaves one out does nothing."""
    if isinstance(verdict, Forward):
        forward(verdict.message or message)
    elif isinstance(verdict, Wait):
        verdict.then(lambda settled: carry_out(settled, message, forward, answer, drop, hold))
    elif isinstance(verdict, Answer):
        if answer is not None:
            answer(verdict)
    elif isinstance(verdict, Drop):
        if drop is not None:
            drop(verdict)
    elif hold is not None:
        hold()
