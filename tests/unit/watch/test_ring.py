"""What is kept while nobody listens: the newest, and nothing large, whatever refers to it."""

from __future__ import annotations

from msgspec import structs

from penstock.observe.record import Record, Session
from penstock.watch import bounds
from penstock.watch.ring import CutRecord, Ring


def record(raw: bytes = b"{}", **more: object) -> Record:
    plain = Record(1.0, Session(id="s"), "client", "request", "x", b"1", raw, "pass")
    return structs.replace(plain, **more)


LARGE = b"x" * (bounds.RING_HEAD + 1)


def held_bytes(one: Record | None) -> int:
    """Bytes of messages, and of their names, that a record keeps alive."""
    if one is None:
        return 0
    names = max(map(len, (one.id_token or b"", one.method or "", one.tool or "")))
    return len(one.raw) + len(one.sent or b"") + names + held_bytes(one.request) + held_bytes(one.batch)


def test_the_newest_stay_and_fit() -> None:
    ring = Ring()
    for number in range(bounds.RING_MESSAGES + 5):
        ring.add(record(index=number))
    assert [one.index for one in ring] == list(range(5, bounds.RING_MESSAGES + 5))
    assert bounds.RING_MESSAGES * bounds.RING_HEAD <= bounds.RING_BYTES


def test_of_large_ones_the_beginning_is_kept_with_the_size() -> None:
    ring = Ring()
    whole = record(LARGE, index=7, method="m")
    ring.add(whole)
    (cut,) = ring
    assert isinstance(cut, CutRecord)
    assert (cut.raw, cut.size, cut.index, cut.method) == (LARGE[:-1], len(LARGE), 7, "m")
    assert whole.raw is LARGE  # others see the same record
    ring.add(record(LARGE[:-1]))
    assert not isinstance(list(ring)[1], CutRecord)


def test_nothing_large_stays_because_something_refers_to_it() -> None:
    ring = Ring()
    asked = record(LARGE, index=3)
    ring.add(record(request=asked))
    ring.add(record(batch=asked))
    ring.add(record(sent=LARGE, verdict="change"))
    ring.add(record(LARGE, sent=LARGE, request=structs.replace(asked, sent=LARGE)))
    long = {"id_token": LARGE, "method": LARGE.decode(), "tool": LARGE.decode()}
    ring.add(record(LARGE, **long))
    ring.add(record(request=record(LARGE, **long), **long))
    kept = list(ring)
    assert max(map(held_bytes, kept)) <= bounds.RING_HEAD + 2 * bounds.NAME_LENGTH
    assert kept[0].request is not None
    assert kept[1].batch is not None
    assert (kept[0].request.index, kept[1].batch.index) == (3, 3)
    small = record(index=4)
    ring.add(record(request=small))
    assert list(ring)[-1].request is small


def test_what_passed_the_short_way_is_a_record_once_somebody_asks() -> None:
    ring = Ring()
    session = Session(id="s")
    headers = ((b"mcp-name", b"x"),)
    asked = (b"{1}", b"1", 2.0, 2.25, 7, session, "tools/call", "t", headers)
    ring.append(asked)
    ring.append((b"{}", None, 3.0, 3.0, 8, session, "notifications/x", None, ()))
    ring.append((b"{2}", b"1", 4.0, 4.5, 9, asked, 200))
    request = Record(2.0, session, "client", "request", "tools/call", b"1", b"{1}", "pass")
    request = structs.replace(request, micros=250_000, tool="t", headers=headers, index=7)
    told = Record(3.0, session, "client", "notification", "notifications/x", None, b"{}", "pass", index=8)
    answer = Record(4.0, session, "upstream", "response", "tools/call", b"1", b"{2}", "pass")
    answer = structs.replace(answer, request=request, status=200, micros=500_000, index=9)
    assert list(ring) == [request, told, structs.replace(answer, tool="t", headers=headers)]
