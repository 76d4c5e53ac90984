"""The JSON Schema of a configuration file, for editors; made from the same tables that the reader follows."""

from __future__ import annotations

from penstock.config.check import fields_of, section_name
from penstock.config.keys import INTERCEPTOR, SECTIONS
from penstock.policy.binder import members_schema

Schema = dict[str, object]

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def make_schema(interceptor: Schema) -> Schema:
    """The whole schema; `interceptor` is that of the rules, which is made from their own tables."""
    defs = {
        section_name(name): members_schema(fields_of(name), skips_nothing=True)
        for name in SECTIONS
        if name != "tests file"
    }
    root = defs.pop(section_name(""))
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
