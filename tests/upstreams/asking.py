"""A server of the older era over a pipe whose tool does what its arguments say. Standard library only.

    python -S asking.py [--record FILE] [--early LINE]

`tools/call` of `ask` takes: `ask`, a list of questions {id, method, params} or lines, sent at once, or one
after the other with `in_turn`; `early`: answer without waiting for the answers; `say`: lines sent before all
else, in which TOKEN is the call's progress token; `then`: lines sent after the answers, `after`: after the
result; `error`: the error to answer with; `result`: the result as text; `hold`: never answer. The result has
the answers by id. Everything received is recorded, one message a line.
"""

import argparse
import json
import os
import sys
import time

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "delete_file")]
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
    "prompts": {},
}


class Asking:
    def __init__(self, record: int | None, early: str | None) -> None:
        self.record = record
        self.early = early
        self.waiting: dict[str, object] = {}

    def say(self, message: object) -> None:
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        os.write(1, text.encode() + b"\n")

    def run(self) -> None:
        for line in sys.stdin.buffer:
            if self.record is not None:
                os.write(self.record, line)
            self.hear(json.loads(line, parse_float=str))

    def hear(self, message: dict) -> None:
        method, token = message.get("method"), message.get("id")
        if method is None:
            call = self.waiting.pop(json.dumps(token), None)
            if call is not None:
                call.answered(token, message)
        elif method == "notifications/initialized":
            if self.early:
                self.say(self.early)
        elif token is None:
            pass
        elif method == "initialize":
            info = {"name": "asking", "version": "1"}
            self.reply(
                token,
                {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info},
            )
        elif method == "server/discover" or "io.modelcontextprotocol/protocolVersion" in str(message):
            self.say({"id": token, "error": {"code": -32601, "message": "Method not found"}})
        elif method == "tools/list":
            self.reply(token, {"tools": TOOLS})
        elif method == "resources/read":
            data = {"uri": message["params"]["uri"]}
            self.say({"id": token, "error": {"code": -32002, "message": "Resource not found", "data": data}})
        elif method in ("resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
            self.reply(token, {})
        elif method == "tools/call":
            Call(self, token, message["params"]).begin()
        else:
            self.say({"id": token, "error": {"code": -32601, "message": "Method not found"}})

    def reply(self, token: object, result: object) -> None:
        self.say({"id": token, "result": result})


class Call:
    def __init__(self, server: Asking, token: object, params: dict) -> None:
        self.server, self.token = server, token
        self.order = params.get("arguments", {})
        self.progress = params.get("_meta", {}).get("progressToken")
        self.questions = list(self.order.get("ask", []))
        self.open: set[str] = set()
        self.answers: dict[str, object] = {}

    def begin(self) -> None:
        for line in self.order.get("say", []):
            self.server.say(line.replace("TOKEN", json.dumps(self.progress)))
        self.ask()
        if self.order.get("early"):
            time.sleep(0.5)  # so that somebody has been asked meanwhile
            self.finish()

    def ask(self) -> None:
        now = self.questions[:1] if self.order.get("in_turn") else self.questions
        self.questions = self.questions[len(now) :]
        for question in now:
            read = json.loads(question) if isinstance(question, str) else question
            key = json.dumps(read["id"])
            self.open.add(key)
            self.server.waiting[key] = self
            self.server.say(question)
        if not self.open and not self.order.get("hold"):
            self.finish()

    def answered(self, token: object, message: dict) -> None:
        self.open.discard(json.dumps(token))
        self.answers[str(token)] = message.get("result", message.get("error"))
        if not self.open:
            for line in self.order.get("then", []):
                self.server.say(line.replace("TOKEN", json.dumps(self.progress)))
            self.ask()

    def finish(self) -> None:
        if "error" in self.order:
            self.server.say({"id": self.token, "error": self.order["error"]})
            return
        if "result" in self.order:
            token = json.dumps(self.token)
            self.server.say(f'{{"jsonrpc":"2.0","id":{token},"result":{self.order["result"]}}}')
            return
        content = [{"type": "text", "text": "done"}]
        self.server.reply(self.token, {"content": content, "structuredContent": self.answers})
        for line in self.order.get("after", []):
            self.server.say(line)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--record")
    parser.add_argument("--early", help="a line to send when the handshake is through")
    chosen = parser.parse_args()
    record = os.open(chosen.record, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if chosen.record else None
    Asking(record, chosen.early).run()


if __name__ == "__main__":
    main()
