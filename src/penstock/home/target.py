"""A client's file on disk: read once, replaced whole, or left alone.

Whoever is killed in the middle leaves the old file or the new one, never half of either: the new bytes go
into a file beside it, which then takes its name.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from penstock import limits
from penstock.errors import ConfigError

_TEMPORARY = ".penstock-"


class Target:
    """The file behind a path, symbolic links followed."""

    def __init__(self, path: Path) -> None:
        self.shown = path
        self.path = Path(os.path.realpath(path))

    def read(self) -> bytes:
        """Its bytes. Raises ConfigError."""
        try:
            with open(self.path, "rb") as file:
                return file.read(limits.CLIENT_FILE_BYTES + 1)
        except OSError as why:
            raise ConfigError(f"Cannot read {self.shown}", why.strerror or str(why)) from None

    def refuse_unfit(self) -> None:
        """Raises ConfigError for what cannot be replaced without harm."""
        status = os.stat(self.path)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{self.shown} is no plain file", "Nothing was written")
        if status.st_nlink > 1:
            raise ConfigError(
                f"{self.shown} has several hard links", "Replacing it would part them; nothing was written"
            )

    def replace(self, data: bytes) -> None:
        """Puts `data` in its place, with the same mode and owner. Raises ConfigError."""
        try:
            self._replace(data)
        except OSError as why:
            raise ConfigError(
                f"Cannot write {self.shown}", f"{why.strerror or why}; the file is as it was"
            ) from None
        if self.read() != data:
            raise ConfigError(f"{self.shown} is not what was written", "Somebody else writes it right now")

    def _replace(self, data: bytes) -> None:
        status = os.stat(self.path)
        folder, prefix = self.path.parent, f".{self.path.name}{_TEMPORARY}"
        for left in folder.glob(f"{prefix}*"):  # of somebody who was killed; we hold the lock
            left.unlink(missing_ok=True)
        temporary = folder / f"{prefix}{os.getpid()}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        folder_fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(folder_fd)
        finally:
            os.close(folder_fd)


def digest(data: bytes) -> str:
    """A name for what is in a file."""
    return hashlib.sha256(data).hexdigest()


def token_of(path: Path, before: bytes, after: bytes) -> str:
    """What stands for one exact change: --expect holds a later run to it."""
    return digest("\0".join((str(path), digest(before), digest(after))).encode())[:16]
