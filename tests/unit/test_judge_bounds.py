"""A shadow judges for as long as the proxy runs: what it remembers of sessions and requests is bounded."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from penstock import limits
from penstock.commands.backtest_run import Judge
from penstock.config.model import FileConfig
from penstock.observe import bounds
from penstock.observe.recording import Line
from penstock.policy.rules.interceptor_config import build

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'


def line(number: int, session: str, raw: bytes, re: int = 0) -> Line:
    sender, kind = ("upstream", "response") if re else ("client", "request")
    return Line(number, 1.0 + number, session, sender, kind, re=re, n=len(raw), msg=msgspec.Raw(raw))


def test_memory_is_bounded_and_the_quietest_session_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STATE_SESSIONS", 5)
    monkeypatch.setattr(bounds, "OPEN_REQUESTS", 7)
    rule = {"id": "r", "conditions": [{"tool": "*"}], "actions": [{"block": "no"}]}
    rules, faults = build({"rules": [rule]})
    assert rules is not None, faults
    judge = Judge(FileConfig(interceptor=rules))

    async def scene() -> None:
        for number in range(1, 41):
            for session in ("busy", f"s{number}"):
                judged = await judge.judge(line(2 * number + (session != "busy"), session, CALL))
                assert judged is not None
                assert judged.word == "block"
        assert await judge.judge(line(99, "s40", ANSWER, re=81)) is None  # its request was stopped
        assert await judge.judge(line(100, "s1", ANSWER, re=3)) is not None  # nobody remembers that one

    asyncio.run(scene())
    assert len(judge._sessions) == 5
    assert "busy" in judge._sessions
    assert len(judge._stopped) == 7
