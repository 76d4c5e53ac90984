"""What a session counts, and what becomes of the messages that wait in it."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.policy.exchange import OTHER_METHODS, Exchange, MethodStats, Session
from penstock.policy.verdict import Wait
from penstock.wire.mcp.message import Kind, Message

REQUEST, NOTIFICATION, RESPONSE = Kind.REQUEST, Kind.NOTIFICATION, Kind.RESPONSE


class Waiting(Wait):
    """A message that waits, and what it was told."""

    def __init__(self, session: Session, kind: Kind = REQUEST, is_from_client: bool = True) -> None:
        token = None if kind is NOTIFICATION else b"1"
        super().__init__(Message(b"{}", kind, token, None if kind is RESPONSE else "ping"), is_from_client)
        self.told: list[str] = []
        session.waiting[self] = None

    def cancel(self) -> None:
        self.told.append("cancelled")

    def fail(self, why: str) -> None:
        self.told.append(why)

    def client_left(self) -> None:
        self.told.append("client left")


def test_every_kind_of_message_is_counted_by_its_method() -> None:
    session = Session()
    for kind, is_error in ((REQUEST, False), (NOTIFICATION, False), (RESPONSE, False), (RESPONSE, True)):
        for _ in range(3):
            session.count("ping", kind, is_error)
    session.count("ping", RESPONSE)
    session.count("tools/list", REQUEST)
    assert session.stats["ping"] == MethodStats(3, 3, 4, 3, 0)
    assert session.stats["tools/list"] == MethodStats(1, 0, 0, 0, 0)
    assert session.message_count == 14


def test_what_has_no_method_is_counted_under_none() -> None:
    session = Session()
    session.count(None, RESPONSE)
    session.count(None, RESPONSE)
    session.count("", RESPONSE)
    session.count("ping", RESPONSE)
    assert session.stats == {"": MethodStats(responses=3), "ping": MethodStats(responses=1)}


def test_methods_that_come_too_late_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION_METHODS", 2)
    session = Session()
    for method in ("a", "b", "c", "d", "a"):
        session.count(method, REQUEST)
    assert session.stats == {
        "a": MethodStats(2),
        "b": MethodStats(1),
        OTHER_METHODS: MethodStats(2),
    }
    assert session.stats_of("b") is session.stats["b"]


def test_a_method_whose_name_is_too_long_to_keep_is_counted_with_others() -> None:
    session = Session()
    fits, longer = "m" * limits.NAME_LENGTH, "m" * (limits.NAME_LENGTH + 1)
    session.count(fits, REQUEST)
    session.count(longer, REQUEST)
    assert set(session.stats) == {fits, OTHER_METHODS}


def test_a_session_is_idle_when_the_last_message_is_decided_and_says_so_once() -> None:
    session, idle = Session(), []
    session.on_idle = lambda: idle.append(1)
    one, other = Waiting(session), Waiting(session)
    session.decided(one)
    assert idle == []
    session.decided(other)
    session.decided(other)
    assert idle == [1]


def test_only_a_request_of_the_clients_is_cancelled_by_its_id() -> None:
    session = Session()
    told = Waiting(session, NOTIFICATION)
    theirs = Waiting(session, REQUEST, is_from_client=False)
    answer = Waiting(session, RESPONSE)
    assert not session.cancel(b"1")
    own = Waiting(session)
    assert not session.cancel(b"2")
    assert session.cancel(b"1.0")
    assert (own.told, told.told, theirs.told, answer.told) == (["cancelled"], [], [], [])


def test_when_the_upstream_is_gone_what_would_go_there_fails_and_the_rest_goes_on() -> None:
    session = Session()
    asked, answer = Waiting(session), Waiting(session, RESPONSE)
    theirs = Waiting(session, REQUEST, is_from_client=False)
    session.fail_requests("gone")
    assert (asked.told, answer.told, theirs.told) == (["gone"], ["cancelled"], [])


def test_at_the_end_nothing_waits_any_more() -> None:
    session = Session()
    asked = Waiting(session)
    answer = Waiting(session, RESPONSE, is_from_client=False)
    theirs = Waiting(session, REQUEST, is_from_client=False)
    session.end()
    why = "The session has ended"
    assert (asked.told[0], answer.told, theirs.told) == (why, [why], ["cancelled"])


def test_everything_that_waits_hears_that_the_client_has_left() -> None:
    session = Session()
    waits = [Waiting(session), Waiting(session, RESPONSE, False)]
    session.client_left()
    assert [wait.told for wait in waits] == [["client left"], ["client left"]]


def test_a_new_session_has_no_profile_and_no_variant() -> None:
    session = Session()
    assert (session.id, session.principal, session.upstream, session.profile, session.variant) == ("",) * 5


def test_an_exchange_keeps_the_message_that_begins_it() -> None:
    session, message = Session(), Message(b"{}", REQUEST, b"7", "ping")
    exchange = Exchange.of(message, 3.0, session)
    assert (exchange.id_token, exchange.method, exchange.request) == (b"7", "ping", message)
    assert (exchange.started, exchange.session) == (3.0, session)
    told = Exchange.of(Message(b"{}", NOTIFICATION, None, "n"))
    assert (told.id_token, told.method, told.started) == (b"", "n", 0.0)
