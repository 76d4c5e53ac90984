"""Faults on purpose are never there by mistake (acceptance 34)."""

from __future__ import annotations

import json
from pathlib import Path

from http_gate import Gate
from pairs import Upstream
from sessions import penstock

RULES = [{"id": "shaky", "conditions": [{"tool": "echo"}], "actions": [{"fault": {"kind": "drop"}}]}]
INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'


def test_acceptance_34_without_the_option_it_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"interceptor": {"rules": RULES}}))
    done = penstock("--stdio", "--config", str(file), "--", "cat", code=1)
    assert "The rule shaky makes things go wrong on purpose" in done.stderr
    assert "--allow-faults" in done.stderr


def test_what_is_dropped_has_no_answer_and_the_rest_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"interceptor": {"rules": RULES}}))
    with Upstream("stdio", tmp_path) as server:
        with Gate("--stdio", "--allow-faults", "--config", str(file), *server.words()) as gate:
            gate.ask(INITIALIZE)
            gate.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}')
            answer = gate.ask(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file"}}')
            assert json.loads(answer)["id"] == 2
        assert not server.calls_of('"echo"')
