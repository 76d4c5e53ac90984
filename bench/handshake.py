"""How a legacy client begins: initialize, initialized, and from then on the session's id."""

from __future__ import annotations

import select
import socket
import time

from bench.lines import WORDS, Answers, Chunks, Head, PipeLine, SseLine, connect
from bench.messages import INITIALIZE, INITIALIZED, LEGACY
from bench.processes import Program, Unfit

KNOCK_SECONDS = 0.002  # between two attempts to connect to a target that is still starting


def await_port(port: int, program: Program | None, seconds: float) -> None:
    """Returns when somebody listens there."""
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            if program is not None:
                program.check()
            if time.monotonic() > until:
                raise Unfit(f"does not listen after {seconds:.0f} s") from None
            time.sleep(KNOCK_SECONDS)


def post(sock: socket.socket, port: int, path: str, body: bytes, extra: bytes = b"") -> tuple[Head, bytes]:
    """One request with its response, whole."""
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%b%bContent-Length: %d\r\n\r\n"
    sock.sendall(head % (path.encode(), port, WORDS, extra, len(body)) + body)
    data = b""
    while b"\r\n\r\n" not in data:
        data += SseLine.got(sock.recv(1 << 16))
    raw, _, rest = data.partition(b"\r\n\r\n")
    answer = Head(raw)
    if answer.is_chunked:
        chunks = Chunks()
        rest = chunks.feed(rest)
        while not chunks.is_over:
            rest += chunks.feed(SseLine.got(sock.recv(1 << 16)))
    elif answer.status != 202:
        while len(rest) < (answer.length or 0):
            rest += SseLine.got(sock.recv(1 << 16))
    return answer, rest


def open_http_session(port: int, path: str, sock: socket.socket | None = None) -> bytes:
    """A session's id; empty where the target has no sessions."""
    used = sock or connect(port)
    try:
        head, body = post(used, port, path, INITIALIZE)
        if head.status != 200 or b'"result"' not in body:
            raise Unfit(f"initialize: HTTP status {head.status}: {body[:200]!r}")
        session = head.fields.get(b"mcp-session-id", b"")
        extra = b"MCP-Protocol-Version: %b\r\n" % LEGACY.encode()
        if session:
            extra += b"Mcp-Session-Id: %b\r\n" % session
        head, body = post(used, port, path, INITIALIZED, extra)
        if head.status not in (200, 202, 204):
            raise Unfit(f"initialized: HTTP status {head.status}: {body[:200]!r}")
        return session
    finally:
        if sock is None:
            used.close()


def open_sse_session(port: int, path: str, seconds: float) -> SseLine:
    line = SseLine(port, path)
    try:
        line.ask([(1, INITIALIZE)])
        until = time.monotonic() + seconds
        answers: Answers = []
        while not answers:
            if not select.select(line.fds, [], [], max(0.0, until - time.monotonic()))[0]:
                raise Unfit(f"initialize was not answered within {seconds:.0f} s")
            answers = line.read()
        if b'"result"' not in answers[0][1]:
            raise Unfit(f"initialize: {answers[0][1][:200]!r}")
        line.ask([(2, INITIALIZED)])
        while not line.is_received:
            if not select.select([line.up], [], [], max(0.0, until - time.monotonic()))[0]:
                raise Unfit("initialized was not accepted")
            line.read()
    except BaseException:
        line.close()
        raise
    return line


def open_pipe(program: Program, seconds: float) -> PipeLine:
    line = PipeLine(program)
    line.ask([(1, INITIALIZE)])
    answer = line.one(seconds)
    if b'"result"' not in answer:
        raise Unfit(f"initialize: {answer[:200]!r}")
    line.ask([(2, INITIALIZED)])
    return line
