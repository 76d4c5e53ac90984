"""SDK clients on stdio, Penstock, and the SDK's own server over Streamable HTTP and SSE, in both eras."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from test_client_drivers import ASKING, DRIVERS, drive

from sdk_server import serving

GATE = ["--stdio", sys.executable, "-m", "penstock"]


@pytest.fixture(scope="module", params=["http", "sse"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the fixture over one transport."""
    with serving(transport=request.param) as found:
        yield found


@pytest.mark.parametrize("deny", [[], ["--deny", "^test_image"]], ids=["plain", "filtered"])
@pytest.mark.parametrize(("command", "era"), DRIVERS)
def test_a_client_works_as_if_the_server_were_a_command(
    command: list[str], era: str, url: str, deny: list[str]
):
    calls = ["--call", "echo", '{"word":"日本"}', "--call", ASKING[era], '{"message":"Who?"}']
    calls += ["--call", "test_tool_with_progress", "{}", "--call", "test_image_content", "{}"]
    report = drive(command, "--era", era, *calls, *GATE, *deny, "--upstream", url)
    assert report["ok"], report["error"]
    assert report["version"] == {"legacy": "2025-11-25", "modern": "2026-07-28"}[era]
    assert ("test_image_content" in report["tools"]) == (not deny)
    echoed, asked, progressed, image = report["calls"]
    assert echoed["structuredContent"] == {"word": "日本"}
    assert not asked["isError"]
    assert report["asked"] == ["elicitation/create"]
    assert not progressed["isError"]
    assert [done for done, _ in report["progress"]][-3:] == [0, 50, 100]
    assert ("error" in image) == bool(deny)


@pytest.mark.parametrize(("command", "era"), [([sys.executable, "py_client.py"], "auto")])
def test_a_client_that_tries_both_eras_settles_for_the_newer(command: list[str], era: str, url: str):
    report = drive(command, "--era", era, *GATE, "--upstream", url)
    assert report["ok"], report["error"]
    assert report["version"] == "2026-07-28"


@pytest.mark.parametrize("is_listed", [True, False], ids=["filtered", "never listed"])
def test_arguments_that_the_server_wants_in_headers_get_there(url: str, is_listed: bool):
    # The SDK's server refuses the call when the header is missing or differs.
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "test_custom_header", "arguments": {"region": "us-wést "}, "_meta": meta}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + "\n"
    options = ["--deny", "^nothing$"] if is_listed else []
    command = [sys.executable, "-m", "penstock", *options, "--upstream", url]
    done = subprocess.run(command, input=message.encode(), capture_output=True, timeout=60, check=False)
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == "Region: us-wést ", done.stderr
