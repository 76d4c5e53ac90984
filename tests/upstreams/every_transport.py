"""The scripted upstream in three framings: stdio, legacy SSE and Streamable HTTP, both eras on each.

What it does is `scripted.Scripted`'s and the few orders added here; a framing only decides how messages
travel. Everything received is recorded as bytes, one message a line; with `--heads`, every HTTP request too;
with `--bytes`, every byte that came, whatever it is, and what it came on.
Over HTTP it is strict where servers are: sessions must be known, and a modern request must say in its headers
what its body says. Standard library only.

    python -S every_transport.py --transport stdio|sse|streamable [--record FILE] [--heads FILE]

Over HTTP it says on stderr where it listens.
"""

import argparse
import base64
import json
import os
import re
import select
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numbered
import scripted

MODERN = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
LEGACY_LIST = b'{ "tools" : [%b], "_meta":{"page": 1.0}}'
MODERN_LIST = b'{"resultType":"complete","ttlMs": 60000 ,"tools":[%b],"cacheScope":"public"}'
_LOCK = threading.Lock()


class Everywhere(scripted.Scripted):
    """One conversation. `channel` is where what it says goes; each message may bring its own."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.asked: dict[bytes, bytes] = {}  # our requests to the client, and who ordered them
        self.held: dict[bytes, object] = {}  # calls that wait, and their channels
        self.questioned: dict[bytes, tuple] = {}  # our questions within numbered exchanges

    def got(self, data: bytes) -> None:
        note_bytes(self.options, f"stdio-{os.getpid()}", data)

    def answer_list(self, token: bytes, params: dict) -> None:
        if self.options.list_error or self.options.mute or self.options.no_tools or self.options.pages:
            super().answer_list(token, params)
            return
        shape = MODERN_LIST if VERSION_KEY in params.get("_meta", {}) else LEGACY_LIST
        self.reply(token, shape % b",".join(scripted.TOOLS))

    def hear(self, line: bytes) -> None:
        try:
            message = scripted.tokens_of(line)
        except ValueError:
            return
        if "method" not in message and message.get("id") in self.asked:
            token = self.asked.pop(message["id"])
            self.reply(token, b'{"got":%b}' % line.strip())
            return
        if "method" not in message and message.get("id") in self.questioned:
            channel, token, number, size = self.questioned.pop(message["id"])
            result = scripted.value_of(message.get("result")) or {}
            is_same = result.get("text") == numbered.text_of(number, "told", size)
            self.end_numbered(channel, token, number, size, is_same)
            return
        super().hear(line)

    # --- more orders -----------------------------------------------------------------------------------

    def order_ask(self, token: bytes, params: dict) -> None:
        """Asks the client what `raw` says, under the id in it; answers with what the client answered."""
        raw = params["raw"].encode("latin-1")
        self.asked[scripted.tokens_of(raw)["id"]] = token
        self.say(raw + b"\n")

    def order_hold(self, token: bytes, params: dict) -> None:
        """Answers nothing until another order releases it by its `mark`."""
        self.held[params["mark"].encode()] = (self.channel(), token)
        if "raw" in params:
            self.say(params["raw"].encode("latin-1") + b"\n")

    def order_release(self, token: bytes, params: dict) -> None:
        """Answers what is held under `mark`, then this."""
        mark = params["mark"].encode()
        for _ in range(1000):  # over HTTP, what is to be held may still be on its way
            if mark in self.held:
                break
            time.sleep(0.01)
        channel, held = self.held.pop(mark)
        self.speak(channel, b'{"jsonrpc":"2.0","id":%b,"result":{"released":true}}\n' % held)
        self.reply(token, b"{}")

    def order_unasked(self, token: bytes, params: dict) -> None:
        """Says `raw` where what belongs to no request goes."""
        self.speak(self.lobby(), params["raw"].encode("latin-1") + b"\n")
        self.reply(token, b"{}")

    def order_later(self, token: bytes, params: dict) -> None:
        """Answers, then says `raw` where what belongs to no request goes."""
        self.reply(token, b"{}")
        self.speak(self.lobby(), params["raw"].encode("latin-1") + b"\n")

    def order_wire(self, token: bytes, params: dict) -> None:
        """Says `raw` as it is, not as messages, in pieces of `slice` bytes; then answers, unless `mute`."""
        raw = params["raw"].encode("latin-1").replace(b"<id>", token)
        size = int(params.get("slice", 0)) or len(raw)
        for at in range(0, len(raw), size):
            self.write(raw[at : at + size])
        if "mute" not in params:
            self.reply(token, b'{"said":true}')

    def order_nap(self, token: bytes, params: dict) -> None:
        """Answers after `seconds`."""
        time.sleep(float(params["seconds"]))
        self.reply(token, b"{}")

    def order_steps(self, token: bytes, params: dict) -> None:
        """Reports progress `count` times under `token` (a raw JSON token), then answers."""
        for step in range(int(params["count"])):
            self.say(
                b'{"jsonrpc":"2.0","method":"notifications/progress","params":'
                b'{ "progressToken":%b,"progress": %d.0}}\n' % (params["token"].encode(), step)
            )
        self.reply(token, b"{}")

    def order_echoed_steps(self, token: bytes, params: dict) -> None:
        """The same under the progress token that the request itself brought, as numbers are sent along."""
        self.order_steps(token, {**params, "token": str(params["_meta"]["progressToken"])})

    def order_flood(self, token: bytes, params: dict) -> None:
        """Sends `count` messages of about `bytes` bytes, as progress if the request asks for progress."""
        tag = params.get("_meta", {}).get("progressToken")
        if tag is None:
            super().order_flood(token, params)
            return
        head = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"message":"'
        line = (
            (head % (tag if tag.isdigit() else json.dumps(tag))).encode()
            + b"x" * int(params["bytes"])
            + b'"}}\n'
        )
        for _ in range(int(params["count"])):
            self.say(line)
        self.reply(token, b"{}")

    def order_numbered(self, token: bytes, params: dict) -> None:
        """Exchange `n` of numbered traffic: `steps` of progress, a question back if it `asks`, the answer.
        Every text has `size` characters, and says whether what came before it was as it should be."""
        number, size, channel = int(params["n"]), int(params["size"]), self.channel()
        is_same = params["text"] == numbered.text_of(number, "ask", size)
        for step in range(int(params["steps"])):
            text = numbered.text_of(number, f"step-{step}", size)
            self.speak(
                channel,
                b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,'
                b'"progress":%d,"message":"%b"}}\n'
                % (params["_meta"]["progressToken"].encode(), step, text.encode()),
            )
        if params.get("asks") and is_same:
            question = b'"question-%d"' % number
            self.questioned[question] = (channel, token, number, size)
            text = numbered.text_of(number, "question", size)
            line = b'{"jsonrpc":"2.0","id":%b,"method":"roots/list","params":{"n":%d,"text":"%b"}}\n'
            self.speak(channel, line % (question, number, text.encode()))
        else:
            self.end_numbered(channel, token, number, size, is_same)

    def end_numbered(self, channel: object, token: bytes, number: int, size: int, is_same: bool) -> None:
        text = numbered.text_of(number, "answer", size) if is_same else "changed"
        line = b'{"jsonrpc":"2.0","id":%b,"result":{"n":%d,"text":"%b"}}\n'
        self.speak(channel, line % (token, number, text.encode()))

    # --- framing ---------------------------------------------------------------------------------------

    def channel(self) -> object:
        return None

    def lobby(self) -> object:
        return None

    def speak(self, channel: object, data: bytes) -> None:
        self.say(data)

    def write(self, data: bytes) -> None:
        self.say(data)


class Http(Everywhere):
    """One conversation over HTTP: each thread speaks to the reply of the request it serves."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.stream: Reply | None = None  # SSE's own, or the GET stream
        self.stream_there = threading.Event()
        self.here = threading.local()
        self.replay: dict[bytes, bytes] = {}  # last event id seen: what comes after it

    def channel(self) -> object:
        return getattr(self.here, "reply", None) or self.lobby()

    def lobby(self) -> object:
        self.stream_there.wait(30)
        return self.stream

    def say(self, data: bytes) -> None:
        self.speak(self.channel(), data)

    def speak(self, channel: object, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line:
                channel.message(line)

    def write(self, data: bytes) -> None:
        self.channel().events(data)

    def serve(self, raw: bytes, reply: object) -> None:
        if self.record is not None:
            with _LOCK:
                os.write(self.record, raw.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
        self.here.reply = reply
        self.hear(raw)

    def order_poll(self, token: bytes, params: dict) -> None:
        """Opens an event stream, says how to come back, closes it; the answer waits for whoever does."""
        reply = self.here.reply
        mark = params["mark"].encode()
        answer = b'{"jsonrpc":"2.0","id":%b,"result":{"polled" : 1.0}}' % token
        self.replay[mark] = answer
        reply.events(b"id: %b\nretry: 20\ndata:\n\n" % mark)
        if params.get("cut"):
            reply.reset()
        else:
            reply.finish()

    def order_cut(self, token: bytes, params: dict) -> None:
        """Begins an answer with `raw` bytes of its stream, then resets, or closes, the connection."""
        reply = self.here.reply
        reply.events(params.get("raw", "").encode("latin-1"))
        reply.reset() if params.get("reset") else reply.close()

    def order_raw(self, token: bytes, params: dict) -> None:
        """Answers with exactly `raw` as the whole HTTP response, in slices of `slice` bytes."""
        raw = params["raw"].encode("latin-1").replace(b"<id>", token)
        self.here.reply.exactly(raw, int(params.get("slice", 0)))

    def order_events(self, token: bytes, params: dict) -> None:
        """Answers with `raw` as the whole event stream."""
        self.here.reply.events(params["raw"].encode("latin-1").replace(b"<id>", token))
        self.here.reply.finish()


class Reply:
    """One HTTP response, begun by whoever needs it first."""

    def __init__(self, connection: socket.socket, token: bytes | None, more: bytes = b"") -> None:
        self.connection = connection
        self.token = token
        self.more = more
        self.is_open = False
        self.is_over = threading.Event()
        self.is_broken = False
        self.event = b"data: "

    def message(self, raw: bytes) -> None:
        """One message: the answer ends the response; before it, and on a lasting stream, events."""
        if self.is_over.is_set():
            return  # a second response to one request would be taken for the answer to the next
        is_answer = self.token is not None and is_answer_to(raw, self.token)
        if is_answer and not self.is_open:
            self.whole(b"200 OK", b"application/json", raw)
            return
        self.events(self.event + raw + b"\n\n")
        if is_answer:
            self.finish()

    def whole(self, status: bytes, kind: bytes, body: bytes, more: bytes = b"") -> None:
        head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n" % (status, kind, len(body))
        self.write(head + self.more + more + b"\r\n" + body)
        self.is_over.set()

    def events(self, data: bytes) -> None:
        if not self.is_open:
            self.is_open = True
            self.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
                b"Transfer-Encoding: chunked\r\n" + self.more + b"\r\n"
            )
        if data:
            self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self) -> None:
        self.write(b"0\r\n\r\n")
        self.is_over.set()

    def exactly(self, raw: bytes, slice_bytes: int) -> None:
        if slice_bytes:
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(raw), slice_bytes):
                self.write(raw[at : at + slice_bytes])
        else:
            self.write(raw)
        self.close()

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close()

    def close(self) -> None:
        self.is_broken = True
        self.is_over.set()

    def write(self, data: bytes) -> None:
        try:
            self.connection.sendall(data)
        except OSError:
            self.is_broken = True
            self.is_over.set()


class Server:
    """Takes connections, one thread each, and finds the conversation of every request."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.sessions: dict[bytes, Http] = {}
        self.modern = Http(options)  # all of that era, which has no sessions
        self.last_session = 0
        self.connections = 0
        self.heads = os.open(options.heads, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if options.heads else None
        self.listener = socket.create_server(("127.0.0.1", options.port), backlog=512)
        path = "/sse" if options.transport == "sse" else "/mcp"
        print(
            f"listening on http://127.0.0.1:{self.listener.getsockname()[1]}{path}",
            file=sys.stderr,
            flush=True,
        )

    def run(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.connected, args=(connection,), daemon=True).start()

    def connected(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pending = b""
        with _LOCK:
            self.connections += 1
            name = f"connection-{self.connections}"
        with connection:
            while True:
                while b"\r\n\r\n" not in pending:
                    data = self.read(connection, name)
                    if not data:
                        return
                    pending += data
                head, _, pending = pending.partition(b"\r\n\r\n")
                line, *fields = head.split(b"\r\n")
                headers = {
                    name.strip().lower(): value.strip()
                    for name, _, value in (f.partition(b":") for f in fields)
                }
                length = int(headers.get(b"content-length", b"0"))
                body = bytearray(pending)
                while len(body) < length:
                    data = self.read(connection, name)
                    if not data:
                        return
                    body += data
                pending = bytes(body[length:])
                self.note(line, headers)
                if not self.serve(connection, line, headers, bytes(body[:length])):
                    return

    def read(self, connection: socket.socket, name: str) -> bytes:
        try:
            data = connection.recv(1 << 20)
        except OSError:
            return b""
        note_bytes(self.options, name, data)
        return data

    def note(self, line: bytes, headers: dict) -> None:
        if self.heads is not None:
            entry = {"line": line.decode("latin-1")}
            entry |= {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
            with _LOCK:
                os.write(self.heads, json.dumps(entry).encode() + b"\n")

    def event(self, word: str, **more: str) -> None:
        if self.heads is not None:
            with _LOCK:
                os.write(self.heads, json.dumps({"line": word, **more}).encode() + b"\n")

    def new_session(self) -> tuple[bytes, Http]:
        with _LOCK:
            self.last_session += 1
            name = b"up-%d-%b" % (self.last_session, os.urandom(8).hex().encode())
        self.sessions[name] = session = Http(self.options)
        return name, session

    # --- requests --------------------------------------------------------------------------------------

    def serve(self, connection: socket.socket, line: bytes, headers: dict, body: bytes) -> bool:
        method, target, _ = line.split(b" ", 2)
        path, _, query = target.partition(b"?")
        reply = Reply(connection, None)
        if self.options.bearer and path in (b"/mcp", b"/sse", b"/messages"):
            allowed = [b"Bearer " + word.encode() for word in self.options.bearer.split(",")]
            allowed += [word.encode() for word in self.options.bearer.split(",")]
            if headers.get(b"authorization", headers.get(b"x-api-key")) not in allowed:
                challenge = b'WWW-Authenticate: Bearer realm="up", resource_metadata="http://x/"\r\n'
                reply.whole(b"401 Unauthorized", b"text/plain", b"who are you?", challenge)
                return True
        if path.startswith(b"/.well-known/"):
            reply.whole(
                b"200 OK", b"application/json", b'{ "path" : %b}' % json.dumps(target.decode()).encode()
            )
            return True
        if self.options.transport == "sse":
            return self.serve_sse(method, path, query, reply, body)
        if path != b"/mcp":
            reply.whole(b"404 Not Found", b"text/plain", b"not here")
            return True
        return self.serve_streamable(method, headers, reply, body)

    def serve_sse(self, method: bytes, path: bytes, query: bytes, reply: Reply, body: bytes) -> bool:
        if path == b"/sse" and method == b"GET":
            name, session = self.new_session()
            reply.event = b"event: message\ndata: "
            reply.events(b"event: endpoint\ndata: /messages?sid=%b\n\n" % name)
            session.stream = reply
            session.stream_there.set()
            self.watch(reply)
            self.event("gone", session=name.decode())
            del self.sessions[name]
            return False
        session = self.sessions.get(query.removeprefix(b"sid="))
        if path != b"/messages" or method != b"POST" or session is None:
            status = b"405 Method Not Allowed" if path == b"/sse" else b"404 Not Found"
            reply.whole(status, b"text/plain", b"not so")
            return True
        reply.whole(b"202 Accepted", b"text/plain", b"Accepted")
        session.serve(body, None)
        return True

    def serve_streamable(self, method: bytes, headers: dict, reply: Reply, body: bytes) -> bool:
        is_modern = headers.get(b"mcp-protocol-version") == MODERN.encode()
        name = headers.get(b"mcp-session-id")
        if is_modern:
            if method != b"POST":
                reply.whole(
                    b"405 Method Not Allowed", b"text/plain", b"modern has only POST", b"Allow: POST\r\n"
                )
                return True
            wrong = wrong_headers(headers, body)
            if wrong:
                text = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"%b"}}' % wrong
                reply.whole(b"400 Bad Request", b"application/json", text)
                return True
            return self.post(self.modern, reply, body)
        if name is None and not re.search(rb'"method"\s*:\s*"initialize"', body):
            text = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Missing session ID"}}'
            reply.whole(b"400 Bad Request", b"application/json", text)
            return True
        if name is None:
            name, session = self.new_session()
            reply.more = b"Mcp-Session-Id: %b\r\n" % name
        else:
            session = self.sessions.get(name)
            if session is None:
                reply.whole(b"404 Not Found", b"text/plain", b"no such session upstream")
                return True
        if method == b"DELETE":
            del self.sessions[name]
            if session.stream is not None:
                session.stream.finish()
            reply.whole(b"200 OK", b"text/plain", b"")
            return True
        if method == b"GET":
            return self.get(session, reply, headers.get(b"last-event-id"))
        return self.post(session, reply, body)

    def get(self, session: Http, reply: Reply, last: bytes | None) -> bool:
        if last is not None:
            reply.events(b"id: %b-more\ndata: %b\n\n" % (last, session.replay.pop(last, b"{}")))
            reply.finish()
            return True
        if session.stream is not None and not session.stream.is_over.is_set():
            reply.whole(b"409 Conflict", b"text/plain", b"one stream is enough")
            return True
        reply.events(b": hello\n\n")
        session.stream = reply
        session.stream_there.set()
        is_heard = self.watch(reply)
        session.stream_there.clear()
        return is_heard

    def post(self, session: Http, reply: Reply, body: bytes) -> bool:
        try:
            message = scripted.tokens_of(body)
        except ValueError:
            message = {}
        token = message.get("id")
        if "method" not in message or token is None:
            reply.whole(b"202 Accepted", b"text/plain", b"")
            reply.token = None
            session.serve(body, None)
            return True
        reply.token = token
        session.serve(body, reply)
        # Whoever orders a wait is answered by another thread; meanwhile the client may go.
        if not self.watch(reply):
            self.event("gone", body=body.decode("latin-1"))
            return False
        return not reply.is_broken

    def watch(self, reply: Reply) -> bool:
        """Waits for the end of a reply; False when the client went first."""
        poll = select.poll()
        poll.register(reply.connection, select.POLLIN)
        while not reply.is_over.is_set():
            if poll.poll(10):
                try:
                    if not reply.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                        return False
                except OSError:
                    return False
                reply.is_over.wait(0.005)
        return True


def note_bytes(options: argparse.Namespace, name: str, data: bytes) -> None:
    """Writes down what came, before anything is made of it."""
    if options.bytes:
        entry = json.dumps({"on": name, "data": data.decode("latin-1")}).encode() + b"\n"
        with _LOCK, open(options.bytes, "ab") as file:
            file.write(entry)


def is_answer_to(raw: bytes, token: bytes) -> bool:
    """Whether `raw` is the response with this id. A big one is one of our own, with its id near an edge."""
    if len(raw) > 65536:
        return b'"method"' not in raw[:60] and token in raw[:100] + raw[-100:]
    try:
        message = scripted.tokens_of(raw)
    except ValueError:
        return False
    return "method" not in message and message.get("id") == token


def wrong_headers(headers: dict, body: bytes) -> bytes | None:
    """What a modern server objects to; None when the headers say what the body says."""
    message = json.loads(body, parse_int=str)  # an id may have more digits than Python likes
    if "id" not in message:
        return None
    if plain(headers.get(b"mcp-method", b"")) != message.get("method"):
        return b"Mcp-Method"
    params = message.get("params", {})
    if params.get("_meta", {}).get(VERSION_KEY) != MODERN:
        return b"_meta"
    key = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(message["method"])
    if key is not None and plain(headers.get(b"mcp-name", b"")) != params.get(key):
        return b"Mcp-Name"
    return None


def plain(value: bytes) -> str:
    """What a header says; text that cannot travel plainly travels as base64."""
    if value.startswith(b"=?base64?"):
        value = base64.b64decode(value[9:-2])
    return value.decode("utf-8", "replace")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=("stdio", "sse", "streamable"), required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--record")
    parser.add_argument("--heads", help="append every HTTP request's head to this file, as JSON")
    parser.add_argument("--bytes", help="append every byte received to this file, as JSON")
    parser.add_argument("--bearer", help="the tokens or API keys that are let in, separated by commas")
    parser.add_argument("--pages")
    parser.add_argument("--tool", help="the only tool that is listed, as JSON")
    parser.add_argument("--version")
    parser.add_argument("--no-tools", action="store_true")
    parser.add_argument("--modern-only", action="store_true")
    parser.add_argument("--legacy-only", action="store_true")
    parser.add_argument("--list-error")
    parser.add_argument("--list-delay", type=float, default=0.0)
    parser.add_argument("--mute", choices=("initialize", "list", "list-dies"))
    options = parser.parse_args()
    if options.tool is not None:
        scripted.TOOLS[:] = [options.tool.encode()]
    options.after_initialize = options.ignore_eof = options.split_cr = None
    if options.transport == "stdio":
        Everywhere(options).run()
    else:
        Server(options).run()


if __name__ == "__main__":
    main()
