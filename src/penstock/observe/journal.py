"""A file that is only ever appended to: private, locked, rotated, and cut back to whole lines.

Recording and audit both write through it. It says who may read the file, who else writes it, where it ends
after a crash, and what is done when somebody moves it away.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import time
from collections.abc import Sequence

from penstock.errors import ConfigError

log = logging.getLogger("penstock")

PRIVATE = 0o600
_TAIL_BYTES = 1 << 20
_MOST_PIECES = 512  # writev takes 1,024 on Linux


class Journal:
    """One open file. Raises ConfigError when it cannot be used; writing raises OSError."""

    def __init__(self, path: str, noun: str, mode: int = PRIVATE) -> None:
        """`noun` says in what people read which option it is: recording or audit."""
        self._noun = noun
        self._mode = mode
        self.path = path
        self.size = 0
        self._fd = -1
        self.torn_bytes = 0  # of a line that a crash left half written
        self._inode = (0, 0)
        self._looked = time.monotonic()
        self._open_first()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written to it yet."""
        return self.size == 0

    # --- opening -------------------------------------------------------------------------------------------

    def _open_first(self) -> None:
        try:
            if self._open(self.path):
                return
            base, dot, ending = self.path.rpartition(".")
            own = f"{base}-{os.getpid()}.{ending}" if dot else f"{self.path}-{os.getpid()}"
            log.warning("Another penstock writes %s; this one writes %s.", self.path, own)
            self.path = own
            if not self._open(own):
                raise ConfigError(f"Cannot write the {self._noun}: {own}", "Another process has locked it")
        except OSError as why:
            raise ConfigError(
                f"Cannot write the {self._noun}: {self.path}", str(why.strerror or why)
            ) from None

    def _open(self, path: str) -> bool:
        """Opens and locks the file; False when somebody else has locked it."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._refuse_special(path)
        fd = os.open(path, flags, self._mode)
        try:
            found = os.fstat(fd)
            self._refuse_kind(found.st_mode, path)
            if stat.S_IMODE(found.st_mode) & ~(self._mode | 0o100) & 0o077:
                raise ConfigError(
                    f"Cannot write the {self._noun}: {path}",
                    f"Others may read or write it (mode {stat.S_IMODE(found.st_mode):04o}); "
                    f"chmod {self._mode:o} it",
                )
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return False
        except BaseException:
            if fd >= 0:
                try:
                    os.close(fd)
                except OSError:
                    pass
            raise
        self._fd, self._inode, self.size = fd, (found.st_dev, found.st_ino), found.st_size
        self._cut_torn_tail()
        return True

    def _refuse_special(self, path: str) -> None:
        # Opening a FIFO or a device may already do something; so it is looked at first as well.
        try:
            self._refuse_kind(os.lstat(path).st_mode, path)
        except FileNotFoundError:
            pass

    def _refuse_kind(self, mode: int, path: str) -> None:
        if not stat.S_ISREG(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "no ordinary file"
            raise ConfigError(f"Cannot write the {self._noun}: {path}", f"It is {kind}")

    def _cut_torn_tail(self) -> None:
        """Cuts off what a crash left of a line."""
        end, self.torn_bytes = self.size, 0
        while end > 0:
            start = max(0, end - _TAIL_BYTES)
            found = os.pread(self._fd, end - start, start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < self.size:
            self.torn_bytes = self.size - end
            os.ftruncate(self._fd, end)
            log.warning("%s: cut %d bytes of a line that was not whole.", self.path, self.torn_bytes)
            self.size = end

    # --- what is in it --------------------------------------------------------------------------------------

    def last_lines(self) -> list[bytes]:
        """Its last lines, newest first: as many as stand in the last MiB, and one at least."""
        reach = _TAIL_BYTES
        while True:
            start = max(0, self.size - reach)
            data = os.pread(self._fd, self.size - start, start)
            lines = data.split(b"\n")
            if start == 0 or len(lines) > 2:
                return [line + b"\n" for line in reversed(lines if start == 0 else lines[1:]) if line]
            reach *= 8

    def rotated(self) -> list[tuple[int, str]]:
        """The files that were rotated away, oldest first, each with the number that it begins with."""
        return rotated_files(self.path)

    # --- writing --------------------------------------------------------------------------------------------

    def write(self, pieces: Sequence[bytes]) -> None:
        """Appends all of it or nothing: what was written of it is cut off again. Raises OSError."""
        self._follow_move()
        try:
            for start in range(0, len(pieces), _MOST_PIECES):
                self._write_all(list(pieces[start : start + _MOST_PIECES]))
        except OSError:
            self._cut_back()
            raise
        self.size = os.fstat(self._fd).st_size

    def _write_all(self, pieces: list[bytes]) -> None:
        wanted = sum(map(len, pieces))
        written = os.writev(self._fd, pieces)
        if written < wanted:
            rest = memoryview(b"".join(pieces))[written:]
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            pass

    def sync(self) -> None:
        """Waits until the disk has it."""
        os.fdatasync(self._fd)

    def _follow_move(self) -> None:
        """Begins a new file where somebody (logrotate) has moved ours away; looks once a second."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        try:
            found = os.stat(self.path, follow_symlinks=False)
            is_ours = (found.st_dev, found.st_ino) == self._inode
        except FileNotFoundError:
            is_ours = False
        if is_ours:
            return
        old = self._fd
        try:
            if self._open(self.path):
                os.close(old)
                log.info("%s was moved away; a new one is written.", self.path)
        except ConfigError as why:
            raise OSError(why.detail) from None

    def rotate(self, first: int) -> str:
        """Renames the file to NAME.FIRST.jsonl and begins a new one. Gives its new name."""
        base, ending = _split(self.path)
        target = f"{base}.{first}{ending}"
        os.rename(self.path, target)
        old = self._fd
        try:
            if not self._open(self.path):
                raise OSError(f"another process has locked {self.path}")
        except ConfigError as why:
            raise OSError(why.detail) from None
        os.close(old)
        return target

    def close(self) -> None:
        """Lets go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def rotated_files(path: str) -> list[tuple[int, str]]:
    """The rotated files that belong to `path`, oldest first, each with the number that it begins with."""
    base, ending = _split(path)
    folder, name = os.path.split(base)
    pattern = re.compile(re.escape(name) + r"\.([0-9]+)" + re.escape(ending)).fullmatch
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return []
    found = [(int(match[1]), os.path.join(folder, one)) for one in names if (match := pattern(one))]
    return sorted(found)


def _split(path: str) -> tuple[str, str]:
    base, dot, ending = path.rpartition(".")
    return (base, f".{ending}") if dot and "/" not in ending else (path, ".jsonl")
