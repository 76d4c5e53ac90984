"""Whose request waits is known wherever it waits: behind every gate, and whatever it has to wait for next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memory_doors import CHOICE, Memory, catalog
from penstock import limits
from penstock.downstream.modern_http import ModernPost
from penstock.gate.gate import Gate
from penstock.gate.held import Edited, HumanWait
from penstock.gate.unwrapped import UnwrappedGate
from penstock.net.http_exchange import Reply
from penstock.observe.watched_gate import WatchedGate
from penstock.policy.exchange import Exchange, Session
from penstock.policy.verdict import FORWARD, Caller, Verdict, Wait, Why
from penstock.watch import bounds
from penstock.watch.keep_alive import maybe_token
from penstock.wire.mcp.message import Message, read_client_message

RAW = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}%b}}'
WHY = Why("r", "edit", "")


def call(more: bytes = b"") -> Message:
    message = read_client_message(RAW % more)
    assert isinstance(message, Message)
    return message


def begun(message: Message) -> Exchange:
    return Exchange(b"1", message.method or "", session=Session(id="s"), catalog=catalog())


class Client:
    """Who waits."""

    def progress(self, raw: bytes, route: object) -> bool:
        return True


class Within(Wait):
    """What is waited for within something else."""

    def __init__(self) -> None:
        super().__init__(call(), True)
        self.heard: list[tuple[Message, Caller | None]] = []

    def hear(self, message: Message, caller: Caller | None) -> None:
        self.heard.append((message, caller))


class Saying(Gate):
    def __init__(self, verdict: Verdict) -> None:
        super().__init__(CHOICE)
        self.verdict = verdict

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        return self.verdict


class Disk:
    is_crowded = False

    def refusing(self) -> str | None:
        return None

    async def written(self) -> bool:
        return True


def around(how: str, within: Wait) -> Any:
    if how == "edited":
        return Edited(within, call(), WHY)
    gate: Gate
    if how == "unwrapped":
        gate = UnwrappedGate(Saying(within), lambda message: message)
    else:
        gate = WatchedGate(Saying(within), Disk(), is_synced=False, injects=False)
    return gate.client_says(call(), begun(call()))


@pytest.mark.parametrize("how", ["edited", "unwrapped", "watched"])
def test_who_waits_around_another_hands_on_who_asked(how: str) -> None:
    within, came, client = Within(), call(), Client()
    around(how, within).hear(came, client)
    assert within.heard == [(came, client)]


@pytest.mark.parametrize("is_first", [True, False])
def test_what_has_to_be_waited_for_next_hears_who_asked(is_first: bool) -> None:
    within, came, client = Within(), call(), Client()
    wait = HumanWait(call(), True, begun(call()), "r", lambda passed: within, lambda message, verdict: None)
    if is_first:
        wait.hear(came, client)
    wait.release()
    if not is_first:
        wait.hear(came, client)
    assert within.heard == [(came, client)]


def test_nothing_begins_for_what_is_decided() -> None:
    heard: list[Any] = []
    wait = HumanWait(call(), True, begun(call()), "r", lambda passed: FORWARD, lambda message, verdict: None)
    wait.on_heard = lambda message, caller: heard.append(caller)
    client = Client()
    wait.hear(call(), client)
    assert heard == [client]
    wait.release()
    wait.hear(call(), client)
    assert heard == [client]


@pytest.mark.parametrize(
    ("meta", "token"),
    [
        (b"", None),
        (b',"_meta":{}', None),
        (b',"_meta":{"progressToken":7}', b"7"),
        (b',"_meta":{"progressToken":-7}', b"-7"),
        (b',"_meta":{"a":1, "progressToken" : "a\\u0062" }', b'"a\\u0062"'),
        (b',"_meta":{"progressToken":null}', None),
        (b',"_meta":{"progressToken":true}', None),
        (b',"_meta":{"progressToken":{"a":1}}', None),
        (b',"_meta":{"progressToken":1,"progresstoken":2}', None),
        (b',"_meta":{"progressToken":"%b"}' % (b"x" * bounds.PROGRESS_TOKEN_BYTES), None),
    ],
)
def test_a_token_is_said_back_as_it_was_spelt(meta: bytes, token: bytes | None) -> None:
    assert maybe_token(call(meta)) == token


def test_a_notification_is_no_call_and_gets_no_progress() -> None:
    told = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"progressToken":7}}}'
    message = read_client_message(told)
    assert isinstance(message, Message)
    assert maybe_token(message) is None


class Slow:
    """An upstream that has taken nothing for long."""

    backlog = limits.UNANSWERED_BYTES + 1


@pytest.mark.parametrize("is_told", [True, False])
def test_an_upstream_that_does_not_keep_up_gets_no_more_whatever_was_told(is_told: bool) -> None:
    """Who has heard progress has a status already: then the refusal is an event."""

    async def run() -> bytes:
        connection = Memory()
        reply = Reply(connection, False, True)  # type: ignore[arg-type]
        post = ModernPost(reply, begun(call()), Gate(CHOICE))
        if is_told:
            assert post.progress(b'{"progress":-0.5}', None)
        slow: Any = Slow()
        assert post.is_refused_for_now(slow)
        assert reply.is_finished
        return b"".join(connection.given)

    sent = asyncio.run(run())
    assert sent.startswith(b"HTTP/1.1 200" if is_told else b"HTTP/1.1 503")
    assert b"The upstream does not keep up" in sent
    assert (b"-32603" in sent) is is_told
