"""A live server of the TypeScript SDK, which makes numbers of ids before it looks for its question."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate import ROOT
from pairs import Proxy, said

NODE = ROOT / ".peers" / "node"
BINARY = NODE / "node_modules" / ".bin" / "node"
pytestmark = pytest.mark.skipif(
    not BINARY.exists(), reason="no Node peers here; scripts/node_setup installs them"
)

HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}}'
)
CALL = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{}}}'
NEVER = {
    "id": "never",
    "direction": "client",
    "conditions": [{"method_equals": "elicitation/create"}],
    "actions": [{"block": "no answers"}],
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    work = tmp_path_factory.mktemp("ts")
    script = NODE / "asking_server.mjs"  # beside the packages that it imports
    script.write_text((ROOT / "tests" / "node" / "asking_server.mjs").read_text())
    with (work / "stderr").open("wb") as errors:
        process = subprocess.Popen([str(BINARY), str(script)], stderr=errors, cwd=NODE)
    try:
        yield said(work / "stderr", rb"listening on (\S+)", process)
    finally:
        process.kill()
        process.wait()


def proxied(work: Path, url: str, *rules: dict[str, Any]) -> Proxy:
    file = work / "rules.json"
    file.write_text(json.dumps({"interceptor": {"rules": list(rules)}}))
    return Proxy(work, ["--upstream", url, "--config", str(file)])


def asked(proxy: Proxy) -> tuple[Any, dict[str, str], Any, bytes]:
    """A client whose call has led to a question, with its headers, the stream and the number of that."""
    door = proxy.connect("streamable", "legacy")
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    hello = door.whole("POST", "/mcp", headers, HELLO)
    headers |= {"Mcp-Session-Id": hello.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}
    door.whole("POST", "/mcp", headers, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    stream = door.http("POST", "/mcp", headers, CALL)
    door.until(lambda: any(b"elicitation/create" in event for event in stream.events))
    found = re.search(rb'"id":(\d+)', next(e for e in stream.events if b"elicitation/create" in e))
    assert found is not None
    return door, headers, stream, found[1]


@pytest.mark.parametrize("spelling", ["%s", '"%s"', "%s.0", '" %s "', '""'])
def test_no_spelling_of_an_id_takes_an_answer_past_a_rule(url: str, tmp_path: Path, spelling: str) -> None:
    with proxied(tmp_path, url, NEVER) as proxy:
        door, headers, stream, number = asked(proxy)
        token = spelling % number.decode() if "%s" in spelling else spelling
        head = b'{"jsonrpc":"2.0","id":%b,"result":' % token.encode()
        answer = head + b'{"action":"accept","content":{"secret":"hunter2"}}}'
        door.whole("POST", "/mcp", headers, answer)
        door.pump(0.5)
        assert not any(b"hunter2" in event for event in stream.events), stream.events
        door.close()


def test_without_such_a_rule_the_answer_arrives(url: str, tmp_path: Path) -> None:
    other = {"id": "o", "conditions": [{"method_equals": "x/none"}], "actions": [{"block": "no"}]}
    with proxied(tmp_path, url, {**other, "direction": "upstream"}) as proxy:
        door, headers, stream, number = asked(proxy)
        raw = b'{"jsonrpc":"2.0","id":%b,"result":{"action":"accept","content":{"secret":"hunter2"}}}'
        door.whole("POST", "/mcp", headers, raw % number)
        door.until(lambda: any(b"hunter2" in event for event in stream.events))
        door.close()
