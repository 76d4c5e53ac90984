"""What pages are told as it happens: server-sent events, at most ten a second, however much there is."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from penstock.net.http_exchange import Reply
from penstock.watch import bounds
from penstock.watch.logins import Login
from penstock.watch.row import HubRow
from penstock.watch.store import Store

_encode = msgspec.json.Encoder().encode
_EVENT_BYTES = 256 * 1024
_TICK_SECONDS = 1.0
_MOST_CHANGES = 500


class EventStream:
    """One page that listens."""

    def __init__(
        self, reply: Reply, store: Store, epoch: str, login: Login, words: str, after: int, only_held: bool
    ) -> None:
        """`after` is the last row that the page has. Raises FilterFault."""
        self._reply = reply
        self._store = store
        self._epoch = epoch
        self.login = login
        self._words = words
        self._only_held = only_held
        self._is_masked = not login.may("approve")
        self._found = store.found(words, self._is_masked)
        self._last = after
        self._changes: dict[int, None] = {}
        self._notes: list[tuple[str, dict[str, Any]]] = []
        self._ticked = 0.0
        self.is_over = False
        self._sent = 0

    def begin(self, hello: dict[str, Any]) -> None:
        """Sends the head and the first event."""
        self._event("hello", hello)

    def saw(self, row: HubRow, is_new: bool) -> None:
        """A row has come, or has changed."""
        if not is_new and not self._only_held and row.seq <= self._last:
            if len(self._changes) >= _MOST_CHANGES:
                self._changes.pop(next(iter(self._changes)))
            self._changes[row.seq] = None

    def note(self, what: str, facts: dict[str, Any]) -> None:
        """Something else has happened."""
        if len(self._notes) < 1_000:
            self._notes.append((what, facts))

    def flush(self) -> None:
        """Sends what there is, unless the page does not read."""
        if self._reply.is_gone or self._reply.is_finished:
            self.is_over = True
            return
        if self._reply.is_full:
            return
        notes, self._notes = self._notes, []
        for what, facts in notes:
            self._event(what, facts)
        if self._only_held:
            self._last = self._store.last
        elif self._store.last > self._last:
            self._send_rows()
        if self._changes:
            self._send_changes()
        now = time.monotonic()
        if now - self._ticked >= _TICK_SECONDS:
            self._ticked = now
            self._event("tick", {"t": time.time(), **self._counts()})

    def _counts(self) -> dict[str, Any]:
        found = self._found
        if found is not None and {"since", "until"} & found.filter.fields:
            found = self._found = self._store.found(self._words, self._is_masked)
        total = len(self._store.rows)
        return {"total": total, "matched": total if found is None else len(found.seqs)}

    def _send_rows(self) -> None:
        """The newest rows, and how many were left out: nobody reads more in a tenth of a second."""
        new = [
            row for row in self._store.since(self._last) if self._found is None or self._found.matches(row)
        ]
        missed = max(0, self._store.first - 1 - self._last)
        shown = new[-bounds.EVENT_ROWS :]
        self._last = self._store.last
        facts = {"rows": [row.facts() for row in shown], "skipped": len(new) - len(shown), **self._counts()}
        self._event("rows", facts)
        if missed:
            self._event("gap", {"count": missed})

    def _send_changes(self) -> None:
        changes, self._changes = self._changes, {}
        rows = [row for seq in changes if (row := self._store.maybe_row(seq)) is not None]
        self._event("change", {"rows": [row.facts() for row in rows[-bounds.EVENT_ROWS :]], **self._counts()})

    def _event(self, what: str, facts: dict[str, Any]) -> None:
        data = _encode(facts)
        if len(data) > _EVENT_BYTES:
            data = _encode({"too_large": len(data)})
        head = f"id: {self._epoch}.{self._last}\nevent: {what}\ndata: ".encode()
        self._reply.write(head + data + b"\n\n")

    def end(self) -> None:
        """Says good-bye."""
        if not self._reply.is_gone and not self._reply.is_finished:
            self._event("bye", {})
            self._reply.finish()
        self.is_over = True


class EventStreams:
    """All pages that listen."""

    def __init__(self, store: Store) -> None:
        self.streams: list[EventStream] = []
        self._timer: asyncio.TimerHandle | None = None
        store.told.append(self._saw)

    def add(self, stream: EventStream) -> None:
        """One more."""
        stream.login.streams += 1
        self.streams.append(stream)
        self._flush()

    def _saw(self, row: HubRow, is_new: bool) -> None:
        for stream in self.streams:
            stream.saw(row, is_new)

    def note(self, what: str, facts: dict[str, Any]) -> None:
        """Tells all of them."""
        for stream in self.streams:
            stream.note(what, facts)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for stream in list(self.streams):
            stream.flush()
            if stream.is_over:
                self.streams.remove(stream)
                stream.login.streams -= 1
        if self.streams:
            self._timer = asyncio.get_running_loop().call_later(bounds.EVENT_SECONDS, self._flush)

    def end(self) -> None:
        """The hub ends."""
        for stream in self.streams:
            stream.end()
