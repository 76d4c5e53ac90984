"""A file that a command writes: private, new, and gone again when it could not be finished."""

from __future__ import annotations

import os
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
    except OSError as why:
        raise ConfigError(f"Cannot write {path}", str(why.strerror or why)) from None
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
    except BaseException:
        os.unlink(path)
        raise
