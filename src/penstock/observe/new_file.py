"""A file that a command writes: private, new, and gone again when it could not be finished."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from penstock.errors import ConfigError


@contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """The file at `path`, which must not be there yet. Raises ConfigError.

    What fails halfway leaves nothing behind: the next attempt would stop at a file that holds half.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise ConfigError(f"Cannot write {path}", "It is there already; name a new file") from None
    except OSError as why:
        raise ConfigError(f"Cannot write {path}", str(why.strerror or why)) from None
    try:
        with _gone_when_ended(path), os.fdopen(fd, "wb") as file:
            yield file
    except BaseException:
        os.unlink(path)
        raise


@contextmanager
def _gone_when_ended(path: str) -> Iterator[None]:
    """Takes the file away when a signal ends us: commands do not hear of Ctrl-C, it just ends them."""

    def end(number: int, _frame: object) -> None:
        os.unlink(path)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)
