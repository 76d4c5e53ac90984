"""A client that leaves without a word: its session and its child end after --session-idle."""

from __future__ import annotations

from pathlib import Path

from gate import wait_until
from pairs import Proxy, Upstream


def test_a_session_that_nobody_uses_ends_and_its_child_with_it(tmp_path: Path) -> None:
    with (
        Upstream("stdio", tmp_path) as server,
        Proxy(tmp_path, server.words(), "--session-idle", "1s") as proxy,
    ):
        door = proxy.connect("streamable", "legacy")
        door.begin()
        child = door.order("pid")["result"]["pid"]
        assert Path(f"/proc/{child}").exists()
        door.close()  # without DELETE
        assert wait_until(lambda: not Path(f"/proc/{child}").exists())
        assert "Ended a session that was idle for 1 s (--session-idle)." in proxy.stderr


def test_a_session_with_an_open_stream_is_not_idle(tmp_path: Path) -> None:
    with (
        Upstream("stdio", tmp_path) as server,
        Proxy(tmp_path, server.words(), "--session-idle", "500ms") as proxy,
    ):
        door = proxy.connect("streamable", "legacy")
        door.begin()  # which opens a stream
        other = proxy.connect("streamable", "legacy", listens=False)
        other.begin()
        assert wait_until(lambda: "Ended a session" in proxy.stderr)
        assert door.is_alive()
        assert proxy.stderr.count("Ended a session") == 1
