"""The contract of every pair of transports, in both eras: what goes in comes out, byte for byte.

Each test runs for all cells: nine pairs, two eras. A framing may change what carries a message, never the
message; where one link serves many modern clients, ids travel under numbers of ours, so there the id that the
upstream sees is not the client's, and everything else is.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from doors import is_answer, request
from gate import META, wait_until
from pairs import CELLS, PAIRS, Halls

Connect = Callable[..., Any]
every_cell = pytest.mark.parametrize(
    ("client", "upstream", "era"), CELLS, ids=[f"{c}-to-{u}-{e}" for c, u, e in CELLS]
)
every_pair = pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=[f"{c}-to-{u}" for c, u in PAIRS])
_marks = itertools.count()

ECHO = (
    b'{ "name" : "echo" , "title":"Echo", "description": "say \\u65e5\\u672c",'
    b' "inputSchema" : {"type":"object"}, "annotations":{"readOnlyHint":true},'
    b' "x-unknown": [1.0, 1e400, 12345678901234567890123456789012345678901]}'
)
READ = b'{"name":"read_file","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
LISTS = {
    "legacy": b'{ "tools" : [%b,%b], "_meta":{"page": 1.0}}' % (ECHO, READ),
    "modern": b'{"resultType":"complete","ttlMs": 60000 ,"tools":[%b,%b],"cacheScope":"public"}'
    % (ECHO, READ),
}
ODD = (
    b'"a" :  1.0 ,"b":1e400,"c":-0.0, "d":12345678901234567890123456789012345678901 ,'
    b'"e":"\\u65e5\\/\\ud83d\\ude00 \xe6\x97\xa5","f":[ ],"g" : { },"h":null,"":"", "i":1E-2'
)


def a_mark() -> str:
    """A word that no other test says."""
    return f"mark-{next(_marks)}-"


def with_id(raw: bytes, token: bytes) -> bytes:
    """`raw` with another id at its front."""
    return re.sub(rb'"id":[^,]+,', b'"id":%b,' % token, raw, count=1)


def is_renumbered(client: str, upstream: str, era: str) -> bool:
    """Whether one link serves all clients, so that ids have to be told apart."""
    return era == "modern" and client == "streamable" and upstream != "streamable"


def say(raw: bytes) -> dict[str, str]:
    """The order to say `raw`."""
    return {"raw": raw.decode("latin-1") + "\n"}


@every_cell
def test_the_first_answer_is_the_upstreams_own(client: str, upstream: str, era: str, connect: Connect):
    door = connect(client, upstream, era, fresh=True)
    first = door.heard[0].raw
    token = b"1001"
    if era == "legacy":
        assert (
            first
            == (
                b'{"jsonrpc":"2.0","id":%b,"result":{"protocolVersion":"2025-11-25","capabilities":'
                b'{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"scripted","version":"1"}}}'
            )
            % token
        )
    else:
        assert (
            first
            == (
                b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],'
                b'"capabilities":{"tools":{}}}}'
            )
            % token
        )


@every_cell
def test_every_method_goes_up_and_its_answer_comes_down(
    client: str, upstream: str, era: str, connect: Connect
):
    door = connect(client, upstream, era)
    methods = (
        "resources/list resources/templates/list prompts/list prompts/get completion/complete resources/read "
        "tasks/get tasks/result tasks/list tasks/cancel acme/vendor/thing weird.Method 日本/方法"
    ).split()
    if era == "legacy":
        methods += ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
        assert door.ask("ping")["result"] == {}
    for method in methods:
        if client == "streamable" and era == "modern" and not method.isascii():
            continue  # a header cannot say it plainly
        params = b'{"uri":"file:///x","name":"n","ref":{"type":"ref/prompt","name":"p"}}'
        assert door.ask(method, params)["result"] == {"heard": method}


@every_cell
def test_a_request_arrives_as_the_bytes_it_was_sent_in(
    client: str, upstream: str, era: str, connect: Connect, halls: Halls
):
    door = connect(client, upstream, era)
    mark = a_mark().encode()
    meta = META + b" , " if era == "modern" else b""
    raw = (
        b'{"jsonrpc":"2.0","id":77, "params" : {%b"name":"echo","x-more":[1.0 ],'
        b'"arguments":{"mark":"%b",%b}},'
        b'"x-unknown":{"a":1e400} ,"method":"tools/call"}'
    ) % (meta, mark, ODD)
    door.say(raw)
    assert json.loads(door.answer(b"77"))["result"]["called"] == "echo"
    (arrived,) = [line for line in halls.upstream(upstream).reached() if mark in line]
    if is_renumbered(client, upstream, era):
        arrived = with_id(arrived, b"77")
    assert arrived == raw


@every_cell
def test_an_answer_arrives_as_the_bytes_it_was_sent_in(
    client: str, upstream: str, era: str, connect: Connect
):
    door = connect(client, upstream, era)
    body = b'"result" : {"x":1.0,%b},  "jsonrpc":"2.0" , "id":<id>, "x-unknown":[1e400]' % ODD
    door.begin_order("say", b"78", **say(b"{" + body + b"}"), mute=True)
    assert door.answer(b"78") == b"{" + body.replace(b"<id>", b"78") + b"}"


@every_cell
def test_an_error_keeps_its_code_its_message_and_its_data(
    client: str, upstream: str, era: str, connect: Connect
):
    door = connect(client, upstream, era)
    error = b'{ "data":{"why":[1.0,"\\u00e9"]},"message":"no \\u65e5","code":-32042}'
    raw = b'{"jsonrpc":"2.0","id":<id>,"error":%b}' % error
    door.begin_order("say", b"79", **say(raw), mute=True)
    assert door.answer(b"79") == raw.replace(b"<id>", b"79")


IDS = [
    *(b"0", b"-1", b"1.0", b"100", b"1e2", b"12345678901234567890123456789012345678901"),
    *(
        b'""',
        b'"1"',
        b'"100"',
        b'"a b"',
        b'"\\u65e5"',
        b'"\xe6\x97\xa5"',
        b'"penstock-1"',
        b'"' + b"x" * 300 + b'"',
    ),
]


@every_cell
def test_an_id_comes_back_as_it_was_spelt(client: str, upstream: str, era: str, connect: Connect):
    door = connect(client, upstream, era)
    for token in IDS:
        door.request(token, "tools/call", b'{"name":"echo","arguments":{}}')
        heard = door.message(lambda raw, token=token: b'"id":%b,' % token in raw)
        assert b'"called" : "echo"' in heard.raw
        door.heard.clear()


@every_cell
def test_a_number_and_its_text_are_two_ids_at_once(client: str, upstream: str, era: str, connect: Connect):
    door = connect(client, upstream, era)
    mark = a_mark()
    for token in (b"5", b'"5"'):
        door.begin_order("hold", token, mark=mark + token.decode().strip('"') + str(len(token)))
    assert "result" in door.order("release", mark=f"{mark}53")
    assert door.answer(b'"5"')
    assert not any(is_answer(heard.raw, b"5") for heard in door.heard)
    assert "result" in door.order("release", mark=f"{mark}51")
    assert door.answer(b"5")


@every_cell
def test_a_notification_of_the_client_arrives_untouched(
    client: str, upstream: str, era: str, connect: Connect, halls: Halls
):
    door = connect(client, upstream, era)
    mark = a_mark().encode()
    methods = [b"notifications/acme", b"notifications/cancelled"]
    if era == "legacy":
        methods += [b"notifications/roots/list_changed", b"notifications/progress"]
    elif upstream == "streamable" and client != "streamable":
        methods.remove(b"notifications/cancelled")  # over HTTP that era cancels by hanging up
    for method in methods:
        raw = b'{"method":"%b", "params":{"mark":"%b%b" ,%b},"jsonrpc" : "2.0"}' % (method, mark, method, ODD)
        door.say(raw)
        assert wait_until(lambda raw=raw: raw in halls.upstream(upstream).reached())


@every_cell
def test_a_notification_of_the_upstream_arrives_untouched_and_before_the_answer(
    client: str, upstream: str, era: str, connect: Connect
):
    door = connect(client, upstream, era)
    notes = [
        b'{"method":"notifications/message","params":{"level":"info" ,"data":{%b}},"jsonrpc":"2.0"}' % ODD,
        b'{"jsonrpc":"2.0", "method":"notifications/acme/odd"}',
    ]
    door.heard.clear()
    door.begin_order("say", b"80", **say(b"\n".join(notes)))
    door.answer(b"80")
    assert [heard.raw for heard in door.heard][:-1] == notes


@every_pair
@pytest.mark.parametrize(
    ("method", "params", "answer"),
    [
        (
            "sampling/createMessage",
            b'{"messages":[],"maxTokens":1.0}',
            b'"result":{"role":"assistant", "x":1.0}',
        ),
        (
            "elicitation/create",
            b'{"message":"\\u65e5","requestedSchema":{}}',
            b'"result" : {"action":"accept"}',
        ),
        ("roots/list", b"{}", b'"result":{"roots":[ ]}'),
        ("acme/ask", b"{}", b'"error":{"code":-1,"message":"no","data":[1.0]}'),
        ("ping", b"{}", b'"result":{}'),
    ],
    ids=["sampling", "elicitation", "roots", "vendor", "ping"],
)
def test_what_the_upstream_asks_is_answered_by_the_client(
    client: str, upstream: str, connect: Connect, method: str, params: bytes, answer: bytes
):
    door = connect(client, upstream, "legacy")
    token = b'"q-%b"' % a_mark().encode()
    question = b'{"id":%b, "jsonrpc":"2.0","params":%b,"method":"%b"}' % (token, params, method.encode())
    door.begin_order("ask", b"81", raw=question.decode("latin-1"))
    assert door.message(lambda raw: token in raw).raw == question
    reply = b'{"jsonrpc":"2.0", "id" : %b,%b}' % (token, answer)
    door.say(reply)
    assert door.answer(b"81") == b'{"jsonrpc":"2.0","id":81,"result":{"got":%b}}' % reply


@every_cell
def test_progress_comes_with_the_clients_own_token(client: str, upstream: str, era: str, connect: Connect):
    door = connect(client, upstream, era)
    door.heard.clear()
    for token in (b"7", b'"7"', b'"t\\u00e9"'):
        meta = (
            META[:-1] + b',"progressToken":%b}' if era == "modern" else b'"_meta":{"progressToken":%b}'
        ) % token
        renumbered = is_renumbered(client, upstream, era)
        # Where tokens are renumbered, the upstream must use the one it was given: that of the request's id.
        shown = "<token>" if renumbered else token.decode()
        raw = request(
            b"82",
            "x/echoed_steps" if renumbered else "x/steps",
            b'{"count":3,"token":%b,%b}' % (json.dumps(shown).encode(), meta),
        )
        door.say(raw)
        door.answer(b"82")
        steps = [heard.raw for heard in door.heard if b"notifications/progress" in heard.raw]
        assert steps == [
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":'
            b'{ "progressToken":%b,"progress": %d.0}}' % (token, step)
            for step in range(3)
        ]
        door.heard.clear()


@every_pair
def test_a_cancel_of_the_older_era_is_a_notification(
    client: str, upstream: str, connect: Connect, halls: Halls
):
    door = connect(client, upstream, "legacy")
    mark = a_mark()
    door.begin_order("hold", b"83", mark=mark)
    assert wait_until(lambda: any(mark.encode() in line for line in halls.upstream(upstream).reached()))
    raw = (
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":83,"reason":"%b"}}'
        % mark.encode()
    )
    door.say(raw)
    assert wait_until(lambda: raw in halls.upstream(upstream).reached())
    door.order("release", mark=mark)  # a late answer harms nobody
    assert door.is_alive()


@every_pair
def test_a_cancel_of_the_newer_era_reaches_the_upstream_in_its_own_way(
    client: str, upstream: str, connect: Connect, halls: Halls
):
    door = connect(client, upstream, "modern")
    mark = a_mark()
    there = halls.upstream(upstream)
    door.begin_order("hold", b"84", mark=mark)
    assert wait_until(lambda: any(mark.encode() in line for line in there.reached()))
    if client == "streamable":
        door.hang_up(b"84")
    else:
        door.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":84}}')

    def is_cancelled() -> bool:
        if upstream == "streamable":
            return any(head["line"] == "gone" and mark in head.get("body", "") for head in there.heads())
        (held,) = [line for line in there.reached() if mark.encode() in line and b"x/hold" in line]
        number = re.search(rb'"id":([^,]+),', held)
        assert number is not None
        return any(
            b"notifications/cancelled" in line and b'"requestId":%b}' % number[1] in line
            for line in there.reached()
        )

    assert wait_until(is_cancelled)
    assert door.is_alive()


@every_pair
def test_hanging_up_in_the_older_era_is_no_cancel(client: str, upstream: str, connect: Connect, halls: Halls):
    if client != "streamable":
        pytest.skip("this client has one connection: to hang up is to end the session")
    door = connect(client, upstream, "legacy")
    mark = a_mark()
    there = halls.upstream(upstream)
    door.begin_order("hold", b"85", mark=mark)
    assert wait_until(lambda: any(mark.encode() in line for line in there.reached()))
    door.hang_up(b"85")
    assert door.is_alive()
    # The upstream still holds it, and may answer it: nobody told it to stop.
    assert door.order("release", mark=mark)["result"] == {}
    assert not any(b"notifications/cancelled" in line and b":85" in line for line in there.reached())
    assert not any(head["line"] == "gone" and mark in head.get("body", "") for head in there.heads())


# --- the filter ------------------------------------------------------------------------------------------


@every_cell
def test_the_list_comes_from_the_cache_with_the_eras_own_fields(
    client: str, upstream: str, era: str, connect: Connect, halls: Halls
):
    door = connect(client, upstream, era)
    assert door.is_alive()
    before = sum(b'"tools/list"' in line for line in halls.upstream(upstream).reached())
    for token in (b"1.0", b'"list"', b"91"):
        door.request(token, "tools/list")
        heard = door.message(lambda raw, token=token: b'"id":%b,' % token in raw)
        assert heard.raw == b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (token, LISTS[era])
    assert sum(b'"tools/list"' in line for line in halls.upstream(upstream).reached()) == before


@every_cell
def test_a_denied_tool_and_an_unknown_one_get_the_same_refusal(
    client: str, upstream: str, era: str, connect: Connect, halls: Halls
):
    door = connect(client, upstream, era)
    for name, token in (("delete_file", b"92"), ("write_file", b'"93"'), ("nowhere", b"94.0")):
        door.request(token, "tools/call", b'{"name":"%b","arguments":{}}' % name.encode())
        heard = door.message(lambda raw, token=token: b'"id":%b,' % token in raw)
        expected = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32601,"message":"Tool not found: %b"}}'
        assert heard.raw == expected % (token, name.encode())
        if client == "streamable":
            assert door.posts[token].status == 200
    assert door.is_alive()
    assert halls.upstream(upstream).calls_of("delete_file", "write_file", "nowhere") == []


@every_cell
def test_a_call_without_an_id_goes_nowhere(
    client: str, upstream: str, era: str, connect: Connect, halls: Halls
):
    door = connect(client, upstream, era)
    mark = a_mark().encode()
    for name in (b"delete_file", b"echo"):
        params = door.params(b'{"name":"%b","arguments":{"m":"%b"}}' % (name, mark))
        door.say(b'{"jsonrpc":"2.0","method":"tools/call","params":%b}' % params)
    assert door.is_alive()
    assert not any(mark in line for line in halls.upstream(upstream).reached())


@every_cell
def test_hidden_names_are_in_nothing_that_a_client_hears(
    client: str, upstream: str, era: str, connect: Connect
):
    door = connect(client, upstream, era)
    listing = b'{"tools":[{"name":"delete_file","inputSchema":{"type":"object"}}]}'
    for raw in (
        b'{"jsonrpc":"2.0","method":"notifications/tools","params":%b}' % listing,
        b'{"jsonrpc":"2.0","id":4711,"result":%b}' % listing,
        b'{"jsonrpc":"2.0","id":<id>,"result":%b}' % listing,
        b'{"jsonrpc":"2.0","id":<id>,"result":{"tools":[{"name":"d\\u0065lete_file"}]}}',
    ):
        token = door.new_id()
        # Where ids are renumbered an unsolicited answer has an id of nobody's all the same.
        door.begin_order("say", token, **say(raw))
        answer = json.loads(door.answer(token))
        if b"<id>" in raw:
            assert answer["error"] == {"code": -32603, "message": "The upstream's answer is not valid"}
    assert door.is_alive()
    assert not any(b"delete_file" in heard.raw or b"lete_file" in heard.raw for heard in door.heard)
