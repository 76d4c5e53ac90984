"""What of sections D and E of the threats takes time, memory or many lines; the rest is in trials/attack.

Each test is named by its row. Whatever is sent, nothing denied may reach the upstream, which records all it
gets; hidden names are in no answer but the refusal; the next allowed call works; stderr has no traceback.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from doors import LEGACY, LegacyDoor, SseDoor
from gate import DEADLINE, cpu_seconds, peak_memory, wait_until
from pairs import DENY, TRANSPORTS, Halls, Proxy, Upstream, said
from trials.attack.raw_http import JSON, Router

every_upstream = pytest.mark.parametrize("upstream", TRANSPORTS)
MIB = 1024 * 1024
DENIED = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"delete_file","arguments":{}}}'


@pytest.fixture(scope="module")
def halls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halls]:
    shared = Halls(tmp_path_factory.mktemp("halls"))
    yield shared
    shared.close()


@pytest.fixture(params=TRANSPORTS)
def front(request: pytest.FixtureRequest, halls: Halls) -> Iterator[Router]:
    """A live session before each kind of upstream, and a way to send any bytes in its name."""
    door = halls.connect("streamable", request.param, "legacy")
    yield Router(door, LEGACY)
    assert halls.upstream(request.param).calls_of("delete_file", "write_file") == []
    assert door.is_alive()
    assert "Traceback" not in halls.proxy(request.param).stderr
    halls.release(door)


@pytest.fixture
def proxy(front: Router, halls: Halls) -> Proxy:
    """The proxy that the session goes through."""
    return next(proxy for proxy in map(halls.proxy, TRANSPORTS) if proxy.port == front.port)


def test_67_a_small_body_that_opens_to_a_huge_one_is_not_opened(front: Router, proxy: Proxy):
    bomb = gzip.compress(b" " * (100 * MIB), 9)
    before = peak_memory(proxy.process.pid)
    ((status, _),) = front.fire(front.post(bomb, JSON + b"Content-Encoding: gzip\r\n"))
    assert status == 415
    assert peak_memory(proxy.process.pid) - before < 10 * MIB


@pytest.mark.parametrize(
    "kind",
    [
        b"application/json",
        b"Application/JSON;charset=UTF-8",
        b'application/json ; charset="utf-8"',
        b"application/json; charset=us-ascii",
        b"application/json;",
    ],
)
def test_65_json_may_say_that_it_is_utf8(front: Router, kind: bytes):
    ((status, body),) = front.fire(front.post(front.allowed, b"Content-Type: %b\r\n" % kind))
    assert (status, b'"called" : "echo"' in body) == (200, True)


def test_65_no_word_about_another_charset_goes_on(front: Router):
    """Express decodes a body by it, and does not mind blanks round the "="."""
    for odd in (
        b"charset =utf-7",
        b"charset*=utf-8''utf-7",
        b"charset*0=utf-;charset*1=7",
        b"x=1; charset=utf-8",
    ):
        more = b"Content-Type: application/json; %b\r\n" % odd
        ((status, _),) = front.fire(front.post(front.allowed, more))
        assert status == 415, odd


def test_81_only_loopback_is_bound(proxy: Proxy):
    assert "Listening on http://127.0.0.1:" in proxy.stderr


def test_20_a_body_over_the_limit_is_refused_before_it_is_read(front: Router, proxy: Proxy):
    before = peak_memory(proxy.process.pid)
    head = b"POST /mcp HTTP/1.1\r\n" + front.base + JSON
    responses = front.fire(head + b"Content-Length: %d\r\n\r\n" % (300 * MIB) + b" " * MIB, responses=99)
    assert [status for status, _ in responses] == [413]
    piece = b"%x\r\n%b\r\n" % (MIB, b" " * MIB)
    responses = front.fire(head + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 12, responses=99)
    assert [status for status, _ in responses] == [413]
    assert peak_memory(proxy.process.pid) - before < 40 * MIB


# --- slow clients and many ------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["head", "body"])
def test_84_half_sent_requests_are_closed_and_nobody_waits_for_them(halls: Halls, part: str):
    door = halls.connect("streamable", "streamable", "legacy")
    front = Router(door, LEGACY)
    head = b"POST /mcp HTTP/1.1\r\n" + front.base + JSON
    half = head if part == "head" else head + b"Content-Length: 1000\r\n\r\n{"
    slow = []
    for _ in range(100):
        connection = socket.create_connection(("127.0.0.1", front.port), timeout=DEADLINE)
        connection.sendall(half)
        slow.append(connection)
    for _ in range(10):
        assert door.is_alive()
    try:
        for connection in slow:
            assert connection.recv(4096).startswith(b"HTTP/1.1 408")
    finally:
        for connection in slow:
            connection.close()
    assert door.is_alive()
    halls.release(door)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_132_a_proxy_before_itself_does_not_start(path: str):
    """It connects before it listens, so nobody is there yet."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "penstock",
        "--listen",
        str(port),
        "--upstream",
        f"http://localhost:{port}{path}",
    ]
    ended = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE, check=False
    )
    assert ended.returncode == 1
    assert f"Failed to connect to upstream MCP at http://localhost:{port}".encode() in ended.stderr
    assert b"Listening" not in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_86_144_more_streams_than_the_system_has_files_for(tmp_path: Path):
    """A small limit on files is met sooner than the cap of a thousand; the cap has tests of its own."""
    lower = (
        "import resource,runpy,sys; resource.setrlimit(resource.RLIMIT_NOFILE,(100,100));"
        "sys.argv[0]='penstock'; runpy.run_module('penstock', run_name='__main__')"
    )
    errors = tmp_path / "stderr"
    with Upstream("sse", tmp_path) as there, errors.open("wb") as out:
        words = [sys.executable, "-c", lower, "--listen", "0", "--deny", DENY, *there.words()]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=out)
        try:
            port = int(said(errors, rb"Listening on http://\S+:(\d+)/mcp", process))
            keep = SseDoor(port, "legacy")
            keep.begin()
            crowd = []
            for _ in range(120):
                connection = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
                connection.sendall(
                    b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
                )
                crowd.append(connection)
            assert wait_until(lambda: any(_is_refused(connection) for connection in crowd))
            # Out of files it waits for one, and does not spin: a second of that costs far less than a second.
            before = cpu_seconds(process.pid)
            keep.pump(1.0)
            assert cpu_seconds(process.pid) - before < 0.7
            assert not keep.stream.is_over  # who was there before is still served
            for connection in crowd:
                connection.close()
            assert wait_until(lambda: _works(port))
            assert keep.is_alive()
            assert process.poll() is None
            assert b"Traceback" not in errors.read_bytes()
            keep.close()
        finally:
            process.terminate()
            process.wait(DEADLINE)


def _is_refused(connection: socket.socket) -> bool:
    try:
        return b" 503 " in connection.recv(100, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _works(port: int) -> bool:
    """Whether a new client is let in; until there is room it is told so, and nothing else."""
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        b'"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}'
    )
    door = LegacyDoor(port, "legacy")
    try:
        answer = door.whole("POST", "/mcp", door.headers(), hello)
    except OSError:
        return False  # closed before it was heard
    assert answer.status in (0, 200, 503)
    return answer.status == 200


# --- upstreams that misbehave over HTTP -----------------------------------------------------------------


def answered(door: LegacyDoor, raw: bytes, token: bytes = b"30", **more: object) -> tuple[int, bytes]:
    """What the client gets when the upstream's whole HTTP answer is `raw`."""
    door.begin_order("raw", token, raw=raw.decode("latin-1"), **more)
    post = door.posts[token]
    door.until(lambda: post.is_over)
    return post.status, bytes(post.body) or b"".join(post.events)


def whole(status: str, kind: str, body: bytes, more: str = "") -> bytes:
    """A response after which the upstream closes, as it says."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n{more}\r\n".encode() + body


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    "status", ["400 Bad Request", "403 Forbidden", "413 Too Large", "429 Too Many", "500 Oops", "503 Later"]
)
def test_91_a_status_of_the_upstream_is_the_clients_for_that_request_only(
    halls: Halls, era: str, status: str
):
    door = halls.connect("streamable", "streamable", era)
    code, body = answered(door, whole(status, "text/html", b"<h1>no</h1>", "Retry-After: 7\r\n"))
    assert (code, body) == (int(status[:3]), b"<h1>no</h1>")
    assert door.posts[b"30"].headers["retry-after"] == "7"
    assert door.is_alive()
    door.close()


@pytest.mark.parametrize("client", ["sse", "stdio"])
@pytest.mark.parametrize("status", ["403 Forbidden", "413 Too Large", "429 Too Many", "500 Oops"])
def test_91_clients_without_statuses_hear_an_error_under_the_id(halls: Halls, client: str, status: str):
    door = halls.connect(client, "streamable", "legacy")
    answer = door.order("raw", raw=whole(status, "text/html", b"<h1>delete_file</h1>").decode())
    assert answer["error"]["code"] == -32603
    assert "delete_file" not in json.dumps(answer)
    assert door.is_alive()
    halls.release(door)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_88_a_redirect_is_not_followed(halls: Halls, status: str, client: str):
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/latest/meta-data"
        door = halls.connect(client, "streamable", "legacy")
        raw = whole(status, "text/plain", b"", f"Location: {url}\r\n")
        answer = door.order("raw", raw=raw.decode())
        assert answer["error"]["code"] == -32603
        assert door.is_alive()
        with pytest.raises(BlockingIOError):
            trap.accept()
        halls.release(door)


@pytest.mark.parametrize(
    "events",
    [
        b'data: {"jsonrpc":"2.0","id":<id>,\ndata: "result":{"tools":[{"name":"dele\ndata: te_file"}]}}\n\n',
        b'data: {"jsonrpc":"2.0","id":<id>,"result":\ndata: {"tools":[{"name":"delete_file"}]}}\n\n',
        b'data: {"jsonrpc":"2.0","id":<id>,"result":\rdata: {"tools":[{"name":"delete_file"}]}}\r\r',
        b'\xef\xbb\xbfdata: {"jsonrpc":"2.0","id":<id>,"result":\r\n'
        b'data: {"tools":[{"name":"delete_file"}]}}\r\n\r\n',
        b'event: message\ndata:{"jsonrpc":"2.0","id":<id>,"result":{"tools":[{"name":"delete_file"}]}}\n\n',
    ],
    ids=["78-cut-name", "78-two", "79-cr", "79-bom", "79-event"],
)
@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_78_79_a_message_over_several_lines_is_judged_as_one(halls: Halls, client: str, events: bytes):
    door = halls.connect(client, "streamable", "legacy")
    answer = door.order("events", raw=events.decode("latin-1"))
    assert answer["error"]["code"] == -32603
    assert not any(b"delete_file" in heard.raw for heard in door.heard)
    assert door.is_alive()
    halls.release(door)


def test_79_events_are_read_by_the_standard(halls: Halls):
    door = halls.connect("sse", "streamable", "legacy")
    events = (
        b": comment\r\n\r\nretry: 10\r\n\r\nevent: acme\ndata: {}\n\ndata\n\n"
        b'data: {"jsonrpc":"2.0","id":<id>,\rdata: "result":{"fine":1}}\r\r'
        b'data: {"jsonrpc":"2.0","method":"notifications/unfinished"}\n'
    )
    assert door.order("events", raw=events.decode())["result"] == {"fine": 1}
    assert door.is_alive()
    assert not any(b"unfinished" in heard.raw for heard in door.heard)
    halls.release(door)


@pytest.mark.parametrize("client", ["streamable", "sse"])
@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":<id>,"result":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"jsonrpc":"2.0","id":<id>,"result":{"a":1}} trailing',
        b'{"jsonrpc":"1.0","id":<id>,"result":{}}',
        b'{"jsonrpc":"2.0","id":<id>}',
        b'{"jsonrpc":"2.0","id":<id>,"result":{},"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":"somebody","result":{}}',
        b"not json",
        b"",
    ],
    ids=["deep", "trailing", "version", "neither", "both", "other-id", "no-json", "empty"],
)
def test_104_an_answer_that_is_none_becomes_an_error(halls: Halls, client: str, raw: bytes):
    door = halls.connect(client, "streamable", "legacy")
    answer = door.order(
        "raw",
        raw=whole("200 OK", "application/json", raw)
        .replace(b"Content-Length: %d" % len(raw), b"Connection: close")
        .decode(),
    )
    assert answer["error"]["code"] == -32603
    assert door.is_alive()
    halls.release(door)


@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_67_a_compressed_answer_is_not_opened(halls: Halls, client: str):
    door = halls.connect(client, "streamable", "legacy")
    bomb = gzip.compress(b" " * (50 * MIB), 9)
    before = peak_memory(halls.proxy("streamable").process.pid)
    raw = whole("200 OK", "application/json", bomb, "Content-Encoding: gzip\r\n")
    assert door.order("raw", raw=raw.decode("latin-1"))["error"]["code"] == -32603
    assert peak_memory(halls.proxy("streamable").process.pid) - before < 16 * MIB
    assert door.is_alive()
    halls.release(door)


@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_147_an_answer_in_slices_of_one_byte_arrives_whole(halls: Halls, client: str):
    door = halls.connect(client, "streamable", "legacy")
    event = b'data: {"jsonrpc":"2.0","id":<id>,"result":{"sliced" : 1.0}}\n\n'
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + event
    door.begin_order("raw", b"31", raw=raw.decode(), slice=1)
    assert door.answer(b"31") == b'{"jsonrpc":"2.0","id":31,"result":{"sliced" : 1.0}}'
    halls.release(door)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("end", ["reset", "closed"])
@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_147_an_answer_that_breaks_off_is_an_error_never_half_a_message(
    tmp_path: Path, client: str, end: str, era: str
):
    with Upstream("streamable", tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
        door = proxy.connect(client, era)
        door.begin()
        half = 'data: {"jsonrpc":"2.0","method":"notifications/whole"}\n\ndata: {"jsonrpc":"2.0","id":32,"res'
        door.begin_order("cut", b"32", raw=half, reset=end == "reset")
        answer = json.loads(door.answer(b"32"))
        assert answer["error"]["code"] == -32603
        assert [heard.raw for heard in door.heard if b"whole" in heard.raw] == [
            b'{"jsonrpc":"2.0","method":"notifications/whole"}'
        ]
        assert sum(b'"id":32' in heard.raw for heard in door.heard) == 1
        door.close()


def test_93_97_a_changed_list_changes_nothing(halls: Halls):
    for upstream in TRANSPORTS:
        door = halls.connect("streamable", upstream, "legacy")
        before = door.ask("tools/list")["result"]
        door.order(
            "retool",
            raw='{"tools":[{"name":"echo","description":"obey","inputSchema":{"type":"object"}},{"name":"new","inputSchema":{"type":"object"}}]}',
        )
        assert door.ask("tools/list")["result"] == before
        assert door.call("new")["error"] == {"code": -32601, "message": "Tool not found: new"}
        door.close()


@every_upstream
def test_95_96_odd_names_in_a_list(tmp_path: Path, upstream: str):
    names = [
        b"d\\u0065lete_file",
        b"echo",
        b"echo",
        b"with blank",
        b"nul\\u0000",
        b"",
        b"x" * 1000,
        b"delete\\u005ffile2",
    ]
    entries = b",".join(
        b'{"name":"%b","inputSchema":{"type":"object","$ref":"http://127.0.0.1:9/x"}}' % name
        for name in names
    )
    pages = tmp_path / "pages"
    pages.write_bytes(b'{"tools":[%b,{"name":"no-schema"},7,{"inputSchema":{"type":"object"}}]}\n' % entries)
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(Upstream(upstream, tmp_path, "--pages", str(pages)))
        proxy = stack.enter_context(Proxy(tmp_path, there.words(), "--deny", DENY))
        for era in ("legacy", "modern"):
            door = proxy.connect("streamable", era)
            door.begin()
            assert [tool["name"] for tool in door.ask("tools/list")["result"]["tools"]] == ["echo"]
            for name in ("delete_file", "with blank", "nul\0", "no-schema"):
                if era == "legacy":
                    assert door.call(name)["error"]["code"] == -32601
            door.close()
        assert there.calls_of("delete_file", "with blank", "no-schema") == []
        assert 'a second tool named "echo" is left out' in proxy.stderr
        assert '"no-schema" is left out' in proxy.stderr


def test_101_errors_of_the_upstream_pass_untouched(halls: Halls):
    door = halls.connect("streamable", "streamable", "legacy")
    raw = '{"jsonrpc":"2.0","id":<id>,"error":{"code":-32002,"message":"no such resource; ask elsewhere"}}\n'
    door.begin_order("say", b"33", raw=raw, mute=1)
    assert door.answer(b"33").decode() + "\n" == raw.replace("<id>", "33")
    door.close()


def test_102_tools_in_a_sampling_request_are_the_clients_affair(halls: Halls):
    for upstream in TRANSPORTS:
        door = halls.connect("streamable", upstream, "legacy")
        question = (
            '{"jsonrpc":"2.0","id" : "s","method":"sampling/createMessage",'
            '"params":{"tools":[{"name":"delete_file"}]}}'
        )
        door.begin_order("ask", b"34", raw=question)
        assert door.message(lambda raw: b"sampling/createMessage" in raw).raw == question.encode()
        door.say(b'{"jsonrpc":"2.0","id" : "s","result":{}}')
        door.answer(b"34")
        door.close()


def test_145_credentials_of_a_client_go_only_to_the_upstream_it_speaks_to(halls: Halls):
    secret = "Bearer secret-145"
    for client in ("sse", "streamable"):
        door = halls.proxy("sse").connect(client, "legacy", more={"Authorization": secret})
        door.begin()
        assert door.is_alive()
        door.close()
    for upstream in TRANSPORTS:
        seen = any(secret in json.dumps(head) for head in halls.upstream(upstream).heads())
        assert seen == (upstream == "sse")
        assert "secret-145" not in halls.proxy(upstream).stderr


@every_upstream
def test_146_calls_that_are_never_answered_harm_no_other(halls: Halls, upstream: str):
    door = halls.connect("streamable", upstream, "legacy")
    for number in range(60):
        door.begin_order("hold", b"%d" % (5000 + number), mark=f"146-{upstream}-{number}")
    other = halls.connect("streamable", upstream, "legacy")
    assert other.is_alive()
    assert door.is_alive()
    for number in range(60):
        door.hang_up(b"%d" % (5000 + number))
    assert door.is_alive()
    door.whole("DELETE", "/mcp", door.headers())
    other.close()
    door.close()
