"""The API of the hub in a form for programs: OpenAPI, made from the same table that answers requests."""

from __future__ import annotations

import re
from typing import Any

from penstock.watch.api import PREFIX, routes

_MEANINGS = {
    "instances": "The proxies that are watched.",
    "sessions": "Sessions of clients, with counts.",
    "rules": "Rules with their hits, and breakpoints.",
    "tools": "Tools, their cost and their use; `budget` asks what to hide.",
    "upstreams": "Proxies with their processes and what is pending.",
    "limits": "What is used of what there is.",
    "stats": "Minutes: messages, errors, tokens, latencies.",
    "alerts": "Sessions that are unusual by a baseline: why, how rarely, and the first message.",
    "patterns": "Who calls what when: calls by hour of the week and by day, and what is new since last week.",
    "studies/{id}": "Alerts, suggested rules or variants: begins, stops or shows what a command has found.",
    "log": "What proxies have said to people.",
    "held": "Messages that wait for a person.",
    "rows": "Rows that a filter finds, from a rank on.",
    "me": "Who is logged in.",
    "messages/{id}": "One message in full, masked.",
    "messages/{id}/bytes": "Its bytes, masked unless revealed.",
    "events": "Server-sent events: hello rows change held decided tick gap bye.",
    "logout": "Ends the login.",
    "held/{id}": "Decides about a held message: release, deny, edit, extend.",
    "messages/{id}/reveal": "Shows one message unmasked for a minute; audited.",
    "exchanges/{id}/replay": "Makes a call once more on a link of its own.",
    "try": "Tries rules on the messages that are kept.",
    "breakpoints/{id}": "Sets or removes a breakpoint.",
}
_QUERIES = {
    "rows": ("filter", "rank", "limit"),
    "events": ("filter", "after", "only"),
    "tools": ("budget",),
    "stats": ("seconds",),
    "patterns": ("by", "of"),
}
_BODIES: dict[str, dict[str, str]] = {
    "held/{id}": {"action": "string", "sha": "string", "text": "string", "part": "string", "value": "string"},
    "exchanges/{id}/replay": {"confirmed": "boolean"},
    "try": {"rules": "string", "filter": "string"},
    "breakpoints/{id}": {"filter": "string"},
}
_ERROR = {"$ref": "#/components/responses/Error"}


def api_schema() -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, Any] = {"/login": {"post": _login()}}
    for method, pattern, role in routes():
        name = re.sub(r"\(.*\)", "{id}", pattern)
        paths.setdefault(f"/{name}", {})[method.lower()] = _operation(name, method, role)
    error = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {name: {"type": "string"} for name in ("code", "message")},
            }
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock live view", "version": "1"},
        "servers": [{"url": PREFIX.rstrip("/")}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {"description": "Refused.", "content": {"application/json": {"schema": error}}}
            },
        },
    }


def _login() -> dict[str, Any]:
    made = _operation("login", "POST", "view")
    made["summary"] = "Exchanges a one-time code, or a user's token, for a bearer token."
    made["security"] = []
    return made


def _operation(name: str, method: str, role: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": _MEANINGS.get(name, ""),
        "description": f"Needs the role {role}.",
        "responses": {"200": {"description": "Done."}, "4XX": _ERROR},
    }
    parameters = [
        {"name": query, "in": "query", "schema": {"type": "string"}} for query in _QUERIES.get(name, ())
    ]
    if "{id}" in name:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})  # type: ignore[dict-item]
    if parameters:
        made["parameters"] = parameters
    if method in ("POST", "PUT") and name in _BODIES:
        properties = {key: {"type": kind} for key, kind in _BODIES[name].items()}
        schema = {"type": "object", "properties": properties}
        made["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return made
