"""A scripted upstream on bytes: it writes down every line it gets and says exactly what it was told to say.

It is naive on purpose: it runs whatever `tools/call` it can make out, so that a test sees a leak. Methods
that begin with `x/` are orders from a test, sent through the gate like any vendor method; their raw texts
are latin-1, so that any byte can be asked for. Options say how it behaves before anybody can give orders.
Standard library only.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time

_DECODER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)
_BLANKS = re.compile(r"[ \t\r\n]*")

TOOLS = [
    b'{ "name" : "echo" , "title":"Echo", "description": "say \\u65e5\\u672c",'
    b' "inputSchema" : {"type":"object"}, "annotations":{"readOnlyHint":true},'
    b' "x-unknown": [1.0, 1e400, 12345678901234567890123456789012345678901]}',
    b'{"name":"write_file","description":"write","inputSchema":{"type":"object"}}',
    b'{"name":"read_file","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}',
    b'{"inputSchema":{"type":"object"},"name":"delete_file","outputSchema":{"type":"object"},"_meta":{"a":1}}',
]
GRANDCHILD = (
    "import signal,time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    "time.sleep(300)"
)


def tokens_of(line: bytes) -> dict[str, bytes]:
    """The outermost members of the object in `line`, each as written; the last of two wins."""
    text = line.decode("utf-8", "surrogateescape")
    found: dict[str, bytes] = {}
    position = _BLANKS.match(text, 0).end()
    if text[position : position + 1] != "{":
        raise ValueError("not an object")
    position = _BLANKS.match(text, position + 1).end()
    while text[position : position + 1] not in ("}", ""):
        name, position = _DECODER.raw_decode(text, position)
        start = _BLANKS.match(text, _BLANKS.match(text, position).end() + 1).end()
        _, position = _DECODER.raw_decode(text, start)
        found[name] = text[start:position].encode("utf-8", "surrogateescape")
        position = _BLANKS.match(text, position).end()
        if text[position : position + 1] == ",":
            position = _BLANKS.match(text, position + 1).end()
    return found


def value_of(token: bytes | None) -> object:
    if token is None:
        return None
    return _DECODER.decode(token.decode("utf-8", "surrogateescape"))


class Scripted:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.record = (
            os.open(options.record, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if options.record else None
        )
        self.pages = [b'{"tools":[%b]}' % b",".join(TOOLS)]
        if options.pages:
            with open(options.pages, "rb") as file:
                self.pages = file.read().splitlines()
        self.runs = True
        self.is_initialized = False

    def say(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def reply(self, token: bytes, result: bytes) -> None:
        self.say(b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (token, result))

    def run(self) -> None:
        pending = b""
        while self.runs:
            data = os.read(0, 1 << 20)
            self.got(data)
            if not data:
                if self.options.ignore_eof:
                    time.sleep(300)
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if self.record is not None:
                    os.write(self.record, line + b"\n")
                for piece in re.split(rb"\r(?!$)", line) if self.options.split_cr else [line]:
                    self.hear(piece)

    def got(self, data: bytes) -> None:
        """What came, before anything is made of it; here it is of no use."""

    def hear(self, line: bytes) -> None:
        try:
            message = tokens_of(line)
            method = value_of(message.get("method"))
        except (ValueError, AttributeError, RecursionError):
            return
        if not isinstance(method, str):
            return
        token = message.get("id")
        params = value_of(message.get("params"))
        params = params if isinstance(params, dict) else {}
        if method.startswith("x/"):
            getattr(self, "order_" + method[2:], self.order_nothing)(token or b"null", params)
        elif token is not None:
            self.answer(method, token, params)

    def answer(self, method: str, token: bytes, params: dict) -> None:
        if self.options.modern_only and not self.is_modern(params):
            error = b'{"code":-32022,"message":"Unsupported version","data":{"supported":["2026-07-28"]}}'
            self.say(b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (token, error))
            return
        is_foreign = self.is_modern(params) or method == "server/discover" or not self.is_initialized
        if self.options.legacy_only and is_foreign and method != "initialize":
            error = b'{"code":-32602,"message":"not before the handshake"}'
            self.say(b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (token, error))
        elif method == "initialize":
            self.is_initialized = True
            if self.options.mute == "initialize":
                return
            version = json.dumps(self.options.version or params.get("protocolVersion"))
            tools = "" if self.options.no_tools else '"tools":{"listChanged":true},'
            self.reply(
                token,
                b'{"protocolVersion":%b,"capabilities":{%b"logging":{}},"serverInfo":{"name":"scripted","version":"1"}}'
                % (version.encode(), tools.encode()),
            )
            if self.options.after_initialize:
                self.say(self.options.after_initialize.encode("latin-1"))
        elif method == "server/discover":
            self.reply(
                token,
                b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}',
            )
        elif method == "tools/list":
            self.answer_list(token, params)
        elif isinstance(given := {**params, **(params.get("arguments") or {})}.get("give"), dict):
            self.reply(token, json.dumps(given).encode())  # whatever was asked for
        elif method == "tools/call":
            name = json.dumps(params.get("name")).encode()
            self.reply(token, b'{"content":[{"type":"text","text":"called"}], "called" : %b}' % name)
        elif method == "ping":
            self.reply(token, b"{}")
        else:
            self.reply(token, b'{"heard":%b}' % json.dumps(method).encode())

    def is_modern(self, params: dict) -> bool:
        meta = params.get("_meta")
        version = "io.modelcontextprotocol/protocolVersion"
        return isinstance(meta, dict) and meta.get(version) == "2026-07-28"

    def order_input(self, token: bytes, params: dict) -> None:
        """Asks what is in `ask` (a map of questions), with a state; when it is answered, says it all."""
        self.input_rounds = getattr(self, "input_rounds", 0)
        answers = params.get("inputResponses")
        if answers is None or self.input_rounds < int(params.get("rounds", 0)):
            self.input_rounds = 0 if answers is None else self.input_rounds + 1
            asked = {"resultType": "input_required", "requestState": "st\u00e4te"}
            asked["inputRequests"] = params["ask"]
            self.reply(token, json.dumps(asked).encode())
            return
        said = {"resultType": "complete", "answers": answers, "state": params.get("requestState")}
        self.reply(token, json.dumps(said).encode())

    def answer_list(self, token: bytes, params: dict) -> None:
        if self.options.mute == "list":
            return
        if self.options.mute == "list-dies":
            os._exit(3)
        if self.options.no_tools:
            self.say(
                b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32601, "message":"no tools at \\u65e5"}}\n'
                % token
            )
            return
        if self.options.list_error:
            self.say(b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (token, self.options.list_error.encode()))
            return
        time.sleep(self.options.list_delay)
        page = 0
        if "cursor" in params:
            cursors = [value_of(tokens_of(page).get("nextCursor")) for page in self.pages]
            if params["cursor"] not in cursors:
                self.say(
                    b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32602,"message":"unknown cursor"}}\n' % token
                )
                return
            page = cursors.index(params["cursor"]) + 1
        self.reply(token, self.pages[page].replace(b"<pid>", b"%d" % os.getpid()))

    # --- orders ----------------------------------------------------------------------------------------

    def order_nothing(self, token: bytes, params: dict) -> None:
        self.reply(token, b'{"heard":"a vendor method"}')

    def order_say(self, token: bytes, params: dict) -> None:
        """Writes `raw` exactly, then answers, unless `mute`."""
        self.say(params["raw"].encode("latin-1").replace(b"<id>", token))
        if "mute" not in params:
            self.reply(token, b'{"said":true}')

    def order_big(self, token: bytes, params: dict) -> None:
        """Answers with one line of exactly `bytes` bytes; the id at the front, or at the end if `last`."""
        size = int(params["bytes"])
        if params.get("last"):
            head, tail = b'{"result":{"text":"', b'"},"jsonrpc":"2.0","id":%b}' % token
        else:
            head, tail = b'{"jsonrpc":"2.0","id":%b,"result":{"text":"' % token, b'"}}'
        self.say(head + b"x" * (size - len(head) - len(tail)) + tail + b"\n")

    def order_deep(self, token: bytes, params: dict) -> None:
        """Answers with a message of `levels` levels."""
        inner = int(params["levels"]) - 1
        if params.get("last"):
            self.say(b'{"result":%b%b,"jsonrpc":"2.0","id":%b}\n' % (b"[" * inner, b"]" * inner, token))
        else:
            self.reply(token, b"[" * inner + b"]" * inner)

    def order_die(self, token: bytes, params: dict) -> None:
        """Writes `raw`, then exits with `status` or by `signal`."""
        self.say(params.get("raw", "").encode("latin-1").replace(b"<id>", token))
        if "signal" in params:
            os.kill(os.getpid(), int(params["signal"]))
            time.sleep(300)
        os._exit(int(params.get("status", 0)))

    def order_deaf(self, token: bytes, params: dict) -> None:
        """Reads nothing more."""
        self.reply(token, b"{}")
        time.sleep(300)

    def order_close(self, token: bytes, params: dict) -> None:
        """Answers, closes the descriptor `fd`, lives on."""
        self.reply(token, b"{}")
        os.close(int(params["fd"]))
        time.sleep(300)

    def order_stderr(self, token: bytes, params: dict) -> None:
        """Writes `bytes` bytes to stderr, then answers."""
        for _ in range(int(params["bytes"]) // 65536):
            os.write(2, b"e" * 65535 + b"\n")
        self.reply(token, b"{}")

    def order_flood(self, token: bytes, params: dict) -> None:
        """Sends `count` notifications of `bytes` bytes each, then answers."""
        head, tail = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"', b'"}}\n'
        line = head + b"x" * (int(params["bytes"]) - len(head) - len(tail)) + tail
        for _ in range(int(params["count"])):
            self.say(line)
        self.reply(token, b"{}")

    def order_retool(self, token: bytes, params: dict) -> None:
        """From now on lists the tools in `raw`, and says so."""
        self.pages = [params["raw"].encode("latin-1")]
        self.say(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n')
        self.reply(token, b"{}")

    def order_spawn(self, token: bytes, params: dict) -> None:
        """Starts a grandchild that ignores SIGTERM and holds our pipes; `away` puts it in another group."""
        child = subprocess.Popen([sys.executable, "-c", GRANDCHILD], start_new_session="away" in params)
        self.reply(token, b'{"pid":%d}' % child.pid)

    def order_pid(self, token: bytes, params: dict) -> None:
        self.reply(token, b'{"pid":%d}' % os.getpid())

    def order_env(self, token: bytes, params: dict) -> None:
        value = {"value": os.environ.get(params["name"]), "cwd": os.getcwd()}
        self.reply(token, json.dumps(value).encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", help="append every line received to this file")
    parser.add_argument("--pages", help="a file with the results of tools/list, one raw page a line")
    parser.add_argument("--version", help="the protocol version to answer initialize with")
    parser.add_argument("--no-tools", action="store_true")
    parser.add_argument("--legacy-only", action="store_true", help="refuse everything before initialize")
    parser.add_argument("--modern-only", action="store_true", help="refuse what has no modern _meta")
    parser.add_argument("--list-error", help="the error object to answer tools/list with")
    parser.add_argument("--list-delay", type=float, default=0.0)
    parser.add_argument("--mute", choices=("initialize", "list", "list-dies"))
    parser.add_argument("--before", help="latin-1 text to write before anything else")
    parser.add_argument("--after-initialize", help="latin-1 text to write after the answer to initialize")
    parser.add_argument("--exit", type=int, help="leave at once with this status")
    parser.add_argument("--ignore-eof", action="store_true")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--flooding-grandchild", action="store_true", help="which outlives us, on our stdout")
    parser.add_argument("--split-cr", action="store_true", help="end lines at CR too, as some readers do")
    options = parser.parse_args()
    if options.ignore_term:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if options.flooding_grandchild:
        subprocess.Popen(["yes", '{"jsonrpc":"2.0","method":"notifications/y"}'])
    if options.before:
        os.write(1, options.before.encode("latin-1"))
    if options.exit is not None:
        sys.exit(options.exit)
    Scripted(options).run()


if __name__ == "__main__":
    main()
