"""One client with a link of its own: what passes, what is held, what is answered here, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

import pytest

from penstock import limits
from penstock.errors import ClientProtocolError, UpstreamLost
from penstock.gate.gate import Gate
from penstock.policy.exchange import Exchange, Session
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import Answer, Drop, Forward, Verdict, Wait, Why
from penstock.relay.contracts import LinkFacts
from penstock.relay.session_relay import SessionRelay
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message, read_client_message

LOST = UpstreamLost(cause="gone")
HELLO = b'{"jsonrpc":"2.0","id":"h","method":"initialize","params":{}}'
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
META = (
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},'
    b'"io.modelcontextprotocol/clientCapabilities":{}}'
)


def hello_back(version: bytes = b"2025-11-25", capabilities: bytes = b'{"tools":{}}') -> bytes:
    text = b'{"protocolVersion":"%b","capabilities":%b}' % (version, capabilities)
    return result(b'"h"', text)


def ask(token: bytes, method: bytes = b"ping", params: bytes = b"") -> bytes:
    more = b',"params":' + params if params else b""
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b"%b}' % (token, method, more)


def call(token: bytes, name: bytes = b"good", more: bytes = b"") -> bytes:
    return ask(token, b"tools/call", b'{"name":"%b"%b}' % (name, more))


def note(method: bytes, params: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method, params)


def cancel(token: bytes) -> bytes:
    return note(b"notifications/cancelled", b'{"requestId":%b}' % token)


def result(token: bytes, text: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (token, text)


def error(token: bytes, code: int, text: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":"%b"}}' % (token, code, text.encode())


def tools(*names: bytes) -> bytes:
    entries = b",".join(b'{"name":"%b","inputSchema":{"type":"object"}}' % name for name in names)
    return b'{"tools":[%b]}' % entries


class Client:
    """The client's end."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, object]] = []
        self.refused: list[tuple[bytes, object]] = []
        self.read: list[Message | None] = []
        self.reasons: set[str] = set()

    def send(self, raw: bytes, route: object, message: Message | None) -> None:
        self.got.append((raw, route))
        self.read.append(message)

    def refuse(self, raw: bytes, route: object) -> None:
        self.refused.append((raw, route))

    def pause(self, reason: str) -> None:
        self.reasons.add(reason)

    def resume(self, reason: str) -> None:
        self.reasons.discard(reason)

    @property
    def raw(self) -> list[bytes]:
        return [raw for raw, _ in self.got]


class Link:
    """The upstream's end."""

    receiver: Any = None
    facts = LinkFacts("stdio")

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def take(self) -> list[bytes]:
        """What went up since the last time."""
        sent, self.sent = self.sent, []
        return [message.raw for message in sent]


class Spoken(Gate):
    """A gate that says what a test wants it to say, and hears what never gets to it."""

    def __init__(self, choice: ToolFilter) -> None:
        super().__init__(choice)
        self.up: dict[str, Verdict] = {}  # by method, of the client's
        self.back: dict[str, Verdict] = {}
        self.heard: list[tuple[str, str, bytes, Why | None]] = []
        self.exchanges: list[Exchange] = []
        self.begun: list[Exchange] = []  # by messages of the upstream's
        self.batches: list[tuple[str, bytes, Session]] = []

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        self.exchanges.append(exchange)
        found = self.up.get(message.method or "response")
        return found if found is not None else super().client_says(message, exchange)

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        self.begun.append(exchange)
        found = self.back.get(message.method or "response")
        return found if found is not None else super().upstream_says(message, exchange)

    def said(self, sender, word, raw, why=None, exchange=None, session=None, sent=None, status=None) -> None:  # type: ignore[no-untyped-def]
        self.heard.append((sender, word, raw, why))

    def in_batch(self, sender: str, raw: bytes, session: Session) -> AbstractContextManager[None]:
        self.batches.append((sender, raw, session))
        return super().in_batch(sender, raw, session)


FILTER = ToolFilter(deny=(compile_pattern("^bad$", "deny list"),))


class Relay:
    """A relay with everything around it."""

    def __init__(self, choice: ToolFilter = FILTER, **more: Any) -> None:
        self.client, self.link, self.gate = Client(), Link(), Spoken(choice)
        self.session = Session()
        self.catalogs: list[ToolCatalog] = []
        self.fatal: list[Exception] = []
        self.relay = SessionRelay(
            self.client,
            self.link,  # type: ignore[arg-type]
            self.gate,
            self.session,
            on_catalog=self.catalogs.append,
            on_fatal=self.fatal.append,
            translates=False,
            **more,
        )
        self.say, self.back = self.relay.from_client, self.relay.from_upstream

    def begin(self, version: bytes = b"2025-11-25") -> None:
        """Shakes hands; nobody has asked for a list yet, or it is answered."""
        self.say(HELLO)
        self.back(hello_back(version))
        self.say(INITIALIZED)
        self.list_tools(b"good", b"bad")
        self.client.got.clear()
        self.client.read.clear()
        self.link.take()

    def list_tools(self, *names: bytes) -> None:
        """Answers the relay's own request for the list, if there is one."""
        for message in tuple(self.link.sent):
            if message.method == "tools/list":
                assert message.id_token is not None
                self.back(result(message.id_token, tools(*names)))


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A relay needs a loop for its timers."""

    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


PLAIN = ToolFilter()


def test_without_a_filter_everything_passes_and_answers_find_their_way_back() -> None:
    it = Relay(PLAIN)
    assert it.link.receiver is it.relay
    assert (it.relay.pending, it.relay.is_answering, it.relay.is_holding) == (0, False, False)
    it.say(ask(b"1"), "route one", [(b"H", b"v")])
    it.say(ask(b"2"), "route two")
    it.say(note(b"notifications/x"))
    assert it.link.take() == [ask(b"1"), ask(b"2"), note(b"notifications/x")]
    assert it.gate.exchanges[0].headers == [(b"H", b"v")]
    assert (it.relay.pending, it.relay.is_answering) == (2, True)
    it.back(result(b"2"))
    it.back(result(b"1"))
    assert it.client.got == [(result(b"2"), "route two"), (result(b"1"), "route one")]
    assert [read.raw for read in it.client.read if read is not None] == [result(b"2"), result(b"1")]
    assert it.relay.pending == 0


def test_who_waits_for_a_handshake_or_listens_is_not_about_to_be_answered() -> None:
    it = Relay(PLAIN)
    it.say(HELLO)
    it.say(ask(b"1", b"subscriptions/listen"))
    assert (it.relay.pending, it.relay.is_answering) == (2, False)


def test_take_says_whether_an_answer_will_come() -> None:
    it = Relay(PLAIN)

    def take(raw: bytes) -> bool:
        message = read_client_message(raw)
        return it.relay.take(message, "route")

    it.gate.up = {
        "answered": Answer(b"{}"),
        "dropped": Drop(Why("r", "drop", "no")),
        "waits": Wait(_message(ask(b"3", b"waits")), True),
        "changed": Forward(_message(ask(b"4", b"other")), "change"),
    }
    assert take(ask(b"1"))
    assert take(ask(b"2", b"answered"))
    assert take(ask(b"3", b"waits"))
    assert take(ask(b"4", b"changed"))
    assert not take(ask(b"5", b"dropped"))
    assert not take(note(b"n"))
    assert not take(note(b"waits"))
    assert not take(result(b"9"))
    assert it.link.take() == [ask(b"1"), ask(b"4", b"other"), note(b"n")]
    assert it.client.raw[0] == b"{}"


def _message(raw: bytes) -> Message:
    message = read_client_message(raw)
    assert isinstance(message, Message)
    return message


def test_what_was_changed_goes_up_in_its_place() -> None:
    it = Relay(PLAIN)
    changed = ask(b"1", b"other")
    it.gate.up["ping"] = Forward(_message(changed), "change")
    it.say(ask(b"1"))
    assert it.link.take() == [changed]
    it.back(result(b"1"))
    assert it.client.raw == [result(b"1")]


def test_an_id_that_waits_for_its_answer_cannot_be_used_again() -> None:
    it = Relay(PLAIN)
    it.say(ask(b"1"), "first")
    it.say(ask(b"1", b"other"), "second")
    assert it.link.take() == [ask(b"1")]
    ((raw, route),) = it.client.refused
    assert route == "second"
    assert b'"code":-32600' in raw
    assert [(sender, word) for sender, word, *_ in it.gate.heard] == [("client", "refuse")]


def test_what_cannot_be_read_is_refused_and_told() -> None:
    it = Relay(PLAIN)
    it.say(b"{", "route")
    ((raw, route),) = it.client.refused
    assert (route, b'"code":-32700' in raw) == ("route", True)
    sender, word, said, why = it.gate.heard[0]
    assert (sender, word, said) == ("client", "refuse", b"{")
    assert (why.rule, why.action, why.code) == ("protocol", "refuse", -32700)  # type: ignore[union-attr]
    it.say(b'{"jsonrpc":"2.0","id":4,"method":"a","method":"b"}')
    it.say(cancel(b"4"))
    assert it.link.take() == []  # it cancels what never went up


def test_an_answer_of_ours_goes_back_as_an_answer_and_one_to_nonsense_as_a_refusal() -> None:
    it = Relay(PLAIN)
    it.gate.up = {"a": Answer(b"answer"), "b": Answer(b"refusal", -32600, word="refuse")}
    it.say(ask(b"1", b"a"), "one")
    it.say(ask(b"2", b"b"), "two")
    assert (it.client.got, it.client.refused) == ([(b"answer", "one")], [(b"refusal", "two")])
    assert it.client.read == [None]
    it.say(cancel(b"1"))
    assert it.link.take() == []
    assert it.gate.heard[-1][:2] == ("client", "drop")
    assert it.gate.heard[-1][3].rule == "relay"  # type: ignore[union-attr]
    it.gate.up = {}
    it.say(ask(b"1", b"a"))  # now it does go up
    it.say(cancel(b"1"))
    it.say(note(b"notifications/cancelled"))
    it.say(note(b"notifications/other", b'{"requestId":2}'))
    assert len(it.link.take()) == 4


def test_what_waits_is_carried_out_when_it_is_decided() -> None:
    it = Relay(PLAIN)
    waits = [Wait(_message(ask(b"1")), True) for _ in range(4)]
    for number, wait in enumerate(waits):
        it.gate.up["ping"] = wait
        it.say(ask(b"%d" % number), f"route {number}" if number < 3 else None)
    assert it.link.take() == []
    waits[0].settle(Forward())
    waits[1].settle(Answer(b"answer"))
    assert it.link.take() == [ask(b"0")]
    assert it.client.got == [(b"answer", "route 1")]
    for wait in waits[2:]:
        wait.settle(Drop(Why("r", "drop", "cancelled")))
    ((_, _), (raw, route)) = it.client.got  # somebody waits there; nobody does without a route
    assert (route, b'"id":2,' in raw, b'"code":-32603' in raw) == ("route 2", True, True)
    it.gate.up = {}
    it.say(cancel(b"3"))
    assert it.link.take() == []


def test_a_notification_that_was_dropped_after_a_while_is_just_gone() -> None:
    it = Relay(PLAIN)
    wait = Wait(_message(note(b"n")), True)
    it.gate.up["n"] = wait
    it.say(note(b"n"), "route")
    wait.settle(Drop(Why("r", "drop", "no")))
    assert (it.client.got, it.link.take()) == ([], [])


def test_requests_of_the_upstream_are_answered_by_the_client_once() -> None:
    it = Relay(PLAIN)
    it.back(ask(b"7", b"sampling/createMessage"))
    it.back(note(b"notifications/y"))
    assert it.client.got == [(ask(b"7", b"sampling/createMessage"), None), (note(b"notifications/y"), None)]
    assert it.client.read[0] is not None
    it.say(result(b"7"))
    it.say(result(b"7"))
    it.say(error(b"null", 1, "m"))
    assert it.link.take() == [result(b"7")]
    assert [(sender, word, why.rule) for sender, word, _, why in it.gate.heard] == [  # type: ignore[union-attr]
        ("client", "drop", "relay"),
        ("client", "drop", "relay"),
    ]


def test_a_request_of_the_upstream_that_is_blocked_is_answered_to_the_upstream() -> None:
    it = Relay(PLAIN)
    it.gate.back["sampling/createMessage"] = Answer(error(b"7", -32602, "no"), -32602, word="block")
    it.back(ask(b"7", b"sampling/createMessage"))
    assert (it.client.got, it.link.take()) == ([], [error(b"7", -32602, "no")])


def test_what_stands_in_the_place_of_an_answer_goes_to_who_asked() -> None:
    it = Relay(PLAIN)
    it.say(ask(b"1"), "route")
    it.gate.back["response"] = Forward(_message(ask(b"1", b"instead")), "block")
    it.back(result(b"1"))
    assert it.client.got == [(ask(b"1", b"instead"), "route")]


def test_an_answer_that_nobody_asked_for_is_dropped_but_a_complaint_passes() -> None:
    it = Relay(PLAIN)
    it.back(result(b"1"))
    it.back(result(b"null"))
    assert it.client.got == []
    assert [(sender, word, why.rule) for sender, word, _, why in it.gate.heard] == [  # type: ignore[union-attr]
        ("upstream", "drop", "relay"),
        ("upstream", "drop", "relay"),
    ]
    it.back(error(b"null", -32700, "what"))
    assert it.client.got == [(error(b"null", -32700, "what"), None)]
    it.back(error(b"5", -32700, "what"))
    assert len(it.client.got) == 1
    nameless = b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"what"}}'
    it.back(nameless)
    assert it.client.got[1:] == [(nameless, None)]


def test_what_of_the_upstream_cannot_be_read_fails_who_waits_for_it() -> None:
    it = Relay(PLAIN)
    it.say(ask(b"1"), "route")
    broken = b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}'
    it.back(broken)
    ((raw, route),) = it.client.got
    assert (route, b'"code":-32603' in raw) == ("route", True)
    assert [(sender, word) for sender, word, *_ in it.gate.heard] == [
        ("upstream", "skip"),
        ("penstock", "answer"),
    ]
    assert it.gate.heard[0][2] == broken
    it.relay.upstream_refused(None, "It is too large")
    it.relay.upstream_refused(b"9", "It is too large", b"raw")
    it.relay.upstream_noise(b"hello")
    assert it.gate.heard[-2][:3] == ("upstream", "skip", b"raw")
    assert it.gate.heard[-1][:3] == ("upstream", "skip", b"hello")
    assert it.gate.heard[-1][3].rule == "protocol"  # type: ignore[union-attr]
    assert len(it.client.got) == 1


def test_arrays_are_answered_together_where_the_protocol_has_them() -> None:
    it = Relay(PLAIN)
    it.say(b"[%b]" % ask(b"1"), "route")
    ((raw, route),) = it.client.refused
    assert (route, b'"code":-32600' in raw) == ("route", True)
    it.say(HELLO)
    it.back(hello_back(b"2025-03-26"))
    it.client.got.clear()
    it.link.take()
    it.say(b"[%b,%b,%b]" % (ask(b"1"), note(b"n"), ask(b"2")), "route")
    it.back(b"[%b,%b]" % (result(b"2"), note(b"m")))
    assert it.client.got == [(note(b"m"), None)]
    it.back(result(b"1"))
    assert it.client.got[1:] == [(b"[%b,%b]" % (result(b"2"), result(b"1")), "route")]
    it.say(b"[]", "route")
    assert len(it.client.refused) == 2
    it.gate.takes_batches = False
    it.say(b"[%b]" % ask(b"1"), "route")
    assert len(it.client.refused) == 3
    it.gate.takes_batches = True
    it.say(b"[%b,7]" % ask(b"3"), "route")
    it.back(result(b"3"))
    assert (len(it.client.refused), it.client.got[-1][1]) == (3, "route")
    assert it.client.got[-1][0].startswith(b'[{"jsonrpc":"2.0","id":null,"error":')


@in_loop
async def test_a_tool_request_waits_for_the_list_and_is_judged_by_it() -> None:
    it = Relay()
    idle: list[int] = []
    it.relay.on_idle = lambda: idle.append(1)
    it.say(HELLO)
    it.say(call(b"1"), "one")
    it.say(call(b"2", b"bad"), "two")
    assert it.link.take() == [HELLO]
    assert it.relay.is_holding
    it.back(hello_back())
    (list_request,) = it.link.sent
    assert list_request.method == "tools/list"
    assert it.gate.heard[-1][:2] == ("penstock", "pass")
    it.say(INITIALIZED)
    it.list_tools(b"good", b"bad")
    assert [message.raw for message in it.link.sent[1:]] == [INITIALIZED, call(b"1")]
    assert [names(one) for one in it.catalogs] == [{"good"}]
    assert (it.relay.is_holding, idle) == (False, [1])
    assert it.client.got[0] == (hello_back(), None)
    ((raw, route),) = it.client.got[1:]
    assert (route, b'"id":2,' in raw, b"error" in raw) == ("two", True, True)
    it.say(ask(b"3", b"tools/list"), "three")
    assert it.client.got[-1] == (result(b"3", tools(b"good")), "three")
    it.relay.end()


def names(catalog: ToolCatalog) -> set[str]:
    return {tool.name for tool in catalog.allowed}


@in_loop
async def test_a_held_request_can_be_cancelled_unless_somebody_waits_by_a_route() -> None:
    it = Relay()
    it.say(HELLO)
    it.say(call(b"1"))
    it.say(call(b"2"), "route")
    it.say(cancel(b"1"))
    it.back(hello_back())
    it.link.take()
    it.say(INITIALIZED)
    it.say(ask(b"0", b"tools/list"))
    it.relay.end()
    assert it.gate.heard[0][:3] == ("client", "drop", cancel(b"1"))


def large(token: bytes) -> bytes:
    """A call of just so many bytes as one client may have waiting."""
    spare = limits.HELD_BYTES - len(call(token, b"good", b',"arguments":{"x":""}'))
    return call(token, b"good", b',"arguments":{"x":"%b"}' % (b"x" * spare))


def test_a_client_that_has_much_waiting_is_paused_and_goes_on_when_the_list_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 1000)

    async def run() -> None:
        it = Relay()
        it.say(HELLO)
        it.say(large(b"1"))
        assert it.client.reasons == set()
        it.say(call(b"2"))
        assert it.client.reasons == {"holding"}
        it.back(hello_back())
        it.say(INITIALIZED)
        it.list_tools(b"good")
        assert it.client.reasons == set()
        it.relay.end()

    asyncio.run(run())


def test_who_cannot_be_paused_hears_that_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 1000)

    async def run() -> None:
        it = Relay()
        it.say(HELLO)
        it.say(large(b"1"), 1)
        it.say(large(b"2"), 2)
        it.say(call(b"3"), 3)  # so far just twice as much waits
        it.say(call(b"4"), 4)
        assert it.client.got == [(error(b"4", -32603, "Too much waits already"), 4)]
        it.relay.end()

    asyncio.run(run())


@in_loop
async def test_a_modern_request_has_the_list_fetched_with_what_it_says_of_its_sender() -> None:
    it = Relay()
    it.say(call(b"1", b"good", b',"_meta":%b' % META))
    (request,) = it.link.sent
    assert request.method == "tools/list"
    assert META in request.raw
    it.list_tools(b"good")
    assert it.link.take()[1:] == [call(b"1", b"good", b',"_meta":%b' % META)]
    it.relay.end()


@in_loop
async def test_an_answer_to_a_modern_request_has_the_list_fetched_and_a_refusal_does_not() -> None:
    it = Relay()
    asked = ask(b"1", b"server/discover", b'{"_meta":%b}' % META)
    it.say(asked)
    it.back(error(b"1", -32601, "Method not found"))
    assert it.link.take() == [asked]
    it.say(asked)
    it.back(result(b"1"))
    assert [message.method for message in it.link.sent] == ["server/discover", "tools/list"]
    it.relay.end()


@in_loop
async def test_a_list_that_fails_before_the_handshake_fails_who_waits_and_no_more() -> None:
    it = Relay()
    it.say(call(b"1"), "route")
    (request,) = it.link.sent
    assert request.id_token is not None
    it.back(error(request.id_token, -32000, "not yet"))
    ((raw, route),) = it.client.got
    assert (route, b"not yet" in raw, b'"id":1,' in raw) == ("route", True, True)
    assert it.fatal == []
    it.relay.end()


@in_loop
async def test_a_list_that_fails_after_the_handshake_is_the_end() -> None:
    it = Relay()
    it.say(HELLO)
    it.back(hello_back())
    it.say(ask(b"5"), "five")
    it.say(INITIALIZED)
    (request,) = [message for message in it.link.sent if message.method == "tools/list"]
    assert request.id_token is not None
    it.relay.upstream_refused(request.id_token, "It is too large")
    assert len(it.fatal) == 1
    assert [route for _, route in it.client.got] == [None, "five"]
    it.relay.end()


@in_loop
async def test_a_handshake_that_is_refused_may_be_tried_again() -> None:
    it = Relay()
    it.say(HELLO)
    it.back(error(b'"h"', -32602, "version"))
    assert it.client.got == [(error(b'"h"', -32602, "version"), None)]
    it.say(INITIALIZED)
    it.link.take()
    it.say(HELLO)
    it.back(hello_back())
    it.list_tools(b"good")
    assert [names(one) for one in it.catalogs] == [{"good"}]
    it.relay.end()


@in_loop
async def test_an_upstream_without_tools_has_an_empty_list() -> None:
    it = Relay()
    it.say(HELLO)
    it.back(hello_back(capabilities=b"{}"))
    it.say(INITIALIZED)
    (request,) = [message for message in it.link.sent if message.method == "tools/list"]
    assert request.id_token is not None
    it.back(error(request.id_token, -32601, "Method not found"))
    assert ([names(one) for one in it.catalogs], it.fatal) == ([set()], [])
    it.relay.end()


@in_loop
async def test_a_list_that_nobody_has_seen_follows_the_upstreams_and_then_it_is_frozen() -> None:
    it = Relay()
    it.begin()
    it.back(CHANGED)
    assert it.client.raw == [CHANGED]
    it.list_tools(b"good", b"more")
    assert [names(one) for one in it.catalogs] == [{"good"}, {"good", "more"}]
    it.link.take()
    it.say(ask(b"1", b"tools/list"))
    it.back(CHANGED)
    assert (it.link.take(), it.client.raw[-1]) == ([], CHANGED)
    it.relay.end()


@in_loop
async def test_a_list_that_was_known_before_the_client_came_is_not_fetched_again() -> None:
    first = Relay()
    first.begin()
    (catalog,) = first.catalogs
    it = Relay(catalogs={Era.LEGACY: catalog, Era.MODERN: catalog})
    it.say(HELLO)
    it.back(hello_back())
    it.say(INITIALIZED)
    it.back(CHANGED)
    it.say(call(b"1"))
    assert it.link.take() == [HELLO, INITIALIZED, call(b"1")]
    first.relay.end()
    it.relay.end()


@in_loop
async def test_a_list_that_follows_the_upstreams_is_told_of_when_it_has_changed() -> None:
    it = Relay(refreshes=True)
    it.begin()
    it.say(ask(b"1", b"tools/list"))
    it.client.got.clear()
    it.back(CHANGED)
    assert it.client.got == []
    it.list_tools(b"good", b"bad")
    assert it.client.got == []  # the client would see no difference
    it.link.take()
    it.back(CHANGED)
    it.list_tools(b"good", b"more")
    assert it.client.raw == [CHANGED]
    assert names(it.catalogs[-1]) == {"good", "more"}
    it.link.take()
    it.back(CHANGED)
    (request,) = it.link.sent
    it.back(error(request.id_token or b"", -32000, "no"))
    assert (it.client.raw, it.fatal) == ([CHANGED], [])
    it.say(call(b"2", b"more"))
    assert it.link.take()[1:] == [call(b"2", b"more")]
    it.relay.end()


@in_loop
async def test_when_the_upstream_is_lost_everybody_who_waits_hears_it() -> None:
    it = Relay()
    it.say(HELLO)
    it.say(ask(b"1"), "one")
    it.say(call(b"2"), "two")
    it.relay.upstream_lost(LOST)
    assert [route for _, route in it.client.got] == ["two", None, "one"]
    assert all(LOST.safe_message.encode() in raw for raw, _ in it.client.got)
    assert (it.fatal, it.relay.is_loss_felt, it.relay.pending, it.relay.is_holding) == (
        [LOST],
        True,
        0,
        False,
    )
    assert [(sender, word) for sender, word, *_ in it.gate.heard] == [("penstock", "answer")] * 3


def test_a_loss_that_nobody_waits_for_is_not_felt() -> None:
    it = Relay(PLAIN)
    it.relay.upstream_lost(LOST)
    assert (it.fatal, it.relay.is_loss_felt, it.client.got) == ([LOST], False, [])


def test_where_losses_are_not_answered_only_a_route_is() -> None:
    it = Relay(PLAIN)
    it.gate.answers_losses = False
    it.say(ask(b"1"))
    it.say(ask(b"2"), "route")
    it.relay.upstream_lost(LOST)
    assert [route for _, route in it.client.got] == ["route"]


class Waiting(Wait):
    """A message that the rules look at, and what it was told."""

    def __init__(self, session: Session, raw: bytes, is_from_client: bool = True) -> None:
        super().__init__(_message(raw), is_from_client)
        self.told: list[str] = []
        session.waiting[self] = None

    def cancel(self) -> None:
        self.told.append("cancelled")

    def fail(self, why: str) -> None:
        self.told.append(why)

    def client_left(self) -> None:
        self.told.append("left")


def test_what_the_rules_still_look_at_fails_with_the_upstream_or_ends_with_the_session() -> None:
    it = Relay(PLAIN)
    wait = Waiting(it.session, ask(b"1"))
    assert it.relay.is_holding
    it.relay.give_up("no more")
    it.relay.client_ended()
    it.relay.upstream_lost(LOST)
    it.relay.end()
    assert wait.told[:3] == ["no more", "left", LOST.safe_message]
    assert len(wait.told) > 3
    assert it.relay.is_loss_felt


def test_a_session_says_when_nothing_waits_any_more() -> None:
    it = Relay(PLAIN)
    idle: list[int] = []
    it.relay.on_idle = lambda: idle.append(1)
    wait = Waiting(it.session, ask(b"1"))
    other = Waiting(it.session, ask(b"2"))
    it.session.decided(wait)
    assert idle == []
    it.session.decided(other)
    assert idle == [1]


def test_a_client_that_has_ended_answers_nothing_any_more() -> None:
    it = Relay(PLAIN)
    it.back(ask(b"7", b"roots/list"))
    it.relay.client_ended()
    it.say(result(b"7"))
    assert it.link.take() == []


def test_a_fault_of_ours_is_told_as_one_and_nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Relay(PLAIN)

    def broken(message: Message, exchange: Exchange) -> Verdict:
        raise RuntimeError("secret")

    monkeypatch.setattr(it.gate, "client_says", broken)
    it.say(ask(b"1"), "route")
    assert it.client.refused == [(error(b"1", -32603, "Internal error"), "route")]
    it.say(HELLO)
    assert it.link.take() == []


def test_only_so_many_questions_of_the_upstream_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_REQUESTS", 1)
    it = Relay(PLAIN)
    it.back(ask(b"7", b"roots/list"))
    it.back(ask(b"8", b"roots/list"))
    it.say(result(b"7"))
    it.say(result(b"8"))
    assert it.link.take() == [result(b"8")]


def test_another_link_can_take_its_place() -> None:
    it, other = Relay(PLAIN), Link()
    it.relay.use(other)  # type: ignore[arg-type]
    it.say(ask(b"1"))
    assert (other.take(), it.link.take(), it.relay.room.upstream) == ([ask(b"1")], [], other)


def log_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock"]


NOBODY_ASKED = Why("relay", "drop", "it answers a question that nobody asked")
NEVER_WENT_UP = Why("relay", "drop", "it cancels a request that never went upstream")


def test_what_does_not_pass_is_told_to_people_and_observers(caplog: pytest.LogCaptureFixture) -> None:
    it = Relay(PLAIN)
    it.say(b"{")
    assert log_of(caplog)[0].startswith("Refused a message from the client. ")
    it.gate.up = {"a": Drop(Why("r", "drop", "a rule says so")), "b": Answer(b"x")}
    it.say(note(b"a"))
    it.say(ask(b"1", b"b"))
    it.say(cancel(b"1"))
    assert it.gate.heard[-1][3] == NEVER_WENT_UP
    it.say(result(b"9"))
    assert it.gate.heard[-1] == ("client", "drop", result(b"9"), NOBODY_ASKED)
    it.back(result(b"9"))
    assert it.gate.heard[-1] == ("upstream", "drop", result(b"9"), NOBODY_ASKED)
    it.relay.upstream_refused(None, "It is too large")
    assert it.gate.heard[-1] == ("upstream", "skip", b"", Why("protocol", "skip", "It is too large"))
    it.relay.upstream_noise(b"hello")
    assert it.gate.heard[-1] == ("upstream", "skip", b"hello", Why("protocol", "skip", "it is no message"))
    assert log_of(caplog)[1:] == [
        "Dropped a message from the client: a rule says so.",
        "Dropped a message from the client: it cancels a request that never went upstream.",
        "Dropped a response from the client that nobody asked for.",
        "Dropped a response from the upstream that nobody asked for.",
        "Skipped a message from the upstream. It is too large.",
    ]


def test_a_fault_of_ours_is_told_to_people(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    it = Relay(PLAIN)
    monkeypatch.setattr(it.gate, "client_says", lambda *what: 1 / 0)
    it.say(ask(b"1"))
    assert log_of(caplog) == ["A message from the client could not be handled."]


def test_an_id_that_is_used_twice_and_a_refusal_without_bytes_are_told_as_what_they_are() -> None:
    it = Relay(PLAIN)
    it.say(ask(b"1"))
    assert it.relay.take(_message(ask(b"1")), "again")
    text = "Invalid request: this id is already waiting for an answer"
    assert it.client.refused == [(error(b"1", -32600, text), "again")]
    it.relay.refuse_client(ClientProtocolError(-32600, "no", None))
    assert it.gate.heard[-1][2] == b""


def test_take_says_that_an_answer_comes_to_what_is_refused_or_held_and_none_to_a_cancellation() -> None:
    async def run() -> None:
        it = Relay()
        batch = read_client_message(b"[%b]" % ask(b"1"))
        assert it.relay.take(batch)
        it.say(HELLO)
        assert it.relay.take(_message(call(b"1")))
        assert not it.relay.take(_message(cancel(b"1")))
        it = Relay()
        it.say(call(b"1"))
        assert it.relay.room.is_fetching
        it.relay.end()
        assert not it.relay.room.is_fetching

    asyncio.run(run())


def test_no_loss_is_felt_before_there_is_one_and_one_who_waits_is_enough() -> None:
    it = Relay(PLAIN)
    assert it.relay.is_loss_felt is False
    it.say(ask(b"1"))
    it.relay.upstream_lost(LOST)
    assert it.relay.is_loss_felt


@in_loop
async def test_with_the_upstream_the_list_is_lost() -> None:
    it = Relay()
    it.say(call(b"1"))
    assert it.relay.room.is_fetching
    it.relay.upstream_lost(LOST)
    assert not it.relay.room.is_fetching


def test_an_exchange_says_what_began_it_on_either_side() -> None:
    it = Relay(PLAIN)
    it.say(note(b"x"))
    assert (it.gate.exchanges[-1].id_token, it.gate.exchanges[-1].method) == (b"", "x")
    it.back(note(b"y"))
    it.back(ask(b"3", b"z"))
    it.back(error(b"null", -32700, "what"))
    assert [(one.id_token, one.method) for one in it.gate.begun] == [
        (b"", "y"),
        (b"3", "z"),
        (b"null", ""),
    ]
    assert all(one.session is it.session for one in it.gate.begun + it.gate.exchanges)


def test_who_sent_an_array_is_told_before_its_messages() -> None:
    it = Relay(PLAIN)
    it.say(HELLO)
    it.back(hello_back(b"2025-03-26"))
    up, back = b"[%b]" % ask(b"1"), b"[%b]" % result(b"1")
    it.say(up)
    it.back(back)
    assert it.gate.batches == [("client", up, it.session), ("upstream", back, it.session)]


def test_a_cancellation_that_names_nothing_passes() -> None:
    it = Relay(PLAIN)
    nothing = b'{"jsonrpc":"2.0","method":"notifications/cancelled"}'
    it.say(nothing)
    assert (it.link.take(), it.client.refused) == ([nothing], [])


@in_loop
async def test_what_a_request_says_of_its_sender_is_kept_only_while_a_list_may_be_needed() -> None:
    modern = ask(b"1", b"x", b'{"_meta":%b}' % META)
    for choice, is_kept in ((FILTER, True), (PLAIN, False)):
        it = Relay(choice)
        it.say(modern)
        assert (it.gate.exchanges[-1].meta is not None) is is_kept
    it = Relay()
    it.say(HELLO)
    it.say(modern)
    assert it.gate.exchanges[-1].meta is None  # a handshake has begun
    it = Relay()
    it.say(call(b"0", b"good", b',"_meta":%b' % META))
    it.list_tools(b"good")
    it.say(modern)
    assert it.gate.exchanges[-1].meta is None  # the list is there
    it.relay.end()


def list_requests(it: Relay) -> int:
    """How often the relay has asked for the list since the last look."""
    return sum(b'"tools/list"' in raw for raw in it.link.take())


@in_loop
async def test_nobody_asks_for_a_list_without_a_filter() -> None:
    it = Relay(PLAIN)
    it.say(HELLO)
    it.back(hello_back())
    it.say(INITIALIZED)
    it.back(CHANGED)
    assert list_requests(it) == 0
    assert (it.client.refused, it.fatal) == ([], [])


@in_loop
async def test_an_answer_brings_a_list_only_where_it_proves_a_modern_upstream() -> None:
    it = Relay()
    it.say(ask(b"1"))
    it.back(result(b"1"))
    assert list_requests(it) == 0  # a request that says nothing of its sender
    it.say(ask(b"2", b"server/discover", b'{"_meta":%b}' % META))
    it.say(HELLO)
    it.back(result(b"2"))
    assert list_requests(it) == 0  # a handshake is under way, and has a list of its own


@in_loop
async def test_an_upstream_that_says_it_has_tools_and_refuses_the_list_is_the_end() -> None:
    it = Relay()
    it.say(HELLO)
    it.back(hello_back())
    it.say(INITIALIZED)
    it.back(error(it.link.sent[-1].id_token or b"", -32000, "broken"))
    assert (len(it.fatal), it.catalogs) == (1, [])
    it.relay.end()


@in_loop
async def test_a_list_that_cannot_be_read_before_the_handshake_fails_who_waits_and_is_told() -> None:
    it = Relay()
    idle: list[int] = []
    it.relay.on_idle = lambda: idle.append(1)
    it.say(call(b"1"), "route")
    told: list[str] = []
    handler = Telling(told)
    logging.getLogger("penstock").addHandler(handler)
    try:
        it.relay.upstream_refused(it.link.sent[-1].id_token, "It is too large")
    finally:
        logging.getLogger("penstock").removeHandler(handler)
    ((raw, route),) = it.client.got
    assert (route, b'"id":1,"error"' in raw) == ("route", True)
    assert (it.fatal, idle, it.relay.is_holding) == ([], [1], False)
    assert told[-1] == "Failed to fetch tool list from upstream MCP. The answer cannot be read."
    it.relay.end()


class Telling(logging.Handler):
    """Keeps what people are told."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        self._told.append(record.getMessage())


@in_loop
async def test_while_rules_look_at_a_message_a_list_makes_nobody_idle() -> None:
    it = Relay()
    idle: list[int] = []
    it.relay.on_idle = lambda: idle.append(1)
    it.say(HELLO)
    it.say(call(b"1"))
    it.back(hello_back())
    Waiting(it.session, ask(b"2"))
    it.say(INITIALIZED)
    it.list_tools(b"good")
    assert idle == []
    it.session.waiting.clear()
    it.relay.end()


@in_loop
async def test_only_a_change_of_the_list_has_it_fetched_again() -> None:
    it = Relay()
    it.begin()
    it.say(ask(b"1"))  # which is no look at the list
    it.back(note(b"notifications/other"))
    assert list_requests(it) == 0
    it.back(CHANGED)
    assert list_requests(it) == 1
    it.relay.end()


@in_loop
async def test_a_list_by_which_a_call_was_judged_has_been_seen() -> None:
    it = Relay()
    it.say(HELLO)
    it.say(call(b"1"))
    it.back(hello_back())
    it.say(INITIALIZED)
    it.list_tools(b"good")
    it.link.take()
    it.back(CHANGED)
    assert list_requests(it) == 0
    it.relay.end()


@in_loop
async def test_a_change_before_the_client_is_initialized_or_without_a_handshake_asks_for_nothing() -> None:
    it = Relay()
    it.say(HELLO)
    it.back(hello_back())
    it.back(CHANGED)
    assert list_requests(it) == 0
    it = Relay()
    it.say(ask(b"1", b"server/discover", b'{"_meta":%b}' % META))
    it.back(result(b"1"))
    it.list_tools(b"good")
    it.link.take()
    it.back(CHANGED)
    assert list_requests(it) == 0
    it.relay.end()


@in_loop
async def test_a_list_that_follows_and_was_never_seen_is_fetched_and_the_client_hears_at_once() -> None:
    it = Relay(refreshes=True)
    it.begin()
    it.back(CHANGED)
    assert it.client.raw == [CHANGED]
    assert list_requests(it) == 1
    it.relay.end()


@in_loop
async def test_an_upstream_that_refuses_a_handshake_is_asked_for_the_other_era_first() -> None:
    client, link = Client(), Link()
    relay = SessionRelay(client, link, Spoken(PLAIN))  # type: ignore[arg-type]
    relay.from_client(HELLO, "route")
    link.take()
    relay.from_upstream(error(b'"h"', -32601, "Method not found"))
    assert client.got == []
    assert [message.method for message in link.sent] == ["server/discover"]
    assert relay.pending == 1
    link.receiver.from_upstream(error(link.sent[-1].id_token or b"", -32601, "Method not found"))
    assert client.got == [(error(b'"h"', -32601, "Method not found"), "route")]
    relay.end()
