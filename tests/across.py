"""Raw clients of the newer era before an upstream of the older one that asks in the middle of calls."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from doors import Client, StdioDoor
from gate import ROOT, wait_until
from pairs import Proxy

ASKING = ROOT / "tests" / "upstreams" / "asking.py"
EVERYTHING = '{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}'


def question(token: object, method: str = "elicitation/create", **params: object) -> dict[str, object]:
    """One question for the tool to ask."""
    if method == "elicitation/create":
        params = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}, **params}
    return {"id": token, "method": method, "params": params}


class Asker:
    """A modern client, and the upstream's record."""

    def __init__(self, door: Client, record: Path, errors: Callable[[], str]) -> None:
        self.door = door
        self.record = record
        self._errors = errors
        self.capabilities = EVERYTHING

    @property
    def stderr(self) -> str:
        return self._errors()

    def reached(self) -> list[dict[str, Any]]:
        """What reached the upstream; probes of ours included."""
        return [json.loads(line) for line in self.record.read_bytes().splitlines()]

    def reached_raw(self) -> bytes:
        return self.record.read_bytes()

    def count(self, method: str) -> int:
        return sum(one.get("method") == method for one in self.reached())

    def await_up(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message to the upstream that is it, now or later."""
        assert wait_until(lambda: any(map(is_it, self.reached()))), self.reached()
        return next(one for one in self.reached() if is_it(one))

    def params(self, more: str, meta: str = "") -> bytes:
        own = (
            '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            '"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},'
            f'"io.modelcontextprotocol/clientCapabilities":{self.capabilities}{meta}}}'
        )
        return f"{{{more}{',' if more else ''}{own}}}".encode()

    def send(self, method: str, more: str = "", meta: str = "") -> bytes:
        """Sends a request without waiting; its id."""
        token = self.door.new_id()
        raw = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}'
        self.door.say(raw % (token, method.encode(), self.params(more, meta)))
        return token

    def begin(self, order: dict[str, object], back: str = "", meta: str = "", name: str = "ask") -> bytes:
        """Sends a call without waiting; its id."""
        more = f'"name":{json.dumps(name)},"arguments":{json.dumps(order)}'
        return self.send("tools/call", more + (f",{back}" if back else ""), meta)

    def call(self, order: dict[str, object], back: str = "", meta: str = "") -> Any:
        """Calls the tool; the decoded answer."""
        return json.loads(self.door.answer(self.begin(order, back, meta)))

    def ask(self, method: str, more: str = "", meta: str = "") -> Any:
        return json.loads(self.door.answer(self.send(method, more, meta)))


def back(asked: Any, **answers: object) -> str:
    """What a client brings back after an `input_required` result."""
    state = json.dumps(asked["result"]["requestState"])
    return f'"requestState":{state},"inputResponses":{json.dumps(answers)}'


@contextlib.contextmanager
def asking(work: Path, kind: str, *options: str, early: str | None = None) -> Iterator[Asker]:
    """A modern client over `kind` before the asking upstream."""
    record = work / "asked"
    record.touch()
    command = [sys.executable, "-S", str(ASKING), "--record", str(record)]
    if early is not None:
        command += ["--early", early]
    options = ("--era", "bridge", *options)
    if kind == "stdio":
        words = [sys.executable, "-m", "penstock", "--stdio", *options, "--", *command]
        errors = work / "errors"
        with errors.open("wb") as sink, StdioDoor(words, "modern", sink) as door:
            yield Asker(door, record, errors.read_text)
    else:
        with (
            Proxy(work, ["--", *command], *options) as proxy,
            proxy.connect("streamable", "modern") as door,
        ):
            asker = Asker(door, record, lambda: proxy.stderr)
            asker.proxy = proxy  # type: ignore[attr-defined]
            yield asker
