"""The live view in a terminal: the same pages and keys as in the browser, drawn with curses."""

from __future__ import annotations

import asyncio
import contextlib
import curses
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.observe.filter_words import FilterFault
from penstock.watch.hub import Hub
from penstock.watch.instance import Instance
from penstock.watch.logins import Login
from penstock.watch.plain_lines import row_line
from penstock.watch.screens import SCREENS, held_lines, message_lines
from penstock.watch.visible import visible

_NAMES = (
    "Traffic",
    "Held",
    "Sessions",
    "Tools",
    "Rules",
    "Upstreams",
    "History",
    "Log",
    "Alerts",
    "Patterns",
)
_HELP = (
    "0-9 pages  / filter  j k g G move  Enter open  f follow  b breakpoint  a release  e edit  x deny  q quit"
)
_DRAW_SECONDS = 0.1
_PATTERNS = 10  # the page of key 0


def show_terminal(hub: Hub, feed: Callable[[], Awaitable[None]], words: str) -> int:
    """Shows the hub until q is pressed."""

    def within(screen: curses.window) -> int:
        return asyncio.run(_Terminal(hub, screen, words).run(feed))

    try:
        return curses.wrapper(within)
    except KeyboardInterrupt:
        return 0


class _Terminal:
    def __init__(self, hub: Hub, screen: curses.window, words: str) -> None:
        self._hub = hub
        self._screen = screen
        self._words = words
        self._typed: str | None = None  # while a filter, or words, are being typed
        self._typing = ""
        self._page = 1
        self._rank = -1
        self._is_following = True
        self._is_open = False
        self._scroll = 0
        self._held = 0
        self._said = ""
        self._asked = ""  # what the next key would do, once more
        self._login = Login(os.environ.get("USER", "you"), "control", time.monotonic() + 1e9)
        self._is_due = True
        self._drawn = 0.0  # when
        self._tasks: set[asyncio.Task[None]] = set()
        with contextlib.suppress(curses.error):
            curses.curs_set(0)
        screen.nodelay(True)
        screen.keypad(True)
        hub.store.told.append(lambda row, is_new: self._due())
        hub.studies.told.append(self._due)
        hub.told.append(lambda what, instance, facts: self._due())

    def _due(self) -> None:
        self._is_due = True

    async def run(self, feed: Callable[[], Awaitable[None]]) -> int:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), lambda: self._keys(over))
        feeding = asyncio.ensure_future(feed())
        while not over.is_set():
            if feeding.done() and not feeding.cancelled() and feeding.exception() is not None:
                raise feeding.exception()  # type: ignore[misc]
            is_early = self._page == _PATTERNS and time.monotonic() < self._drawn + 1.0  # it counts a lot
            if (self._is_due and not is_early) or self._page == 2:
                self._is_due = False
                self._drawn = time.monotonic()
                self._draw()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _DRAW_SECONDS)
            self._keys(over)  # a resize comes without a byte on stdin
        feeding.cancel()
        loop.remove_reader(sys.stdin.fileno())
        await self._hub.close()
        return 0

    # --- keys --------------------------------------------------------------------------------------------

    def _keys(self, over: asyncio.Event) -> None:
        while True:
            try:
                key = self._screen.get_wch()
            except curses.error:
                return
            self._is_due = True
            if key == curses.KEY_RESIZE:
                curses.update_lines_cols()
                self._screen.clear()
            elif self._typed is not None:
                self._type(key)
            elif key == "q":
                over.set()
                return
            elif isinstance(key, str):
                self._press(key)
            elif key in _ARROWS:
                self._press(_ARROWS[key])

    def _type(self, key: str | int) -> None:
        assert self._typed is not None
        if key in ("\n", "\r"):
            typed, self._typed = self._typed, None
            self._entered(typed)
        elif key == "\x1b":
            self._typed = None
        elif key in (curses.KEY_BACKSPACE, "\x7f", "\b"):
            self._typed = self._typed[:-1]
        elif isinstance(key, str) and key.isprintable():
            self._typed += key

    def _entered(self, typed: str) -> None:
        if self._typing == "filter":
            try:
                self._hub.store.found(typed, False)
            except FilterFault as fault:
                self._said = f"{fault.headline} (column {fault.column})"
                return
            self._words, self._rank, self._is_following, self._said = typed, -1, True, ""
        elif self._typing == "edit":
            self._decide({"action": "edit", "value": typed})
        else:
            self._decide({"action": "deny", "text": typed})

    def _press(self, key: str) -> None:
        asked, self._asked, self._said = self._asked, "", ""
        if key in "1234567890":
            self._page, self._is_open, self._scroll, self._drawn = int(key) or _PATTERNS, False, 0, 0.0
        elif key == "/":
            self._page, self._typing, self._typed = 1, "filter", self._words
        elif key == "?":
            self._said = _HELP
        elif key == "f":
            self._is_following = not self._is_following
        elif key == "b":
            self._set_breakpoint()
        elif key in ("\n", "\r"):
            self._is_open = self._page == 1
            self._scroll = 0
        elif key == "\x1b":
            self._is_open = False
        elif key in "jkgG":
            self._move(key)
        elif self._page == 2 and key in "aex":
            self._act(key, asked)

    def _move(self, key: str) -> None:
        self._drawn = 0.0
        if self._is_open or self._page > 2:
            self._scroll = max(0, self._scroll + {"j": 1, "k": -1, "g": -1 << 20, "G": 20}[key])
        elif self._page == 2:
            self._held = max(0, self._held + (1 if key in "jG" else -1))
        else:
            matched = self._matched()
            rank = self._rank if self._rank >= 0 else matched
            self._rank = {"g": 0, "G": matched - 1}.get(key, rank + (1 if key == "j" else -1))
            self._rank = max(0, min(matched - 1, self._rank))
            self._is_following = key == "G"

    def _act(self, key: str, asked: str) -> None:
        """Asks once more before anything is decided."""
        if self._chosen() is None:
            return
        if key == "e":
            chosen = self._chosen()
            assert chosen is not None
            self._typing, self._typed = "edit", str(chosen[1].get("value", ""))
        elif asked != key:
            self._asked = key
            self._said = f"Press {key} once more to {'release it' if key == 'a' else 'deny it'}"
        elif key == "a":
            self._decide({"action": "release"})
        else:
            self._typing, self._typed = "words for the client", ""

    def _chosen(self) -> tuple[Instance, dict[str, Any]] | None:
        found = [(one, facts) for one in self._hub.instances.values() for facts in one.held.values()]
        self._held = max(0, min(self._held, len(found) - 1))
        return found[self._held] if found else None

    def _decide(self, what: dict[str, Any]) -> None:
        chosen = self._chosen()
        if chosen is None:
            self._said = "It waits no more"
            return
        instance, facts = chosen
        command = {"do": "decide", "id": facts["id"], "sha": facts["sha"], "who": self._login.who}
        self._begin(self._asked_for(instance, {**command, "role": "control", "part": facts["part"], **what}))

    def _set_breakpoint(self) -> None:
        if not self._words.strip():
            self._said = "Type a filter first (/): a breakpoint holds what it finds"
            return
        name = f"t{len(self._hub.breakpoints) + 1}"
        self._hub.breakpoints[name] = self._words
        for instance in self._hub.instances.values():
            command = {"do": "break", "id": name, "filter": self._words}
            self._begin(self._asked_for(instance, command))

    async def _asked_for(self, instance: Instance, command: dict[str, Any]) -> None:
        answer = await instance.ask(command)
        self._said = str(answer.get("message", ""))
        self._is_due = True

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- drawing -----------------------------------------------------------------------------------------

    def _matched(self) -> int:
        found = self._hub.store.found(self._words, False)
        return len(self._hub.store.rows) if found is None else len(found.seqs)

    def _draw(self) -> None:
        height, width = self._screen.getmaxyx()
        self._screen.erase()
        held = sum(len(one.held) for one in self._hub.instances.values())
        names = [f"{number % 10} {name}" for number, name in enumerate(_NAMES, 1)]
        names[1] += f" {held}" if held else ""
        names[self._page - 1] = f"[{names[self._page - 1]}]"
        tabs = "  ".join(names)
        if len(tabs) >= width:  # the page that is shown, and the numbers of the others
            tabs = "  ".join(name if name[0] == "[" or name[-1].isdigit() else name[0] for name in names)
        self._put(0, tabs, width, curses.A_BOLD)
        room = max(1, height - 3)
        for place, (line, is_chosen) in enumerate(self._lines(room, width)):
            self._put(place + 1, line, width, curses.A_REVERSE if is_chosen else 0)
        self._put(height - 2, self._foot(), width, curses.A_DIM)
        last = f"{self._typing}: {self._typed}_" if self._typed is not None else self._said
        self._put(height - 1, last or _HELP, width, 0)
        self._screen.refresh()

    def _put(self, row: int, text: str, width: int, look: int) -> None:
        with contextlib.suppress(curses.error):  # the last cell of a screen cannot be written
            self._screen.addnstr(row, 0, visible(text), max(1, width - 1), look)

    def _foot(self) -> str:
        total = len(self._hub.store.rows)
        found = f"{self._matched():,} of {total:,}" if self._words else f"{total:,} messages"
        follow = "follow" if self._is_following else "stopped"
        return f"{found}  {follow}  {self._proxies()}filter: {self._words or 'none'}"

    def _proxies(self) -> str:
        """Whether those are there whose messages are shown; one that ended well is not missed."""
        known = [one for one in self._hub.instances.values() if not one.has_ended]
        gone = [one.header.name for one in known if not one.is_connected]
        if not gone:
            return ""
        names = ", ".join(dict.fromkeys(gone))
        return f"DISCONNECTED from {names}  " if len(gone) == len(known) else f"without {names}  "

    def _lines(self, room: int, width: int) -> list[tuple[str, bool]]:
        if self._page == 1:
            return self._traffic(room, width)
        if self._page == 2:
            chosen = self._chosen()
            lines = held_lines(self._hub, chosen[1] if chosen is not None else None)
        else:
            lines = SCREENS[self._page](self._hub)
        self._scroll = max(0, min(self._scroll, len(lines) - room))
        return [(line, False) for line in lines[self._scroll : self._scroll + room]]

    def _traffic(self, room: int, width: int) -> list[tuple[str, bool]]:
        matched = self._matched()
        if self._is_following:
            self._rank = matched - 1
        start = max(0, min(self._rank - room // 2, matched - room))
        page = self._hub.store.page(self._words, False, start, room)
        rows = [self._hub.store.maybe_row(int(facts["seq"])) for facts in page["rows"]]  # type: ignore[attr-defined]
        chosen = self._rank - start
        if self._is_open and 0 <= chosen < len(rows) and (row := rows[chosen]) is not None:
            lines = message_lines(row, self._login, width)
            self._scroll = max(0, min(self._scroll, len(lines) - 1))
            return [(line, False) for line in lines[self._scroll : self._scroll + room]]
        if not rows:
            return [
                (line, False)
                for line in ("", "Nothing has come by yet.", "penstock --dashboard auto -- COMMAND")
            ]
        return [(row_line(row, width), place == chosen) for place, row in enumerate(rows) if row is not None]


_ARROWS = {
    curses.KEY_DOWN: "j",
    curses.KEY_UP: "k",
    curses.KEY_HOME: "g",
    curses.KEY_END: "G",
    curses.KEY_ENTER: "\n",
}
