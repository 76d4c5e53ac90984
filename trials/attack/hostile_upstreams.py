"""Section E of the threat catalogue, and what of C and D an upstream does: things that it says when ordered to."""

from __future__ import annotations

import gzip
import json

from trials.attack.rows import DROPPED, PASSED, REFUSED, Hostile

URLS = ("sse", "streamable")
MIB = 1024 * 1024
LISTING = b'{"tools":[{"name":"delete_file","inputSchema":{"type":"object"}}]}'
ESCAPED = b'{"t\\u006fols":[{"n\\u0061me":"d\\u0065lete\\u005ffile","inputSchema":{"type":"object"}}]}'
NOTE = b'{"jsonrpc":"2.0","method":"x","params":%b}' % LISTING
UTF7 = b'{"x":"+ACI-,+ACI-tools+ACI-:[{+ACI-name+ACI-:+ACI-delete+AF8-file+ACI-}],+ACI-y+ACI-:+ACI-"}'
OTHER_ENDS = {
    "VT": b"\x0b", "FF": b"\x0c", "FS": b"\x1c", "GS": b"\x1d", "RS": b"\x1e", "NUL": b"\0",
    "NEL": b"\xc2\x85", "U+2028": b"\xe2\x80\xa8", "U+2029": b"\xe2\x80\xa9",
}  # fmt: skip
"""Where Python's splitlines and those built on it end a line, and the standard of events does not."""


def _result(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":<id>,"result":%b}' % result


def _noise(row: str, what: str, raw: bytes, *upstreams: str) -> Hostile:
    """Said beside the answer: it is not passed on, and the answer is."""
    return Hostile(row, what, raw + b"\n", DROPPED, upstreams=upstreams or ("stdio", *URLS))


def _bad(row: str, what: str, raw: bytes, *upstreams: str) -> Hostile:
    """Said as the answer: whoever waits hears an error instead."""
    return Hostile(row, what, raw + b"\n", REFUSED, upstreams=upstreams or ("stdio", *URLS), more={"mute": 1})


def _events(
    row: str, what: str, raw: bytes, verdict: str = REFUSED, size: int = 0, on_cable: str = ""
) -> Hostile:
    """Written to an event stream as it is."""
    more = {"slice": size} | ({"mute": 1} if b"<id>" in raw else {})
    return Hostile(row, what, raw, verdict, "wire", URLS, more, on_cable)


def _http(
    row: str,
    what: str,
    status: str,
    kind: str,
    body: bytes,
    more: str = "",
    size: int = 0,
    on_cable: str = "",
) -> Hostile:
    """A whole HTTP response, written as it is."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n".encode()
    is_free_text = kind == "text/html" and not status.startswith("2")  # the upstream's words, and its status
    # A session that the upstream does not know any more is lost, and with it all that stdio and SSE have.
    clients = ("streamable",) if status.startswith("404") else ("stdio", "sse", "streamable")
    on_cable = on_cable or (PASSED if is_free_text else "")
    return Hostile(
        row, what, head + body, REFUSED, "raw", ("streamable",), {"slice": size}, on_cable, clients
    )


def _passed(row: str, what: str, raw: bytes, order: str = "say") -> Hostile:
    """By design: it is not a list of tools, and it was asked for."""
    return Hostile(row, what, raw + b"\n", PASSED, order, more={"mute": 1})


ATTACKS = [
    _noise("50", "two messages on one line", b'{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"b"}'),
    _noise("50", "CR between messages", b'{"jsonrpc":"2.0","method":"a"}\r{"jsonrpc":"2.0","method":"b"}', "stdio"),
    _noise("50", "CR inside a message", b'{"jsonrpc":"2.0",\r"method":"a"}', "stdio"),
    _noise("59", "a debug print", b"starting up, listening on stdio"),
    _noise("59", "a debug print that names tools", b"tools: write_file, delete_file"),
    _noise("59", "partial JSON", b'{"jsonrpc":"2.0","meth'),
    _noise("59", "binary", bytes(range(256)).replace(b"\n", b""), "stdio"),
    _noise("59", "JSON that is no message", b'"hello"\n5\nnull'),
    _noise("59", "an object that is no message", b'{"level":"info","msg":"hello"}'),
    _noise("59", "NaN", b'{"jsonrpc":"2.0","method":"a","params":{"x":NaN}}'),
    _noise("59", "blank lines", b"\n\n   "),
    _noise("93", "a response nobody asked for", b'{"jsonrpc":"2.0","id":77,"result":%b}' % LISTING),
    _noise("93", "a response under an id of ours", b'{"jsonrpc":"2.0","id":"penstock-0","result":%b}' % LISTING),
    _noise("93", "a response under no id", b'{"jsonrpc":"2.0","id":null,"result":%b}' % LISTING),
    _noise("93", "an error nobody asked for", b'{"jsonrpc":"2.0","id":78,"error":{"code":1,"message":"delete_file"}}'),
    _noise("93", "list_changed with the list",
           b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":%b}' % LISTING),
    _noise("93", "a log with the list",
           b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":{"result":%b}}}' % LISTING),
    _noise("93", "a notification with the list in escapes", b'{"jsonrpc":"2.0","method":"x","params":%b}' % ESCAPED),
    _noise("93", "a request with the list", b'{"jsonrpc":"2.0","id":"q","method":"tools/list","params":%b}' % LISTING),
    _noise("93", "a batch", b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":%b}]' % LISTING),
    _noise("104", "two results", b'{"jsonrpc":"2.0","id":1,"result":{},"result":%b}' % LISTING, "stdio", "sse"),
    _noise("95", "two ids", b'{"jsonrpc":"2.0","id":7,"id":8,"result":%b}' % LISTING, "stdio", "sse"),
    _noise("95", "two lists in one notification, the harmless one first",
           b'{"jsonrpc":"2.0","method":"x","params":{"tools":[],"tools":[{"name":"delete_file"}]}}'),
    _noise("95", "two lists in one notification, the harmless one last",
           b'{"jsonrpc":"2.0","method":"x","params":{"tools":[{"name":"delete_file"}],"tools":[]}}'),
    _bad("95", "a list as the answer to something else", _result(LISTING)),
    _bad("95", "the same in escapes", _result(ESCAPED)),
    _bad("95", "the same with upper case escapes", _result(b'{"\\u0054ools":[],"tools":[{"name":"\\u0064elete_file"}]}')),
    _bad("95", "two names in one tool", _result(b'{"tools":[{"name":"echo","name":"delete_file"}]}')),
    _bad("95", "two names in one tool, echo last", _result(b'{"tools":[{"name":"delete_file","name":"echo"}]}')),
    _bad("95", "two lists in one result", _result(b'{"tools":[],"tools":[{"name":"delete_file"}]}')),
    _bad("95", "two lists in one result, the empty last", _result(b'{"tools":[{"name":"delete_file"}],"tools":[]}')),
    _bad("95", "among many that are allowed",
         _result(b'{"tools":[%b{"name":"delete_file"}]}' % (b'{"name":"echo"},' * 2000))),
    _bad("95", "among 60,000 that are allowed",
         _result(b'{"tools":[%b{"name":"delete_file"}]}' % (b'{"name":"echo"},' * 60_000))),
    _noise("93", "a list deep in a notification of 300 kB",
           b'{"jsonrpc":"2.0","method":"x","params":{"pad":"%b","data":{"result":%b}}}' % (b"x" * 300_000, LISTING)),
    _noise("93", "a list in escapes deep in a notification of 300 kB",
           b'{"jsonrpc":"2.0","method":"x","params":{"pad":"%b","data":{"result":%b}}}' % (b"x" * 300_000, ESCAPED)),
    _noise("93", "a list in 300 kB, after a text that begins like the end of a name",
           b'{"jsonrpc":"2.0","method":"x","params":{"pad":"%b","tools":[{"x" :": ","name":"delete_file"}]}}' % (b"x" * 300_000)),
    *(
        _noise("93", f"a list behind 200,000 {what}",
               b'{"jsonrpc":"2.0","method":"x","params":{"tools":[{"x":"%b","name":"delete_file"}]}}' % (unit * 200_000))
        for what, unit in (("escaped quotes", b'\\"n'), ("names in quotes", b'\\"name\\":\\"'), ("half pairs", b"\\ud800"))
    ),
    *(
        _bad("95", f"a list of tools as {what}", _result(b'{"tools":%b}' % tools))
        for what, tools in (
            ("an object", b'{"delete_file":{"inputSchema":{"type":"object"}}}'),
            ("bare names", b'["echo","delete_file"]'),
            ("functions", b'[{"type":"function","function":{"name":"delete_file"}}]'),
            ("lists", b'[[{"name":"delete_file"}]]'),
        )
    ),
    _bad("95", "a list in a list of results", _result(b"[%b]" % LISTING)),
    _bad("95", "a list beside the result", b'{"jsonrpc":"2.0","id":<id>,"result":{},"tools":[{"name":"delete_file"}]}'),
    _bad("95", "a list beside the result, deeper", b'{"jsonrpc":"2.0","id":<id>,"result":{},"data":%b}' % LISTING),
    _bad("101", "a list in the data of an error",
         b'{"jsonrpc":"2.0","id":<id>,"error":{"code":-1,"message":"no","data":%b}}' % LISTING),
    _bad("101", "a list in the data of an error of 300 kB",
         b'{"jsonrpc":"2.0","id":<id>,"error":{"code":-1,"message":"%b","data":%b}}' % (b"x" * 300_000, LISTING)),
    _noise("93", "a notification with the list beside its params", b'{"jsonrpc":"2.0","method":"x","tools":[{"name":"delete_file"}]}'),
    _noise("93", "a notification with the list in positional params", b'{"jsonrpc":"2.0","method":"x","params":[%b]}' % LISTING),
    _noise("93", "tools for the client's model in a notification",
           b'{"jsonrpc":"2.0","method":"sampling/createMessage","params":%b}' % LISTING),
    _bad("95", "after a name that is none", _result(b'{"tools":[7,null,{"name":5},{"name":"delete_file"}]}')),
    _bad("95", "result twice", b'{"jsonrpc":"2.0","id":<id>,"result":{},"result":%b}' % LISTING),
    _bad("50", "CR inside an answer", b'{"jsonrpc":"2.0","id":<id>,\r"result":{}}', "stdio"),
    _bad("50", "two messages in one answer", _result(b"{}") + b'{"jsonrpc":"2.0","method":"b"}', "stdio"),
    _bad("104", "NaN", _result(b'{"x":NaN}')),
    _bad("104", "result and error", b'{"jsonrpc":"2.0","id":<id>,"result":{},"error":{"code":1,"message":""}}'),
    _bad("104", "neither", b'{"jsonrpc":"2.0","id":<id>}'),
    _bad("104", "jsonrpc 1.0", b'{"jsonrpc":"1.0","id":<id>,"result":{}}'),
    _bad("104", "invalid UTF-8", _result(b'"\xff"')),
    _bad("104", "129 levels", _result(b"[" * 128 + b"]" * 128)),
    _bad("104", "5,000 levels", _result(b"[" * 5_000 + b"]" * 5_000)),
    _bad("104", "5,000 levels, closed too often", _result(b"[" * 5_000 + b"]" * 6_000)),
    _bad("104", "129 levels, id last", b'{"result":' + b"[" * 128 + b"]" * 128 + b',"jsonrpc":"2.0","id":<id>}'),
    _events("78", "a list cut in the name", b'data: {"jsonrpc":"2.0","id":<id>,\ndata: "result":{"tools":[{"name":"dele\ndata: te_file"}]}}\n\n'),
    _events("78", "a list over two lines", b'data: {"jsonrpc":"2.0","id":<id>,"result":\ndata: %b}\n\n' % LISTING),
    _events("78", "a list byte by byte", b"data: %b\n\n" % _result(LISTING), size=1),
    _events("78", "a list in escapes byte by byte", b"data: %b\n\n" % _result(ESCAPED), size=1),
    _events("78", "a list over twenty lines",
            b"data: " + b"\ndata: ".join(_result(LISTING).replace(b",", b",\n").replace(b":", b":\n").split(b"\n")) + b"\n\n"),
    _events("79", "lines ended by CR", b'data: {"jsonrpc":"2.0","id":<id>,"result":\rdata: %b}\r\r' % LISTING),
    _events("79", "lines ended by CRLF, cut between", b"data: %b\r\n\r\n" % _result(LISTING), size=3),
    _events("79", "no blank after the colon", b"event: message\ndata:%b\n\n" % _result(LISTING)),
    _events("79", "another event type with a list", b'event: tools\ndata: {"jsonrpc":"2.0","method":"x","params":%b}\n\n' % LISTING, DROPPED),
    *(
        _events("79", f"a list in {what}", frame % (b'{"jsonrpc":"2.0","method":"x","params":%b}' % LISTING), DROPPED)
        for what, frame in (
            ("a comment, behind U+2028", b": x\xe2\x80\xa8data: %b\n\n"),
            ("a comment, behind U+2028, beside a message", b": x\xe2\x80\xa8data: %b\ndata: \n\n"),
            ("an event id, behind VT", b"id: 1\x0bdata: %b\ndata: \n\n"),
            ("an event type, behind FF", b"event: message\x0cdata: %b\ndata: {}\n\n"),
            ("a retry time, behind RS", b"retry: 1\x1edata: %b\n\n"),
            ("a field with a blank before its name", b" data: %b\n\n"),
            ("a field in capitals", b"DATA: %b\n\n"),
        )
    ),
    _events("79", "hidden names in a comment", b": delete_file write_file\n\n", DROPPED, on_cable=PASSED),
    _events("79", "a hidden name as an event id", b"id: delete_file\ndata: \n\n", DROPPED, on_cable=PASSED),
    _events("79", "a hidden name in an unknown field", b"tools: delete_file\n\n", DROPPED, on_cable=PASSED),
    _events("79", "an event type of hidden names", b'event: delete_file\ndata: {"jsonrpc":"2.0","method":"x"}\n\n', DROPPED, on_cable=PASSED),
    *(
        _events("79", f"a message behind {what} in a comment", b": x%bdata: %b%b\n\n" % (end, NOTE, end * 2), DROPPED)
        for what, end in OTHER_ENDS.items()
    ),
    *(
        _events("79", f"a message behind {what} in {where}", (line % (end + b"data: " + NOTE + end * 2)) + b"\n\n", DROPPED)
        for what, end in list(OTHER_ENDS.items())[-2:]
        for where, line in {
            "an event id": b"id: 1%b\ndata: ", "an unknown field": b"x: 1%b", "a retry": b"retry: 1%b",
            "an event type": b"event: x%b\ndata: 1", "another event": b"event: x\ndata: %b",
        }.items()
    ),
    *(
        _events("79", f"a message in a field that looks like data: {name!r}", b"%b: %b\n\n" % (name.encode(), NOTE), DROPPED)
        for name in (" data", "data ", "\tdata", "Data", "DATA", "\ufeffdata", "da\u200bta", "\uff44ata", "data\0")
    ),
    _events("79", "a list under two event types", b"event: message\nevent: x\ndata: %b\n\n" % NOTE, DROPPED),
    *(
        _http("91", f"{status} as events", status, "text/event-stream", b"data: %b\n\n" % _result(LISTING))
        for status in ("201 Created", "202 Accepted", "203 So", "206 Partial", "299 Odd", "400 Bad", "500 Oops")
    ),
    # A stream may end without an answer there: clients resume it.
    _http("91", "201 as events without an end", "201 Created", "text/event-stream", b"data: %b" % _result(LISTING), on_cable=DROPPED),
    _http("91", "202 as events under another name", "202 Accepted", "text/plain", b"data: %b\n\n" % _result(LISTING)),
    _http("91", "201 as a batch", "201 Created", "application/json", b"[%b]" % _result(LISTING)),
    *(
        _http("91", f"{status} with {kind}", status, kind, body)
        for status in ("400 Bad Request", "403 Forbidden", "404 Not Found", "413 Too Large", "429 Too Many", "500 Oops", "503 Later")
        for kind, body in (("text/html", b"<h1>delete_file</h1>"), ("application/json", b'{"error":%b}' % LISTING))
    ),
    *(
        _http("91", f"{status} with a list and {what}", status, "application/json", before + _result(LISTING) + after)
        for status in ("202 Accepted", "400 Bad Request", "404 Not Found", "500 Oops")
        for what, before, after in (
            ("a letter behind it", b"", b"x"),
            ("a NUL behind it", b"", b"\0"),
            ("a value before it", b"1 ", b""),
            ("a NUL before it", b"\0", b""),
            ("a comment before it", b"/* */", b""),
            ("an open brace before it", b"{ ", b""),
        )
    ),
    _http("91", "500 with a large list that nests deep", "500 Oops", "application/json",
          b'{"x":"%b","result":{"tools":[{"name":"delete_file","inputSchema":%b}]}}'
          % (b"y" * 300_000, b'{"a":' * 130 + b"1" + b"}" * 130)),
    *(
        _http("91", f"200 as {kind or 'nothing'}", "200 OK", kind, _result(LISTING))
        for kind in ("text/html", "text/plain", "application/octet-stream", "application/json-seq", "")
    ),
    _http("91", "200 as JSON in another charset", "200 OK", "application/json; charset=utf-16", _result(LISTING).decode().encode("utf-16")),
    *(
        # To others than the passthrough's clients nobody says a word about a charset.
        _http("91", f"{kind} in UTF-7: {charset}", "200 OK", f"{kind}; {charset}", body)._replace(clients=("streamable",))
        for kind, body in (
            ("application/json", _result(UTF7)),
            ("text/event-stream", b": x+AAo-data: %b+AAo-+AAo-\n\n" % NOTE.replace(b"delete_", b"delete+AF8-")),
        )
        for charset in ("charset=utf-7", "charset =utf-7", "charset*=us-ascii''utf-7", "x=y;charset=utf-7", "charset=utf-8;charset=utf-7")
    ),
    _http("91", "JSON, and events too", "200 OK", "text/event-stream", _result(LISTING) + b"\n\n", "Content-Type: application/json\r\n"),
    _http("91", "plain, and compressed too", "200 OK", "text/event-stream",
          b": " + gzip.compress(b"data: %b\n\n" % NOTE).replace(b"\n", b" ") + b"\n\n: delete_file\n\n",
          "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"),
    _http("91", "an error without an id that names tools", "400 Bad Request", "application/json",
          b'{"jsonrpc":"2.0","id":null,"result":%b}' % LISTING),
    *(
        _http("88", status, status, "text/plain", b"delete_file", "Location: http://169.254.169.254/latest/meta-data\r\n")
        for status in ("301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent")
    ),
    _http("67", "gzip that opens to 50 MB", "200 OK", "application/json",
          gzip.compress(_result(LISTING) + b" " * (50 * MIB), 9), "Content-Encoding: gzip\r\n"),
    _http("67", "gzip without saying so", "200 OK", "application/json", gzip.compress(_result(LISTING))),
    _http("104", "no JSON at all", "200 OK", "application/json", b"delete_file"),
    _http("104", "nothing", "200 OK", "application/json", b""),
    _http("104", "something after it", "200 OK", "application/json", _result(b"{}") + b" delete_file"),
    _http("104", "an answer to somebody else", "200 OK", "application/json", b'{"jsonrpc":"2.0","id":"somebody","result":%b}' % LISTING),
    _http("147", "byte by byte, a list", "200 OK", "text/event-stream", b"data: %b\n\n" % _result(LISTING), size=1),
    _passed("101", "an error that lists every tool",
            b'{"jsonrpc":"2.0","id":<id>,"error":{"code":-1,"message":"tools: write_file, echo"}}'),
    _passed("94", "content that is about a tool", _result(b'{"content":[{"type":"text","text":"delete_file"}]}')),
]  # fmt: skip


def as_order(row: Hostile) -> dict[str, object]:
    """What the upstream is told."""
    return {"raw": row.raw.decode("latin-1"), **json.loads(json.dumps(row.more))}
