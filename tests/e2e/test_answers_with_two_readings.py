"""Answers of an HTTP upstream that some client reads as another kind of thing than their head says.

TypeScript clients read whatever answers a GET as events, and events under any status of success; Python ones
with an older reader of events end lines where the standard does not.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_http import Line, Request, ScriptedHttp

from doors import Response, Seen
from pairs import DENY, Proxy
from ruled import Ruled, rule

LISTING = b'{"jsonrpc":"2.0","method":"x","params":{"tools":[{"name":"delete_file"}]}}'
HARMLESS = b'{"jsonrpc":"2.0","method":"x","params":{}}'


def answer_to_get(work: Path, kind: str, body: bytes) -> Response:
    """What a client hears when the upstream answers its GET with `body`, and calls that `kind`."""

    def script(request: Request, line: Line) -> None:
        if request.method == "GET":
            line.reply(200, body, f"Content-Type: {kind}")
        elif "id" not in request.message:
            line.accepted()
        elif request.rpc == "initialize":
            hello = b'{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}'
            line.json(request.result(hello), "Mcp-Session-Id: s1")
        else:
            line.json(request.result(b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'))

    with (
        ScriptedHttp(script) as there,
        Proxy(work, ["--upstream", there.url], "--deny", DENY) as proxy,
        proxy.connect("streamable", "legacy", listens=False) as door,
    ):
        door.begin()
        answer: Response = door.whole("GET", "/mcp", {"Accept": "text/event-stream", "Mcp-Session-Id": "s1"})
        return answer


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "text/html"])
@pytest.mark.parametrize("message", [LISTING, HARMLESS], ids=["a list", "a message that was not looked at"])
def test_events_under_another_name_are_withheld(tmp_path: Path, kind: str, message: bytes):
    answer = answer_to_get(tmp_path, kind, b"data: %b\n\n" % message)
    assert (answer.status, b"data" in answer.body, b"delete_file" in answer.body) == (502, False, False)


@pytest.mark.parametrize("body", [b"<p>data: none</p>", b"data: we have none today\n\n", b"Data: 1\nid: 2\n"])
def test_words_are_no_events(tmp_path: Path, body: bytes):
    answer = answer_to_get(tmp_path, "text/plain", body)
    assert (answer.status, bytes(answer.body)) == (200, body)


SECRET = b'{"jsonrpc":"2.0","id":<id>,"result":{"secret":1}}'


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        ("200 OK", "text/event-stream", b"data: %b\n\n" % SECRET),
        ("201 Created", "text/event-stream", b"data: %b\n\n" % SECRET),
        ("202 Accepted", "text/event-stream", b"data: %b" % SECRET),
        ("201 Created", "application/json", SECRET),
        ("201 Created", "application/json", b"[%b]" % SECRET),
        ("200 OK", "text/event-stream", b": x\xe2\x80\xa8data: %b\xe2\x80\xa8\xe2\x80\xa8\n\n" % SECRET),
        ("200 OK", "text/event-stream", b" data: %b\n\n" % SECRET),
        ("200 OK", "text/event-stream", b"event: message\nevent: x\ndata: %b\n\n" % SECRET),
        ("200 OK", "text/event-stream", b": x\x0b\ndata: %b\n\n" % SECRET),
    ],
)
def test_rules_hold_whatever_an_answer_is_called(tmp_path: Path, status: str, kind: str, body: bytes):
    block = rule("keep-back", [{"result_exists": "secret"}], {"block": "no"}, direction="upstream")
    with Ruled("passthrough", tmp_path, {"rules": [block]}) as ruled:
        raw = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode() + body
        ruled.client.seen = Seen()
        ruled.client.begin_order("raw", b"41", raw=raw.decode("latin-1"))
        post = ruled.client.posts[b"41"]
        ruled.client.until(lambda: post.is_over)
        assert b"secret" not in bytes(ruled.client.seen)
        assert ruled.client.is_alive()


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=UTF-8",
        'application/json;charset="utf-8"',
        "application/json; charset=iso-8859-1",
    ],
)
def test_a_charset_in_which_ascii_is_ascii_passes(tmp_path: Path, kind: str):
    with Ruled("passthrough", tmp_path, None) as ruled:
        body = '{"jsonrpc":"2.0","id":<id>,"result":{"n" : 1.0}}'
        raw = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n{body}"
        ruled.client.begin_order("raw", b"42", raw=raw)
        assert ruled.client.answer(b"42") == body.replace("<id>", "42").encode()
        assert ruled.client.posts[b"42"].headers["content-type"] == kind
