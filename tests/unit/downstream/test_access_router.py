"""What is remembered of a head that was let in: for how long, for whom, and what the doors see of it."""

from __future__ import annotations

import time

from memory_doors import Memory
from penstock.auth.bearer import digest_of
from penstock.auth.callers import Callers, Outcome
from penstock.auth.certificates import CertTable
from penstock.auth.terms import AuthTerms, CertTerms, ChooseTerms, TokenTerms
from penstock.downstream.access_router import AccessRouter
from penstock.downstream.host_origin_check import HostOriginCheck
from penstock.downstream.mcp_head import read_head
from penstock.downstream.resource_metadata import ResourceMetadata
from penstock.net.http_exchange import Reply, Request
from penstock.net.tls_listener import TlsPeer
from penstock.wire.http.http1 import Memo

TOKEN = b"a-token"
SHOWN = (b"Authorization", b"Bearer " + TOKEN)
JSON = (b"Content-Type", b"application/json")
ADDRESS = ("127.0.0.1", 50_000)


class Front:
    """A front, and every request as its doors got it."""

    def __init__(self, callers: Callers, **choose: object) -> None:
        self.got: list[tuple[str, Request, Reply]] = []
        self.callers = callers
        self.router = AccessRouter(
            HostOriginCheck([], []),
            {name: {b"/mcp": self.door(name), b"/messages": self.door(name)} for name in ("all", "other")},
            callers,
            None,  # type: ignore[arg-type]  # somebody is asked
            ChooseTerms(**choose),  # type: ignore[arg-type]
            "all",
            ResourceMetadata(None, None),
            lambda request, reply: False,
        )

    def door(self, name: str):
        def handle(request: Request, reply: Reply) -> None:
            self.got.append((name, request, reply))
            reply.send(200, [(b"Mcp-Session-Id", b"s-%d" % len(self.got))], b"")

        return handle

    def ask(
        self, memo: Memo, *more: tuple[bytes, bytes], peer: object = ADDRESS, target: bytes = b"/mcp"
    ) -> int:
        """The status for a request whose head has the same bytes as every other one with this memo."""
        headers = [(b"Host", b"127.0.0.1"), JSON, *more]
        fields = {name.lower(): value for name, value in headers}
        connection = Memory()
        reply = Reply(connection, False, True)  # type: ignore[arg-type]
        self.router(Request(b"POST", target, headers, b"{}", peer, 1, fields, memo), reply)
        return int(connection.given[0].split()[1])


def by_token() -> Callers:
    return Callers(AuthTerms(tokens=(TokenTerms("ci", digest_of(TOKEN)),)))


class Lapsing(Callers):
    """Callers whose credential is looked at again after a while."""

    until = 0.0
    asked = 0

    def ask(self, *about: object) -> Outcome:
        self.asked += 1
        found = super().ask(*about)  # type: ignore[arg-type]
        found.until = self.until  # type: ignore[union-attr]
        return found  # type: ignore[return-value]


def test_no_door_finds_what_was_meant_for_us_whether_the_head_is_new_or_known() -> None:
    front, memo = Front(by_token()), Memo()
    for _ in range(3):
        assert front.ask(memo, SHOWN) == 200
    seen = [request for _, request, _ in front.got]
    for request in seen:
        assert request.header(b"authorization") is None
        assert all(name.lower() != b"authorization" for name, _ in request.headers)
        assert read_head(request).authorization is None
        assert request.header(b"content-type") == JSON[1]
        assert request.memo is not memo  # what doors remember never meets what we do
    assert len({id(read_head(request)) for request in seen}) == 1
    caller = front.callers._listed[0]
    assert {request.peer for request in seen} == {(caller.key.hex(),)}  # and not the address
    assert {reply.admission[0].caller for _, _, reply in front.got} == {caller}
    assert read_head(seen[0]).caller == caller.key


def test_a_known_head_is_asked_about_again_as_soon_as_its_credential_must_be() -> None:
    callers = Lapsing(by_token().terms)
    front, memo = Front(callers), Memo()
    callers.until = time.time() + 3600
    assert [front.ask(memo, SHOWN) for _ in range(3)] == [200, 200, 200]
    assert callers.asked == 1
    memo = Memo()
    callers.until = time.time() - 1
    assert [front.ask(memo, SHOWN) for _ in range(3)] == [200, 200, 200]
    assert callers.asked == 4


def test_what_one_front_has_found_out_is_nothing_to_the_next() -> None:
    old, memo = Front(by_token()), Memo()
    assert old.ask(memo, SHOWN) == 200
    new = Front(Callers(AuthTerms(tokens=(TokenTerms("dev", digest_of(b"another")),))))
    assert new.ask(memo, SHOWN) == 401
    assert not new.got


def test_a_known_head_counts_only_for_the_certificate_that_it_came_with() -> None:
    row = CertTerms("robot", digest_of(b"certificate"))
    front = Front(Callers(AuthTerms(certs=(row,)), CertTable((row,))))
    proven, another, bare = TlsPeer(ADDRESS), TlsPeer(ADDRESS), TlsPeer(ADDRESS)
    proven.certificate, another.certificate = b"certificate", b"of somebody else"
    memo = Memo()
    for _ in range(2):
        assert front.ask(memo, peer=proven) == 200
        for peer in (ADDRESS, None, another, bare):
            assert front.ask(memo, peer=peer) == 401
    assert len(front.got) == 2


def test_a_session_is_its_callers_own_and_is_looked_for_each_time() -> None:
    front = Front(by_token())
    assert front.ask(Memo(), SHOWN) == 200
    mine, not_mine = Memo(), Memo()
    for _ in range(2):
        assert front.ask(mine, SHOWN, (b"Mcp-Session-Id", b"s-1")) == 200
        assert front.ask(not_mine, SHOWN, (b"Mcp-Session-Id", b"s-0")) == 404
    posts = Memo()
    for session, status in ((b"s-1", 200), (b"s-0", 404), (b"", 404), (b"s-1&session_id=s-1", 404)):
        assert front.ask(posts, SHOWN, target=b"/messages?session_id=" + session) == status
    named = (b"Mcp-Session-Id", b"s-1")  # there a header names nothing
    assert front.ask(Memo(), SHOWN, named, target=b"/messages?session_id=s-0") == 404
    assert front.ask(Memo(), SHOWN, named, target=b"/p/other/mcp") == 404
    assert front.ask(mine, SHOWN, (b"Mcp-Session-Id", b"s-1")) == 200  # nothing is lost by that
    caller = front.callers._listed[0]
    caller.sessions.clear()  # the session is forgotten, and its head is known as well as ever
    assert front.ask(mine, SHOWN, (b"Mcp-Session-Id", b"s-1")) == 404


def test_a_known_head_is_led_to_the_profile_that_its_session_is_in_now() -> None:
    front, memo = Front(by_token()), Memo()
    assert front.ask(Memo(), SHOWN, (b"Mcp-Session-Id", b"x" * 200)) == 404
    caller = front.callers._listed[0]
    named = (b"Mcp-Session-Id", b"x" * 200)  # long ones are kept as digests
    # No path and no header names a profile, and a client's own name could: then the session's counts.
    front = Front(front.callers, clients=(("somebody", "other"),))
    for profile in ("other", "all", "all", "other"):
        caller.own(named[1], profile)
        assert front.ask(memo, SHOWN, named) == 200
        name, _, reply = front.got[-1]
        assert (name, reply.admission[1]) == (profile, profile)
    assert front.ask(memo, SHOWN, named, peer=None) == 200


def test_the_session_that_was_used_last_is_forgotten_last(monkeypatch) -> None:
    from penstock import limits

    monkeypatch.setattr(limits, "CALLER_SESSIONS", 2)
    front = Front(by_token())
    caller = front.callers._listed[0]
    caller.own(b"a", "all")
    caller.own(b"b", "all")
    memo = Memo()
    assert front.ask(memo, SHOWN, (b"Mcp-Session-Id", b"a")) == 200
    caller.own(b"c", "all")
    assert list(caller.sessions) == [b"a", b"c"]
    assert front.ask(memo, SHOWN, (b"Mcp-Session-Id", b"a")) == 200
    assert list(caller.sessions) == [b"c", b"a"]
