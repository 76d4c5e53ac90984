"""Which recorded answer a request gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import CALL, answer, record

from penstock.observe.progress import Progress
from penstock.observe.recording import FORMAT, Header, encode_record, header_line
from penstock.observe.replay import ReplayBook, ReplaySession, differences, question_of


@pytest.fixture
def book(tmp_path: Path) -> ReplayBook:
    lines = [header_line(Header(penstock="recording", v=FORMAT))]
    index = 0
    for path, said in [(b"/a", b"1"), (b"/b", b"2"), (b"/a", b"3")]:
        asked = record(CALL.replace(b'"/a"', b'"%b"' % path), index=index + 1)
        told = answer(asked, b'{"jsonrpc":"2.0","id":1,"result":{"said":%b}}' % said, index=index + 2)
        lines += [*encode_record(asked), *encode_record(told)]
        index += 2
    denied = record(CALL.replace(b"/a", b"/denied"), index=index + 1, verdict="deny")
    lines += encode_record(denied)
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(lines))
    return ReplayBook(str(path))


def said(session: ReplaySession, path: bytes) -> bytes | None:
    found = session.find(question_of(CALL.replace(b"/a", path).replace(b'"id":1', b'"id":99')))
    return None if found is None or found.answer is None else found.answer.raw.split(b'"said":')[1][:1]


def test_repeats_come_in_their_order_and_then_the_last_again(book: ReplayBook) -> None:
    session = ReplaySession(book)
    assert [said(session, b"/a") for _ in range(4)] == [b"1", b"3", b"3", b"3"]
    once = ReplaySession(book, once=True)
    assert [said(once, b"/a") for _ in range(3)] == [b"1", b"3", None]


def test_by_order_params_do_not_matter(book: ReplayBook) -> None:
    session = ReplaySession(book, "order")
    assert [said(session, b"/x") for _ in range(3)] == [b"1", b"2", b"3"]


def test_strictly_the_order_must_be_that_of_the_recording(book: ReplayBook) -> None:
    session = ReplaySession(book, "strict")
    assert said(session, b"/b") is None
    assert [said(session, path) for path in (b"/a", b"/b", b"/a")] == [b"1", b"2", b"3"]


def test_what_was_denied_is_no_answer(book: ReplayBook) -> None:
    assert said(ReplaySession(book), b"/denied") is None


def test_order_and_spelling_of_members_and_meta_do_not_matter() -> None:
    one = question_of(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"b":"\\u65e5","_meta":{"x":1}}}')
    other = question_of('{"method":"m","params":{ "b":"日","a" : 1 }}'.encode())
    assert one.key == other.key


def test_a_number_is_no_truth_value() -> None:
    assert list(differences({"a": 1}, {"a": True})) == ["a"]
    assert list(differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})) == ["a[1].b"]


def test_progress_tells_count_rate_and_time_left_and_is_silent_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    progress = Progress("messages", 10_240, is_shown=True, clock=lambda: now[0])
    for _ in range(512):
        now[0] += 0.01
        progress.add(10)
    assert progress.line().startswith("messages: 512, 100/s, 50 %, 5s left")
    progress.end()
    assert "messages: 512" in capsys.readouterr().err
    silent = Progress("messages", 10)
    silent.add(1)
    silent.end()
    assert capsys.readouterr().err == ""
