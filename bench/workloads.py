"""The kinds of requests that are measured, and whether an answer is right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bench.messages import PREFIX, STEPS, TEXT, call_tail, large_result, list_tail


@dataclass(frozen=True)
class Workload:
    """One kind of request."""

    name: str
    tail: bytes  # the request after its id; a second %d is the progress token
    method: str = "tools/call"
    tool: str = ""
    text_bytes: int = len(TEXT)
    is_denied: bool = False
    is_modern: bool = False
    steps: int = 0
    kind: str = ""  # of a large result

    def request(self, number: int) -> bytes:
        if self.steps:
            return PREFIX + b"%d" % number + self.tail % number
        return PREFIX + b"%d" % number + self.tail


def sized(name: str, size: int, kind: str = "text", tool: str = "sized") -> Workload:
    arguments = b'{"bytes":%d,"kind":"%b"}' % (size, kind.encode())
    return Workload(name, call_tail(tool, arguments), tool=tool, text_bytes=size, kind=kind)


def upload(name: str, size: int) -> Workload:
    return Workload(name, call_tail("short", b'{"path":"%b"}' % (b"x" * size)), tool="short")


CALL = Workload("call", call_tail("short"), tool="short")
MODERN_CALL = Workload("modern call", call_tail("short", is_modern=True), tool="short", is_modern=True)
LIST = Workload("list", list_tail(), method="tools/list")
DENIED = Workload("denied", call_tail("admin_00003"), tool="admin_00003", is_denied=True)
BIG_64 = sized("64 kB", 64_000)
BIG_1 = sized("1 MB", 1_000_000)
JSON_1 = sized("1 MB of JSON in text", 1_000_000, "json")
STRUCTURED_1 = sized("1 MB structured", 1_000_000, "structured")
WORDS_1 = sized("1 MB not ASCII", 1_000_000, "words")
BASE64_1 = sized("1 MB base64", 1_000_000, "base64")
EVENT_1 = sized("1 MB over SSE", 1_000_000, tool="event")
BIG_10 = sized("10 MB", 10_000_000)
UPLOAD_1 = upload("1 MB up", 1_000_000)
STREAM = Workload(
    "stream",
    call_tail("stream").removesuffix(b"}}") + b',"_meta":{"progressToken":%d}}}',
    tool="stream",
    steps=STEPS,
)


class Checker:
    """Looks at every answer. One that was found right is compared by its bytes from then on."""

    def __init__(self, workload: Workload, tools: int) -> None:
        self.workload = workload
        self.tools = tools
        self.tail: bytes | None = None  # what follows the id in a right answer
        self.template: bytes | None = None  # a right answer of another shape, without its id
        self.why = ""

    def is_right(self, number: int, answer: bytes | bytearray) -> bool:
        begin = PREFIX + b"%d," % number
        if answer.startswith(begin):
            tail = self.tail
            if tail is not None and len(answer) == len(begin) + len(tail) and answer.endswith(tail):
                return True
        elif self.template is not None and answer.replace(b"%d" % number, b"", 1) == self.template:
            return True
        try:
            self.read(number, json.loads(answer))
        except (ValueError, LookupError, TypeError) as error:
            self.why = self.why or f"{error!r:.120} in {bytes(answer[:200])!r}"
            return False
        if answer.startswith(begin):
            self.tail = bytes(answer[len(begin) :])
        else:
            self.template = bytes(answer.replace(b"%d" % number, b"", 1))
        return True

    def read(self, number: int, message: dict[str, Any]) -> None:
        """Raises when it is not what was asked for."""
        if message["id"] != number:
            raise ValueError(f"the answer to {message['id']}")
        if self.workload.is_denied:
            if "error" not in message:
                raise ValueError("not denied")
        elif self.workload.method == "tools/list":
            if len(message["result"]["tools"]) != self.tools:
                raise ValueError(f"{len(message['result']['tools'])} tools where {self.tools} were expected")
        elif self.workload.kind:
            expected = json.loads(large_result(self.workload.kind, self.workload.text_bytes))
            if message["result"] != expected:
                raise ValueError("another result than was asked for")
        else:
            text = message["result"]["content"][0]["text"]
            if len(text) != self.workload.text_bytes:
                raise ValueError(f"{len(text)} characters where {self.workload.text_bytes} were expected")
