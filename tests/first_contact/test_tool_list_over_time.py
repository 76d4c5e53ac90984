"""A tool list that changes: frozen at the start for every era, or followed on request."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from doors import StdioDoor
from gate import wait_until
from pairs import Proxy, Upstream

CHANGED = b"notifications/tools/list_changed"
TOOL = '{"name":"%s","inputSchema":{"type":"object"}}'


def listing(*names: str) -> str:
    return f'{{"tools":[{",".join(TOOL % name for name in names)}]}}'


def names(door: Any) -> list[str]:
    return [tool["name"] for tool in door.ask("tools/list")["result"]["tools"]]


def heard_change(door: Any) -> int:
    return sum(CHANGED in heard.raw for heard in door.heard)


@pytest.mark.parametrize("first", ["legacy", "modern"])
def test_a_tool_added_later_is_hidden_for_whoever_comes_in_either_era(first: str, tmp_path: Path) -> None:
    pages = _pages(tmp_path)
    with (
        Upstream("stdio", tmp_path, "--pages", str(pages)) as server,
        Proxy(tmp_path, server.words(), "--deny", "^write") as proxy,
    ):
        assert wait_until(lambda: "1 tool allowed" in proxy.stderr)
        pages.write_text(listing("echo", "write_file", "later") + "\n")
        for era in (first, "modern" if first == "legacy" else "legacy"):
            door = proxy.connect("streamable", era)
            door.begin()
            assert names(door) == ["echo"]
            assert door.call("later")["error"]["message"] == "Tool not found: later"
            door.close()


def stdio(server: Upstream, work: Path, *options: str) -> StdioDoor:
    words = [sys.executable, "-m", "penstock", "--stdio", "--deny", "^write", *options, *server.words()]
    return StdioDoor(words, "legacy", (work / "errors").open("wb"))


def test_by_default_new_tools_stay_hidden_and_stderr_says_once_which_option_shows_them(
    tmp_path: Path,
) -> None:
    with (
        Upstream("stdio", tmp_path, "--pages", str(_pages(tmp_path))) as server,
        stdio(server, tmp_path) as door,
    ):
        door.begin()
        assert names(door) == ["echo"]
        for _ in range(2):
            door.order("retool", raw=listing("echo", "later"))
        assert names(door) == ["echo"]
        assert "error" in door.call("later")
    said = (tmp_path / "errors").read_text()
    assert said.count("--refresh-tools") == 1
    assert "new tools stay hidden" in said


def _pages(work: Path) -> Path:
    pages = work / "pages"
    pages.write_text(listing("echo", "write_file") + "\n")
    return pages


@pytest.mark.parametrize("client", ["stdio", "streamable"])
@pytest.mark.parametrize("transport", ["stdio", "streamable"])
def test_on_request_the_list_follows_the_upstream_and_clients_hear_of_their_own_changes_only(
    client: str, transport: str, tmp_path: Path
) -> None:
    with Upstream(transport, tmp_path, "--pages", str(_pages(tmp_path))) as server:
        if client == "stdio":
            door: Any = stdio(server, tmp_path, "--refresh-tools")
            proxy = None
        else:
            proxy = Proxy(tmp_path, server.words(), "--deny", "^write", "--refresh-tools")
            door = proxy.connect("streamable", "legacy")
        try:
            door.begin()
            assert names(door) == ["echo"]
            door.order("retool", raw=listing("echo", "write_file", "write_more"))
            assert door.is_alive()
            assert names(door) == ["echo"]
            for _ in range(5):
                door.pump(0.1)
            assert heard_change(door) == 0
            door.order("retool", raw=listing("echo", "write_file", "later"))
            door.until(lambda: heard_change(door))
            assert names(door) == ["echo", "later"]
            assert "result" in door.call("later")
            assert "error" in door.call("write_more")
        finally:
            door.close()
            if proxy is not None:
                proxy.__exit__(None, None, None)


def test_a_request_that_takes_too_long_is_answered_and_cancelled(tmp_path: Path) -> None:
    with Upstream("stdio", tmp_path) as server, stdio(server, tmp_path, "--call-timeout", "500ms") as door:
        door.begin()
        door.begin_order("hold", b'"slow"', mark="m")
        error = json.loads(door.answer(b'"slow"'))["error"]
        assert error == {
            "code": -32603,
            "message": "Request timeout after 500ms",
            "data": {"code": "TIMEOUT"},
        }
        assert wait_until(lambda: any(b"notifications/cancelled" in line for line in server.reached()))
        assert door.is_alive()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "sse", "streamable"])
def test_a_request_that_takes_too_long_is_answered_at_every_door(
    transport: str, era: str, tmp_path: Path
) -> None:
    with (
        Upstream(transport, tmp_path) as server,
        Proxy(tmp_path, server.words(), "--call-timeout", "700ms") as proxy,
        proxy.connect("streamable", era) as door,
    ):
        door.begin()
        door.begin_order("hold", b"77", mark="m")
        error = json.loads(door.answer(b"77"))["error"]
        assert error["message"] == "Request timeout after 700ms"
        assert error["data"] == {"code": "TIMEOUT"}
        assert door.is_alive()
