"""Files that are only appended to: rotated, moved, locked; and a tap whose faults reach nobody."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from records import CALL, answer, record

from penstock.errors import ConfigError
from penstock.observe.journal import Journal
from penstock.observe.reader import RecordingReader
from penstock.observe.recorder import Recorder
from penstock.observe.settings import AuditSettings, ObserveSettings, RecordSettings
from penstock.observe.tap import Tap
from penstock.observe.writing import Queue, WriterThread


def numbers(path: Path) -> list[int]:
    return [line.i for line in RecordingReader(str(path))]


def test_rotation_keeps_numbers_running_and_so_many_files(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(RecordSettings(str(path), rotate=4096, keep=2))
    for number in range(1, 200):
        recorder.write_batch([record(index=number)])
    recorder.close()
    files = sorted(tmp_path.glob("r.*.jsonl"), key=lambda one: int(one.name.split(".")[1]))
    assert len(files) == 2
    found = [number for file in [*files, path] for number in numbers(file)]
    assert found == list(range(found[0], 200))
    assert numbers(files[0])[0] == int(files[0].name.split(".")[1])
    again = Recorder(RecordSettings(str(path), rotate=4096, keep=2))
    assert again.last_index == 199
    again.close()


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(RecordSettings(str(path)))
    recorder.write_batch([record(index=1)])
    path.rename(tmp_path / "old.jsonl")
    time.sleep(1.1)
    recorder.write_batch([record(index=2)])
    recorder.close()
    assert numbers(tmp_path / "old.jsonl") == [1]
    assert numbers(path) == [2]
    assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="there is no logrotate here")
def test_logrotate_may_have_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    tmp_path.chmod(0o700)
    recorder = Recorder(RecordSettings(str(path)))
    recorder.write_batch([record(index=1)])
    config = tmp_path / "logrotate.conf"
    config.write_text(f"{path} {{\n rotate 3\n nocompress\n}}\n")
    config.chmod(0o600)
    words = ["logrotate", "--force", "--state", str(tmp_path / "state"), str(config)]
    subprocess.run(words, check=True, capture_output=True)
    time.sleep(1.1)
    recorder.write_batch([record(index=2)])
    recorder.close()
    assert numbers(tmp_path / "r.jsonl.1") == [1]
    assert numbers(path) == [2]


def test_a_locked_file_gets_a_neighbour(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    one, other = Journal(str(path), "recording"), Journal(str(path), "recording")
    assert other.path == str(tmp_path / f"r-{os.getpid()}.jsonl")
    one.close()
    other.close()


def test_in_a_folder_each_process_has_a_file_that_says_what_it_is_about(tmp_path: Path) -> None:
    asked = ObserveSettings(
        RecordSettings(f"{tmp_path}/"), AuditSettings(f"{tmp_path}/a.jsonl"), ("h", 1)
    ).with_own_files("../my files")
    assert asked.record is not None
    assert asked.audit is not None
    assert re.fullmatch(rf"my-files-[0-9]{{8}}T[0-9]{{6}}-{os.getpid()}\.jsonl", Path(asked.record.file).name)
    assert Path(asked.record.file).parent == tmp_path
    assert asked.audit.file == f"{tmp_path}/a.jsonl"
    assert asked.metrics == ("h", 1)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot write the recording"):
        Journal(str(tmp_path / "none" / "r.jsonl"), "recording")


def test_what_a_watcher_raises_reaches_nobody_and_the_others_go_on() -> None:
    seen = []

    def broken(told: object) -> None:
        raise RuntimeError("broken")

    tap = Tap()
    tap.add(broken)
    tap.add(seen.append)
    tap.saw(record())
    tap.saw(record())
    assert [one.index for one in seen] == [1, 2]


def test_an_answer_of_ours_is_a_message_of_its_own_and_time_never_goes_back() -> None:
    seen = []
    tap = Tap(41)
    tap.add(seen.append)
    tap.saw(record(verdict="deny", sent=b'{"jsonrpc":"2.0","id":1,"error":{}}', received=100.0, micros=50))
    tap.saw(record(received=90.0))
    assert [one.index for one in seen] == [42, 43, 44]
    assert (seen[1].sender, seen[1].request.index, seen[1].kind) == ("penstock", 42, "response")
    assert [one.received for one in seen] == sorted(one.received for one in seen)


def test_our_own_requests_and_their_answers_are_one_exchange() -> None:
    seen = []
    tap = Tap()
    tap.add(seen.append)
    tap.saw(record(sender="penstock", id_token=b'"penstock-1"', method="tools/list", tool=None))
    told = answer(record(), id_token=b'"penstock-1"', method=None)
    told.request = None
    tap.saw(told)
    assert seen[1].request is seen[0]
    assert seen[1].method == "tools/list"


class Slow:
    """A sink that can be told to fail."""

    def __init__(self) -> None:
        self.is_failing = False
        self.written: list[int] = []
        self.lost: list[tuple[int, int, int]] = []

    def write_batch(self, records: list) -> None:
        if self.is_failing:
            raise OSError(28, "No space left on device")
        self.written += [one.index for one in records]

    def write_lost(self, count: int, first, last) -> None:
        if self.is_failing:
            raise OSError(28, "No space left on device")
        self.lost.append((count, first.index, last.index))

    def close(self) -> None:
        pass


def test_what_does_not_fit_is_counted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.observe import bounds

    monkeypatch.setattr(bounds, "SINK_RECORDS", 10)
    monkeypatch.setattr(bounds, "SINK_RETRY_SECONDS", 0.0)
    sink = Slow()
    queue = Queue("recording", sink)
    sink.is_failing = True
    for number in range(1, 31):
        queue.add(record(index=number))
        queue.drain()
    assert queue.is_full
    sink.is_failing = False
    queue.drain()
    queue.add(record(index=31))
    queue.drain()
    assert sink.written == [*range(1, 11), 31]
    assert sink.lost == [(20, 11, 30)]
    assert queue.lost == 20


def test_the_thread_writes_soon_and_everything_at_the_end() -> None:
    sink = Slow()
    queue = Queue("recording", sink)
    thread = WriterThread([queue])
    for number in range(1, 1001):
        queue.add(record(index=number))
        thread.told()
    end = time.monotonic() + 10
    while len(sink.written) < 1000 and time.monotonic() < end:
        time.sleep(0.01)
    assert sink.written == list(range(1, 1001))
    queue.add(record(index=1001))
    thread.close(5.0)
    assert sink.written[-1] == 1001


def test_the_header_says_how_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(RecordSettings(str(path)), "sha256:abc")
    recorder.write_batch([record(CALL, index=1)])
    recorder.close()
    header = json.loads(path.read_text().splitlines()[0])
    assert (header["penstock"], header["v"], header["rules"], header["masked"]) == (
        "recording",
        1,
        "sha256:abc",
        False,
    )


class Stalled(Slow):
    """A sink whose disk does not answer until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = threading.Event()
        self.writes = 0

    def write_batch(self, records: list) -> None:
        self.may_write.wait(20)
        super().write_batch(records)
        self.writes += bool(records)


def test_who_waits_for_the_disk_holds_up_nobody_and_shares_a_write() -> None:
    async def scene() -> tuple[list[bool], int]:
        sink = Stalled()
        queue = Queue("audit", sink, blocks=True)
        thread = WriterThread([queue])
        waits = []
        for number in range(1, 51):
            queue.add(record(index=number))
            thread.told()
            waits.append(thread.written())
        turns = 0
        while turns < 100:
            await asyncio.sleep(0)
            turns += 1
        assert not any(wait.done() for wait in waits)
        sink.may_write.set()
        kept = await asyncio.wait_for(asyncio.gather(*waits), 20)
        assert sink.written == list(range(1, 51))
        sink.is_failing = True
        queue.add(record(index=51))
        failed = await asyncio.wait_for(thread.written(), 20)
        sink.is_failing = False
        thread.close(5.0)
        return [*kept, failed], sink.writes

    kept, writes = asyncio.run(scene())
    assert kept == [True] * 50 + [False]
    assert writes < 10


def test_clients_wait_before_the_queue_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.observe import bounds

    monkeypatch.setattr(bounds, "SINK_RECORDS", 8)
    queue = Queue("audit", Slow(), blocks=True)
    states = []
    for number in range(1, 9):
        queue.add(record(index=number))
        states.append((queue.is_crowded, queue.is_refusing))
    assert states == [(False, False)] * 5 + [(True, False)] * 2 + [(True, True)]
    assert queue.lost == 0
