"""What code of a user's is given has all that the protocols promise."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from scenes import NotedEffects, client, context, request, response

from penstock import plugin
from penstock.effects.real import RealEffects
from penstock.policy.rules.effect_contract import Effects
from penstock.policy.rules.exchange import Context
from penstock.wire.mcp.message import Message


def _checked_by_mypy(message: Message, where: Context, effects: Effects) -> list[object]:
    """These assignments are the test: mypy refuses them if a promise is broken."""
    promised_message: plugin.Message = message
    promised_context: plugin.Context = where
    promised_effects: plugin.Effects = effects
    return [promised_message, promised_context, promised_effects]


@pytest.mark.parametrize(
    ("protocol", "made"),
    [
        (plugin.Message, request()),
        (plugin.Context, context()),
        (plugin.Session, context().session),
        (plugin.Effects, RealEffects),
    ],
)
def test_every_promised_member_is_there(protocol: Any, made: object) -> None:
    names = [name for name in vars(protocol) if not name.startswith("_")]
    assert len(names) >= 3
    for name in names:
        assert hasattr(made, name), name
        assert inspect.getdoc(getattr(protocol, name)) or name == "session"
    assert _checked_by_mypy(request(), context(), NotedEffects())


def test_plain_data_is_given_and_taken() -> None:
    call = request(params={"name": "t", "arguments": {"n": 1}})
    assert plugin.params(call, context()) == {"name": "t", "arguments": {"n": 1}}
    answer = response({"content": []})
    assert plugin.result(answer) == {"content": []}
    assert plugin.params(answer, context(direction="upstream", of=call)) == plugin.params(call, context())
    assert plugin.result(call) is None
    assert plugin.params(request("ping"), context()) is None
    assert plugin.block("no") == plugin.Verdict("block", "no")
    assert plugin.allow(params={"a": 1}).set_params == b'{"a":1}'
    assert plugin.allow().set_result is None


def test_two_readings_are_none() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1,"a":2}}}'
    with pytest.raises(plugin.TwoReadings):
        plugin.params(client(raw), context())
