"""A row of a tap. Of a message that was cut, the line tells what can no longer be read from it."""

from __future__ import annotations

from penstock.observe.recording import Line
from penstock.observe.rows import Asked, MessageRow
from penstock.watch.tap_line import TapLine


class CutRow(MessageRow):
    """A row of whose message only the beginning is here."""

    def __init__(self, line: TapLine, asked: Asked | None, client: str) -> None:
        super().__init__(line, asked, client)
        self._cut = line

    @property
    def method(self) -> str:
        """The method; of a response, its request's."""
        return self._cut.m

    @property
    def tool(self) -> str:
        """What is asked for."""
        return self._cut.tool

    @property
    def id(self) -> str:
        """As it was written."""
        return self._cut.id

    @property
    def is_error(self) -> bool:
        """Whether the answer was an error."""
        return self._cut.failed

    @property
    def size(self) -> int:
        """Of the whole message."""
        return self._cut.of


def tap_row(line: Line, asked: Asked | None, client: str) -> MessageRow:
    """The row of a line, of a tap or a recording."""
    if isinstance(line, TapLine) and line.of:
        return CutRow(line, asked, client)
    return MessageRow(line, asked, client)
