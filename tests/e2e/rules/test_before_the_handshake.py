"""A denied call in no session, with rules, between HTTP and HTTP: the upstream is asked, and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pairs import DENY, Proxy, Upstream

RULES = """
interceptor:
  rules:
    - {id: seen, conditions: [{method_equals: tools/call}], actions: [{log: called}]}
"""
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_file","arguments":{}}}'


@pytest.mark.parametrize("session", [None, "made-up"])
def test_it_is_answered(tmp_path: Path, session: str | None) -> None:
    config = tmp_path / "rules.yaml"
    config.write_text(RULES)
    with (
        Upstream("streamable", tmp_path) as upstream,
        Proxy(tmp_path, upstream.words(), "--deny", DENY, "--config", str(config)) as proxy,
        proxy.connect("streamable", "legacy") as client,
    ):
        client.session = session
        response = client.post(CALL)
        client.until(lambda: response.is_over)
        assert response.status in (400, 404)
        assert b"write_file" not in response.body
        assert not upstream.calls_of("write_file")
        assert "Traceback" not in proxy.stderr
