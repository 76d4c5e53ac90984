"""Everything that a hub remembers of the traffic, in bounded memory, oldest out."""

from __future__ import annotations

import bisect
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from penstock.observe.filter_words import Filter, compile_filter
from penstock.watch import bounds
from penstock.watch.row import HubRow, MaskedRow


class Found:
    """The rows that a filter finds, kept up to date as rows come, change and go."""

    def __init__(self, filter: Filter, is_masked: bool) -> None:
        self.filter = filter
        self._is_masked = is_masked
        self.seqs: list[int] = []
        self.gone = 0  # how many at the front are no longer there

    def matches(self, row: HubRow) -> bool:
        """Whether the filter finds the row."""
        return self.filter.matches(MaskedRow(row) if self._is_masked else row)

    def look_at(self, row: HubRow) -> None:
        """A row has come, or has changed."""
        is_last = not self.seqs or self.seqs[-1] < row.seq
        place = len(self.seqs) if is_last else bisect.bisect_left(self.seqs, row.seq)
        is_in = not is_last and place < len(self.seqs) and self.seqs[place] == row.seq
        if self.matches(row) is not is_in:
            if is_in:
                del self.seqs[place]
            else:
                self.seqs.insert(place, row.seq)

    def forget_before(self, seq: int) -> None:
        """Rows before this one are gone."""
        if self.seqs and self.seqs[0] < seq:
            del self.seqs[: bisect.bisect_left(self.seqs, seq)]


class Minute:
    """What one minute came to."""

    __slots__ = ("errors", "messages", "ms", "time", "tokens", "verdicts")

    def __init__(self, time: int) -> None:
        self.time = time
        self.messages = 0
        self.errors = 0
        self.tokens = 0
        self.verdicts: dict[str, int] = {}
        self.ms: list[float] = []

    def facts(self) -> dict[str, object]:
        """The minute, for programs and pages."""
        return {
            "t": self.time,
            "messages": self.messages,
            "errors": self.errors,
            "tokens": self.tokens,
            "verdicts": self.verdicts,
            **percentiles(self.ms),
        }


class Store:
    """Rows by number, filters over them, and minutes. `told` hears of each new or changed row."""

    def __init__(self) -> None:
        self.rows: deque[HubRow] = deque()
        self.last = 0
        self._bytes = 0
        self._evicted = 0  # the last row whose bytes were given up
        self._found: OrderedDict[tuple[str, bool], Found] = OrderedDict()
        self._minutes: deque[Minute] = deque(maxlen=24 * 60)
        self.told: list[Callable[[HubRow, bool], None]] = []

    @property
    def bytes_kept(self) -> int:
        """Bytes of messages that are kept."""
        return self._bytes

    @property
    def first(self) -> int:
        """The number of the oldest row."""
        return self.rows[0].seq if self.rows else self.last + 1

    def add(self, row: HubRow) -> None:
        """Takes a new row; its number is the next one."""
        self.last = row.seq
        self.rows.append(row)
        self._bytes += row.bytes_kept
        if len(self.rows) > bounds.ROWS:
            self._bytes -= self.rows.popleft().bytes_kept
            for found in self._found.values():
                found.forget_before(self.first)
        if self._bytes > bounds.ROW_BYTES:
            self._evict()
        for found in self._found.values():
            found.look_at(row)
        self._count(row)
        for tell in self.told:
            tell(row, True)

    def changed(self, row: HubRow) -> None:
        """A request was answered."""
        for found in self._found.values():
            found.look_at(row)
        for tell in self.told:
            tell(row, False)

    def _evict(self) -> None:
        seq = max(self._evicted + 1, self.first)
        while self._bytes > bounds.ROW_BYTES * 9 // 10 and seq < self.last:
            row = self.maybe_row(seq)
            if row is not None:
                self._bytes -= row.evict()
            self._evicted = seq
            seq += 1

    def _count(self, row: HubRow) -> None:
        time = int(row.time // 60) * 60
        if not self._minutes or self._minutes[-1].time < time:
            self._minutes.append(Minute(time))
        minute = self._minutes[-1]
        minute.messages += 1
        minute.tokens += row.tokens
        minute.verdicts[row.verdict] = minute.verdicts.get(row.verdict, 0) + 1
        if row.status == "error":
            minute.errors += 1
        if row.ms is not None and len(minute.ms) < 2_000:
            minute.ms.append(row.ms)

    def maybe_row(self, seq: int) -> HubRow | None:
        """The row with this number, if it is still there."""
        place = seq - self.first
        return self.rows[place] if 0 <= place < len(self.rows) else None

    def found(self, words: str, is_masked: bool) -> Found | None:
        """What a filter finds; None for the empty one, which finds all. Raises FilterFault."""
        if not words.strip():
            return None
        key = (words, is_masked)
        known = self._found.get(key)
        if known is not None:
            self._found.move_to_end(key)
            return known
        found = Found(compile_filter(words), is_masked)
        if not {"since", "until"} & found.filter.fields:  # those mean something else every moment
            self._found[key] = found
            if len(self._found) > bounds.FILTERS:
                self._found.popitem(last=False)
        found.seqs = [row.seq for row in self.rows if found.matches(row)]
        return found

    def page(self, words: str, is_masked: bool, rank: int, limit: int) -> dict[str, object]:
        """Rows that a filter finds, from the one of this rank on; a negative rank counts from the end."""
        found = self.found(words, is_masked)
        matched = len(self.rows) if found is None else len(found.seqs)
        start = max(0, matched + rank) if rank < 0 else min(rank, matched)
        end = min(matched, start + min(limit, bounds.PAGE_ROWS))
        if found is None:
            rows = [self.rows[place] for place in range(start, end)]
        else:
            rows = [row for seq in found.seqs[start:end] if (row := self.maybe_row(seq)) is not None]
        return {
            "total": len(self.rows),
            "matched": matched,
            "rank": start,
            "first": self.first,
            "rows": [row.facts() for row in rows],
        }

    def since(self, seq: int) -> Iterator[HubRow]:
        """Rows after this number."""
        for place in range(max(0, seq + 1 - self.first), len(self.rows)):
            yield self.rows[place]

    def minutes(self, seconds: float) -> list[dict[str, object]]:
        """The minutes of the last so many seconds, counted from the last message."""
        if not self._minutes:
            return []
        since = self._minutes[-1].time - seconds
        return [minute.facts() for minute in self._minutes if minute.time > since]


def percentiles(values: list[float]) -> dict[str, float | None]:
    """p50, p95 and p99."""
    if not values:
        return {"p50": None, "p95": None, "p99": None}
    ordered = sorted(values)
    return {
        f"p{part}": round(ordered[min(len(ordered) - 1, len(ordered) * part // 100)], 1)
        for part in (50, 95, 99)
    }
