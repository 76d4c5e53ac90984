"""Sections A, B and C of the threat catalogue: messages that two readers could take differently.

One table, fired over every transport by `make attack` and by the tests. Each raw text is what a client of the older
era writes; `in_era` puts into it what the newer era wants.
"""

from __future__ import annotations

import json
import re
import unicodedata

from gate import META, call, request
from trials.attack.rows import DROP, FORWARD, INVALID, LISTED, NF, SILENT, UNKNOWN, ClientBytes


def params_call(params: bytes, method: bytes = b'"tools/call"') -> bytes:
    return b'{"jsonrpc":"2.0","id":"t","method":%b,"params":%b}' % (method, params)


def _name(text: str) -> bytes:
    return params_call(b'{"name":%b,"arguments":{}}' % json.dumps(text).encode())


def _raw_name(text: str | bytes) -> bytes:
    return params_call(b'{"name":"%b","arguments":{}}' % (text.encode() if isinstance(text, str) else text))


def _deep(levels: int) -> bytes:
    inner = levels - 3
    return params_call(b'{"name":"echo","arguments":{"a":%b%b}}' % (b"[" * inner, b"]" * inner))


WRITE = call("write_file", b'"t"')

ATTACKS = [
    ClientBytes("1", "plain call of a denied tool", WRITE, NF),
    ClientBytes("1", "plain call of a tool that exists nowhere", _name("nowhere"), NF),
    ClientBytes("2", "denied name last", params_call(b'{"name":"echo","name":"write_file"}'), DROP),
    ClientBytes("2", "denied name first", params_call(b'{"name":"write_file","name":"echo"}'), DROP),
    ClientBytes("3", "the same name twice", params_call(b'{"name":"write_file","name":"write_file"}'), DROP),
    ClientBytes("3", "an allowed name twice", params_call(b'{"name":"echo","name":"echo"}'), DROP),
    ClientBytes("4", "two params, denied last", WRITE[:-1] + b',"params":{"name":"echo"}}', DROP),
    ClientBytes("4", "two params, denied first", call("echo")[:-1] + b',"params":{"name":"write_file"}}', DROP),
    ClientBytes("5", "two methods", WRITE[:-1] + b',"method":"ping"}', DROP),
    ClientBytes("5", "two methods, call last", request(b"1", "ping", b'{"name":"write_file"}')[:-1]
           + b',"method":"tools/call"}', DROP),
    ClientBytes("5", "two ids", call("echo", b"1")[:-1] + b',"id":2}', DROP),
    ClientBytes("5", "two ids, one begins like the other, and two params", WRITE.replace(b'"t"', b"12")[:-1]
                + b',"params":{"name":"echo"},"id":1}', DROP),
    ClientBytes("6", "escaped key alone", params_call(b'{"\\u006eame":"write_file"}'), NF),
    ClientBytes("6", "escaped key beside a plain one", params_call(b'{"name":"echo","\\u006eame":"write_file"}'), DROP),
    ClientBytes("7", "name in escapes", params_call(b'{"name":"\\u0077rite_file"}'), NF),
    ClientBytes("7", "method in escapes", params_call(b'{"name":"write_file"}', b'"\\u0074ools\\u002fcall"'), NF),
    ClientBytes("7", "method with an escaped slash", params_call(b'{"name":"write_file"}', b'"tools\\/call"'), NF),
    *(
        ClientBytes("8", f"{key} beside name", params_call(b'{"name":"echo","%b":"write_file"}' % key.encode()), DROP)
        for key in ("Name", "NAME", "ｎame", "na\u1d50e")
    ),
    ClientBytes("8", "Name instead of name", params_call(b'{"Name":"write_file"}'), DROP),
    ClientBytes("8", "Params beside params", call("echo")[:-1] + b',"Params":{"name":"write_file"}}', DROP),
    ClientBytes("8", "long s in params", call("echo")[:-1] + ',"param\u017f":{"name":"write_file"}}'.encode(), DROP),
    ClientBytes("8", "Method beside method", request(b"1", "ping", b'{"name":"write_file"}')[:-1]
           + b',"Method":"tools/call"}', DROP),
    ClientBytes("8", "Params alone", b'{"jsonrpc":"2.0","id":"t","method":"tools/call","Params":{"name":"write_file"}}',
           DROP),
    *(
        ClientBytes("11", f"key {key!a}", params_call(b'{"name":"echo",%b:"write_file"}' % json.dumps(key).encode()), DROP)
        for key in ("name ", " name", "name\t", "na\u200bme", "name\0", "name\u00a0", "\ufeffname", "name\ufe0f")
    ),
    ClientBytes("12", "UTF-8 byte order mark", b"\xef\xbb\xbf" + WRITE, DROP),
    ClientBytes("12", "byte order mark before an allowed call", b"\xef\xbb\xbf" + call("echo"), DROP),
    *(
        ClientBytes("13", encoding, WRITE.decode().encode(encoding), DROP)
        for encoding in ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be", "utf-32")
    ),
    ClientBytes("14", "overlong bytes in the name", _raw_name(b"write\xc1\x9ffile"), DROP),
    ClientBytes("14", "a surrogate in UTF-8", _raw_name(b"write_file\xed\xa0\x80"), DROP),
    ClientBytes("14", "a stray byte in an argument", params_call(b'{"name":"echo","arguments":{"a":"\xff"}}'), DROP),
    *(
        ClientBytes("15", f"{number.decode()} in a call", params_call(b'{"name":"echo","arguments":{"n":%b}}' % number), DROP)
        for number in (b"NaN", b"Infinity", b"-Infinity", b"01", b"0x10", b"1.", b".5", b"+1")
    ),
    *(
        ClientBytes("16", f"denied call with id {token[:9].decode()}", call("write_file", token), NF, token)
        for token in (b"1e400", b"-0", b"1.5", b"9" * 5_000, b"9" * 30)
    ),
    *(
        ClientBytes("16", f"allowed call with id {token[:9].decode()}", call("echo", token), FORWARD, token)
        for token in (b"1e400", b"-0", b"1.5", b"9" * 5_000, b"9" * 30)
    ),
    ClientBytes("17", "half a pair in an argument", params_call(b'{"name":"echo","arguments":{"a":"\\ud800"}}'), FORWARD),
    ClientBytes("17", "half a pair after a denied name", params_call(b'{"name":"write_file\\ud800"}'), INVALID),
    ClientBytes("18", "raw control byte in a string", _raw_name(b"write_file\x01"), DROP),
    ClientBytes("18", "NUL before the message", b"\0" + WRITE, DROP),
    ClientBytes("18", "escaped NUL after the name", params_call(b'{"name":"write_file\\u0000"}'), NF),
    ClientBytes("19", "comment", WRITE[:-1] + b"/* */}", DROP),
    ClientBytes("19", "line comment", WRITE + b"// x", DROP),
    ClientBytes("19", "trailing comma", WRITE[:-1] + b",}", DROP),
    ClientBytes("19", "single quotes", WRITE.replace(b'"', b"'"), DROP),
    ClientBytes("19", "bare keys", b'{jsonrpc:"2.0",id:"t",method:"tools/call",params:{name:"write_file"}}', DROP),
    ClientBytes("20", "128 levels", _deep(128), FORWARD),
    ClientBytes("20", "129 levels", _deep(129), DROP),
    ClientBytes("20", "1,000 levels", _deep(1_000), DROP),
    ClientBytes("20", "100,000 levels", _deep(100_000), DROP),
    *(
        ClientBytes("22", f"200,000 {what} behind a CR",
                    params_call(b'{"name":"echo","arguments":{"x":\r"%b"}}' % (unit * 200_000)), FORWARD)
        for what, unit in (("escaped quotes", b'\\"m'), ("backslashes", b"\\\\"), ("half pairs", b"\\ud800"))
    ),
    *(
        ClientBytes("20", f"{levels:,} levels, closed too often", _deep(levels).replace(b"]}}}", b"]]]}}}"), DROP)
        for levels in (120, 1_000, 5_000)
    ),
    ClientBytes("20", "50,000 levels that never close", params_call(b'{"name":"echo","arguments":' + b"[" * 50_000), DROP),
    *(
        ClientBytes("23", f"two messages with {between!r} between", call("echo") + between + WRITE, DROP)
        for between in (b"", b" ", b",", b"\t", b"\r", b";", b"\0")
    ),
    ClientBytes("23", "garbage before", b"x" + WRITE, DROP),
    ClientBytes("23", "garbage after", WRITE + b"x", DROP),
    ClientBytes("23", "denied call before a ping", WRITE + request(b"2", "ping"), DROP),
    *(
        ClientBytes("24", f"params {params.decode()}", params_call(params), INVALID)
        for params in (
            b'{"name":["write_file"]}', b'{"name":{"a":"write_file"}}', b'{"name":null}', b'{"name":5}',
            b"{}", b"null", b'{"arguments":{"name":"write_file"}}', b'"write_file"', b"5",
        )
    ),
    ClientBytes("24", "no params", b'{"jsonrpc":"2.0","id":"t","method":"tools/call"}', INVALID),
    ClientBytes("25", "__proto__ carries a name", params_call(b'{"__proto__":{"name":"write_file"}}'), DROP),
    ClientBytes("25", "__proto__ beside a name", params_call(b'{"name":"echo","__proto__":{"name":"write_file"}}'), DROP),
    ClientBytes("25", "constructor beside a name", params_call(b'{"name":"echo","constructor":{"name":"write_file"}}'), DROP),
    ClientBytes("25", "__proto__ in the envelope", call("echo")[:-1]
           + b',"__proto__":{"params":{"name":"write_file"}}}', DROP),
    ClientBytes("26", "a name of 1 MB", _name("w" * 1_000_000), NF),
    *(
        ClientBytes("26", f"name {name!a}", _name(name), NF)
        for name in ("write\r\nfile", "\x1b[31mwrite_file", "\u202ewrite_file", "<b>write_file</b>", "\u2066x")
    ),
    ClientBytes("27", "array with a denied call", b"[" + WRITE + b"]", DROP),
    ClientBytes("27", "array with an allowed and a denied call", b"[" + call("echo") + b"," + WRITE + b"]", DROP),
    ClientBytes("28", "nested array", b"[[" + WRITE + b"]]", DROP),
    ClientBytes("28", "array that does not end", b"[" + WRITE, DROP),
    ClientBytes("28", "array with something after it", b"[]" + WRITE, DROP),
    ClientBytes("28", "empty array", b"[]", DROP),
    ClientBytes("28", "junk array", b'[1,"tools/call",null,{}]', DROP),
    ClientBytes("28", "array with tools/list", b"[" + request(b"1", "tools/list") + b"]", DROP),
    ClientBytes("29", "call without an id", b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"write_file"}}', SILENT),
    ClientBytes("29", "allowed call without an id", b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}', SILENT),
    *(ClientBytes("30", f"id {token.decode()}", call("write_file", token), DROP) for token in (b"null", b"true", b"[]", b"{}")),
    *(
        ClientBytes("31", f"method {method!a}", params_call(b'{"name":"write_file"}', json.dumps(method).encode()), UNKNOWN)
        for method in (
            "Tools/Call", "TOOLS/CALL", "tools/call ", " tools/call", "tools//call", "tools／call",
            "tools/\u200bcall", "tools/call\0", "tools/call/", "/tools/call", "tool\u017f/call", "tools\\call",
            "Tools/List", "tools/list ",
        )
    ),
    ClientBytes("32", "jsonrpc missing", b'{"id":"t","method":"tools/call","params":{"name":"write_file"}}', DROP),
    ClientBytes("32", "jsonrpc 1.0", WRITE.replace(b'"2.0"', b'"1.0"'), DROP),
    ClientBytes("32", "jsonrpc a number", WRITE.replace(b'"2.0"', b"2.0"), DROP),
    ClientBytes("33", "method and result", WRITE[:-1] + b',"result":{}}', DROP),
    ClientBytes("33", "method and error", WRITE[:-1] + b',"error":{"code":1,"message":""}}', DROP),
    ClientBytes("34", "a response nobody asked for", b'{"jsonrpc":"2.0","id":"t","result":{"name":"write_file"}}', SILENT,
                on_cable=FORWARD),
    ClientBytes("34", "an error nobody asked for", b'{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":""}}', SILENT, b"99",
                on_cable=FORWARD),
    ClientBytes("35", "positional params", params_call(b'["write_file",{}]'), INVALID),
    *(
        ClientBytes("36", f"name {name!a}", _name(name), NF)
        for name in (
            "write_file ", " write_file", "\twrite_file", "write_file\n", "Write_File", "WRITE_FILE",
            unicodedata.normalize("NFD", "write_filé"), "writе_file", "write\u200b_file", "write%5ffile",
            "./write_file", "\u200fwrite_file", "ｗrite_file", "echo ", "Echo", "e\u200bcho",
        )
    ),
    *(
        ClientBytes("38", f"tools/list with {params.decode()}", params_call(params, b'"tools/list"'), INVALID)
        for params in (
            b'{"cursor":"forged"}', b'{"cursor":-1}', b'{"cursor":' + b"9" * 40 + b"}", b'{"cursor":""}',
            b'{"cursor":{}}', b'{"cursor":["x"]}', b"[]", b"null", b'"x"',
        )
    ),
    *(
        ClientBytes("38", f"tools/list with {params.decode()}", params_call(params, b'"tools/list"'), LISTED)
        for params in (b"{}", b'{"cursor":null}', b'{"filter":"write_file"}', b'{"_meta":{"progressToken":1}}')
    ),
    ClientBytes("38", "tools/list twice", params_call(b"{}", b'"tools/list"')[:-1] + b',"method":"tools/list"}', DROP),
    ClientBytes("41", "a call as a task", params_call(b'{"name":"write_file","task":{"ttl":1}}'), NF),
    ClientBytes("43", "completion/complete names a denied tool",
           params_call(b'{"ref":{"type":"ref/prompt","name":"write_file"}}', b'"completion/complete"'), FORWARD),
    ClientBytes("44", "prompts/get names a denied tool", params_call(b'{"name":"write_file"}', b'"prompts/get"'), FORWARD),
    ClientBytes("44", "resources/read names a denied tool", params_call(b'{"uri":"x:write_file"}', b'"resources/read"'), FORWARD),
    ClientBytes("45", "a vendor method that wraps a call", params_call(b'{"name":"write_file"}', b'"x/tools.call"'), FORWARD),
    ClientBytes("49", "_meta names a safe tool", params_call(b'{"name":"write_file","_meta":{"name":"echo","Mcp-Name":"echo"}}'), NF),
    ClientBytes("51", "carriage returns round an inner call",
           b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":\r' + WRITE + b"\r}}", FORWARD),
    *(
        ClientBytes("76", f"{breaks!a} round an inner call",
                    b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":' + breaks + WRITE + breaks + b"}}",
                    NF, in_body=FORWARD)
        for breaks in (b"\n", b"\r\n", b"\n\n ")
    ),
    ClientBytes("76", "a line break before a call in a response",
                b'{"jsonrpc":"2.0","id":"t","result":\n' + WRITE + b"\n}", NF, in_body=SILENT, on_cable=FORWARD),
    *(
        ClientBytes("52", f"{char!a} between messages", call("echo") + char.encode() + WRITE, DROP)
        for char in "\u2028\u2029\x85\x1e\x0b\x0c"
    ),
    *(
        ClientBytes("53", f"{char!a} raw inside a string",
               params_call(f'{{"name":"echo","arguments":{{"a":"x{char}y"}}}}'.encode()), FORWARD)
        for char in "\u2028\u2029\x85"
    ),
    ClientBytes("54", "framing as in LSP", b"Content-Length: %d\r\n\r\n" % len(WRITE) + WRITE, NF, in_body=DROP),
    ClientBytes("58", "blank lines and NUL bytes", b"\n \n\t\r\n\0\0\n", SILENT),
]  # fmt: skip


def in_era(raw: bytes, era: str) -> bytes:
    """`raw` with what the newer era wants in `params`, wherever an object of that name stands plainly."""
    if era == "legacy":
        return raw
    if b'"_meta":{' in raw:
        return raw.replace(b'"_meta":{', META[:-1] + b",")
    return re.sub(rb'"params":\{(?=(["}]))', lambda found: _with_meta(found[1]), raw)


def _with_meta(follows: bytes) -> bytes:
    return b'"params":{%b%b' % (META, b"," if follows == b'"' else b"")


def as_read_file(raw: bytes) -> bytes:
    """The same attack on a tool that is listed, and that a rule keeps from being called."""
    for spelt, other in (
        (b"write_file", b"read_file"),
        (b"\\u0077rite_file", b"\\u0072ead_file"),
        ("write_file".encode("utf-16-le"), "read_file".encode("utf-16-le")),
        ("write_file".encode("utf-32-le"), "read_file".encode("utf-32-le")),
    ):
        raw = raw.replace(spelt, other)
    return raw
