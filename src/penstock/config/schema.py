"""The JSON Schema of a configuration file, for editors; made from the same tables that the reader follows."""

from __future__ import annotations

from penstock.config.keys import INTERCEPTOR, SECTIONS
from penstock.config.kinds import Key, Kind

Schema = dict[str, object]

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Schema = {"type": ["string", "integer"]}
_DURATION = r"^\s*[0-9]+(\.[0-9]+)?(ms|s|m|h)?\s*$"
_SIZE = r"^\s*[0-9]+\s*(B|kB|KB|KiB|MB|MiB|GB|GiB)?\s*$"

_SIMPLE: dict[Kind, Schema] = {
    Kind.TEXT: {"type": "string"},
    Kind.TEXTS: {"anyOf": [{"type": "string"}, {"type": "array", "items": _TEXT}]},
    Kind.TEXT_MAP: {"type": "object", "additionalProperties": _TEXT},
    Kind.FLAG: {"type": "boolean"},
    Kind.DURATION: {
        "anyOf": [{"type": "string", "pattern": _DURATION}, {"type": "integer", "exclusiveMinimum": 0}]
    },
    Kind.COUNT: {"type": "integer", "exclusiveMinimum": 0},
    Kind.SIZE: {"anyOf": [{"type": "string", "pattern": _SIZE}, {"type": "integer", "exclusiveMinimum": 0}]},
    Kind.ADDRESS: {
        "anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0, "maximum": 65535}],
    },
    Kind.FILE_SIZE: {"anyOf": [{"type": "string", "pattern": _SIZE}, {"type": "integer", "minimum": 4096}]},
    Kind.NUMBER: {"type": "integer", "minimum": 0},
    Kind.CODE: {"type": "integer", "exclusiveMaximum": 0},
    Kind.WORKERS: {"anyOf": [{"enum": ["auto"]}, {"type": "integer", "exclusiveMinimum": 0}]},
    Kind.MESSAGE: {"type": ["object", "string"]},
    Kind.ANY: {},
}


def make_schema(interceptor: Schema) -> Schema:
    """The whole schema; `interceptor` is that of the rules, which is made from their own tables."""
    defs = {_ref_name(name): _section(keys) for name, keys in SECTIONS.items() if name != "tests file"}
    root = defs.pop(_ref_name(""))
    rules = dict(interceptor)
    rule_defs = rules.pop("$defs", {})
    assert isinstance(rule_defs, dict)
    assert not set(rule_defs) & set(defs), "two definitions of one name"
    properties = root["properties"]
    assert isinstance(properties, dict)
    properties[INTERCEPTOR] = {"description": "The rules.", **rules}
    return {
        "$schema": SCHEMA_ID,
        "title": "Penstock configuration",
        "description": "What `penstock --config FILE` reads, as YAML, JSON or TOML.",
        **root,
        "$defs": {**defs, **rule_defs},
    }


def _section(keys: tuple[Key, ...]) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: {"description": key.meaning, **_maybe_null(_value(key))} for key in keys},
    }


def _value(key: Key) -> Schema:
    if key.kind is Kind.CHOICE:
        return {"enum": list(key.choices)}
    ref: Schema = {"$ref": f"#/$defs/{_ref_name(key.section)}"}
    if key.kind is Kind.SECTION:
        return {"anyOf": [ref, {"enum": list(key.choices)}]} if key.choices else ref
    if key.kind is Kind.SECTION_MAP:
        return {"type": "object", "additionalProperties": ref}
    if key.kind is Kind.SECTIONS:
        return {"type": "array", "items": ref}
    return _SIMPLE[key.kind]


def _maybe_null(schema: Schema) -> Schema:
    """A key with nothing after it counts as left out, so null is right everywhere."""
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def _ref_name(section: str) -> str:
    return f"section-{section or 'file'}"
