"""Recordings made of nothing but calls, for whatever learns from them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

START = 1_790_000_000.0


def penstock(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A command of Penstock's that ends with this exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr + done.stdout
    return done


class RecordingMaker:
    """Writes a recording, session by session, in the format that Penstock writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        self._file.write('{"penstock":"recording","v":1,"run":"r","t":0,"version":"0"}\n')
        self._index = 0

    def line(self, session: str, when: float, sender: str, kind: str, message: Any, **more: Any) -> int:
        """One message; its number."""
        self._index += 1
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        head = {
            "i": self._index,
            "t": when,
            "s": session,
            "from": sender,
            "kind": kind,
            "verdict": "pass",
            **more,
        }
        written = json.dumps(head)[:-1] + f',"us":1,"n":{len(text.encode())},"msg":{text}}}\n'
        self._file.write(written)
        return self._index

    def call(
        self,
        session: str,
        when: float,
        tool: str,
        arguments: dict[str, Any],
        result: str = "done",
        is_error: bool = False,
        **more: Any,
    ) -> int:
        """A call and its answer; the number of the call."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": self._index, "method": "tools/call", "params": params}
        number = self.line(session, when, "client", "request", message, client="maker", **more)
        answer = {"content": [{"type": "text", "text": result}], "isError": is_error}
        reply = {"jsonrpc": "2.0", "id": number - 1, "result": answer}
        self.line(session, when + 0.01, "upstream", "response", reply, re=number)
        return number

    def __enter__(self) -> RecordingMaker:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
