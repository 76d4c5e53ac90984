"""Seeing to it that no child outlives us, however we die.

A shell waits on a pipe that only we hold open. While we live, it is told which process groups are ours;
when the pipe ends without a farewell, we are dead, and it ends those groups. A parent-death signal would
reach the direct child only, and only on Linux; commands like npx put the server one level deeper
(docs/decisions/0004-a-warden-for-the-children.md).
"""

from __future__ import annotations

import os
import subprocess

_SCRIPT = """
trap '' INT TERM HUP
groups=' '
expected=0
while read -r sign group; do
    if [ "$sign" = '?' ]; then
        expected=$group
        continue
    fi
    [ "$sign" = + ] && expected=0
    kept=' '
    for one in $groups; do
        [ "$one" = "$group" ] || kept="$kept$one "
    done
    groups=$kept
    [ "$sign" = + ] && groups="$groups$group "
done
if [ "$expected" != 0 ]; then
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/fd/0")" = "pipe:[$expected]" ] && groups="$groups${process#/proc/} "
    done
fi
[ "$groups" = ' ' ] && exit 0
for group in $groups; do kill -s TERM -- "-$group"; done
sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class Warden:
    """The shell that outlives us, if it comes to that."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def stand_by(self) -> None:
        """Makes sure that the shell runs before there is anybody to guard."""
        if self._process is None:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                bufsize=0,
            )

    def expect(self, stdin: int) -> None:
        """Tells of a child to come, which will have this pipe for its stdin.

        Were we killed between its start and `guard`, the shell would know it by that, where there is /proc.
        The child holds our end of the shell's pipe until it is the command, so it can be found by then.
        """
        self._tell(b"? %d\n" % os.fstat(stdin).st_ino)

    def guard(self, group: int) -> None:
        """From now on, `group` dies with us."""
        self._tell(b"+ %d\n" % group)

    def release(self, group: int) -> None:
        """`group` is gone; its number may soon belong to somebody else."""
        self._tell(b"- %d\n" % group)

    def dismiss(self) -> None:
        """Ends the shell; nothing is guarded any more."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _tell(self, line: bytes) -> None:
        self.stand_by()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), line)
        except OSError:
            # Somebody killed the shell. The children still see the end of their stdin when we die.
            pass
