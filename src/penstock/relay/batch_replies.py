"""The answers to a batch, until they can be given together."""

from __future__ import annotations

from collections.abc import Callable


class BatchReplies:
    """Collects one answer for each request of a batch, then hands them over as one JSON array."""

    def __init__(self, deliver: Callable[[bytes], None]) -> None:
        self._deliver = deliver
        self._answers: list[bytes] = []
        self._expected = 0
        self._is_sealed = False

    def expect(self) -> None:
        """One more answer will come."""
        self._expected += 1

    def expect_less(self) -> None:
        """One answer will not come after all."""
        self._expected -= 1

    def seal(self) -> bool:
        """Nothing more will be expected; True when something is."""
        self._is_sealed = True
        self._deliver_if_complete()
        return self._expected > 0

    def take(self, raw: bytes) -> None:
        """One answer has come."""
        self._answers.append(raw)
        self._deliver_if_complete()

    def _deliver_if_complete(self) -> None:
        if self._is_sealed and self._answers and len(self._answers) == self._expected:
            answers, self._answers = self._answers, []
            self._deliver(b"[%b]" % b",".join(answers))
