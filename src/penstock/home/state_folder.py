"""Where Penstock keeps what it must remember between runs: only the user may read it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import ConfigError


def state_folder(home: Path, environ: Mapping[str, str]) -> Path:
    """The folder, whether it is there or not."""
    base = environ.get("XDG_STATE_HOME") or str(home / ".local" / "state")
    return Path(base, "penstock")


def make_folder(folder: Path) -> None:
    """Makes the folder, for the user alone. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as why:
        raise ConfigError(f"Cannot use {folder}", why.strerror or str(why)) from None


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """While inside, no other Penstock of this user changes clients' files."""
    import fcntl

    make_folder(folder)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def write_private(path: Path, data: bytes) -> None:
    """Writes a file of our own, whole or not at all, for the user alone."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
