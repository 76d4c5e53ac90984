"""How a session begins and ends, whoever ends it. Numbers are rows of the threat catalogue."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate import (
    DEADLINE,
    ROOT,
    SCRIPTED,
    Gate,
    call,
    children_of,
    cpu_seconds,
    is_running,
    peak_memory,
    request,
    wait_until,
)

DENY = ("--deny", "^(write|delete)_")
LOST = "Error: Lost connection to upstream MCP\nShutting down proxy\n"
MIB = 1024 * 1024
SLACK = 4.0
"""Seconds that a busy machine may add to what is promised."""


def _open(work: Path, *options: str, **more: object) -> Gate:
    gate = Gate(work, *DENY, *options, **more)  # type: ignore[arg-type]
    gate.handshake()
    assert gate.is_alive()
    return gate


# --- the client leaves ---------------------------------------------------------------------------------


def test_133_when_the_client_leaves_the_upstream_is_told_at_once(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        pid = gate.order("pid")["result"]["pid"]
        began = time.monotonic()
        assert gate.end() == 0
        assert time.monotonic() - began < 1 + SLACK
        assert not is_running(pid)


def test_133_a_child_that_never_leaves_is_made_to_within_six_seconds(tmp_path: Path) -> None:
    with _open(tmp_path, upstream=["--ignore-eof", "--ignore-term"]) as gate:
        pid = gate.order("pid")["result"]["pid"]
        grandchild = gate.order("spawn")["result"]["pid"]
        began = time.monotonic()
        assert gate.end() == 0
        took = time.monotonic() - began
        assert 5 <= took < 6 + SLACK
        assert not is_running(pid)
        assert wait_until(lambda: not is_running(grandchild), 2)


def test_133_answers_under_way_are_delivered_after_the_client_has_stopped_talking(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        for number in range(50):
            gate.say(request(b"%d" % number, "x/nothing"))
        gate.close_input()
        answered = [json.loads(line)["id"] for line in gate.rest() if b"heard" in line]
        assert answered == list(range(50))
        assert gate.process.wait(DEADLINE) == 0


def test_133_requests_that_wait_for_the_list_are_answered_before_the_upstream_is_told_to_leave(
    tmp_path: Path,
) -> None:
    with Gate(tmp_path, *DENY, upstream=["--list-delay", "0.3"]) as gate:
        gate.handshake()
        gate.say(request(b'"list"', "tools/list"))
        gate.say(call("echo", b'"call"'))
        gate.say(call("write_file", b'"denied"'))
        gate.close_input()
        lines = gate.rest()
        assert [json.loads(line)["id"] for line in lines] == ["list", "denied", "call"]
        assert gate.process.wait(DEADLINE) == 0


def test_133_a_handshake_that_is_never_answered_does_not_keep_us(tmp_path: Path) -> None:
    options = ("--tools-timeout", "500ms")
    with Gate(tmp_path, *DENY, *options, upstream=["--mute", "initialize"]) as gate:
        gate.say(request(b"1", "initialize", b'{"protocolVersion":"2025-06-18"}'))
        gate.say(request(b"2", "tools/list"))
        began = time.monotonic()
        assert gate.end() in (0, 1)
        assert time.monotonic() - began < 6 + SLACK


def test_a_grandchild_that_floods_our_pipe_does_not_keep_us(tmp_path: Path) -> None:
    with _open(tmp_path, upstream=["--flooding-grandchild"]) as gate:
        began = time.monotonic()
        assert gate.end() == 0
        assert time.monotonic() - began < 6 + SLACK


def test_140_a_client_that_closes_its_reading_end_has_left(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        assert gate.process.stdout is not None
        gate.process.stdout.close()
        gate._is_over = True
        gate.say(request(b"1", "ping"))
        assert gate.process.wait(DEADLINE) == 0


def test_140_a_client_that_leaves_without_having_read_lets_the_upstream_finish(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        gate.say(request(b"1", "x/flood", b'{"count":400,"bytes":100000}'))
        assert wait_until(lambda: b"x/flood" in gate.record.read_bytes())
        assert wait_until(lambda: _is_idle(gate.process.pid))
        assert gate.process.stdout is not None
        gate.process.stdout.close()
        began = time.monotonic()
        gate.close_input()
        assert gate.process.wait(DEADLINE) == 0
        assert time.monotonic() - began < 4.8  # the child is given five


@pytest.mark.parametrize("where", ["a file", "/dev/null", "a socket"])
def test_stdin_may_be_anything(tmp_path: Path, where: str) -> None:
    source = tmp_path / "input"
    lines = [
        request(b"1", "initialize", b'{"protocolVersion":"2025-06-18","capabilities":{}}'),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        request(b"2", "tools/list"),
    ]
    source.write_bytes(b"" if where == "/dev/null" else b"".join(line + b"\n" for line in lines))
    ours, theirs = socket.socketpair()
    with open(os.devnull if where == "/dev/null" else source, "rb") as file:
        stdin = theirs if where == "a socket" else file
        with Gate(tmp_path, *DENY, "--stdio", stdin=stdin) as gate:
            theirs.close()
            if where == "a socket":
                ours.sendall(source.read_bytes())
                ours.shutdown(socket.SHUT_WR)
            answered = [json.loads(line)["id"] for line in gate.rest()]
            assert gate.process.wait(DEADLINE) == 0
            assert answered == ([] if where == "/dev/null" else [1, 2])
            ours.close()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_standard_descriptor_that_is_closed_does_not_open_the_protocol_to_strangers(
    tmp_path: Path, missing: int
) -> None:
    record = tmp_path / "record"
    script = f'exec "$@" {missing}{"<" if missing == 0 else ">"}&-'
    words = [sys.executable, "-m", "penstock", *DENY, "--log-level", "debug", "--stdio", "--"]
    process = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *words, sys.executable, str(SCRIPTED), "--record", str(record)],
        input=request(b"1", "ping") + b"\nnonsense\n",
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert b"Traceback" not in process.stderr
    reached = record.read_bytes() if record.exists() else b""
    assert reached in (b"", request(b"1", "ping") + b"\n")
    assert all(json.loads(line) for line in process.stdout.splitlines())


# --- signals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_135_a_signal_ends_the_session_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with _open(tmp_path) as gate:
        pid = gate.order("pid")["result"]["pid"]
        gate.signal(number)
        assert gate.process.wait(DEADLINE) == 0
        assert not is_running(pid)


def test_135_a_signal_during_a_call_waits_for_its_answer(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        gate.say(request(b"1", "x/flood", b'{"count":2000,"bytes":2000}'))
        assert gate.line()
        gate.signal(signal.SIGTERM)
        assert b'"id":1,' in gate.rest()[-1]
        assert gate.process.wait(DEADLINE) == 0


_HASTY = """
import json, os, sys, threading

def say(token, result):
    print(json.dumps({"jsonrpc": "2.0", "id": token, "result": result}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    method, token = message["method"], message.get("id")
    if method == "initialize":
        server = {"name": "hasty", "version": "1"}
        say(token, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server})
    elif method == "tools/list":
        say(token, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        seconds = message["params"]["arguments"]["seconds"]
        threading.Timer(seconds, say, [token, {"content": []}]).start()
        print("taken", file=sys.stderr, flush=True)
os._exit(0)
"""
"""An upstream that leaves the moment its stdin is closed, whatever is under way."""


@pytest.mark.parametrize("seconds", [0.5, 60])
def test_135_a_signal_lets_calls_finish_that_the_end_of_input_would_end(
    tmp_path: Path, seconds: float
) -> None:
    words = [sys.executable, "-m", "penstock", "--stdio", *DENY, "--", sys.executable, "-c", _HASTY]
    errors = tmp_path / "stderr"
    with (
        errors.open("wb") as file,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            begin = (
                b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}'
            )
            process.stdin.write(request(b"0", "initialize", begin) + b"\n")
            process.stdin.write(
                request(b"1", "tools/call", b'{"name":"echo","arguments":{"seconds":%g}}' % seconds)
            )
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert b'"id":0' in process.stdout.readline().replace(b" ", b"")
            assert wait_until(lambda: b"taken" in errors.read_bytes())
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
            assert process.wait(DEADLINE) == 0
        finally:
            process.kill()
    assert (b'"content"' in rest) == (seconds < 1)
    assert time.monotonic() - began < 6 + SLACK


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_135_a_second_signal_ends_it_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with _open(tmp_path, upstream=["--ignore-eof", "--ignore-term"]) as gate:
        pid = gate.order("pid")["result"]["pid"]
        grandchild = gate.order("spawn")["result"]["pid"]
        gate.signal(number)
        assert wait_until(lambda: "ending" in gate.stderr)
        began = time.monotonic()
        gate.signal(number)
        assert gate.process.wait(DEADLINE) == 128 + number
        assert time.monotonic() - began < 2 + SLACK
        assert wait_until(lambda: not is_running(pid) and not is_running(grandchild), 2)


def test_135_a_signal_during_start_leaves_nothing_behind(tmp_path: Path) -> None:
    for pause in (0.0, 0.05, 0.1, 0.2):
        with Gate(tmp_path, *DENY, upstream=["--ignore-eof"]) as gate:
            time.sleep(pause)
            gate.signal(signal.SIGTERM)
            assert gate.process.wait(DEADLINE) in (0, -signal.SIGTERM)
            needle = str(gate.record).encode()
            assert wait_until(lambda needle=needle: not _running_with(needle), 8)


def _running_with(needle: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if needle in (entry / "cmdline").read_bytes() and is_running(int(entry.name)):
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_136_no_orphan_survives_our_violent_death(tmp_path: Path) -> None:
    with _open(tmp_path, upstream=["--ignore-eof", "--ignore-term"]) as gate:
        pids = [gate.order("pid")["result"]["pid"], gate.order("spawn")["result"]["pid"]]
        pids += children_of(gate.process.pid)
        assert all(map(is_running, pids))
        gate.process.kill()
        gate.process.wait()
        assert wait_until(lambda: not any(map(is_running, pids)), 7)


@pytest.mark.parametrize("files", [6, 8, 10, 12, 14])
def test_144_a_start_without_enough_descriptors_says_so_and_leaves_nobody(files: int) -> None:
    words = f'ulimit -n {files}; exec "$@"'
    penstock = [sys.executable, "-m", "penstock", "--stdio", "--deny", "x", "--", "sleep", "600"]
    with subprocess.Popen(
        ["/bin/sh", "-c", words, "sh", *penstock],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert b"Too many open files" in said
    assert b"Traceback" not in said


_KILLED_BETWEEN = """
import os, signal, subprocess, sys
from penstock.net.warden import Warden
warden = Warden()
read, write = os.pipe()
if sys.argv[1] == "expected":
    warden.expect(read)
else:
    warden.stand_by()
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleeper, stdin=read, stdout=2, process_group=0)
os.write(1, b"%d" % child.pid)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["expected", "not expected"])
def test_136_no_orphan_survives_a_death_between_its_start_and_our_next_step(how: str) -> None:
    words = [sys.executable, "-c", _KILLED_BETWEEN, how]
    dying = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    pid = int(dying.stdout)
    if how == "expected":
        assert wait_until(lambda: not is_running(pid), 7)
    else:  # what the test above would see without the protection
        assert is_running(pid)
        os.kill(pid, signal.SIGKILL)


# --- the upstream leaves -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"status": 0}, "exited with status 0"),
        ({"status": 3}, "exited with status 3"),
        ({"signal": int(signal.SIGKILL)}, "was ended by SIGKILL"),
        ({"signal": int(signal.SIGSEGV)}, "was ended by SIGSEGV"),
    ],
)
def test_137_when_the_upstream_dies_everybody_hears_it(
    tmp_path: Path, order: dict[str, int], told: str
) -> None:
    with _open(tmp_path) as gate:
        gate.say(
            request(b'"a"', "resources/read", b'{"uri":"x:/"}')
            + b"\n"
            + request(b"1.0", "x/die", json.dumps(order).encode())
        )
        lines = gate.rest()
        assert b'{"heard":"resources/read"}' in lines[0]
        assert lines[1:] == [
            b'{"jsonrpc":"2.0","id":1.0,"error":{"code":-32603,"message":"Lost connection to upstream MCP",'
            b'"data":{"code":"REFUSED"}}}'
        ]
        assert gate.process.wait(DEADLINE) == 1
        assert LOST in gate.stderr
        assert told in gate.stderr


def test_137_answers_left_in_the_pipe_are_delivered_first(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        reply = '{"jsonrpc":"2.0","id":<id>,"result":{"last":"words"}}\n'
        flood = '{"jsonrpc":"2.0","method":"notifications/x"}\n' * 3000
        gate.say(request(b"1", "x/die", json.dumps({"raw": flood + reply, "status": 0}).encode()))
        lines = gate.rest()
        assert len(lines) == 3001
        assert lines[-1] == b'{"jsonrpc":"2.0","id":1,"result":{"last":"words"}}'
        assert gate.process.wait(DEADLINE) == 1
        assert LOST in gate.stderr


def test_137_answers_left_in_the_pipe_wait_for_a_client_that_reads_late(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        line = '{"jsonrpc":"2.0","method":"notifications/x","params":{"d":"' + "x" * 9000 + '"}}\n'
        reply = '{"jsonrpc":"2.0","id":<id>,"result":{"last":"words"}}\n'
        pid = gate.order("pid")["result"]["pid"]
        # More than the client's pipe and Penstock's own buffer hold, less than the three together.
        gate.say(request(b"1", "x/die", json.dumps({"raw": line * 300 + reply, "status": 0}).encode()))
        assert wait_until(lambda: not is_running(pid))
        time.sleep(1.3)  # past the moment when the pipe of a dead child is closed
        lines = gate.rest()
        assert lines[-1] == b'{"jsonrpc":"2.0","id":1,"result":{"last":"words"}}'
        assert gate.process.wait(DEADLINE) == 1


def test_60_half_a_line_is_not_delivered(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        gate.say(request(b"1", "x/die", json.dumps({"raw": '{"jsonrpc":"2.0","id":<id>,"res'}).encode()))
        lines = gate.rest()
        assert [json.loads(line)["error"]["code"] for line in lines] == [-32603]
        assert gate.process.wait(DEADLINE) == 1


def test_137_an_upstream_that_leaves_before_the_handshake_was_never_there(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, upstream=["--exit", "0"]) as gate:
        gate.say(request(b"1", "initialize", b'{"protocolVersion":"2025-06-18"}'))
        assert json.loads(gate.answer(b"1"))["error"]["message"] == "Failed to connect to upstream MCP"
        gate.rest()
        assert gate.process.wait(DEADLINE) == 1
        assert gate.stderr.endswith("\nIt exited with status 0 before it answered\n")


def test_137_an_upstream_that_dies_while_the_list_is_fetched_answers_who_waits(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, upstream=["--mute", "list-dies"]) as gate:
        gate.handshake()
        gate.say(call("echo", b'"held"'))
        answers = [json.loads(line) for line in gate.rest()]
        assert [answer["id"] for answer in answers] in (["held"], [])
        assert gate.process.wait(DEADLINE) == 1
        assert LOST in gate.stderr


def test_137_a_grandchild_that_holds_the_pipe_does_not_hide_the_death(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        grandchild = gate.order("spawn")["result"]["pid"]
        gate.say(request(b"1", "x/die"))
        assert json.loads(gate.answer(b"1"))["error"]["code"] == -32603
        gate.rest()
        assert gate.process.wait(DEADLINE) == 1
        assert wait_until(lambda: not is_running(grandchild), 3)


def test_137_a_grandchild_that_is_out_of_reach_does_not_hide_the_death_either(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        runaway = gate.order("spawn", away=True)["result"]["pid"]
        try:
            gate.say(request(b"1", "x/die"))
            assert json.loads(gate.answer(b"1"))["error"]["code"] == -32603
            gate.rest()
            assert gate.process.wait(DEADLINE) == 1
        finally:
            os.kill(runaway, signal.SIGKILL)


@pytest.mark.parametrize("fd", [0, 1])
def test_an_upstream_that_closes_one_of_its_pipes_is_lost(tmp_path: Path, fd: int) -> None:
    with _open(tmp_path) as gate:
        # What is written before the pipe is closed lies in it unread; the next thing written finds out.
        gate.say(request(b"1", "x/close", b'{"fd":%d}' % fd) + b"\n" + request(b"2", "ping"))
        gate.answer(b"1")
        told = gate.maybe_line(0.5)
        if told is None:
            with contextlib.suppress(BrokenPipeError):  # it may have found out and left meanwhile
                gate.say(request(b"3", "ping"))
            told = gate.line()
        assert json.loads(told)["id"] == 2
        assert json.loads(told)["error"]["message"] == "Lost connection to upstream MCP"
        gate.rest()
        assert gate.process.wait(DEADLINE) == 1
        assert LOST in gate.stderr


# --- nobody reads --------------------------------------------------------------------------------------


def _push(gate: Gate, data: bytes, most: int) -> int:
    """Writes `data` again and again until nobody takes it any more; how much was taken."""
    taken = 0
    while taken < most:
        try:
            gate.send(data, within=0.5)
        except AssertionError:
            return taken
        taken += len(data)
    return taken


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_138_an_upstream_that_stops_reading_stops_its_client_too(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        before = peak_memory(gate.process.pid)
        gate.order("deaf")
        note = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"d":"%b"}}\n' % (b"x" * MIB)
        assert _push(gate, note, 100 * MIB) < 20 * MIB
        assert peak_memory(gate.process.pid) - before < 20 * MIB
        spent = cpu_seconds(gate.process.pid)
        time.sleep(1)
        assert cpu_seconds(gate.process.pid) - spent < 0.2
        began = time.monotonic()
        gate.signal(signal.SIGTERM)
        assert gate.process.wait(DEADLINE) == 0
        assert time.monotonic() - began < 6 + SLACK


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_138_a_client_that_calls_on_and_on_before_the_list_is_there_is_not_read(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, "--tools-timeout", "60s", upstream=["--mute", "list"]) as gate:
        gate.handshake()
        assert gate.ask("ping")["result"] == {}
        before = peak_memory(gate.process.pid)
        raw = request(b"1", "tools/call", b'{"name":"echo","arguments":{"d":"%b"}}' % (b"x" * MIB)) + b"\n"
        assert _push(gate, raw, 100 * MIB) < 20 * MIB
        assert peak_memory(gate.process.pid) - before < 25 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_139_a_client_that_stops_reading_stops_the_upstream_and_itself(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        before = peak_memory(gate.process.pid)
        upstream = gate.order("pid")["result"]["pid"]
        gate.say(request(b"1", "x/flood", b'{"count":2000,"bytes":100000}'))
        assert wait_until(lambda: b"x/flood" in gate.record.read_bytes())
        # It settles: everybody waits for the client.
        assert wait_until(lambda: _is_idle(gate.process.pid) and _is_idle(upstream))
        assert peak_memory(gate.process.pid) - before < 20 * MIB
        spent = cpu_seconds(gate.process.pid)
        time.sleep(1)
        assert cpu_seconds(gate.process.pid) - spent < 0.2
        count = 0
        while b'"id":1,' not in gate.line():
            count += 1
        assert count == 2000
        assert gate.is_alive()


def _is_idle(pid: int) -> bool:
    before = cpu_seconds(pid)
    time.sleep(0.2)
    return cpu_seconds(pid) == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_139_a_client_that_asks_and_never_reads_is_not_read_either(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        before = peak_memory(gate.process.pid)
        assert gate.process.stdin is not None
        ask = b"".join(request(b"%d" % i, "tools/list") + b"\n" for i in range(500))
        sent = 0
        fd = gate.process.stdin.fileno()
        end = time.monotonic() + 30
        stuck_since = time.monotonic()
        while time.monotonic() < end and time.monotonic() - stuck_since < 1.0:
            try:
                sent += os.write(fd, ask)
                stuck_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        assert sent < 20 * MIB
        assert peak_memory(gate.process.pid) - before < 20 * MIB


def test_142_a_flood_on_stderr_never_holds_up_the_protocol(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        assert gate.order("stderr", bytes=50 * MIB)["result"] == {}
        assert gate.is_alive()
        assert gate.errors.stat().st_size >= 50 * MIB


def test_142_a_stderr_that_nobody_reads_never_holds_up_the_protocol(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with Gate(tmp_path, *DENY, stderr=writing) as gate:
        os.set_blocking(writing, False)
        try:
            while True:
                os.write(writing, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(writing, True)
        os.close(writing)
        gate.handshake()
        began = time.monotonic()
        for _ in range(20):
            gate.say(b"nonsense that is logged")
        assert gate.is_alive()
        assert time.monotonic() - began < 5
        assert gate.end() == 0
        os.close(reading)


# --- sizes ---------------------------------------------------------------------------------------------


def _sized(token: bytes, size: int) -> bytes:
    head, tail = b'{"jsonrpc":"2.0","id":%b,"method":"x/nothing","params":{"t":"' % token, b'"}}'
    return head + b"x" * (size - len(head) - len(tail)) + tail


def test_21_a_message_of_exactly_10_mib_passes_both_ways(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        raw = _sized(b"1", 10 * MIB)
        gate.say(raw)
        assert b"heard" in gate.answer(b"1")
        assert raw in gate.reached()
        gate.say(request(b"2", "x/big", b'{"bytes":%d}' % (10 * MIB)))
        assert len(gate.answer(b"2")) == 10 * MIB
        assert gate.is_alive()


@pytest.mark.parametrize("size", [10 * MIB + 1, 19 * MIB, 20 * MIB + 7, 25 * MIB])
def test_21_a_larger_message_is_refused_with_its_size_and_the_session_lives_on(
    tmp_path: Path, size: int
) -> None:
    with _open(tmp_path) as gate:
        before = peak_memory(gate.process.pid)
        gate.say(_sized(b'"big"', size))
        error = json.loads(gate.answer(b'"big"'))["error"]
        assert error["code"] == -32600
        assert f"{size:,}" in error["message"] or size > 20 * MIB
        assert gate.is_alive()
        assert not any(b'"big"' in line for line in gate.reached())
        assert "bytes" in gate.stderr
        assert peak_memory(gate.process.pid) - before < 25 * MIB


def test_21_a_denied_call_of_11_mb_is_refused(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        gate.say(
            request(b"5", "tools/call", b'{"name":"write_file","arguments":{"t":"%b"}}' % (b"x" * 11_000_000))
        )
        assert json.loads(gate.answer(b"5"))["error"]["code"] == -32600
        assert gate.is_alive()
        assert not any(b"write_file" in line for line in gate.reached())


def test_20_mb_without_a_line_end_are_refused_and_the_stream_goes_on(tmp_path: Path) -> None:
    with _open(tmp_path) as gate:
        gate.send(b"x" * (21 * MIB))
        error = json.loads(gate.line())["error"]
        assert "without a line end" in error["message"]
        gate.send(b"still the same line\n")
        assert gate.is_alive()
        assert gate.unasked == []


# --- starting ------------------------------------------------------------------------------------------


def _run(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        **more,  # type: ignore[call-overload]
    )


def test_143_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    result = _run(*DENY, "--", "no-such-command-anywhere", "--token", "secret")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.endswith(
        "\nError: Failed to connect to upstream MCP at no-such-command-anywhere\n"
        "Command not found: no-such-command-anywhere\n"
    )
    assert "secret" not in result.stderr


def test_143_a_command_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    script = tmp_path / "server"
    script.write_text("no script")
    result = _run(*DENY, "--", str(script))
    assert result.returncode == 1
    assert f"Command not executable: {script}" in result.stderr
    script.chmod(0o755)
    result = _run(*DENY, "--", str(script))
    assert result.returncode == 1
    assert "could not be started" in result.stderr


@pytest.mark.parametrize("what", ["missing", "a file"])
def test_143_a_directory_that_is_none_is_named(tmp_path: Path, what: str) -> None:
    place = tmp_path / "place"
    if what == "a file":
        place.touch()
    result = _run(*DENY, "--cwd", str(place), "--", sys.executable, "-V")
    assert result.returncode == 1
    assert str(place) in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_61_a_print_in_the_process_goes_to_stderr(tmp_path: Path) -> None:
    """With a library that prints, in Python and below it, at the worst moment."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "import penstock.relay.session_relay as relay\n"
        "original = relay.SessionRelay.from_client\n"
        "def noisy(self, raw, route=None):\n"
        "    print('a stray print', flush=True)\n"
        "    os.write(1, b'a stray write\\n')\n"
        "    os.system('echo a stray child')\n"
        "    return original(self, raw, route)\n"
        "relay.SessionRelay.from_client = noisy\n"
    )
    with Gate(tmp_path, *DENY, env={"PYTHONPATH": str(tmp_path)}) as gate:
        gate.handshake()
        assert gate.is_alive()
        assert gate.end() == 0
        for what in ("print", "write", "child"):
            assert f"a stray {what}" in gate.stderr
        assert all(b"stray" not in line for line in gate.heard)


def test_158_five_instances_side_by_side_know_nothing_of_each_other(tmp_path: Path) -> None:
    denied = ["echo", "write_file", "read_file", "delete_file", "nothing"]
    works = [tmp_path / name for name in denied]
    for work in works:
        work.mkdir()
    gates = [Gate(work, "--deny", f"^{name}$") for work, name in zip(works, denied, strict=True)]
    try:
        for gate in gates:
            gate.handshake()
        for gate, name in zip(gates, denied, strict=True):
            listed = [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]]
            assert listed == [
                other for other in ["echo", "write_file", "read_file", "delete_file"] if other != name
            ]
            answer = gate.ask("tools/call", b'{"name":"%b"}' % name.encode())
            assert ("error" in answer) or name == "nothing"
        gates[0].process.kill()
        gates[0].process.wait()
        for gate in gates[1:]:
            assert gate.is_alive()
            assert gate.end() == 0
    finally:
        for gate in gates:
            gate.__exit__(AssertionError, None, None)


def test_two_is_the_exit_code_of_a_command_line_that_makes_no_sense() -> None:
    for words in (
        [],
        ["--no-such-option"],
        ["--deny"],
        ["--upstream-cmd", "a", "--", "b"],
        ["--log-level", "loud", "--", "x"],
        ["stray", "--", "x"],
        ["--"],
    ):
        result = _run(*words)
        assert result.returncode == 2, words
        assert result.stderr.startswith("Error: "), words
        assert result.stdout == ""


def test_one_is_the_exit_code_of_a_value_that_makes_no_sense() -> None:
    for words in (
        ["--tools-timeout", "0"],
        ["--tools-timeout", "-5"],
        ["--connect-timeout", "soon"],
        ["--env", "novalue"],
        ["--env", "A=${PENSTOCK_TEST_UNSET}"],
        ["--cwd", "${PENSTOCK_TEST_UNSET}"],
    ):
        result = _run(*words, "--", sys.executable, "-V", cwd=ROOT)
        assert result.returncode == 1, words
        assert result.stderr.startswith("Error: "), words
        assert "Traceback" not in result.stderr
