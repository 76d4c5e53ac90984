"""A message over the limit: client and stderr name the limit and the option that raises it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doors import LegacyDoor
from pairs import PAIRS, Proxy, Upstream

MIB = 1024 * 1024


def _words(text: str) -> bool:
    return "the limit is 1 MiB" in text and "--max-message" in text


@pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_a_result_over_the_limit_names_the_limit_and_its_option(
    client: str, upstream: str, tmp_path: Path
) -> None:
    with Upstream(upstream, tmp_path) as server:
        text, error = _ask_for(2 * MIB, client, server, tmp_path, "--max-message", "1MiB")
    assert _words(error["error"]["message"]), error
    assert _words(text), text


@pytest.mark.parametrize("upstream", ["stdio", "streamable"])
def test_a_larger_limit_lets_larger_results_pass(upstream: str, tmp_path: Path) -> None:
    with Upstream(upstream, tmp_path) as server:
        _, answer = _ask_for(11 * MIB, "streamable", server, tmp_path, "--max-message", "12MiB")
    assert len(answer["result"]["text"]) > 10 * MIB


def test_what_a_client_posts_over_the_limit_is_refused_as_json_and_said_aloud(tmp_path: Path) -> None:
    with Upstream("stdio", tmp_path) as server, Proxy(tmp_path, server.words()) as proxy:
        door = LegacyDoor(proxy.port, "legacy")
        answer = door.whole("POST", "/mcp", {"Content-Type": "application/json"}, b" " * (10 * MIB + 1))
        assert answer.status == 413
        assert answer.headers["content-type"] == "application/json"
        error = json.loads(answer.body)["error"]
        assert error["code"] == -32600
        assert "10,485,761 bytes: the limit is 10 MiB, and --max-message raises it" in error["message"]
        assert "the limit is 10 MiB" in proxy.stderr


def test_the_limit_may_stand_in_the_file(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("limits: {message: 1MiB}\n")
    with Upstream("stdio", tmp_path) as server:
        text, _ = _ask_for(2 * MIB, "streamable", server, tmp_path, "--config", str(config))
    assert _words(text), text


def _ask_for(size: int, client: str, server: Upstream, work: Path, *options: str) -> tuple[str, Any]:
    """What stderr and the client get when the upstream answers with `size` bytes of text."""
    if client == "stdio":
        import sys

        from doors import StdioDoor

        errors = work / "errors"
        words = [sys.executable, "-m", "penstock", "--stdio", *options, *server.words()]
        with errors.open("wb") as file, StdioDoor(words, "legacy", file) as door:
            door.begin()
            answer = door.order("big", bytes=size)
        return errors.read_text(), answer
    with Proxy(work, server.words(), *options) as proxy, proxy.connect(client, "legacy") as door:
        door.begin()
        answer = door.order("big", bytes=size)
        return proxy.stderr, answer
