"""Reading verdicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.effects.verdict_json import NoVerdict, read_verdict
from penstock.policy.rules.effect_contract import EffectVerdict

GOOD = {
    b'{"decision":"allow"}': EffectVerdict("allow"),
    b' {"decision": "block", "reason": "no"}\n': EffectVerdict("block", "no"),
    b'{"decision":"allow","reason":null,"set_params":null}': EffectVerdict("allow"),
    b'{"decision":"allow","set_params":{"a" : 1.0}}': EffectVerdict("allow", None, b'{"a" : 1.0}'),
    b'{"decision":"allow","set_result":{}}': EffectVerdict("allow", set_result=b"{}"),
}
BAD = [
    b"",
    b"\n",
    b"allow",
    b'"allow"',
    b"true",
    b"[]",
    b"{}",
    b'{"decision":"Allow"}',
    b'{"decision":true}',
    b'{"decision":["allow"]}',
    b'{"decision":"allow"}{"decision":"block"}',
    b'{"decision":"allow","decision":"block"}',
    b'{"decision":"allow","Decision":"block"}',
    b'{"decision":"allow","set_parms":{}}',
    b'{"decision":"allow","set_params":[]}',
    b'{"decision":"allow","set_params":"x"}',
    b'{"decision":"allow","reason":1}',
    b'{"decision":"allow","reason":"\xff"}',
    b'{"decision":"allow"',
    b'{"decision":"allow","set_params":' + b'{"a":' * 200 + b"1" + b"}" * 201,
]


@pytest.mark.parametrize("body", GOOD)
def test_verdicts(body):
    assert read_verdict(body) == GOOD[body]


@pytest.mark.parametrize("body", BAD)
def test_what_leaves_a_doubt_is_no_verdict(body):
    with pytest.raises(NoVerdict):
        read_verdict(body)


@given(st.binary(max_size=60))
def test_no_bytes_are_an_allow_by_accident(body):
    with pytest.raises(NoVerdict):
        read_verdict(body)
