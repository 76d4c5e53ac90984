"""What instances believe of each other: a hop is good once, for one of them, for a moment, as it was."""

from __future__ import annotations

import pytest
from msgspec import structs

from penstock.fleet.hop import HEADER, SECONDS, Hops
from penstock.fleet.session_ids import SessionIds
from penstock.net.http_exchange import Request
from penstock.state.seals import Seals

SECRET, OTHER = b"s" * 32, b"o" * 32
TAG = "0123456789"


def request(**more: object) -> Request:
    headers = [(b"Host", b"a.example"), (b"Mcp-Session-Id", b"x"), (b"Content-Length", b"2")]
    fields = {name.lower(): value for name, value in headers}
    made = Request(b"POST", b"/mcp?x=1", headers, b"{}", ("10.0.0.1", 1), 1, fields)
    return structs.replace(made, **more)


def sent(hops: Hops, one: Request, tag: str = TAG) -> Request:
    headers = [*hops.headers_for(one, tag), (b"Host", b"peer:8909"), (b"Content-Length", b"2")]
    return structs.replace(one, headers=headers, fields={name.lower(): value for name, value in headers})


def test_a_hop_arrives_as_it_was_and_only_once() -> None:
    sender, owner = Hops(Seals(SECRET)), Hops(Seals(SECRET))
    arriving = sent(sender, request())
    arrived = owner.maybe_arrived(arriving, TAG)
    assert arrived is not None
    assert arrived.body == b"{}"
    assert arrived.peer == ("10.0.0.1", 0)
    assert arrived.fields[b"host"] == b"a.example"
    assert HEADER.lower() not in arrived.fields
    assert owner.maybe_arrived(arriving, TAG) is None


@pytest.mark.parametrize(
    "change",
    [
        {"body": b"[]"},
        {"method": b"DELETE"},
        {"target": b"/mcp?x=2"},
        {"target": b"/messages"},
    ],
    ids=str,
)
def test_nothing_of_a_hop_can_be_changed(change: dict[str, bytes]) -> None:
    hops = Hops(Seals(SECRET))
    assert Hops(Seals(SECRET)).maybe_arrived(structs.replace(sent(hops, request()), **change), TAG) is None


def test_no_header_can_be_added_taken_or_changed() -> None:
    arriving = sent(Hops(Seals(SECRET)), request())
    for headers in (
        [*arriving.headers, (b"Authorization", b"Bearer another")],
        [pair for pair in arriving.headers if pair[0] != b"Mcp-Session-Id"],
        [(name, b"y" if name == b"Mcp-Session-Id" else value) for name, value in arriving.headers],
    ):
        changed = structs.replace(arriving, headers=headers, fields={n.lower(): v for n, v in headers})
        assert Hops(Seals(SECRET)).maybe_arrived(changed, TAG) is None


def test_a_hop_is_for_one_instance_of_one_fleet_for_a_moment() -> None:
    now = [1_000_000.0]
    sender = Hops(Seals(SECRET), lambda: now[0])
    arriving = sent(sender, request())
    assert Hops(Seals(SECRET), lambda: now[0]).maybe_arrived(arriving, "f" * 10) is None
    assert Hops(Seals(OTHER), lambda: now[0]).maybe_arrived(arriving, TAG) is None
    assert Hops(Seals(SECRET, None, "other"), lambda: now[0]).maybe_arrived(arriving, TAG) is None
    now[0] += SECONDS + 1
    assert Hops(Seals(SECRET), lambda: now[0]).maybe_arrived(arriving, TAG) is None


def test_while_a_secret_is_replaced_the_old_one_is_believed() -> None:
    old, new = Seals(SECRET), Seals(OTHER, SECRET)
    assert new.maybe_unwrapped(old.wrapped(b"v", "cache", b"k"), "cache", b"k") == b"v"
    assert old.maybe_unwrapped(new.wrapped(b"v", "cache", b"k"), "cache", b"k") is None


def test_a_value_is_bound_to_its_place() -> None:
    seals = Seals(SECRET)
    sealed = seals.wrapped(b"v", "cache", b"one")
    assert seals.maybe_unwrapped(sealed, "cache", b"two") is None
    assert seals.maybe_unwrapped(sealed, "value", b"one") is None
    assert seals.name("limit", "a", "bc") != seals.name("limit", "ab", "c")
    assert seals.name("limit", "\r\n\0*", b"\xff") != seals.name("limit", "\r\n\0", b"*\xff")


def test_only_ids_of_others_of_ours_lead_anywhere() -> None:
    ours, others = SessionIds(Seals(SECRET), TAG), SessionIds(Seals(SECRET), "f" * 10)
    assert ours.maybe_other_owner(others.new()) == "f" * 10
    assert ours.maybe_other_owner(ours.new()) is None
    assert ours.maybe_other_owner(SessionIds(Seals(OTHER), "f" * 10).new()) is None
    assert ours.maybe_other_owner(b"p1-../../etc-x-y") is None
