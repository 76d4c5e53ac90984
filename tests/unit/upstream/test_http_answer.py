"""What comes back for a request takes no more room than it must."""

from __future__ import annotations

import tracemalloc

from penstock.errors import UpstreamError
from penstock.upstream.http_answer import HttpAnswer
from penstock.wire.http.sse import Oversize, SseEvent


class Owner:
    """Hears of an answer."""

    body = b""

    def began(self, answer: HttpAnswer) -> None:
        pass

    def event(self, answer: HttpAnswer, event: SseEvent | Oversize) -> None:
        pass

    def over(self, answer: HttpAnswer, error: UpstreamError | None) -> None:
        self.body = answer.body


def test_a_body_two_bytes_at_a_time_takes_no_more_than_four_times_its_size():
    answer = HttpAnswer(owner := Owner())
    answer.on_head(200, [(b"Content-Type", b"application/json")])
    text = bytes(range(256)) * 4096
    tracemalloc.start()
    try:
        for at in range(0, len(text), 2):
            answer.on_data(text[at : at + 2])
        answer.on_end()
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()
    assert owner.body == text
