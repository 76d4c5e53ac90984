"""What people read, on stderr and nowhere else."""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Callable

import msgspec

from penstock import limits
from penstock.errors import PenstockError, UpstreamError
from penstock.wire.mcp.replies import one_line

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_STDERR = 2
_PATIENCE = 0.5  # for the last words of a run


class _StderrHandler(logging.Handler):
    """Writes a line to stderr, and would rather lose it than stop or hold up the protocol.

    What a peer does a thousand times is said a hundred times a second, then counted: nobody fills a disk,
    or keeps us busy, with our own words. A line that somebody asked for (`is_wanted`) is not counted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._second = 0
        self._said: dict[str, int] = {}  # in this second, by wording

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "is_wanted", False):
            self._write(record)
            return
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._start_anew()
        wording = str(record.msg)
        count = self._said[wording] = self._said.get(wording, 0) + 1
        if count <= limits.LOG_LINES:
            self._write(record)

    def _start_anew(self) -> None:
        said, self._said = self._said, {}
        for wording, count in said.items():
            if count > limits.LOG_LINES:
                text = f"{count - limits.LOG_LINES} more like this were not written: {wording}"
                self._write(logging.LogRecord("penstock", logging.WARNING, "", 0, "%s", (text,), None))

    def _write(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # a broken log call must not end a session
            line = "penstock: (a message that could not be written)"
        write_stderr(line)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = one_line(record.getMessage())
        if record.exc_info:
            # Set in, and each line by itself: what an error quotes cannot look like a line of ours.
            trace = self.formatException(record.exc_info).split("\n")
            text += "".join(f"\n  {one_line(line)}" for line in trace)
        mark = "warning: " if record.levelno == logging.WARNING else ""
        return f"penstock: {mark}{text}"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "message": _writable(record.getMessage()),
        }
        code = getattr(record, "code", None)  # of a connection that failed
        if code is not None:
            entry["code"] = code
        if record.exc_info:
            entry["traceback"] = _writable(self.formatException(record.exc_info))
        return msgspec.json.encode(entry).decode()


def _writable(text: str) -> str:
    """`text` with half a surrogate pair, which UTF-8 does not have, as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def set_up_log(level: str, form: str) -> None:
    """Sends everything that is said to stderr, from `level` up, as sentences or as JSON."""
    handler = _StderrHandler()
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    log = logging.getLogger("penstock")
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(level.upper())
    # What libraries have to say (asyncio about slow callbacks) goes the same way.
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def say_error(error: PenstockError, form: str = "text") -> None:
    """The two lines that a user reads when something is wrong."""
    if form == "json":
        entry = {"level": "error", "message": error.headline, "detail": error.detail}
        if error.cause:
            entry["cause"] = error.cause
        if isinstance(error, UpstreamError):
            entry["code"] = error.failure
        write_stderr(msgspec.json.encode(entry).decode(), _PATIENCE)
    else:
        write_stderr(f"Error: {error}", _PATIENCE)


def write_stderr(text: str, patience: float = 0.0) -> None:
    """Writes a line to stderr; when nobody reads it within `patience` seconds, the line is lost.

    The descriptor is shared and may block, so it gets no more at a time than a pipe that is ready takes.
    """
    data = (text + "\n").encode("utf-8", "replace")
    try:
        if hasattr(select, "PIPE_BUF"):
            while data and select.select([], [_STDERR], [], patience)[1]:
                data = data[os.write(_STDERR, data[: select.PIPE_BUF]) :]
        else:
            os.write(_STDERR, data)  # Windows, where select takes sockets only
    except OSError:
        pass
