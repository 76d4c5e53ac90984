"""Which inputSchemas are JSON Schemas: what we say, and what the meta-schema says."""

from __future__ import annotations

import json

import jsonschema
import pytest

from penstock.policy.tools.catalog import build_catalog
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.tool_schema import maybe_schema_fault

RIGHT = [
    {},
    {"properties": {"a": {"type": "string", "minLength": 0, "pattern": "^x"}}, "required": ["a"]},
    {"additionalProperties": False, "$defs": {"x": True}, "properties": {"a": {"$ref": "#/$defs/x"}}},
    {"properties": {"a": {"anyOf": [{"type": ["string", "null"]}, {"enum": [1]}]}}},
    {"properties": {"a": {"type": "array", "items": {"type": "integer", "minimum": 1.5}}}},
    {"x-vendor": [1, {"type": 7}], "default": {"type": 7}, "examples": [{"required": True}]},
    {"if": {"required": ["a"]}, "then": {"maxProperties": 3}, "not": {"const": 1}},
]
WRONG = [
    {"properties": []},
    {"properties": {"a": {"type": "text"}}},
    {"properties": {"a": 7}},
    {"required": "a"},
    {"required": [1]},
    {"properties": {"a": {"minLength": -1}}},
    {"properties": {"a": {"maxItems": "3"}}},
    {"anyOf": []},
    {"anyOf": [7]},
    {"properties": {"a": {"items": {"type": "strings"}}}},
    {"additionalProperties": "no"},
    {"title": 7},
    {"properties": {"a": {"multipleOf": 0}}},
    {"properties": {"a": {"uniqueItems": "yes"}}},
]


@pytest.mark.parametrize("schema", RIGHT, ids=json.dumps)
def test_a_json_schema_is_taken(schema: dict[str, object]) -> None:
    schema = {"type": "object", **schema}
    jsonschema.Draft202012Validator.check_schema(schema)
    assert maybe_schema_fault(json.dumps(schema).encode()) is None


@pytest.mark.parametrize("schema", WRONG, ids=json.dumps)
def test_what_is_no_json_schema_is_refused_as_the_meta_schema_does(schema: dict[str, object]) -> None:
    schema = {"type": "object", **schema}
    with pytest.raises(jsonschema.SchemaError):
        jsonschema.Draft202012Validator.check_schema(schema)
    fault = maybe_schema_fault(json.dumps(schema).encode())
    assert fault is not None
    assert fault.startswith("inputSchema.")


@pytest.mark.parametrize("schema", ["{}", '{"type":"array"}', "[]", "7", "null", '{"type":["object"]}'])
def test_the_type_of_an_input_schema_is_object(schema: str) -> None:
    assert maybe_schema_fault(schema.encode()) is not None


@pytest.mark.parametrize("description", ["7", "null", "[]", '{"a":1}'])
def test_a_tool_whose_description_is_no_text_is_left_out_aloud(description: str) -> None:
    tool = f'{{"name":"a","description":{description},"inputSchema":{{"type":"object"}}}}'
    catalog = build_catalog([b'{"tools":[%b]}' % tool.encode()], ToolFilter())
    assert catalog.allowed == ()
    assert catalog.warnings == ('the tool "a" is left out: its description is not a text',)
