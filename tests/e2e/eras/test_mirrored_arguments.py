"""Arguments that a tool wants in headers follow what a rule made of them, in every cell of the newer era."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate import META, request
from pairs import Proxy, Upstream

TOOLS = (
    '{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":'
    '{"region":{"type":"string","x-mcp-header":"Region"}}}}]}\n'
)
RULES = (
    "interceptor:\n  rules:\n    - id: move\n"
    "      conditions: [{method_equals: tools/call}]\n"
    "      actions: [{set_param: {field: arguments.region, value: away}}]\n"
)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_headers_follow_what_a_rule_changed(tmp_path: Path, era: str) -> None:
    pages = tmp_path / "pages"
    pages.write_text(TOOLS)
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    with (
        Upstream("streamable", tmp_path, "--modern-only", "--pages", str(pages)) as upstream,
        Proxy(tmp_path, upstream.words(), "--config", str(rules)) as proxy,
        proxy.connect("streamable", era) as door,
    ):
        door.begin()
        door.ask("tools/list")  # a link knows by this what goes into headers
        params = b'{"name":"echo","arguments":{"region":"here"}%b}' % (
            b"," + META if era == "modern" else b""
        )
        more = {"Mcp_Param_Region": "here"} if era == "modern" else {}
        post = door.post(request(b"7", "tools/call", params), **more)
        door.until(lambda: post.is_over)
        assert post.status == 200, bytes(post.body)
        regions = [head["mcp-param-region"] for head in upstream.heads() if "mcp-param-region" in head]
        assert regions == ["away"]
        assert upstream.calls_of("away")
        assert not upstream.calls_of('here"')
