"""What may go, what must wait, and when the sender is told to stop."""

from __future__ import annotations

from gate_messages import client
from penstock import limits
from penstock.upstream.outbox import Outbox
from penstock.wire.mcp.message import Message


def message(text: str) -> Message:
    return client(text.encode())


def request(number: int, size: int = 0) -> Message:
    return message(f'{{"jsonrpc":"2.0","id":{number},"method":"m","params":{{"x":"{"x" * size}"}}}}')


def note() -> Message:
    return message('{"jsonrpc":"2.0","method":"n"}')


class Trial:
    def __init__(self, in_turn: bool = False) -> None:
        self.sent: list[Message] = []
        self.told: list[str] = []
        self.outbox = Outbox(
            self.sent.append, lambda: self.told.append("full"), lambda: self.told.append("drained"), in_turn
        )


def test_requests_go_side_by_side_and_a_notification_holds_up_the_rest():
    trial = Trial()
    first, second, third, pause = request(1), request(2), request(3), note()
    for one in (first, second, pause, third):
        trial.outbox.put(one)
    assert trial.sent == [first, second, pause]
    trial.outbox.done(first)
    assert trial.sent == [first, second, pause]
    trial.outbox.done(pause)
    assert trial.sent == [first, second, pause, third]


def test_a_response_overtakes_requests_that_wait_for_a_free_place():
    trial = Trial()
    running = [request(number) for number in range(limits.UPSTREAM_POSTS)]
    for one in running:
        trial.outbox.put(one)
    surplus, pause = request(9001), note()
    trial.outbox.put(surplus)
    trial.outbox.put(pause)
    assert trial.sent[-1] is pause
    trial.outbox.done(pause)
    assert surplus not in trial.sent
    trial.outbox.done(running[0])
    assert trial.sent[-1] is surplus


def test_in_turn_everything_waits_until_it_is_let_past():
    trial = Trial(in_turn=True)
    first, second, third = request(1), request(2), request(3)
    for one in (first, second, third):
        trial.outbox.put(one)
    assert trial.sent == [first]
    trial.outbox.lift(first)
    assert trial.sent == [first, second]
    trial.outbox.lift(first)
    assert trial.sent == [first, second]
    trial.outbox.done(second)
    assert trial.sent == [first, second, third]


def test_a_full_outbox_says_so_once_and_again_when_it_has_drained():
    trial = Trial()
    pause = note()
    trial.outbox.put(pause)
    waiting = [request(number, 400_000) for number in range(5)]
    for one in waiting:
        trial.outbox.put(one)
    assert trial.told == ["full"]
    trial.outbox.done(pause)
    assert trial.told == ["full", "drained"]


def test_bytes_that_nobody_answers_fill_it_too():
    trial = Trial()
    running = [request(number, 9_000_000) for number in range(5)]
    for one in running:
        trial.outbox.put(one)
    assert trial.told == ["full"]
    trial.outbox.done(running[0])
    assert trial.told == ["full", "drained"]


def test_a_request_that_has_not_gone_can_be_taken_back():
    trial = Trial()
    pause = note()
    trial.outbox.put(pause)
    trial.outbox.put(request(1))
    assert trial.outbox.withdraw(b"1.0")
    assert not trial.outbox.withdraw(b"1")
    trial.outbox.done(pause)
    assert trial.sent == [pause]
    assert not trial.outbox.is_waiting


def test_what_was_held_goes_after_release_and_what_was_under_way_is_forgotten():
    trial = Trial()
    first, second, pause = request(1), request(2), note()
    trial.outbox.put(pause)
    trial.outbox.hold()
    trial.outbox.put(second)
    trial.outbox.put_first(first)
    assert trial.sent == [pause]
    trial.outbox.release()
    assert trial.sent == [pause, first, second]


def test_emptying_gives_back_what_was_not_sent_in_order():
    trial = Trial()
    pause, first, second = note(), request(1), request(2)
    for one in (pause, first, second):
        trial.outbox.put(one)
    assert trial.outbox.empty() == [first, second]
    trial.outbox.done(pause)
    assert trial.sent == [pause]
