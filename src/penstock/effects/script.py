"""Asking a program of the user's what shall become of a message.

The message goes to its stdin as JSON, the verdict comes from its stdout as JSON, and it must exit with
status 0: anything else is no verdict. It is started from a list of words, never by a shell, and nothing of a
message ever stands among them, so that none can be read as an option or a command. It has a process group
of its own, of which nothing is left when the verdict is in, or when the time is over. It does not get our
environment, which may hold secrets, but a short list of names and what the rule adds.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

from penstock import limits
from penstock.effects.turns import Shares, Turns
from penstock.effects.verdict_json import NoVerdict, read_verdict
from penstock.errors import ConnectFailed, EffectFailed
from penstock.net.child import Child
from penstock.net.fd_io import Reader, Writer
from penstock.net.warden import Warden
from penstock.policy.rules.effect_contract import ALLOWED, EffectVerdict, ScriptSpec
from penstock.wire.mcp.replies import one_line

log = logging.getLogger("penstock")

PASSED_ON = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""What a script gets of our environment."""


class Scripts:
    """Runs scripts, a few at a time."""

    def __init__(
        self,
        warden: Warden,
        *,
        environ: Mapping[str, str] | None = None,
        at_once: int = limits.SCRIPTS,
        most_waiting: int = limits.SCRIPTS_WAITING,
    ) -> None:
        """`warden` sees to it that no script outlives us; `environ` is ours unless given."""
        self._warden = warden
        self._environ = os.environ if environ is None else environ
        self._turns = Turns(at_once)
        self._waiting = Shares(most_waiting)
        self._running: set[_Run] = set()
        self._is_closed = False

    @property
    def running_count(self) -> int:
        """Scripts that run now."""
        return len(self._running)

    async def run(self, script: ScriptSpec, body: bytes, sender: str = "") -> EffectVerdict:
        """What `script` decides about the message in `body`; EffectFailed when that is not known in time.

        Waiting for a turn counts as well: whoever asks has to get an answer by then.
        """
        what = f"The script {one_line(os.path.basename(script.argv[0]))}"
        if not self._waiting.take(sender):
            raise EffectFailed(what, f"{self._waiting.held_count} messages are waiting for scripts already")
        try:
            async with asyncio.timeout(script.timeout):
                await self._turns.take(sender)
                try:
                    status, output = await self._run(script, body, what)
                finally:
                    self._turns.give_back(sender)
        except TimeoutError:
            raise EffectFailed(what, f"Not done after {round(script.timeout * 1000)}ms") from None
        finally:
            self._waiting.give_back(sender)
        if status != 0:
            how = f"exited with status {status}" if status > 0 else f"was ended by signal {-status}"
            raise EffectFailed(what, f"It {how}")
        if not output.strip() and not script.needs_verdict:
            return ALLOWED
        try:
            return read_verdict(output)
        except NoVerdict as why:
            raise EffectFailed(what, f"Not understood: {why}") from None

    async def close(self) -> None:
        """Ends every script at once, with all its own children."""
        self._is_closed = True
        runs = tuple(self._running)
        for run in runs:
            run.end()
        if runs:
            await asyncio.wait({run.child.exited for run in runs}, timeout=limits.SCRIPT_KILL_SECONDS)

    async def _run(self, script: ScriptSpec, body: bytes, what: str) -> tuple[int, bytes]:
        if self._is_closed:
            raise EffectFailed(what, "It was not started: we are closing")
        env = {name: self._environ[name] for name in PASSED_ON if name in self._environ}
        env.update(script.env)
        try:
            child = Child(list(script.argv), env, script.cwd, self._warden, is_stderr_heard=True)
        except (ConnectFailed, ValueError) as why:
            raise EffectFailed(what, why.detail if isinstance(why, ConnectFailed) else str(why)) from None
        run = _Run(child, body, what)
        self._running.add(run)
        try:
            return await run.done
        finally:
            await run.finish()
            self._running.discard(run)


class _Run:
    """One running script: its message goes in, its verdict and its words come out."""

    def __init__(self, child: Child, body: bytes, what: str) -> None:
        assert child.stderr_fd is not None
        self.child = child
        self.done: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._what = what
        self._output = bytearray()
        self._said = bytearray()
        self._writer = Writer(child.stdin_fd, _nothing, _nothing, _nothing)
        self._reader = Reader(child.stdout_fd, self._on_output, _nothing)
        self._listener = Reader(child.stderr_fd, self._on_said, _nothing)
        child.exited.add_done_callback(self._on_exit)
        self._writer.write(body)
        self._writer.close()

    def end(self) -> None:
        """Kills the whole group, as long as its number is ours: once reaped, it may be somebody else's."""
        if not self.child.exited.done():
            self.child.kill()

    async def finish(self) -> None:
        """Leaves nothing running and nothing open."""
        if not self.child.exited.done():
            self.end()
            await asyncio.wait({self.child.exited}, timeout=limits.SCRIPT_KILL_SECONDS)
        self._writer.abort()
        self._reader.close()
        self._listener.close()
        for line in bytes(self._said).decode("utf-8", "replace").splitlines():
            if line.strip():
                log.info("%s says: %s", self._what, one_line(line))

    def _on_output(self, data: bytes) -> None:
        self._output += data
        if len(self._output) > limits.VERDICT_BYTES:
            self._reader.close()
            self.end()
            if not self.done.done():
                detail = f"It wrote more than {limits.VERDICT_BYTES} bytes"
                self.done.set_exception(EffectFailed(self._what, detail))

    def _on_said(self, data: bytes) -> None:
        room = limits.SCRIPT_LOG_BYTES - len(self._said)
        if room > 0:
            self._said += data[:room]
        elif self.child.exited.done():  # somebody who left the group may go on for ever
            self._listener.close()

    def _on_exit(self, exited: asyncio.Future[int]) -> None:
        # The group's number is ours until the child is reaped, so whoever is left in it goes first.
        self.child.kill()
        self._reader.read_what_is_there()
        self._listener.read_what_is_there()
        self.child.reap()
        if not self.done.done():
            self.done.set_result((exited.result(), bytes(self._output)))


def _nothing() -> None:
    pass
