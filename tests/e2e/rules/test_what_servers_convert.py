"""Live servers of the official SDKs behind Penstock: what a rule blocks does not run, in any form."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sdk_readers import COMMANDS, SDKS, SdkServer

RULES: list[dict[str, Any]] = [
    {"param_greater_than": {"field": "arguments.count", "value": 100}},
    {"param_equals": {"field": "arguments.sudo", "value": True}},
    {"param_matches": {"field": "arguments.paths.*", "pattern": "^/etc/"}},
    {"param_exists": "arguments.options.force"},
    {"param_matches": {"field": "arguments.**", "pattern": "AKIA[0-9A-Z]{4}"}},
    {"param_matches": {"field": "uri", "pattern": "(?i)secret|admin"}},
]
BLOCKED = [
    '{"count":1000}',
    '{"count":"1000"}',
    '{"sudo":true}',
    '{"sudo":"true"}',
    '{"sudo":1}',
    '{"sudo":"yes"}',
    '{"paths":["/etc/passwd"]}',
    '{"paths":"[\\"/etc/passwd\\"]"}',
    '{"options":{"force":1}}',
    '{"options":"{\\"force\\":1}"}',
    '{"paths":["AKIA1234"]}',
    '{"anything":"[\\"AKIA\\\\u0031234\\"]"}',
]
ODD = ['{"count":"1"}', '{"sudo":"no"}', '{"paths":"[\\"/ok\\"]"}']


def _behind(sdk: str, work: Path, document: dict[str, Any]) -> SdkServer:
    file = work / "penstock.json"
    command = COMMANDS[sdk]
    file.write_text(json.dumps({"upstream": {"command": command}, **document}))
    return SdkServer([sys.executable, "-m", "penstock", "--stdio", "--config", str(file)])


@pytest.mark.parametrize("sdk", SDKS)
def test_a_blocked_value_runs_in_no_form(sdk: str, tmp_path: Path) -> None:
    rules = [
        {"id": f"r{n}", "conditions": [one], "actions": [{"block": "no"}]} for n, one in enumerate(RULES)
    ]
    with _behind(sdk, tmp_path, {"interceptor": {"rules": rules}}) as server:
        for arguments in BLOCKED:
            answer = server.ask("tools/call", b'{"name":"typed","arguments":%b}' % arguments.encode())
            assert answer.get("error", {}).get("code") == -32001, (arguments, answer)
        assert server.maybe_given("typed", b'{"count":1,"text":"fine"}') is not None
        for uri in ("vault://secret/x", "vault://se\tcret/key", "vault://%61dmin/doc"):
            answer = server.ask("resources/read", json.dumps({"uri": uri}).encode())
            assert answer.get("error", {}).get("code") == -32001, (uri, answer)
        assert server.maybe_read("vault://open/doc") == {"area": "open", "name": "doc"}


@pytest.mark.parametrize("sdk", SDKS)
def test_with_strict_arguments_nothing_is_converted(sdk: str, tmp_path: Path) -> None:
    with _behind(sdk, tmp_path, {"tools": {"arguments": "strict"}}) as server:
        for arguments in ODD:
            answer = server.ask("tools/call", b'{"name":"typed","arguments":%b}' % arguments.encode())
            assert answer["result"]["isError"] is True, (arguments, answer)
            assert answer["result"]["content"][0]["text"].startswith(
                'Invalid arguments for the tool "typed": '
            ), answer
        assert server.maybe_given("typed", b'{"count":1000,"sudo":true,"paths":["/a"]}') is not None
