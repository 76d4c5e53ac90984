"""A recording gives back the very bytes, passes jq, and survives being cut anywhere."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import CALL, answer, record, why

from penstock.observe.reader import RecordingReader, Unreadable, maybe_line
from penstock.observe.record import Session
from penstock.observe.recording import FORMAT, Header, encode_record, header_line, lost_line
from penstock.observe.rows import Rows, arguments_of
from penstock.wire.mcp.eras import Era

HEADER = header_line(Header(penstock="recording", v=FORMAT, run="r"))
ODD = [
    b'{"jsonrpc":"2.0","id":1234567890123456789012345678901234567890,"method":"\\u65e5","params":{"x":1e400}}',
    b'{"jsonrpc":"2.0",\r\n "id":1,"method":"a"}',
    b' {"a":1}',
    b"\xff\xfe{",
    b"Starting server ...",
    b"",
    b'{"a":"\\ud800"}',
    b"[" * 300 + b"]" * 300,
    b'{"n":3,"msg":"}"}',
    '{"a":"\u2028日本"}'.encode(),
    b'{"a":"x\x00"}',
]


def line(raw: bytes, **more: object) -> bytes:
    return b"".join(encode_record(record(raw, index=1, **{"kind": "other", **more})))


@pytest.mark.parametrize("raw", ODD)
def test_the_bytes_come_back_and_the_line_is_json(raw: bytes) -> None:
    data = line(raw)
    assert data.count(b"\n") == 1
    found = maybe_line(data)
    assert found is not None
    assert found.raw == raw
    assert found.n == len(raw)
    assert json.loads(data)["n"] == len(raw)
    if shutil.which("jq") is not None:
        shown = subprocess.run(["jq", "-e", ".n"], input=data, capture_output=True, check=True)
        assert int(shown.stdout) == len(raw)


@given(st.binary(max_size=200))
def test_any_bytes_come_back(raw: bytes) -> None:
    found = maybe_line(line(raw))
    assert found is not None
    assert found.raw == raw


def test_what_was_read_as_json_stands_there_verbatim() -> None:
    assert line(CALL, kind="request").endswith(b'"n":%d,"msg":%b}\n' % (len(CALL), CALL))


def test_a_changed_message_has_both_its_bytes() -> None:
    found = maybe_line(line(CALL, kind="request", verdict="change", sent=b'{"b":1}', why=why("r")))
    assert found is not None
    assert (found.raw, found.sent, found.by, found.rules) == (CALL, b'{"b":1}', "r", ["r"])


def test_an_answer_knows_its_request() -> None:
    asked = record(index=7)
    found = maybe_line(b"".join(encode_record(answer(asked, index=8))))
    assert found is not None
    assert (found.re, found.sender, found.kind) == (7, "upstream", "response")


def test_a_file_that_was_cut_anywhere_shows_no_wrong_message(tmp_path: Path) -> None:
    lines = [b"".join(encode_record(record(CALL[:-1] + b" " * n + b"}", index=n + 1))) for n in range(6)]
    whole = HEADER + b"".join(lines)
    path = tmp_path / "r.jsonl"
    for cut in range(len(whole) - 300, len(whole) + 1):
        path.write_bytes(whole[:cut])
        found = list(RecordingReader(str(path)))
        assert [one.i for one in found] == list(range(1, len(found) + 1))
        assert all(one.raw == CALL[:-1] + b" " * (one.i - 1) + b"}" for one in found)
        assert len(found) == whole[:cut].count(b"\n") - 1


def test_damage_inside_is_skipped_and_counted(tmp_path: Path) -> None:
    lines = [b"".join(encode_record(record(index=n + 1))) for n in range(50)]
    generator = random.Random(5)
    for place in (3, 9, 10):
        flipped = bytearray(lines[place])
        flipped[generator.randrange(len(flipped) - 20)] = 0x0B
        lines[place] = bytes(flipped)
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER + b"".join(lines))
    reader = RecordingReader(str(path))
    assert len(list(reader)) == 47
    assert reader.damaged == 3


def test_a_line_whose_length_is_wrong_is_damage() -> None:
    data = line(CALL, kind="request")
    assert maybe_line(data.replace(b'"n":%d' % len(CALL), b'"n":%d' % (len(CALL) + 1))) is None


def test_members_that_a_later_version_adds_are_ignored() -> None:
    data = line(CALL, kind="request").replace(b'"us":0', b'"us":0,"new":{"n":1,"msg":[2]}')
    found = maybe_line(data)
    assert found is not None
    assert found.raw == CALL


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER.replace(b'"v":1', b'"v":2'))
    with pytest.raises(Unreadable, match="newer Penstock"):
        list(RecordingReader(str(path)))


def test_another_file_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"hello\nworld\n")
    with pytest.raises(Unreadable, match="no recording"):
        list(RecordingReader(str(path)))


@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_packed_files_are_read(tmp_path: Path, packed: str) -> None:
    data = HEADER + line(CALL, kind="request")
    path = tmp_path / f"r.jsonl.{packed}"
    if packed == "gz":
        path.write_bytes(gzip.compress(data))
    else:
        zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
        path.write_bytes(zstandard.compress(data))
    assert [one.raw for one in RecordingReader(str(path))] == [CALL]


def test_losses_are_a_line_of_their_own() -> None:
    found = maybe_line(lost_line(9, 1.0, 3, 7, 9))
    assert found is not None
    assert found.lost is not None
    assert json.loads(lost_line(9, 1.0, 3, 7, 9))["lost"] == {"count": 3, "from": 7, "to": 9}


def test_a_body_that_is_no_message_is_told_from_a_line() -> None:
    kinds = [
        (record(b"<html>", kind="other", status=401), "http"),
        (record(b"noise", kind="other"), "line"),
        (record(b" [1]", kind="other", status=400), "batch"),
    ]
    for told, kind in kinds:
        assert json.loads(b"".join(encode_record(told)))["kind"] == kind


def test_what_a_line_says_of_its_session_is_what_the_session_is_now() -> None:
    told = record()
    told.session.era, told.session.client_name = None, None
    before = json.loads(b"".join(encode_record(told)))
    told.session.era, told.session.client_name = Era.MODERN, "late"
    after = json.loads(b"".join(encode_record(told)))
    assert "era" not in before
    assert (after["era"], after["client"]) == (Era.MODERN.value, "late")


@pytest.mark.parametrize("is_late", [False, True], ids=["written at once", "written later"])
def test_a_session_is_one_whenever_its_first_request_was_written(is_late: bool) -> None:
    hello = record(CALL.replace(b"tools/call", b"initialize"), index=1, method="initialize", tool=None)
    other = record(index=3, session=Session(id="other"))
    lines = [] if is_late else [b"".join(encode_record(hello))]
    hello.session.id = "named by the answer"
    lines += [b"".join(encode_record(hello))] if is_late else []
    rest = (answer(hello, index=2, session=hello.session), other, record(index=4, session=hello.session))
    lines += [b"".join(encode_record(told)) for told in rest]
    found = [row.line.s for row in Rows().all(line for line in map(maybe_line, lines) if line is not None)]
    assert found == [found[0], found[0], "other", found[0]]


@pytest.mark.parametrize("half", [b"\\ud800", b"\\uDC00", b"a\\\\\\udfffb"])
def test_half_a_surrogate_pair_comes_back_as_it_was_written(half: bytes) -> None:
    raw = CALL.replace(b"/a", half)
    found = maybe_line(b"".join(encode_record(record(raw, index=1))))
    assert found is not None
    assert found.raw == raw
    pair = CALL.replace(b"/a", b"\\ud83d\\ude00 \\\\ud800")
    assert raw not in (pair, CALL)
    assert b'"msg":' + pair in b"".join(encode_record(record(pair, index=1)))


def test_half_a_surrogate_pair_hides_neither_the_tool_nor_its_arguments() -> None:
    raw = CALL.replace(b"/a", b"\\ud800")
    found = maybe_line(b"".join(encode_record(record(raw, index=1))))
    assert found is not None
    row = Rows().row(found)
    assert (row.method, row.tool, row.inner("arg", "path")) == ("tools/call", "read_file", ["\uffff"])
    assert b'"path"' in (arguments_of(raw) or b"")
