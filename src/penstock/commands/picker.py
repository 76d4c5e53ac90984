"""Asking somebody at a terminal which tools to hide: a screen with a running total, or numbered lines."""

from __future__ import annotations

import os
import sys
from typing import Any

from penstock.home.tool_choice import Row, ToolChoice
from penstock.wire.mcp.replies import printable

_KEYS = "space hides or shows   / search   a all   r what is not read-only   enter done   q leave"


def pick(choice: ToolChoice, is_plain: bool) -> bool:
    """Lets somebody choose; whether they went through with it."""
    if is_plain or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return _pick_by_lines(choice)
    try:
        import curses
    except ImportError:  # a Python without it
        return _pick_by_lines(choice)
    picked: bool = curses.wrapper(lambda screen: _Screen(screen, choice, curses).run())
    return picked


def line_of(choice: ToolChoice, row: Row, width: int) -> str:
    """One tool in one line."""
    box = "[ ]" if row.name in choice.hidden else "[x]"
    return f"{box} {row.tokens:>6,} {row.mark} {printable(row.name)}  {row.description}"[: max(10, width)]


# --- numbered lines ----------------------------------------------------------------------------------------


def _pick_by_lines(choice: ToolChoice) -> bool:
    while True:
        for number, row in enumerate(choice.rows, 1):
            sys.stderr.write(f"{number:>4} {line_of(choice, row, 100)}\n")
        sys.stderr.write(
            f"{choice.summary}\nNumbers or 3-7 to hide or show, a, r, /word, q; empty when done: "
        )
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line or line.strip() == "q":
            return False
        if not line.strip():
            return True
        for word in line.replace(",", " ").split():
            _obey(choice, word)


def _obey(choice: ToolChoice, word: str) -> None:
    if word == "a":
        choice.toggle_all()
    elif word == "r":
        choice.hide_writers()
    elif word.startswith("/"):
        choice.search = word[1:]
        choice.toggle_all()
        choice.search = ""
    else:
        first, _, last = word.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            for number in range(int(first), min(int(last or first), len(choice.rows)) + 1):
                if number >= 1:
                    choice.toggle(choice.rows[number - 1])


# --- a screen ----------------------------------------------------------------------------------------------


class _Screen:
    def __init__(self, screen: Any, choice: ToolChoice, curses: Any) -> None:
        self._screen, self._choice, self._curses = screen, choice, curses
        self._at = self._top = 0
        self._is_searching = False

    def run(self) -> bool:
        """Until somebody is done; whether they want it."""
        try:
            self._curses.curs_set(0)
        except self._curses.error:
            pass  # a terminal that cannot
        while True:
            self._draw()
            key = self._screen.getch()
            if self._is_searching:
                self._search(key)
            elif key in (ord("q"), 27):
                return False
            elif key in (10, 13, self._curses.KEY_ENTER):
                return True
            else:
                self._obey(key)

    def _obey(self, key: int) -> None:
        shown, curses = self._choice.shown, self._curses
        page = max(1, self._screen.getmaxyx()[0] - 3)
        steps = {curses.KEY_UP: -1, ord("k"): -1, curses.KEY_DOWN: 1, ord("j"): 1}
        steps |= {curses.KEY_PPAGE: -page, curses.KEY_NPAGE: page}
        if key == ord("/"):
            self._is_searching, self._choice.search = True, ""
        elif key == ord("a"):
            self._choice.toggle_all()
        elif key == ord("r"):
            self._choice.hide_writers()
        elif key == ord(" ") and shown:
            self._choice.toggle(shown[min(self._at, len(shown) - 1)])
            self._at = min(self._at + 1, len(shown) - 1)
        elif key in steps:
            self._at = max(0, min(self._at + steps[key], len(shown) - 1))

    def _search(self, key: int) -> None:
        if key in (10, 13, 27, self._curses.KEY_ENTER):
            self._is_searching = False
            if key == 27:
                self._choice.search = ""
        elif key in (8, 127, self._curses.KEY_BACKSPACE):
            self._choice.search = self._choice.search[:-1]
        elif 32 <= key < 127:
            self._choice.search += chr(key)
        self._at = self._top = 0

    def _draw(self) -> None:
        height, width = self._screen.getmaxyx()
        room = max(1, height - 2)
        shown = self._choice.shown
        self._at = max(0, min(self._at, len(shown) - 1))
        self._top = max(min(self._top, self._at), self._at - room + 1)
        self._screen.erase()
        for line, row in enumerate(shown[self._top : self._top + room]):
            style = self._curses.A_REVERSE if self._top + line == self._at else self._curses.A_NORMAL
            self._put(line, line_of(self._choice, row, width - 1), style)
        foot = self._choice.summary
        if self._is_searching or self._choice.search:
            foot += f"   /{self._choice.search}"
        self._put(height - 2, foot[: width - 1], self._curses.A_BOLD)
        self._put(height - 1, _KEYS[: width - 1], self._curses.A_NORMAL)
        self._screen.refresh()

    def _put(self, line: int, text: str, style: int) -> None:
        try:
            self._screen.addstr(line, 0, text, style)
        except self._curses.error:
            pass  # a window too small for it
