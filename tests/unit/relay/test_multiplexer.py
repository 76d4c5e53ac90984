"""Many modern clients on one link: each hears what is its own, with its own spelling, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from penstock import limits
from penstock.errors import UpstreamLost
from penstock.gate.gate import Gate
from penstock.policy.exchange import Exchange
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import Why
from penstock.relay.multiplexer import Multiplexer
from penstock.wire.mcp.eras import META_SUBSCRIPTION
from penstock.wire.mcp.message import Kind, Message, read_client_message
from penstock.wire.mcp.replies import INVALID_ANSWER

SUBSCRIPTION = META_SUBSCRIPTION.encode()
LOST = UpstreamLost(cause="gone")


class Link:
    """The one link, in memory."""

    receiver: Any = None
    untaken = 0

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.reasons: set[str] = set()
        self.is_closed = False

    def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def raw(self) -> list[bytes]:
        return [message.raw for message in self.sent]

    def pause(self, reason: str) -> None:
        self.reasons.add(reason)

    def resume(self, reason: str) -> None:
        self.reasons.discard(reason)

    async def close(self) -> None:
        self.is_closed = True


class Asker:
    """One request of a client's, and all that came of it."""

    is_full = False
    unread = 0

    def __init__(self, raw: bytes) -> None:
        message = read_client_message(raw)
        assert isinstance(message, Message)
        self.message = message
        self.exchange = Exchange.of(message)
        self.pushed: list[bytes] = []
        self.answered: list[Message] = []
        self.failed: list[tuple[int, str, str | None]] = []
        self.ends: list[str] = []

    def push(self, message: Message) -> None:
        self.pushed.append(message.raw)

    def answer(self, message: Message) -> None:
        self.answered.append(message)

    def deny(self, message: Message, refusal: Any) -> None:
        raise AssertionError("nobody is denied here")

    def fail(self, code: int, text: str, failure: str | None = None) -> None:
        self.failed.append((code, text, failure))

    def end(self) -> None:
        self.ends.append("ended")

    def cut(self) -> None:
        self.ends.append("cut")


class Told(Gate):
    """A gate that hears what never gets to it."""

    def __init__(self) -> None:
        super().__init__(ToolFilter())
        self.heard: list[tuple[str, str, bytes, Why | None, Exchange | None]] = []

    def said(self, sender, word, raw, why=None, exchange=None, session=None, sent=None, status=None) -> None:  # type: ignore[no-untyped-def]
        self.heard.append((sender, word, raw, why, exchange))


class Shared:
    """A multiplexer with everything around it."""

    def __init__(self) -> None:
        self.link, self.gate, self.losses = Link(), Told(), []
        self.shared = Multiplexer(self.link, self.gate, self.losses.append)  # type: ignore[arg-type]

    def ask(self, raw: bytes) -> tuple[Asker, bytes]:
        asker = Asker(raw)
        return asker, self.shared.ask(asker.message, asker)

    def say(self, raw: bytes) -> None:
        self.shared.from_upstream(raw)


def call(token: bytes, meta: bytes = b"") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"a"%b}}' % (token, meta)


def listen(token: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"subscriptions/listen","params":{}}' % token


def result(number: bytes, text: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (number, text)


def progress(token: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,"n":1}}' % token


def note(params: bytes = b"{}", method: bytes = b"notifications/x") -> bytes:
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method, params)


def test_equal_ids_of_two_clients_are_two_numbers_and_each_gets_its_own_answer() -> None:
    all_ = Shared()
    assert all_.link.receiver is all_.shared
    assert not all_.shared.is_busy
    one, first = all_.ask(call(b'"x"'))
    other, second = all_.ask(call(b'"x"'))
    assert (first, second) == (b"1", b"2")
    assert all_.link.raw == [call(b"1"), call(b"2")]
    assert [(sent.id_token, bytes(sent.envelope["id"])) for sent in all_.link.sent] == [
        (b"1", b"1"),
        (b"2", b"2"),
    ]
    assert all_.shared.is_busy
    all_.say(result(b"2", b'{"to":"other"}'))
    all_.say(result(b"1.0", b'{"to":"one"}'))
    assert [answer.raw for answer in other.answered] == [result(b'"x"', b'{"to":"other"}')]
    (answer,) = one.answered
    assert (answer.raw, answer.kind, answer.id_token) == (
        result(b'"x"', b'{"to":"one"}'),
        Kind.RESPONSE,
        b'"x"',
    )
    assert answer.result is not None
    assert not all_.shared.is_busy


def test_what_is_read_of_a_renumbered_request_is_what_goes_up() -> None:
    all_ = Shared()
    all_.ask(call(b"7", b',"_meta":{"progressToken":"mine"}'))
    (sent,) = all_.link.sent
    assert sent.raw == call(b"1", b',"_meta":{"progressToken":1}')
    assert (sent.kind, sent.method) == (Kind.REQUEST, "tools/call")
    assert bytes(sent.envelope["params"]) == b'{"name":"a","_meta":{"progressToken":1}}'
    assert sent.params is not None
    assert bytes(sent.params["_meta"]) == b'{"progressToken":1}'
    assert bytes(sent.params["name"]) == b'"a"'
    assert bytes(sent.envelope["method"]) == b'"tools/call"'


def test_progress_goes_to_whose_token_it_has_and_with_that_token() -> None:
    all_ = Shared()
    one, first = all_.ask(call(b"7", b',"_meta":{"progressToken":"mine"}'))
    other, second = all_.ask(call(b"7", b',"_meta":{"progressToken":"yours"}'))
    without, third = all_.ask(call(b"8"))
    for token in (first, second, third, b"99"):
        all_.say(progress(token))
    assert (one.pushed, other.pushed, without.pushed) == ([progress(b'"mine"')], [progress(b'"yours"')], [])
    assert [(word, raw) for _, word, raw, _, _ in all_.gate.heard] == [
        ("drop", progress(b"3")),
        ("drop", progress(b"99")),
    ]


def test_what_names_no_request_goes_to_the_only_one_there_is() -> None:
    all_ = Shared()
    listener, _ = all_.ask(listen(b"1"))
    all_.say(note())
    assert listener.pushed == []
    one, _ = all_.ask(call(b"2"))
    all_.say(note())
    all_.say(b'{"jsonrpc":"2.0","method":"notifications/y"}')
    assert one.pushed == [note(), b'{"jsonrpc":"2.0","method":"notifications/y"}']
    other, _ = all_.ask(call(b"3"))
    all_.say(note())
    assert (len(one.pushed), other.pushed) == (2, [])
    sender, word, raw, why, _ = all_.gate.heard[-1]
    assert (sender, word, raw) == ("upstream", "drop", note())
    assert why == Why("relay", "drop", "it belongs to no request")


def test_progress_without_a_token_is_treated_like_anything_else() -> None:
    all_ = Shared()
    one, _ = all_.ask(call(b"2"))
    raw = note(b'{"n":1}', b"notifications/progress")
    all_.say(raw)
    assert one.pushed == [raw]


@pytest.mark.parametrize(
    ("token", "as_number", "as_string"), [(b"7", b"7", b'"7"'), (b'"s"', b'"s"', b'"s"')]
)
def test_a_subscription_is_told_by_the_id_of_the_clients_own_request(
    token: bytes, as_number: bytes, as_string: bytes
) -> None:
    all_ = Shared()
    listener, number = all_.ask(listen(token))
    all_.ask(call(b"9"))
    said = b'{"a":[1],"_meta":{"%b":%b,"b":2}}'
    all_.say(note(said % (SUBSCRIPTION, number)))
    all_.say(note(said % (SUBSCRIPTION, b'"%b"' % number)))
    assert listener.pushed == [
        note(said % (SUBSCRIPTION, as_number)),
        note(said % (SUBSCRIPTION, as_string)),
    ]
    all_.say(note(said % (SUBSCRIPTION, b"2")))  # it asks for a call, and listens to nothing
    all_.say(note(said % (SUBSCRIPTION, b"55")))
    assert len(listener.pushed) == 2
    all_.say(result(number, said % (SUBSCRIPTION, number)))
    assert listener.answered[0].raw == result(token, said % (SUBSCRIPTION, as_number))


def test_an_answer_to_a_listener_without_a_subscription_is_as_it_came() -> None:
    all_ = Shared()
    listener, number = all_.ask(listen(b'"l"'))
    all_.say(result(number, b'{"_meta":[]}'))
    assert listener.answered[0].raw == result(b'"l"', b'{"_meta":[]}')


def test_what_looks_like_a_subscription_in_a_call_stays_as_it_is() -> None:
    all_ = Shared()
    one, number = all_.ask(call(b'"c"'))
    text = b'{"_meta":{"%b":1}}' % SUBSCRIPTION
    all_.say(result(number, text))
    assert one.answered[0].raw == result(b'"c"', text)


@pytest.mark.parametrize("text", [b'{"_meta":{},"_meta":{}}', b"[]", b"7"])
def test_an_answer_that_can_be_read_in_two_ways_is_withheld(
    text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    all_ = Shared()
    listener, number = all_.ask(listen(b"5"))
    all_.say(result(number, text))
    assert listener.answered == []
    assert listener.failed == [(-32603, INVALID_ANSWER, None)]
    sender, word, _, why, exchange = all_.gate.heard[-1]
    assert (sender, word, exchange) == ("upstream", "skip", listener.exchange)
    assert why == Why("protocol", "skip", "it can be read in two ways")
    assert len(caplog.records) == 1


@pytest.mark.parametrize("params", [b'{"a":1,"a":2}', b"[1]", b"7"])
def test_a_notification_whose_params_are_no_plain_object_is_nobodys(
    params: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    all_ = Shared()
    one, _ = all_.ask(call(b"2"))
    all_.say(note(params))
    assert one.pushed == []
    assert [(sender, word) for sender, word, *_ in all_.gate.heard] == [("upstream", "skip")]
    assert len(caplog.records) == 1


def test_an_answer_that_nobody_waits_for_is_dropped_and_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    all_ = Shared()
    all_.say(result(b"1"))
    all_.say(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}')
    why = Why("relay", "drop", "it answers a question that nobody asked")
    assert [(sender, word, why) for sender, word, _, why, _ in all_.gate.heard] == [
        ("upstream", "drop", why),
        ("upstream", "drop", why),
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]


def test_an_answer_comes_once() -> None:
    all_ = Shared()
    one, number = all_.ask(call(b"2"))
    all_.say(result(number))
    all_.say(result(number))
    assert len(one.answered) == 1


def test_arrays_and_requests_of_the_upstream_are_nobodys_in_this_era(
    caplog: pytest.LogCaptureFixture,
) -> None:
    all_ = Shared()
    one, number = all_.ask(call(b"2"))
    all_.say(b"[%b]" % result(number))
    all_.say(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert (one.answered, one.pushed, one.failed) == ([], [], [])
    assert len(caplog.records) == 2


def test_what_cannot_be_read_is_told_and_whoever_waits_for_it_hears_an_error() -> None:
    all_ = Shared()
    one, number = all_.ask(call(b"2"))
    broken = b'{"jsonrpc":"2.0","id":%b,"result":{},"result":{}}' % number
    all_.say(broken)
    assert [code for code, _, _ in one.failed] == [-32603]
    sender, word, raw, why, exchange = all_.gate.heard[-1]
    assert (sender, word, raw, exchange) == ("upstream", "skip", broken, one.exchange)
    assert why is not None
    assert (why.rule, why.action) == ("protocol", "skip")
    other, number = all_.ask(call(b"2"))
    all_.shared.upstream_refused(number, "It is too large", b"head")
    assert [code for code, _, _ in other.failed] == [-32603]
    all_.shared.upstream_refused(None, "It is too large")
    all_.shared.upstream_refused(b"77", "It is too large")
    assert all_.gate.heard[-1][4] is None
    all_.shared.upstream_noise(b"hello")
    assert all_.gate.heard[-1][:4] == (
        "upstream",
        "skip",
        b"hello",
        Why("protocol", "skip", "it is no message"),
    )


def test_who_hangs_up_has_cancelled_once() -> None:
    all_ = Shared()
    one, number = all_.ask(call(b"2"))
    all_.link.reasons.add("client does not read")
    all_.shared.cancel(number)
    assert all_.link.raw[-1] == note(b'{"requestId":1}', b"notifications/cancelled")
    assert all_.link.reasons == set()
    sent = len(all_.link.sent)
    all_.shared.cancel(number)
    assert len(all_.link.sent) == sent
    all_.say(result(number))
    assert one.answered == []


def test_what_was_cancelled_may_still_speak_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    all_ = Shared()
    _, first = all_.ask(call(b"1"))
    all_.shared.cancel(first)
    now[0] += 1
    _, second = all_.ask(call(b"1"))
    all_.shared.cancel(second)
    one, _ = all_.ask(call(b"2"))
    all_.say(note())
    assert one.pushed == []
    now[0] = 100.0 + limits.CANCELLED_SECONDS
    all_.say(note())
    assert one.pushed == []  # the second is not over yet
    now[0] += 1
    all_.say(note())
    assert one.pushed == [note()]


def test_only_so_many_cancelled_requests_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REFUSED_IDS", 2)
    all_ = Shared()
    numbers = [all_.ask(call(b"1"))[1] for _ in range(3)]
    for number in numbers:
        all_.shared.cancel(number)
    one, _ = all_.ask(call(b"2"))
    all_.say(result(numbers[1]))
    all_.say(note())
    assert one.pushed == []  # the third is remembered
    all_.say(result(numbers[2]))
    all_.say(note())
    assert one.pushed == [note()]  # and the first is forgotten


@pytest.mark.parametrize(
    ("raw", "is_cancel"),
    [
        (note(b'{"requestId":1}', b"notifications/cancelled"), True),
        (note(b'{"REQUESTID":1}', b"notifications/cancelled"), True),
        (note(b"[1]", b"notifications/cancelled"), True),
        (note(b'{"a":1}', b"notifications/cancelled"), False),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled"}', False),
        (note(b'{"requestId":1}'), False),
    ],
)
def test_a_notification_goes_up_unless_it_cancels(
    raw: bytes, is_cancel: bool, caplog: pytest.LogCaptureFixture
) -> None:
    all_ = Shared()
    message = read_client_message(raw)
    assert isinstance(message, Message)
    all_.shared.tell(message)
    assert all_.link.raw == ([] if is_cancel else [raw])
    assert len(caplog.records) == is_cancel


def test_a_cancel_with_an_id_is_a_method_that_there_is_not() -> None:
    all_ = Shared()
    raw = b'{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled","params":{"requestId":1}}'
    asker, number = all_.ask(raw)
    assert (number, all_.link.raw, all_.shared.is_busy) == (b"", [], False)
    assert asker.failed == [(-32601, "Method not found", None)]


def test_two_progress_tokens_are_refused_and_nothing_goes_up() -> None:
    all_ = Shared()
    asker, number = all_.ask(call(b"1", b',"_meta":{"progressToken":1,"progressTok\\u0065n":2}'))
    assert (number, all_.link.raw, all_.shared.is_busy) == (b"", [], False)
    ((code, text, failure),) = asker.failed
    assert (code, failure) == (-32600, None)
    assert text.startswith("Invalid request: in _meta, ")


def test_a_client_that_does_not_read_makes_the_upstream_wait_only_while_it_is_alone() -> None:
    all_ = Shared()
    slow, _ = all_.ask(call(b"1"))
    all_.say(note())
    assert all_.link.reasons == set()
    slow.is_full = True
    all_.say(note())
    assert all_.link.reasons == {"client does not read"}
    other, _ = all_.ask(call(b"2", b',"_meta":{"progressToken":"t"}'))
    assert all_.link.reasons == set()  # nobody waits for somebody else who does not read
    all_.shared.on_drain()
    assert (slow.ends, other.ends) == ([], [])


def test_a_client_that_does_not_read_at_all_is_hung_up_on_where_others_wait() -> None:
    all_ = Shared()
    slow, number = all_.ask(call(b"1", b',"_meta":{"progressToken":"t"}'))
    other, _ = all_.ask(call(b"2"))
    slow.is_full, slow.unread = True, limits.UNREAD_BYTES
    all_.say(progress(number))
    assert (slow.ends, all_.link.reasons) == ([], set())
    slow.unread += 1
    all_.say(progress(number))
    assert (slow.ends, other.ends) == (["cut"], [])
    assert all_.link.raw[-1] == note(b'{"requestId":%b}' % number, b"notifications/cancelled")
    assert all_.shared.is_busy


def test_listeners_are_ended_and_calls_go_on() -> None:
    all_ = Shared()
    listener, number = all_.ask(listen(b"1"))
    one, second = all_.ask(call(b"2"))
    all_.shared.end_listeners()
    assert (listener.ends, one.ends) == (["ended"], [])
    assert all_.link.raw[-1] == note(b'{"requestId":%b}' % number, b"notifications/cancelled")
    all_.say(result(second))
    assert len(one.answered) == 1


def test_when_the_link_is_lost_everybody_who_waits_hears_it_and_then_the_owner() -> None:
    all_ = Shared()
    all_.link.untaken = 5
    one, number = all_.ask(call(b"1"))
    other, _ = all_.ask(call(b"2"))
    assert (all_.shared.is_lost, all_.shared.backlog) == (False, 5)
    all_.shared.upstream_lost(LOST)
    expected = [(-32603, LOST.safe_message, LOST.failure)]
    assert (one.failed, other.failed, all_.losses) == (expected, expected, [LOST])
    assert (all_.shared.is_lost, all_.shared.backlog, all_.shared.is_busy) == (True, 0, False)
    sent = len(all_.link.sent)
    late, last = all_.ask(call(b"3"))
    all_.shared.cancel(number)
    assert (late.failed, last, len(all_.link.sent)) == (expected, b"", sent)


def test_who_hangs_up_after_the_loss_cancels_nothing() -> None:
    all_ = Shared()
    _, number = all_.ask(call(b"1"))
    all_.shared._lost = LOST
    all_.shared.cancel(number)
    assert len(all_.link.sent) == 1


def test_closing_it_closes_the_link(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    link = Link()
    shared = Multiplexer(link, Told())  # type: ignore[arg-type]
    asyncio.run(shared.close())
    assert link.is_closed
    shared.upstream_lost(LOST)  # nobody wants to hear of it


def test_what_is_dropped_or_withheld_is_told_to_people(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    all_ = Shared()
    message = read_client_message(note(b'{"requestId":1}', b"notifications/cancelled"))
    assert isinstance(message, Message)
    all_.shared.tell(message)
    all_.say(b"[%b]" % note())
    all_.say(b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}')
    all_.say(result(b"1"))
    _, number = all_.ask(listen(b"5"))
    all_.say(result(number, b"[]"))
    all_.say(note(b"[1]"))
    all_.say(note())
    slow, number = all_.ask(call(b"1", b',"_meta":{"progressToken":"t"}'))
    all_.ask(call(b"2"))
    slow.is_full, slow.unread = True, limits.UNREAD_BYTES + 1
    all_.say(progress(number))
    all_.shared.upstream_refused(None, "It is too large")
    assert all_.gate.heard[-1][:3] == ("upstream", "skip", b"")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "Dropped a message from a client: a cancel that names no request of its own."),
        ("WARNING", "Skipped a batch from the upstream: this protocol version has none."),
        ("WARNING", "Dropped a request from the upstream: this protocol version has none."),
        ("INFO", "Dropped a response from the upstream that nobody waits for."),
        ("WARNING", "Withheld a message of the upstream: it can be read in two ways."),
        ("WARNING", "Dropped a message from the upstream: its params cannot be read."),
        ("INFO", "Dropped notifications/x from the upstream: it belongs to no request."),
        ("WARNING", "Hung up on a client that does not read: others wait for the same upstream."),
        ("WARNING", "Skipped a message from the upstream. It is too large."),
    ]


def test_a_token_in_another_notification_is_no_progress() -> None:
    all_ = Shared()
    one, _ = all_.ask(call(b"1", b',"_meta":{"progressToken":"t"}'))
    raw = note(b'{"progressToken":1}')
    all_.say(raw)
    assert one.pushed == [raw]


def test_a_subscription_that_only_looks_like_a_number_of_ours_is_nobodys() -> None:
    all_ = Shared()
    listener, _ = all_.ask(listen(b"7"))
    all_.say(note(b'{"_meta":{"%b":"X1"}}' % SUBSCRIPTION))
    assert listener.pushed == []


def test_as_many_cancelled_requests_are_remembered_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REFUSED_IDS", 1)
    all_ = Shared()
    _, number = all_.ask(call(b"1"))
    all_.shared.cancel(number)
    one, _ = all_.ask(call(b"2"))
    all_.say(note())  # it may be about the request that was cancelled
    assert one.pushed == []
