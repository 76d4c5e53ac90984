"""Whose a message is, where no relay knows: by session, by principal, by address."""

from __future__ import annotations

import time

import pytest

from penstock import limits
from penstock.gate.session_table import SessionTable, TrackedSession
from penstock.policy.exchange import NO_REQUEST, NO_SESSION, Exchange, Session
from penstock.policy.verdict import Verdict, Wait
from penstock.state.memory import MemoryTable
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Kind, Message


def table() -> SessionTable:
    known: MemoryTable[bytes, TrackedSession] = MemoryTable(
        9, 9.0, time.monotonic, on_dropped=TrackedSession.end, is_in_use=lambda session: session.is_in_use
    )
    return SessionTable("up", known)


def find(
    sessions: SessionTable,
    era: Era = Era.LEGACY,
    session: bytes | None = None,
    principal: bytes = b"",
    rights: bytes = b"",
    peer: bytes = b"1",
    is_hello: bool = False,
) -> TrackedSession:
    return sessions.find_http(era, session, principal, rights, peer, is_hello)


def test_a_session_is_found_by_its_id_whatever_the_address() -> None:
    sessions = table()
    one = find(sessions, session=b"s1", peer=b"1")
    assert find(sessions, session=b"s1", peer=b"2") is one
    assert find(sessions, session=b"s2") is not one
    assert (one.mcp_session_id, one.era, one.is_shared, one.upstream) == ("s1", Era.LEGACY, False, "up")
    assert len(one.id) == 16
    assert 0 < one.started <= time.monotonic()


def test_a_session_whose_id_the_upstream_checks_is_the_same_by_the_short_way() -> None:
    sessions = table()
    key, principal = sessions.whose(b"s1", b"me")
    assert sessions.maybe_known(key) is None
    one = find(sessions, session=b"s1", rights=b"me")
    assert sessions.maybe_known(key) is one
    assert (one.mcp_session_id, one.era, one.principal) == ("s1", Era.LEGACY, principal)
    other = find(sessions, session=b"s1", rights=b"you")
    assert other is not one
    assert (other.principal, other.values is one.values) == (b"you".hex(), True)
    assert sessions.maybe_known(key) is other
    assert sessions.whose(b"s1", b"you") == (key, other.principal)
    assert sessions.whose(b"s2", b"me") != (key, principal)


def test_a_hello_is_a_new_session_each_time_and_known_only_when_it_has_an_id() -> None:
    sessions = table()
    one = find(sessions, is_hello=True)
    assert find(sessions, is_hello=True) is not one
    assert one.mcp_session_id is None
    sessions.begin(b"s1", one)
    assert find(sessions, session=b"s1") is one
    assert one.mcp_session_id == "s1"
    other = find(sessions, is_hello=True)
    sessions.begin(b"s1", other)  # an id that is known stays whose it was
    assert find(sessions, session=b"s1") is one


def test_without_a_session_an_address_is_one() -> None:
    sessions = table()
    assert find(sessions, peer=b"1") is find(sessions, peer=b"1")
    assert find(sessions, peer=b"1") is not find(sessions, peer=b"2")


def test_in_the_modern_era_a_principal_is_a_session_and_an_id_that_it_invents_is_none() -> None:
    sessions = table()
    one = find(sessions, era=Era.MODERN, principal=b"p", session=b"a")
    assert find(sessions, era=Era.MODERN, principal=b"p", session=b"b", peer=b"2") is one
    assert find(sessions, era=Era.MODERN, principal=b"q") is not one
    assert (one.is_shared, one.era, one.mcp_session_id) == (True, Era.MODERN, None)


def test_other_rights_in_the_same_session_are_other_rights_with_the_same_memory() -> None:
    sessions = table()
    one = find(sessions, session=b"s1", rights=b"\1")
    one.values["tainted"] = True
    other = find(sessions, session=b"s1", rights=b"\2")
    assert (one.principal, other.principal) == ("01", "02")
    assert other.id == one.id
    assert other.values == {"tainted": True}
    assert other.waiting is one.waiting
    assert find(sessions, session=b"s1", rights=b"\2") is other


class Noted(Wait):
    """A message that waits, and what was done to it."""

    def __init__(self, message: Message, is_from_client: bool, notes: list[tuple[str, str]]) -> None:
        super().__init__(message, is_from_client)
        self._notes = notes

    def cancel(self) -> None:
        self._notes.append(("cancel", self.message.raw.decode()))

    def fail(self, why: str) -> None:
        self._notes.append((why, self.message.raw.decode()))


def waiting(session: Session) -> list[tuple[str, str]]:
    """Lets one message of each kind wait in both directions."""
    notes: list[tuple[str, str]] = []
    for is_from_client, side in ((True, "c"), (False, "u")):
        for kind in Kind:
            token = None if kind is Kind.NOTIFICATION else b"1"
            message = Message(f"{side} {kind.name.lower()}".encode(), kind, token, "m")
            session.waiting[Noted(message, is_from_client, notes)] = None
    return notes


UP = [("why", "c request"), ("why", "c notification"), ("cancel", "c response")]


def test_when_nothing_goes_up_any_more_requests_hear_why() -> None:
    session = Session()
    notes = waiting(session)
    session.fail_requests("why")
    assert notes == UP


def test_at_the_end_answers_become_errors_and_the_rest_is_cancelled() -> None:
    session = Session()
    notes = waiting(session)
    for wait in [wait for wait in session.waiting if wait.is_from_client]:
        session.decided(wait)
    session.end("why")
    assert notes == [("cancel", "u request"), ("cancel", "u notification"), ("why", "u response")]
    notes = waiting(session)
    session.end()
    assert ("The session has ended", "c request") in notes


@pytest.mark.parametrize(("token", "is_found"), [(b"1", True), (b"1.0", True), (b"2", False)])
def test_only_a_request_of_the_clients_is_cancelled_by_its_id(token: bytes, is_found: bool) -> None:
    session = Session()
    notes = waiting(session)
    assert session.cancel(token) is is_found
    assert notes == ([("cancel", "c request")] if is_found else [])


def test_a_session_says_once_that_nothing_waits() -> None:
    session, idle = Session(), []
    waiting(session)
    session.on_idle = lambda: idle.append(True)
    first, *others = list(session.waiting)
    session.decided(first)
    session.decided(first)
    assert idle == []
    for wait in others:
        session.decided(wait)
    assert idle == [True]
    session.decided(first)
    assert idle == [True]
    session.on_idle = None
    waiting(session)
    for wait in list(session.waiting):
        session.decided(wait)


def test_what_is_forgotten_or_lost_ends() -> None:
    sessions = table()
    one, two = find(sessions, session=b"s1"), find(sessions, session=b"s2")
    first, second = waiting(one), waiting(two)
    sessions.forget(b"s1")
    assert ("The session has ended", "c request") in first
    assert second == []
    assert find(sessions, session=b"s1") is not one
    sessions.forget(b"nobody")
    sessions.end_all("gone")
    assert ("gone", "c request") in second


def test_requests_of_a_session_are_bounded() -> None:
    session = table().new()
    for number in range(limits.REVIEWED_REQUESTS + 5):
        session.requests.open(Exchange(b"%d" % number, "m"))
        session.upstream_requests.open(Exchange(b"%d" % number, "m"))
    assert len(session.requests) == len(session.upstream_requests) == limits.REVIEWED_REQUESTS


def test_who_waits_and_what_is_set_does_not_fall_to_newcomers_who_share_one_session() -> None:
    sessions = table()
    tainted, held = find(sessions, session=b"t"), find(sessions, session=b"w")
    tainted.values["dirty"] = True
    notes = waiting(held)
    for number in range(40):
        find(sessions, session=b"idle-%d" % number)
    assert find(sessions, session=b"t") is tainted
    assert find(sessions, session=b"w") is held
    for number in range(7):
        find(sessions, session=b"busy-%d" % number).values["x"] = 1
    first, second = find(sessions, session=b"new-1"), find(sessions, session=b"new-2")
    assert first is second
    assert first.is_shared
    assert find(sessions, session=b"t") is tainted
    assert notes == []


def test_a_session_that_was_forgotten_has_the_same_id_again_so_its_limits_go_on() -> None:
    sessions = table()
    one = find(sessions, session=b"s1").id
    for number in range(40):
        find(sessions, session=b"idle-%d" % number)
    assert find(sessions, session=b"s1").id == one
    assert one != find(sessions, session=b"s2").id
    assert "s1" not in one


def test_a_session_that_the_upstream_never_took_is_forgotten_when_it_is_refused() -> None:
    sessions = table()
    made_up, real = find(sessions, session=b"x"), find(sessions, session=b"y")
    real.is_proven = True
    for session_id in (b"x", b"y", b"z"):
        sessions.refused(session_id)
    assert find(sessions, session=b"x") is not made_up
    assert find(sessions, session=b"y") is real


def test_what_all_sessions_remember_together_is_bounded_and_nothing_is_taken_from_others() -> None:
    sessions = table()
    heavy = limits.REVIEWED_SESSION_BYTES - 1_000
    tables = [find(sessions, session=b"s%d" % number).requests for number in range(9)]
    tables += [find(sessions, session=b"s%d" % number).upstream_requests for number in range(9)]
    kept = 0
    for pending in tables:
        request = Message(b"x" * heavy, Kind.REQUEST, b"1", "m")
        pending.open(Exchange(b"1", "m", request=request, weight=len(request.raw)))
        kept += len(pending)
    assert kept == limits.REVIEWED_BYTES // heavy
    assert len(tables[0]) == 1
    exchange = next(iter(tables[0]))
    tables[0].drop(exchange)
    tables[0].drop(exchange)
    assert len(tables[0]) == 0
    tables[-1].open(Exchange(b"2", "m", weight=1_000))
    assert len(tables[-1]) == 1
    tables[-1].open(Exchange(b"3", "m", weight=limits.REVIEWED_SESSION_BYTES + 1))
    assert len(tables[-1]) == 0
    for pending in tables:
        pending.close_all()
    assert sessions._share.used == 0


def test_what_stands_for_nobody_and_for_no_request_cannot_be_written_to() -> None:
    with pytest.raises(AttributeError):
        NO_SESSION.client_name = "x"
    with pytest.raises(AttributeError):
        NO_REQUEST.tool = "x"
    assert (NO_REQUEST.raw, NO_REQUEST.method, NO_REQUEST.params) == (b"", "", None)
    assert Exchange().session is NO_SESSION
    assert Exchange().request is NO_REQUEST


def test_an_exchange_of_a_message_keeps_it() -> None:
    session = Session(id="s")
    message = Message(b"raw", Kind.REQUEST, b"7", "ping")
    exchange = Exchange.of(message, 5.0, session)
    assert (exchange.id_token, exchange.method, exchange.started) == (b"7", "ping", 5.0)
    assert exchange.request is message
    assert exchange.session is session
    told = Exchange.of(Message(b"raw", Kind.NOTIFICATION, None, None))
    assert (told.id_token, told.method) == (b"", "")


def test_wait_itself_neither_cancels_nor_fails() -> None:
    wait = Wait(NO_REQUEST, True)
    said: list[Verdict] = []
    wait.then(said.append)
    with pytest.raises(NotImplementedError):
        wait.cancel()
    with pytest.raises(NotImplementedError):
        wait.fail("why")
    assert said == []


def test_no_principal_can_pass_for_a_session_or_an_address() -> None:
    sessions = table()
    known = [find(sessions, session=b"s1"), find(sessions, peer=b"7")]
    for name in (b"session s1", b"s1", b"peer 7", b"7"):
        for era in Era:
            assert find(sessions, era=era, principal=name) not in known


def test_a_new_session_has_no_rights_and_any_bytes_may_be_its_id() -> None:
    session = table().new(b"\xff-1")
    assert (session.principal, session.mcp_session_id, session.era) == ("", "\ufffd-1", None)


def test_a_session_and_an_exchange_that_nobody_looks_at_are_empty() -> None:
    session, exchange = Session(), Exchange()
    assert (session.id, session.started, session.principal, session.upstream) == ("", 0.0, "", "")
    assert (session.is_shared, session.version, session.message_count) == (False, "2026-07-28", 0)
    assert (exchange.id_token, exchange.method, exchange.started, exchange.weight) == (b"", "", 0.0, 0)
    assert (exchange.intercepted, exchange.modified, exchange.to_store) == (False, (), ())
    assert Exchange.of(NO_REQUEST).started == 0.0
    assert NO_REQUEST.id_token == b""


def test_a_request_of_the_upstreams_is_not_cancelled_by_the_client() -> None:
    session, notes = Session(), []
    message = Message(b"u request", Kind.REQUEST, b"1", "m")
    session.waiting[Noted(message, False, notes)] = None
    assert not session.cancel(b"1")
    assert notes == []


def test_a_session_with_a_task_under_way_does_not_fall_to_newcomers() -> None:
    session = table().new()
    assert not session.is_in_use
    session.tasks["t"] = NO_REQUEST
    assert session.is_in_use


def test_the_id_of_a_session_is_its_own_in_sixteen_characters() -> None:
    sessions = table()
    assert len(sessions.new().id) == 16
    assert sessions.new().id != sessions.new().id


def test_a_hello_of_the_modern_era_begins_no_session_of_its_own() -> None:
    sessions = table()
    one = find(sessions, era=Era.MODERN, principal=b"p", is_hello=True)
    assert find(sessions, era=Era.MODERN, principal=b"p") is one


def test_eras_principals_and_addresses_of_one_name_are_different_sessions() -> None:
    sessions = table()
    found = [
        find(sessions, era=Era.LEGACY, principal=b"x"),
        find(sessions, era=Era.MODERN, principal=b"x"),
        find(sessions, era=Era.LEGACY, peer=b"x"),
        find(sessions, era=Era.MODERN, peer=b"x"),
        find(sessions, session=b"x"),
        find(sessions, session=b"legacy principal x"),
        find(sessions, session=b"legacy peer x"),
    ]
    assert len({id(session) for session in found}) == len(found)
    assert [session.is_shared for session in found] == [True] * 4 + [False] * 3


def test_a_session_that_begins_is_called_as_it_would_be_if_it_were_found() -> None:
    sessions = table()
    one = find(sessions, is_hello=True)
    before = one.id
    sessions.begin(b"\xff", one)
    assert one.mcp_session_id == "\ufffd"
    assert one.id != before
    assert one.id == find(table(), session=b"\xff").id


def test_a_session_in_which_somebody_waits_is_kept_when_it_is_refused() -> None:
    sessions = table()
    one = find(sessions, session=b"x")
    waiting(one)
    sessions.refused(b"x")
    assert find(sessions, session=b"x") is one


def test_a_session_that_others_find_by_the_same_key_is_everywhere() -> None:
    sessions = table()
    assert not TrackedSession().is_everywhere
    assert not sessions.new(b"x").is_everywhere
    assert find(sessions, session=b"s").is_everywhere
    hello = find(sessions, is_hello=True)
    assert not hello.is_everywhere
    sessions.begin(b"t", hello)
    assert hello.is_everywhere


def test_a_session_sees_no_profile_unless_its_table_says_so() -> None:
    known: MemoryTable[bytes, TrackedSession] = MemoryTable(1, 1.0, lambda: 0.0)
    assert SessionTable("u", known).new().profile == ""
    assert SessionTable("u", known, "p").new().profile == "p"
