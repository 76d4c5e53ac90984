"""`tools.arguments: strict`: what is not of its declared type is refused, in words a model can act on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gate_messages import client
from penstock.policy.tools.argument_types import ArgumentTypes
from penstock.policy.tools.catalog import build_catalog
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.tool_gate import judge
from penstock.policy.verdict import FORWARD, Answer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "sudo": {"type": "boolean"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "options": {"anyOf": [{"$ref": "#/$defs/Options"}, {"type": "null"}]},
        "mode": {"enum": ["a", "b"]},
        "any": {},
        "either": {"type": ["string", "null"]},
        "whole": {"allOf": [{"type": "string"}, {"minLength": 1}]},
    },
    "additionalProperties": {"type": "string"},
    "$defs": {
        "Options": {"type": "object", "properties": {"force": {"type": "boolean"}, "sub": {"$ref": "#"}}}
    },
}


def _objection(arguments: str, schema: object = SCHEMA) -> str | None:
    return ArgumentTypes(json.dumps(schema).encode()).maybe_objection("t", arguments.encode())


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        '{"count":1000,"ratio":1,"sudo":true,"paths":["/a"],"pair":["a",1],"options":{"force":true},"mode":"a"}',
        '{"count":1.0,"ratio":0.5,"options":null,"either":null,"any":"{\\"x\\":1}","more":"text"}',
        '{"count":1e3,"any":[1,{"a":null}],"whole":"x"}',
        '{"count":' + "9" * 5000 + "}",
        '{"options":{"sub":{"count":1}}}',
    ],
)
def test_what_is_declared_so_passes(arguments: str) -> None:
    assert _objection(arguments) is None


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ('{"count":"1000"}', 'arguments.count must be an integer, not the string "1000"'),
        ('{"count":1.5}', "arguments.count must be an integer, not a number"),
        ('{"count":true}', "arguments.count must be an integer, not a boolean"),
        ('{"sudo":"yes"}', 'arguments.sudo must be a boolean, not the string "yes"'),
        ('{"sudo":1}', "arguments.sudo must be a boolean, not a number"),
        ('{"paths":"[\\"/etc\\"]"}', "arguments.paths must be an array, not the string"),
        ('{"paths":["/a",5]}', "arguments.paths[1] must be a string, not a number"),
        ('{"pair":["a","1"]}', 'arguments.pair[1] must be an integer, not the string "1"'),
        ('{"options":"{\\"force\\":1}"}', "arguments.options must be null or an object, not the string"),
        ('{"options":{"force":1}}', "arguments.options.force must be a boolean, not a number"),
        (
            '{"options":{"sub":{"count":"1"}}}',
            'arguments.options.sub.count must be an integer, not the string "1"',
        ),
        ('{"mode":1}', "arguments.mode must be a string, not a number"),
        ('{"either":1}', "arguments.either must be a string or null, not a number"),
        ('{"whole":1}', "arguments.whole must be a string, not a number"),
        ('{"more":1}', "arguments.more must be a string, not a number"),
        ('{"count":1,"count":"1000"}', "arguments.count must be an integer"),
        ('{"count":"1000","count":1}', "arguments.count must be an integer"),
        ('{"COUNT":"1000"}', "arguments.COUNT must be an integer"),
        ('{"__proto__":{"count":"1000"}}', "arguments must not have a member called __proto__"),
        ('"{}"', "arguments must be an object, not the string"),
        ("[]", "arguments must be an object, not an array"),
    ],
)
def test_what_is_not_is_refused_by_its_name(arguments: str, fault: str) -> None:
    said = _objection(arguments)
    assert said is not None
    assert fault in said
    assert said.startswith('Invalid arguments for the tool "t": ')


def test_a_refusal_names_a_few_and_repeats_little() -> None:
    said = _objection(json.dumps({"paths": [1] * 100, "count": "9" * 500}))
    assert said is not None
    assert said.count("must be") == 5
    assert len(said) < 600


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object", "properties": []}, {"properties": {"count": {"$ref": "#/no"}}}]
)
def test_a_schema_that_declares_nothing_refuses_nothing(schema: object) -> None:
    assert _objection('{"count":"1000"}', schema) is None


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert _objection('{"a":1}', {"properties": {"a": {"$ref": "#/properties/a"}}}) is None


TOOLS = json.dumps(
    {"tools": [{"name": "t", "inputSchema": SCHEMA}, {"name": "denied", "inputSchema": {}}]}
).encode()


def _verdict(call: str, **choice: Any) -> Any:
    message = client(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":%b}' % call.encode())
    return judge(message, build_catalog([TOOLS], ToolFilter(**choice)))


def test_the_gate_answers_with_a_result_that_a_model_reads() -> None:
    assert _verdict('{"name":"t","arguments":{"count":"1"}}') is FORWARD
    assert _verdict('{"name":"t","arguments":{"count":1}}', strict_arguments=True) is FORWARD
    assert _verdict('{"name":"t"}', strict_arguments=True) is FORWARD
    refused = _verdict('{"name":"t","arguments":{"count":"1"}}', strict_arguments=True)
    assert isinstance(refused, Answer)
    assert refused.why is not None
    assert (refused.word, refused.why.action, refused.why.code) == ("deny", "arguments", -32602)
    result = json.loads(refused.raw)["result"]
    assert result["isError"] is True
    assert 'must be an integer, not the string "1"' in result["content"][0]["text"]
    assert "resultType" not in result
    unknown = _verdict('{"name":"nobody","arguments":{"count":"1"}}', strict_arguments=True)
    assert json.loads(unknown.raw)["error"]["message"] == "Tool not found: nobody"
