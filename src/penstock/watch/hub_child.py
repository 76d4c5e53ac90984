"""The hub as a child of the proxy: it dies with us, and whatever becomes of it, traffic goes on."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

log = logging.getLogger("penstock")


class HubChild:
    """Starts `penstock watch --web` for one tap. The child ends when its stdin does."""

    def __init__(self, host: str, port: int, tap: str) -> None:
        self._host = host
        self._port = port
        self._tap = tap
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it. A busy port is its own to complain about."""
        shown = f"[{self._host}]" if ":" in self._host else self._host
        words = [sys.executable, "-m", "penstock", "watch", "--web", f"{shown}:{self._port}"]
        words += ["--no-browser", "--child", "--tap", self._tap]
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONSAFEPATH": "1"},
            )
        except OSError as why:
            log.warning("The live view could not be started: %s.", why.strerror or why)
            return
        threading.Thread(target=self._watch, args=(self._process,), daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Says when it ended before we did; nobody waits for it anywhere else."""
        code = process.wait()
        if process is self._process:
            log.warning("The live view has ended (%d); messages pass as before.", code)

    def stop(self) -> None:
        """Ends it."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.terminate()
