"""The promises: each a figure of one run, what it has to be, and whether it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FULL_PAIRS = ("http-http", "http-stdio", "stdio-http", "stdio-stdio")
MESSAGE_KIB = 10_000_000 / 1024
MILLION = 1_000_000
ENOUGH = 10_000  # calls, below which a growth of memory says nothing


@dataclass(frozen=True)
class Verdict:
    promise: str
    limit: str
    measured: str
    state: str  # met, missed, or why it was not judged


def verdicts(results: dict[str, Any]) -> list[Verdict]:
    book = Book(results)
    found = [
        book.ratio("call, HTTP to HTTP: p50, one in flight", "call c=1", "p50", 1.3, is_most=True),
        book.ratio("call, HTTP to HTTP: answers a second, 16 in flight", "call c=16", "rate", 0.8),
        book.ratio("tools/list, HTTP to HTTP: p50, one in flight", "list c=1", "p50", 1.0, is_most=True),
        book.ratio("tools/list, HTTP to HTTP: answers a second, 16 in flight", "list c=16", "rate", 1.0),
        book.ratio("denied call: p50, against nginx's allowed call", "denied c=1", "p50", 1.0, is_most=True),
        book.stdio_added(),
        book.ratio(
            "call, stdio to stdio: answers a second, 16 in flight",
            "call c=16",
            "rate",
            0.75,
            pair="stdio-stdio",
        ),
    ]
    found += [book.fifth_of_best_peer(pair) for pair in results["groups"]]
    found += [book.start_under_half_a_second(pair) for pair in FULL_PAIRS]
    found += [book.start_against_peers(pair) for pair in FULL_PAIRS]
    found += [book.rest_above_bare(pair) for pair in FULL_PAIRS]
    found += [book.rest_against_peers(pair) for pair in FULL_PAIRS]
    found.append(book.ratio("10 MB result, HTTP to HTTP: answers a second", "10 MB c=1", "rate", 0.5))
    found += [book.peak(pair) for pair in FULL_PAIRS]
    found += [book.million(pair) for pair in FULL_PAIRS]
    return found


class Book:
    """Looks figures up; what is not there is not judged."""

    def __init__(self, results: dict[str, Any]) -> None:
        self.results = results

    def cell(self, pair: str, target: str, key: str) -> dict[str, Any]:
        cell = self.results["groups"].get(pair, {}).get("targets", {}).get(target, {}).get(key, {})
        return {} if "failed" in cell else cell

    def peers(self, pair: str) -> list[str]:
        names: list[str] = self.results["groups"].get(pair, {}).get("peers", [])
        return names

    def ratio(
        self,
        promise: str,
        key: str,
        what: str,
        limit: float,
        is_most: bool = False,
        pair: str = "http-http",
    ) -> Verdict:
        name = "nginx" if pair == "http-http" else "relay"
        value = self.cell(pair, "penstock", key).get(f"{what} x {name}")
        label = "nginx's" if name == "nginx" else "the C relay's"
        return self.judge(
            promise,
            f"{'at most' if is_most else 'at least'} {limit} x {label}",
            value,
            lambda value: value <= limit if is_most else value >= limit,
            lambda value: f"{value:.2f} x",
        )

    def stdio_added(self) -> Verdict:
        mine = self.cell("stdio-stdio", "penstock", "call c=1").get("added p50")
        relay = self.cell("stdio-stdio", "relay", "call c=1").get("added p50")
        beside = "" if relay is None or mine is None else f"; the C relay adds {relay:.0f} us"
        if relay and mine and relay > 0:
            beside += f", ratio {mine / relay:.1f}"
        return self.judge(
            "call, stdio to stdio: added p50, one in flight",
            "at most 80 us",
            mine,
            lambda value: value <= 80,
            lambda value: f"{value:.0f} us{beside}",
        )

    def fifth_of_best_peer(self, pair: str) -> Verdict:
        mine = self.cell(pair, "penstock", "call c=1").get("added p50")
        added = [
            (value, name)
            for name in self.peers(pair)
            if (value := self.cell(pair, name, "call c=1").get("added p50")) is not None
        ]
        best, name = min(added) if added else (None, "")
        return self.judge(
            f"call, {self.title(pair)}: added p50",
            "at most a fifth of the best peer's",
            None if mine is None or best is None else mine / best,
            lambda value: value <= 0.2,
            lambda value: f"{value:.3f} x ({mine:,.0f} us; {name} {best:,.0f} us)",
        )

    def start(self, pair: str, target: str) -> float | None:
        value: float | None = self.results.get("start", {}).get(pair, {}).get(target, {}).get("ms")
        return value

    def start_under_half_a_second(self, pair: str) -> Verdict:
        return self.judge(
            f"start, {self.title(pair)}: exec to first answer",
            "under 500 ms",
            self.start(pair, "penstock"),
            lambda value: value < 500,
            lambda value: f"{value:.0f} ms",
        )

    def start_against_peers(self, pair: str) -> Verdict:
        mine = self.start(pair, "penstock")
        others = [(value, name) for name in self.peers(pair) if (value := self.start(pair, name)) is not None]
        best, name = min(others) if others else (None, "")
        return self.judge(
            f"start, {self.title(pair)}",
            "at most a quarter of the fastest peer's",
            None if mine is None or best is None else mine / best,
            lambda value: value <= 0.25,
            lambda value: f"{value:.2f} x ({name} {best:,.0f} ms)",
        )

    def memory(self, pair: str, target: str) -> dict[str, Any]:
        found: dict[str, Any] = self.results.get("memory", {}).get("pairs", {}).get(pair, {}).get(target, {})
        return found

    def rest_above_bare(self, pair: str) -> Verdict:
        mine = self.memory(pair, "penstock").get("rest", {}).get("private")
        bare = self.results.get("memory", {}).get("bare", {}).get("private")
        return self.judge(
            f"memory at rest, {self.title(pair)}: private, above a bare interpreter's",
            "at most 10 MiB",
            None if mine is None or bare is None else (mine - bare) / 1024,
            lambda value: value <= 10,
            lambda value: f"{value:.1f} MiB",
        )

    def rest_against_peers(self, pair: str) -> Verdict:
        mine = self.memory(pair, "penstock").get("rest", {}).get("private")
        others = [
            (value, name)
            for name in self.peers(pair)
            if (value := self.memory(pair, name).get("rest", {}).get("private")) is not None
        ]
        best, name = min(others) if others else (0, "")
        return self.judge(
            f"memory at rest, {self.title(pair)}: private",
            "at most half of the smallest peer's",
            None if mine is None or not best else mine / best,
            lambda value: value <= 0.5,
            lambda value: f"{value:.2f} x ({name} {best / 1024:.0f} MiB)",
        )

    def peak(self, pair: str) -> Verdict:
        added = self.memory(pair, "penstock").get("peak of 10 MB, added")
        return self.judge(
            f"10 MB result, {self.title(pair)}: peak memory above what it was before",
            "at most 4 x the message",
            None if added is None else added / MESSAGE_KIB,
            lambda value: value <= 4,
            lambda value: f"{value:.1f} x",
        )

    def million(self, pair: str) -> Verdict:
        mine = self.memory(pair, "penstock")
        slope, rest = mine.get("KiB per 1,000,000 calls"), mine.get("rest", {}).get("private")
        calls = mine.get("calls", [0])[-1]
        if calls < ENOUGH:
            slope = None
        verdict = self.judge(
            f"memory, {self.title(pair)}: growth over 1,000,000 calls",
            "within 5 % of rest",
            None if slope is None or not rest else slope / rest,
            lambda value: value <= 0.05,
            lambda value: f"{value * 100:+.1f} %" + ("" if calls >= MILLION else f", from {calls:,} calls"),
        )
        if verdict.state in ("met", "missed") and calls < MILLION:
            return Verdict(verdict.promise, verdict.limit, verdict.measured, "needs --million")
        return verdict

    def title(self, pair: str) -> str:
        words = {"http": "HTTP", "stdio": "stdio", "sse": "SSE"}
        front, _, back = pair.partition("-")
        return f"{words[front]} to {words[back]}"

    @staticmethod
    def judge(
        promise: str,
        limit: str,
        value: float | None,
        is_met: Callable[[float], bool],
        tell: Callable[[float], str],
    ) -> Verdict:
        if value is None:
            return Verdict(promise, limit, "", "not measured")
        return Verdict(promise, limit, tell(value), "met" if is_met(value) else "missed")
