"""A child process in a group of its own, which always ends before we do."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import threading

from penstock import limits
from penstock.errors import CannotStart, RequestFailed, UpstreamError
from penstock.net.fd_io import enlarge_pipe
from penstock.net.warden import Warden

OUR_SHORTAGE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN))
"""Failures that say something about this machine and nothing about the command."""


class Child:
    """One spawned command: its pipes, its end."""

    def __init__(
        self,
        command: list[str],
        env: dict[str, str] | None,
        cwd: str | None,
        warden: Warden,
        *,
        is_stderr_heard: bool = False,
    ) -> None:
        """Starts `command`; ConnectFailed when it cannot be started.

        Its stderr is ours, unless it is to be heard: then it is a pipe like its stdout.
        """
        self._loop = asyncio.get_running_loop()
        self._warden = warden
        self.exited: asyncio.Future[int] = self._loop.create_future()
        try:
            words, self.stdin_fd = os.pipe()
        except OSError as why:
            raise _failure(command[0], cwd, why) from None
        try:
            warden.expect(words)  # first: were we killed while it starts, nobody would end the child
            self._process = subprocess.Popen(
                command,
                stdin=words,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if is_stderr_heard else None,
                env=env,
                cwd=cwd,
                bufsize=0,
                process_group=0,
            )
        except OSError as why:
            os.close(self.stdin_fd)
            raise _failure(command[0], cwd, why) from None
        finally:
            os.close(words)
        self.group = self._process.pid
        warden.guard(self.group)
        assert self._process.stdout is not None
        # A descriptor of our own: the object around it would close it behind our back.
        self.stdout_fd = os.dup(self._process.stdout.fileno())
        self._process.stdout.close()
        self.stderr_fd: int | None = None
        if self._process.stderr is not None:
            self.stderr_fd = os.dup(self._process.stderr.fileno())
            self._process.stderr.close()
            os.set_blocking(self.stderr_fd, False)
        for fd in (self.stdin_fd, self.stdout_fd):
            os.set_blocking(fd, False)
            enlarge_pipe(fd)
        self._is_group_gone = False
        self._is_forgotten = False
        self._watch()

    @property
    def how_it_ended(self) -> str:
        """The end of the child in words."""
        if not self.exited.done():
            return "it is still running"
        status = self.exited.result()
        if status < 0:
            try:
                return f"it was ended by {signal.Signals(-status).name}"
            except ValueError:
                return f"it was ended by signal {-status}"
        return f"it exited with status {status}"

    async def stop(
        self, grace: float = limits.CHILD_GRACE_SECONDS, patience: float = limits.CHILD_TERM_SECONDS
    ) -> None:
        """Waits for the child to leave by itself (its stdin is closed), then makes it leave: SIGTERM after
        `grace` seconds, SIGKILL after another `patience`."""
        if not await self._left_within(grace):
            self.signal(signal.SIGTERM)
            if not await self._left_within(patience):
                self.signal(signal.SIGKILL)
                await asyncio.shield(self.exited)

    def kill(self) -> None:
        """Ends the whole group at once."""
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the whole group."""
        if self._is_group_gone:
            return  # its number may belong to somebody else by now
        try:
            os.killpg(self.group, number)
        except (ProcessLookupError, PermissionError):
            pass

    async def _left_within(self, seconds: float) -> bool:
        done, _ = await asyncio.wait({self.exited}, timeout=seconds)
        return bool(done)

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            try:
                handle = os.pidfd_open(self.group)
            except OSError:
                pass
            else:
                self._loop.add_reader(handle, self._on_exit, handle)
                return
        threading.Thread(target=self._wait_in_thread, daemon=True).start()

    def _wait_in_thread(self) -> None:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.group, os.WEXITED | os.WNOWAIT)
        else:
            # macOS before Python 3.13: there is no waiting without reaping. The number of the group stays
            # taken while anybody is left in it.
            self._process.wait()
            try:
                os.killpg(self.group, 0)
            except (ProcessLookupError, PermissionError):
                self._is_group_gone = True
        try:
            self._loop.call_soon_threadsafe(self._on_exit, None)
        except RuntimeError:
            pass  # the loop has ended before the child

    def _on_exit(self, handle: int | None) -> None:
        if handle is not None:
            self._loop.remove_reader(handle)
            os.close(handle)
        # Not reaped yet, so the group's number is still ours. Whoever is left in the group may hold the pipe
        # we read from, and gets a moment to hand over what it has.
        self._loop.call_later(limits.CHILD_LINGER_SECONDS, self.reap)
        if not self.exited.done():
            self.exited.set_result(self._peek_status())

    def _peek_status(self) -> int:
        if self._process.returncode is None and hasattr(os, "waitid"):
            info = os.waitid(os.P_PID, self.group, os.WEXITED | os.WNOWAIT)
            assert info is not None
            return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        return self._process.wait()

    def reap(self) -> None:
        """Ends what is left of the group of a child that has exited, and forgets it."""
        if self.exited.done() and not self._is_forgotten:
            self._is_forgotten = True
            self.signal(signal.SIGKILL)
            self._process.wait()
            self._is_group_gone = True
            self._warden.release(self.group)


def _failure(command: str, cwd: str | None, why: OSError) -> UpstreamError:
    if why.errno in OUR_SHORTAGE:
        return RequestFailed(f"No resources for a process: {os.strerror(why.errno)}")
    return CannotStart(command, _why_not_started(command, cwd, why))


def _why_not_started(command: str, cwd: str | None, why: OSError) -> str:
    if isinstance(why, FileNotFoundError):
        if cwd is not None and why.filename == cwd:
            return f"Directory not found: {cwd}"
        return f"Command not found: {command}"
    if isinstance(why, NotADirectoryError) and cwd is not None and why.filename == cwd:
        return f"Not a directory: {cwd}"
    if isinstance(why, PermissionError):
        return f"Command not executable: {command}"
    return f"Command could not be started: {why.strerror or why}"
