"""Numbered traffic through a client, and the proof of what became of it.

Every exchange has a number; every text in it follows from that number, both ways: the request, each step of
progress, a question of the upstream's and what the client told it, the answer. So a message that is lost,
doubled, out of its order or changed by a byte is seen, whichever way it went. What a fault may cost is the
exchanges that got an error: nothing else may be missing, and those must not be answered as well.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field

from numbered import text_of

from doors import Client, Lost
from gate import META, request

_numbers = iter(range(1, 1 << 40))


@dataclass
class Exchange:
    """One request and all that came back for it."""

    number: int
    steps: int
    asks: bool
    heard: list[str] = field(default_factory=list)  # in the order in which it came
    is_error: bool = False
    has_own_stream: bool = False  # what is asked without a token may come on another one, sooner or later

    @property
    def is_over(self) -> bool:
        return "answer" in self.heard or self.is_error

    def faults(self) -> list[str]:
        """What is wrong with it as far as it got; nothing, if nothing is."""
        whole = [f"step-{step}" for step in range(self.steps)]
        whole += ["question"] if self.asks else []
        whole += ["answer"]
        heard = self.heard
        if self.has_own_stream and self.asks and heard.count("question") == 1:
            heard = [part for part in heard if part != "question"]
            heard.insert(min(self.steps, len(heard)), "question")
            if self.is_error and len(heard) <= self.steps:
                return []
        if heard == whole and not self.is_error:
            return []
        if not self.is_error:
            return [f"exchange {self.number}: {self.heard} instead of {whole}"]
        if "answer" in self.heard:
            return [f"exchange {self.number}: answered and refused"]
        if heard != whole[: len(heard)]:
            return [f"exchange {self.number}: {self.heard} before its error"]
        return []


class Traffic:
    """What one client says and hears."""

    def __init__(self, door: Client, size: int = 20_000) -> None:
        self.door = door
        self.size = size
        self.exchanges: dict[int, Exchange] = {}
        self.wrong: list[str] = []
        self.is_cut = False  # the client has seen its own connection end
        self._seen = len(door.heard)

    def send(self, count: int, steps: int = 2, asks: bool = False) -> None:
        """Sends `count` exchanges, without waiting for any."""
        for _ in range(count):
            exchange = Exchange(
                next(_numbers),
                steps,
                asks and self.door.era == "legacy",
                has_own_stream=self.door.kind == "streamable",
            )
            self.exchanges[exchange.number] = exchange
            try:
                self.door.say(self._request(exchange))
            except (OSError, AssertionError):
                self.is_cut = exchange.is_error = True
                return
            last = getattr(self.door, "last", None)
            if self.door.kind == "sse" and last is not None and last.status != 202:
                exchange.is_error = True  # refused, or cut: the client knows

    def wait(self, within: float) -> bool:
        """Hears what comes until everything is over, or nothing more can come; whether all is over."""
        end = time.monotonic() + within
        while not all(exchange.is_over for exchange in self.exchanges.values()):
            if time.monotonic() > end or self._is_dead():
                self._hear()
                break
            try:
                self.door.pump(min(0.2, max(0.0, end - time.monotonic())))
            except OSError:
                self.is_cut = True
            self._hear()
        return all(exchange.is_over for exchange in self.exchanges.values())

    def _is_dead(self) -> bool:
        self._hear()
        if self.door.kind == "streamable":
            # Each exchange has a connection of its own: only those that are still open can bring something.
            posts = self.door.posts  # type: ignore[attr-defined]
            waiting = [e for e in self.exchanges.values() if not e.is_over]
            for exchange in waiting:
                post = posts.get(str(exchange.number).encode())
                if post is not None and post.is_over and post.status not in (0, 200):
                    exchange.is_error = True  # its status says so
            tokens = [str(e.number).encode() for e in waiting]
            return all(token not in posts or posts[token].is_over for token in tokens)
        return not [source for source in self.door.sources if not source.is_over]

    def errors(self) -> int:
        """How many exchanges got an error."""
        return sum(exchange.is_error for exchange in self.exchanges.values())

    def faults(self, may_be_cut: bool = False) -> list[str]:
        """All that is wrong. With `may_be_cut`, the client's own line was cut: what had not come by then is
        known to be lost, which is as good as an error."""
        found = list(self.wrong)
        for exchange in self.exchanges.values():
            if may_be_cut and not exchange.is_over:
                exchange.is_error = True
            found += exchange.faults()
        return found

    # --- wire --------------------------------------------------------------------------------------------

    def _request(self, exchange: Exchange) -> bytes:
        number = exchange.number
        meta = META[:-1] + b"," if self.door.era == "modern" else b'"_meta":{'
        meta += b'"progressToken":%d}' % number
        params = b'{"n":%d,"size":%d,"steps":%d,"asks":%b,"text":"%b",%b}' % (
            number,
            self.size,
            exchange.steps,
            b"true" if exchange.asks else b"false",
            text_of(number, "ask", self.size).encode(),
            meta,
        )
        return request(b"%d" % number, "x/numbered", params)

    def _hear(self) -> None:
        while self._seen < len(self.door.heard):
            raw = self.door.heard[self._seen].raw
            self._seen += 1
            try:
                message = json.loads(raw)
            except ValueError:
                self.wrong.append(f"not a message: {raw[:100]!r}")
                continue
            self._take(message)

    def _take(self, message: dict[str, object]) -> None:
        params = message.get("params")
        result = message.get("result")
        if message.get("method") == "notifications/progress" and isinstance(params, dict):
            self._note(params["progressToken"], f"step-{params['progress']}", params["message"])
        elif message.get("method") == "roots/list" and isinstance(params, dict):
            self._note(params["n"], "question", params["text"])
            told = text_of(params["n"], "told", self.size)
            answer = b'{"jsonrpc":"2.0","id":%b,"result":{"roots":[],"text":"%b"}}'
            try:
                self.door.say(answer % (json.dumps(message["id"]).encode(), told.encode()))
            except (OSError, Lost, AssertionError):
                self.is_cut = True
        elif isinstance(result, dict) and "n" in result:
            self._note(result["n"], "answer", result["text"])
        elif "error" in message and message.get("id") in self.exchanges:
            exchange = self.exchanges[message["id"]]  # type: ignore[index]
            if exchange.is_error:
                self.wrong.append(f"exchange {exchange.number}: two errors")
            exchange.is_error = True

    def _note(self, number: object, part: str, text: object) -> None:
        exchange = self.exchanges.get(int(str(number)))
        if exchange is None:
            self.wrong.append(f"{part} of exchange {number}, which is another client's")
        elif text != text_of(exchange.number, part, self.size):
            self.wrong.append(f"{part} of exchange {number} was changed")
        else:
            exchange.heard.append(part)


def arrivals(reached: list[bytes]) -> list[int]:
    """The numbers of the requests that reached the upstream, in that order."""
    found = []
    for line in reached:
        if b'"x/numbered"' in line:
            try:
                found.append(int(json.loads(line)["params"]["n"]))
            except ValueError:
                found.append(-1)
    return found


def faults_of_arrivals(reached: list[bytes], clients: list[Traffic], in_order: bool) -> list[str]:
    """What is wrong with what the upstream was told: doubled, never sent, changed, or, where one line carries
    it all, out of order. That a request is missing is seen by who sent it: it has no answer."""
    numbers = arrivals(reached)
    found = [
        f"request {number} reached the upstream {times} times"
        for number, times in Counter(numbers).items()
        if times > 1
    ]
    for client in clients:
        own = [number for number in numbers if number in client.exchanges]
        if in_order and own != sorted(own):
            found.append(f"requests reached the upstream as {own}")
    known = {number for client in clients for number in client.exchanges}
    found += [f"request {number} was never sent" for number in numbers if number not in known]
    for line in reached:
        if b'"x/numbered"' in line:
            params = json.loads(line)["params"]
            if params["text"] != text_of(params["n"], "ask", params["size"]):
                found.append(f"request {params['n']} was changed")
    return found
