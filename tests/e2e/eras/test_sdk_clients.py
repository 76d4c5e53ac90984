"""Four generations of SDK clients over upstreams of the other era, through pipe and listener.

The numbers are those of the rows that the bridge was accepted by.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gate import ROOT
from pairs import Proxy, Upstream, said
from sdk_server import serving

CLIENTS = ROOT / "tests" / "e2e" / "clients"
NODE = ROOT / ".peers" / "node" / "node_modules" / ".bin" / "node"
PACKAGES = ROOT / ".peers" / "node" / "node_modules" / "@modelcontextprotocol"
OLD_PYTHON = ROOT / ".peers" / "mcp1" / "bin" / "python"

needs_node = [
    pytest.mark.node,
    pytest.mark.skipif(not NODE.exists(), reason="run scripts/node_setup first"),
]
needs_peers = [
    pytest.mark.peers,
    pytest.mark.skipif(not OLD_PYTHON.exists(), reason="run scripts/peers_setup first"),
]
LEGACY = [
    pytest.param([str(OLD_PYTHON), "py_client_v1.py"], id="py-v1", marks=needs_peers),
    pytest.param([str(NODE), "ts_v1.mjs"], id="ts-v1", marks=needs_node),
]
MODERN = [
    pytest.param([sys.executable, "py_client.py"], id="py-v2"),
    pytest.param([str(NODE), "ts_v2.mjs"], id="ts-v2", marks=needs_node),
]
WAYS = ["stdio", "listener"]


def drive(client: list[str], *options: str, **env: str) -> dict[str, Any]:
    program, script = client
    done = subprocess.run(
        [program, str(CLIENTS / script), *options],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, **env},
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["ok"], (report["error"], done.stderr)
    return report


@contextlib.contextmanager
def gate(work: Path, way: str, upstream: list[str], *options: str) -> Iterator[list[str]]:
    """How a driver is led to Penstock in front of `upstream`."""
    if way == "stdio":
        # Some drivers' own options end at "--", so the words stand in a file.
        words = [sys.executable, "-m", "penstock", *options, *upstream]
        script = work / "gate.sh"
        script.write_text(f"exec {shlex.join(words)}\n")
        yield ["--stdio", "sh", str(script)]
    else:
        with Proxy(work, upstream, *options) as proxy:
            yield ["--http", f"http://127.0.0.1:{proxy.port}/mcp"]


@pytest.fixture(scope="module", params=["stdio", "http"])
def newer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The TypeScript SDK's own server, which refuses the older era."""
    if not NODE.exists() or not (PACKAGES / "server").exists():
        pytest.skip("run scripts/node_setup first")
    command = [str(NODE), str(ROOT / "tests" / "node" / "newer_only_server.mjs")]
    if request.param == "stdio":
        yield ["--", *command]
        return
    errors = tmp_path_factory.mktemp("newer") / "errors"
    with errors.open("wb") as sink:
        server = subprocess.Popen([*command, "--http"], stderr=sink)
    try:
        yield ["--upstream", said(errors, rb"listening on (\S+)", server)]
    finally:
        server.kill()
        server.wait()


@pytest.mark.node
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", LEGACY)
def test_01_22_legacy_clients_over_a_server_that_refuses_their_era(
    client: list[str], way: str, newer: list[str], tmp_path: Path
) -> None:
    calls = ["--call", "echo", '{"word":"日本"}', "--call", "list", "{}"]
    with gate(tmp_path, way, newer) as words:
        report = drive(client, *calls, *words)
    assert report["version"] == "2025-11-25"
    assert (report["server"], report["tools"]) == ("newer-only", ["echo", "list"])
    echoed, listed = report["calls"]
    assert echoed["content"] == [{"type": "text", "text": "日本"}]
    assert listed["structuredContent"] == {"result": ["a"]}


def published() -> list[Any]:
    everything = PACKAGES / "server-everything" / "dist" / "index.js"
    files = PACKAGES / "server-filesystem" / "dist" / "index.js"
    time = ROOT / ".peers" / "mcp1" / "bin" / "mcp-server-time"
    clock = [str(time), "--local-timezone", "UTC"]
    folders = [str(NODE), str(files), "FOLDER"]
    allowed = "list_allowed_directories"
    return [
        pytest.param(clock, "get_current_time", "stdio", id="time-stdio", marks=needs_peers),
        pytest.param(
            [str(NODE), str(everything), "stdio"],
            "echo",
            "listener",
            id="everything-listener",
            marks=needs_node,
        ),
        pytest.param(folders, allowed, "stdio", id="files-stdio", marks=needs_node),
        pytest.param(folders, allowed, "listener", id="files-listener", marks=needs_node),
    ]


ARGUMENTS = {"get_current_time": '{"timezone":"UTC"}', "echo": '{"message":"hello"}'}


@pytest.mark.parametrize(("command", "tool", "way"), published())
@pytest.mark.parametrize("client", MODERN)
def test_02_07_modern_clients_over_published_legacy_servers(
    client: list[str], command: list[str], tool: str, way: str, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    words = ["--", *(str(folder) if word == "FOLDER" else word for word in command)]
    # The Python client asks for nothing before its first request; the TypeScript one begins with discovery.
    era = "auto" if client[1] == "py_client.py" else "bridge"
    calls = ["--call", tool, ARGUMENTS.get(tool, "{}")]
    with gate(tmp_path, way, words, "--era", era) as led:
        report = drive(client, "--era", "modern", *calls, *led, DRIVER_ROOT=folder.as_uri())
    assert report["version"] == "2026-07-28"
    (called,) = report["calls"]
    assert not called.get("isError"), called
    if tool == "list_allowed_directories":
        assert "roots/list" in report["asked"]
        assert str(folder) in called["content"][0]["text"]


@pytest.mark.parametrize("client", MODERN)
def test_03_clients_that_know_both_eras_fall_back_by_themselves(client: list[str], tmp_path: Path) -> None:
    with Upstream("stdio", tmp_path, "--legacy-only") as upstream:
        with gate(tmp_path, "stdio", upstream.words()) as words:
            report = drive(client, "--era", "auto", *words)
        assert report["version"] == "2025-11-25"
        through = [json.loads(line) for line in upstream.reached()]
    with Upstream("stdio", tmp_path, "--legacy-only") as upstream:
        drive(client, "--era", "auto", "--stdio", *upstream.words()[1:])
        direct = [json.loads(line) for line in upstream.reached()]
    assert through == direct


@pytest.mark.parametrize("client", LEGACY)
def test_04_a_dual_upstream_is_never_asked_for_the_other_era(client: list[str], tmp_path: Path) -> None:
    with Upstream("stdio", tmp_path) as upstream:
        with gate(tmp_path, "stdio", upstream.words()) as words:
            drive(client, *words)
        assert not [line for line in upstream.reached() if b"discover" in line]


QUESTIONS = {
    "legacy": {
        "test_input_required_result_elicitation": ["elicitation/create"],
        "test_input_required_result_sampling": ["sampling/createMessage"],
        "test_input_required_result_list_roots": ["roots/list"],
        "test_input_required_result_multi_round": ["elicitation/create", "elicitation/create"],
    },
    "modern": {
        "test_elicitation": ["elicitation/create"],
        "test_sampling": ["sampling/createMessage"],
    },
}


@pytest.fixture(scope="module")
def fixtures() -> Iterator[dict[str, str]]:
    """The addresses of servers that speak one era only."""
    with contextlib.ExitStack() as stack:
        yield {era: stack.enter_context(serving("--era", era)) for era in ("legacy", "modern")}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("client", "era"),
    [
        *(pytest.param(*one.values, "legacy", id=str(one.id), marks=one.marks) for one in LEGACY),
        *(pytest.param(*one.values, "modern", id=str(one.id), marks=one.marks) for one in MODERN),
    ],
)
def test_05_14_21_questions_progress_and_headers_with_every_sdk(
    client: list[str], era: str, way: str, fixtures: dict[str, str], tmp_path: Path
) -> None:
    other = {"legacy": "modern", "modern": "legacy"}[era]
    questions = QUESTIONS[era]
    given = {"test_sampling": '{"prompt":"p"}', "test_elicitation": '{"message":"m"}'}
    calls = [word for name in questions for word in ("--call", name, given.get(name, "{}"))]
    calls += ["--call", "test_tool_with_progress", "{}"]
    calls += ["--call", "test_custom_header", '{"region":"日本"}']
    with gate(tmp_path, way, ["--upstream", fixtures[other]], "--era", "bridge") as words:
        report = drive(client, "--era", era, *calls, *words)
    assert report["version"] == {"legacy": "2025-11-25", "modern": "2026-07-28"}[era]
    assert report["asked"] == [method for methods in questions.values() for method in methods]
    assert not any(call.get("isError") or "error" in call for call in report["calls"]), report["calls"]
    told = [done for done, _ in report["progress"]]
    assert told[-3:] == [0, 50, 100]


ASKING = "test_input_required_result_elicitation"
SAMPLING = "test_input_required_result_sampling"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", LEGACY)
def test_24_a_hidden_tool_of_the_other_era_is_neither_listed_nor_called(
    client: list[str], way: str, fixtures: dict[str, str], tmp_path: Path
) -> None:
    calls = ["--call", ASKING, "{}", "--call", SAMPLING, "{}"]
    upstream = ["--upstream", fixtures["modern"]]
    with gate(tmp_path, way, upstream, "--deny", f"^{ASKING}$") as words:
        report = drive(client, *calls, *words)
    assert ASKING not in report["tools"]
    assert SAMPLING in report["tools"]
    hidden, shown = report["calls"]
    assert hidden["error"]["code"] == -32601
    assert shown["content"][0]["text"].startswith("The model said")
    assert report["asked"] == ["sampling/createMessage"]  # and nothing of what the hidden one asks


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("client", "era", "tool"),
    [
        *(pytest.param(*one.values, "legacy", SAMPLING, id=str(one.id), marks=one.marks) for one in LEGACY),
        *(
            pytest.param(*one.values, "modern", "test_sampling", id=str(one.id), marks=one.marks)
            for one in MODERN
        ),
    ],
)
def test_25_a_rule_keeps_a_question_from_every_sdk_client(
    client: list[str], era: str, tool: str, way: str, fixtures: dict[str, str], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "interceptor:\n"
        "  rules:\n"
        "    - id: no-sampling\n"
        "      conditions: [{method_equals: sampling/createMessage}]\n"
        "      direction: upstream\n"
        '      actions: [{block: "not here"}]\n'
    )
    other = {"legacy": "modern", "modern": "legacy"}[era]
    options = ("--era", "bridge", "--config", str(rules))
    calls = ["--call", tool, '{"prompt":"p"}', "--call", "test_simple_text", "{}"]
    with gate(tmp_path, way, ["--upstream", fixtures[other]], *options) as words:
        report = drive(client, "--era", era, *calls, *words)
    assert report["asked"] == []
    asking, plain = report["calls"]
    assert "error" in asking or asking.get("isError"), asking
    assert plain["content"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", LEGACY)
def test_26_twenty_calls_at_once_are_all_asked_and_all_answered(
    client: list[str], way: str, fixtures: dict[str, str], tmp_path: Path
) -> None:
    calls = ["--at-once", *(["--call", ASKING, "{}"] * 20)]
    with gate(tmp_path, way, ["--upstream", fixtures["modern"]]) as words:
        report = drive(client, *calls, *words)
    assert report["asked"] == ["elicitation/create"] * 20
    assert [call["content"][0]["text"] for call in report["calls"]] == ["Hello, something!"] * 20


SAID = re.compile(
    rb'authorization: Bearer (\w+)\r\n(?:(?!POST ).)*?"who" ?: ?"(\w+)"', re.IGNORECASE | re.DOTALL
)


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("client", LEGACY)
def test_26_clients_with_different_tokens_are_never_taken_for_each_other(
    client: list[str], transport: str, tmp_path: Path
) -> None:
    said = tmp_path / "bytes"
    said.touch()
    with (
        Upstream(
            "streamable", tmp_path, "--modern-only", "--bearer", "one,two", "--bytes", str(said)
        ) as upstream,
        Proxy(tmp_path, upstream.words()) as proxy,
        ThreadPoolExecutor() as pool,
    ):
        where = {"http": "mcp", "sse": "sse"}[transport]
        words = [f"--{transport}", f"http://127.0.0.1:{proxy.port}/{where}"]

        def use(token: str) -> dict[str, Any]:
            calls = ["--at-once", *(["--call", "echo", json.dumps({"who": token})] * 10)]
            return drive(client, *calls, *words, DRIVER_TOKEN=token)

        for report in pool.map(use, ("one", "two")):
            assert [call["called"] for call in report["calls"]] == ["echo"] * 10
    streams: dict[str, bytes] = {}
    for line in said.read_bytes().splitlines():
        entry = json.loads(line)
        streams[entry["on"]] = streams.get(entry["on"], b"") + entry["data"].encode("latin-1")
    shown = [pair for stream in streams.values() for pair in SAID.findall(stream)]
    assert sorted(shown) == [(b"one", b"one")] * 10 + [(b"two", b"two")] * 10
