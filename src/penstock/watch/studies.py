"""Longer work over messages: alerts, suggested rules, variants.

Each is Penstock's own command in a process of its own, so that the hub goes on answering; nothing that it
finds is put in force.

Recordings are read where they are. What came live is handed over in memory that has no name, never on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.observe.progress import ASKED
from penstock.observe.recording import FORMAT, Header, header_line, member_of
from penstock.watch import bounds
from penstock.watch.row import HubRow
from penstock.watch.store import Store

log = logging.getLogger("penstock")

VERBS = {"alerts": "anomalies", "suggestions": "suggest", "variants": "variants"}
_FOUND = (0, 3)  # exit codes: done, and done with something found
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Study:
    """One command: whether it runs, how far it is, and what it has found."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "idle"  # running, done, failed, stopped
        self.progress: dict[str, Any] = {}
        self.result: Any = None
        self.said: deque[str] = deque(maxlen=20)  # what it says to people
        self.messages = 0  # of those that came live
        self.ended = 0.0
        self.process: asyncio.subprocess.Process | None = None

    def facts(self) -> dict[str, object]:
        """How it stands, for programs and pages."""
        return {
            "name": self.name,
            "state": self.state,
            "progress": self.progress,
            "said": list(self.said),
            "messages": self.messages,
            "ended": self.ended,
        }


class Studies:
    """What can be found out, over recordings or over what the store keeps."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.files: list[str] = []
        self.baseline = ""
        self.budget = ""
        self.config = ""
        self.all = {name: Study(name) for name in VERBS}
        self._tasks: set[asyncio.Task[None]] = set()
        self.told: list[Callable[[], None]] = []  # hear that one has come further, or has ended

    def start(self, name: str, config: str = "") -> Study:
        """Begins one, unless it runs already."""
        study = self.all[name]
        if study.state != "running":
            study.state, study.progress, study.result = "running", {}, None
            study.said.clear()
            task = asyncio.get_running_loop().create_task(self._run(study, self.config or config))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return study

    def stop(self, name: str) -> Study:
        """Ends one that runs."""
        study = self.all[name]
        if study.state == "running":
            study.state = "stopped"
            if study.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    study.process.terminate()
        return study

    def close(self) -> None:
        """Ends all."""
        for name in self.all:
            self.stop(name)

    def place(self, index: int, session: str = "") -> tuple[str, int]:
        """Which file and message is meant by a number that a command has printed."""
        number = session.rpartition("#")[2] if "#" in session else "0"
        file = int(number) if number.isdecimal() else 0
        return (self.files[file] if file < len(self.files) else ""), index

    async def _run(self, study: Study, config: str) -> None:
        try:
            await self._run_command(study, config)
        except OSError as why:
            study.state = "failed"
            study.said.append(f"It could not be started: {why.strerror or why}")
        study.ended = time.time()
        study.process = None
        self._tell()

    def _tell(self) -> None:
        for tell in self.told:
            tell()

    async def _run_command(self, study: Study, config: str) -> None:
        words = [sys.executable, "-m", "penstock", VERBS[study.name], "--format", "json"]
        words += ["--baseline", self.baseline, "--budget", self.budget] if study.name == "alerts" else []
        words += ["--config", config] if study.name == "variants" else []
        files, kept = self.files, -1
        if not files:
            if sys.platform == "linux":
                kept = os.memfd_create("penstock")
                files = [f"/proc/self/fd/{kept}"]
            else:
                study.state = "failed"
                study.said.append("On this system it is found out from recordings: penstock watch FILE")
                return
        try:
            if kept >= 0:
                await self._write_kept(study, kept)
            process = study.process = await asyncio.create_subprocess_exec(
                *words,
                "--",
                *files,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONSAFEPATH": "1", ASKED: "json"},
                pass_fds=() if kept < 0 else (kept,),
                start_new_session=True,
                limit=bounds.STUDY_BYTES,
            )
        finally:
            if kept >= 0:
                os.close(kept)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 10)  # traffic comes first
        if study.state != "running":
            process.terminate()  # somebody was faster than the system
        assert process.stdout is not None and process.stderr is not None  # noqa: PT018
        out, _ = await asyncio.gather(self._take(study, process.stdout), self._listen(study, process.stderr))
        code = await process.wait()
        if study.state == "running":
            self._finish(study, code, out)

    async def _take(self, study: Study, stream: asyncio.StreamReader) -> bytes:
        out = b""
        while part := await stream.read(65_536):
            out += part
            if len(out) > bounds.STUDY_BYTES:
                study.said.append("It has found more than can be shown; use the command itself")
                self.stop(study.name)
                study.state = "failed"
                return b""
        return out

    async def _listen(self, study: Study, stream: asyncio.StreamReader) -> None:
        """What it says: how far it is, and sentences."""
        while data := await stream.readline():
            try:
                facts = msgspec.json.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                facts = None
            if isinstance(facts, dict) and "progress" in facts:
                study.progress = facts
                self._tell()
            elif text := data.decode("utf-8", "replace").strip():
                study.said.append(text[:1_000])

    def _finish(self, study: Study, code: int, out: bytes) -> None:
        try:
            if code not in _FOUND:
                raise ValueError(f"exit {code}")
            is_lines = study.name == "alerts"  # an object a line, as they are found
            study.result = list(map(msgspec.json.decode, out.splitlines())) if is_lines else _decode(out)
            study.state = "done"
        except ValueError as why:
            log.debug("%s: %s", study.name, why)
            study.state = "failed"

    # --- what came live ------------------------------------------------------------------------------------

    async def _write_kept(self, study: Study, kept: int) -> None:
        """The messages that are kept whole, as a recording in memory."""
        study.messages = 0
        with open(kept, "wb", closefd=False) as file:  # noqa: ASYNC230  # memory, and not a disk
            file.write(header_line(Header("recording", FORMAT)))
            for number, row in enumerate(list(self._store.rows)):
                if number % 500 == 499:
                    await asyncio.sleep(0)
                if not row.is_cut and row.kind in ("request", "response", "notification"):
                    study.messages += 1
                    file.write(recorded(row))


def recorded(row: HubRow) -> bytes:
    """A row as a line of a recording; its number is the row's."""
    head = {
        "i": row.seq,
        "t": row.time,
        "s": row.session,
        "from": row.sender,
        "kind": row.kind,
        "verdict": row.verdict,
        "by": row.rules[0] if row.rules else "",
        "rules": row.rules,
        "re": row.request,
        "era": row.era,
        "client": row.client,
        "variant": row.variant,
        "n": len(row.raw),
    }
    return b"".join([_encode(head)[:-1], b",", *member_of(row.raw, b"", False), b"}\n"])
