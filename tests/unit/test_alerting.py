"""Alerts while traffic passes: a few calls at a time in the loop, all in the end, and no thread meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from penstock.gate.record import CallSeen, MessageKind, Record, Sender
from penstock.learn.alerting import AlertFile, Alerting, AlertSink
from penstock.observe import bounds
from penstock.policy.exchange import Session
from penstock.policy.learned.baseline import Baseline, Model
from penstock.policy.learned.features import digest64

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{"a":"%b"}}}'


SESSION = Session(id="s")


def alerts_of(path: Path, *kinds: str) -> Alerting:
    """Tells of every session that calls anything but the tool `usual`, and, where asked, of every failure."""
    watched = kinds or ("tool",)
    calibration = {kind: [0.0] * 9 for kind in watched}
    model = Model(sessions=9, calls=9, tools={digest64("usual"): 9}, calibration=calibration)
    return Alerting(Baseline(groups={"": model}), 1 / 2, watched, str(path))


def seen(tool: str, session: str = "s", size: int = 1) -> CallSeen:
    return CallSeen(1_790_000_000.0, Session(id=session), tool, CALL % (tool.encode(), b"x" * size))


def told(path: Path) -> list[str]:
    """What was told of, by session, in order."""
    return [json.loads(line)["session"] for line in path.read_text().splitlines()]


async def turns(count: int) -> None:
    """Lets the loop run what is due, and no timer."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 400])
def test_every_call_is_looked_at_in_the_end(tmp_path: Path, count: int) -> None:
    path = tmp_path / "alerts"

    async def run() -> None:
        alerts = alerts_of(path)
        await alerts.start()
        keep = alerts.keep_call
        assert keep is not None
        for number in range(count):
            keep(seen("odd" if number % 2 == 0 else "usual", f"s{number}"))
        alerts.close()

    asyncio.run(run())
    assert told(path) == [f"s{number}" for number in range(0, count, 2)]


def test_many_calls_or_a_large_one_are_looked_at_at_once_and_few_within_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[list[int]] = []
    looked = asyncio.Event()

    def look(sink: AlertSink, records: list[CallSeen]) -> None:
        looks.append([len(one.raw) for one in records])
        looked.set()

    monkeypatch.setattr(AlertSink, "write_batch", look)

    async def run() -> None:
        alerts = alerts_of(tmp_path / "alerts")
        await alerts.start()
        keep = alerts.keep_call
        assert keep is not None
        for _ in range(40):
            keep(seen("usual"))
        assert looks == []  # nothing in the middle of passing a message on
        await turns(4)
        assert [len(look) for look in looks] == [16, 16]  # the rest is few
        keep(seen("usual", size=5_000))
        await turns(2)
        assert [len(look) for look in looks] == [16, 16, 9]
        looks.clear()
        monkeypatch.setattr(bounds, "LEARN_SECONDS", 0.0)
        alerts._look_in_time()  # what had been arranged before
        looked.clear()
        keep(seen("usual"))
        async with asyncio.timeout(60):
            await looked.wait()
        alerts.close()
        keep(seen("usual"))  # nobody looks any more, and nothing is kept
        assert alerts._waiting == []

    asyncio.run(run())


def test_what_waits_is_bounded_where_more_comes_in_a_turn_than_is_looked_at(tmp_path: Path) -> None:
    async def run() -> int:
        alerts = alerts_of(tmp_path / "alerts")
        await alerts.start()
        keep = alerts.keep_call
        assert keep is not None
        most = 0
        for _ in range(60):
            for _ in range(200):
                keep(seen("usual"))
            await turns(1)
            most = max(most, len(alerts._waiting))
        alerts.close()
        return most

    assert asyncio.run(run()) < 4 * 200


def test_a_disk_that_stalls_does_not_let_alerts_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = AlertFile(str(tmp_path / "alerts"))
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)  # nobody writes
    for _ in range(10_002):
        file.write(b"x\n")
    assert len(file._waiting) == 10_000
    assert "the disk does not take them" in caplog.text


def test_there_is_no_thread_unless_something_is_written(tmp_path: Path) -> None:
    path = tmp_path / "alerts"

    async def run() -> None:
        before = threading.active_count()
        alerts = alerts_of(path)
        await alerts.start()
        keep = alerts.keep_call
        assert keep is not None
        for _ in range(16):
            keep(seen("usual"))
        await turns(3)
        assert threading.active_count() == before
        alerts.close()

    asyncio.run(run())
    assert path.read_bytes() == b""


def test_a_look_that_fails_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        alerts = alerts_of(tmp_path / "alerts")
        await alerts.start()
        keep = alerts.keep_call
        assert keep is not None
        with monkeypatch.context() as patch:
            patch.setattr(alerts._alarm, "taken", lambda *_: 1 / 0)
            for _ in range(16):
                keep(seen("odd", "first"))
            await turns(3)
        for _ in range(16):
            keep(seen("odd", "second"))
        await turns(3)
        alerts.close()

    asyncio.run(run())
    failures = [record.getMessage() for record in caplog.records if record.exc_info]
    assert failures == ["The alerts have failed."]
    assert told(tmp_path / "alerts") == ["second"]


def test_all_lines_are_in_the_file_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "alerts"
    file = AlertFile(str(path))
    lines = [b"%d\n" % number for number in range(2_000)]
    for line in lines:
        file.write(line)
    file.close()
    assert path.read_bytes() == b"".join(lines)
    assert path.stat().st_mode & 0o777 == 0o600


def record(raw: bytes, index: int, sender: Sender = "client", request: Record | None = None) -> Record:
    kind: MessageKind = "request" if sender == "client" else "response"
    session = SESSION if request is None else request.session
    made = Record(1_790_000_000.0, session, sender, kind, "tools/call", b"1", raw, "pass", index=index)
    made.request = request
    made.tool = "odd"
    return made


FINE = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false}}'


@pytest.mark.parametrize(
    ("answer", "is_kept", "is_failure"),
    [
        (FINE, False, False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"content":["true"]}}', False, False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"content":["error"]}}', True, False),
        (
            FINE.replace(b"[]", b'["%b"]' % (b"x" * 5_000)),
            True,
            False,
        ),  # large: not searched before it passes
        (FINE.replace(b"false", b"true"), True, True),
        (FINE.replace(b'"isError":false', b'"is\\u0045rror":true'), True, True),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}', True, True),
        (b'{"jsonrpc":"2.0","id":1,"\\u0065rror":{"code":1,"message":"no"}}', True, True),
    ],
)
def test_of_records_calls_and_failures_are_kept_with_their_numbers(
    tmp_path: Path, answer: bytes, is_kept: bool, is_failure: bool
) -> None:
    path = tmp_path / "alerts"

    async def run() -> None:
        alerts = alerts_of(path, "tool", "errors")
        await alerts.start()
        asked = record(CALL % (b"odd", b"x"), 41)
        alerts.saw(asked)
        alerts.saw(record(answer, 42, "upstream", asked))
        assert len(alerts._waiting) == 1 + is_kept
        alerts.close()

    asyncio.run(run())
    found = [json.loads(line) for line in path.read_text().splitlines()]
    numbers = [(one["kind"], one["seen_first"]) for one in found]
    assert numbers == [("tool", 41), *([("errors", 42)] if is_failure else [])]


def test_of_records_what_was_stopped_is_kept_whole(tmp_path: Path) -> None:
    async def run() -> list[object]:
        alerts = alerts_of(tmp_path / "alerts")
        await alerts.start()
        asked = record(CALL % (b"odd", b"x"), 1)
        asked.verdict = "block"
        alerts.saw(asked)
        stopped = record(FINE, 2, "upstream", asked)
        stopped.verdict = "block"
        alerts.saw(stopped)
        waiting: list[object] = list(alerts._waiting)
        alerts.close()
        return waiting

    assert [type(one) for one in asyncio.run(run())] == [Record, Record]
