"""An AI client's own file, whatever it calls its servers, as the table that a configuration has.

For `--config` with a file that is not ours: only its servers are taken, and nothing of it is changed.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from penstock.clients.entry import Entry, in_table
from penstock.clients.table import CLIENTS, Shape
from penstock.config.formats.reading import read_document
from penstock.config.keys import INTERCEPTOR, SECTIONS, SERVER_TABLES

_OURS = {key.name for key in SECTIONS[""]} | {INTERCEPTOR}
_KEPT = {
    "cwd": "cwd",
    "disabled": "disabled",
    "enabled": "enabled",
    "disabledTools": "disabledTools",
    "enabledTools": "enabledTools",
    "disabled_tools": "disabledTools",
    "enabled_tools": "enabledTools",
    "excludeTools": "disabledTools",
    "includeTools": "enabledTools",
}


def maybe_config(path: str, data: bytes) -> bytes | None:
    """The servers in a client's file as a configuration; None when the file is ours, or no client's."""
    tree = read_document(path, data).tree
    if not isinstance(tree, dict) or not tree.keys() - _OURS:
        return None
    shape = _maybe_shape(tree, os.path.basename(path))
    if shape is None:
        return None
    servers = {
        entry.name: _translated(entry)
        for entry in in_table(tree, (), shape, "user")
        if entry.refusal is None and (entry.words or entry.url_key)
    }
    return msgspec.json.encode({"mcpServers": servers}) if servers else None


def _maybe_shape(tree: dict[str, Any], name: str) -> Shape | None:
    """How the client writes servers that has a file of this name, or a table that only it has.

    A key that is almost one of ours is a slip in a file of ours: it must not pass in silence.
    """
    import difflib

    if any(difflib.get_close_matches(str(key), _OURS, 1, 0.8) for key in tree.keys() - _OURS):
        return None
    having = [client for client in CLIENTS if _has(tree, client.shape)]
    for client in having:
        if any(file.rpartition("/")[2] == name for file in (*client.user, *client.project)):
            return client.shape
    return next((client.shape for client in having if client.shape.table[0] not in SERVER_TABLES), None)


def _has(tree: dict[str, Any], shape: Shape) -> bool:
    table: Any = tree
    for step in shape.table:
        table = table.get(step) if isinstance(table, dict) else None
    return isinstance(table, list if shape.is_list else dict) and bool(table)


def _translated(entry: Entry) -> dict[str, Any]:
    fields = entry.fields
    out: dict[str, Any] = {}
    if entry.words:
        command, *args = entry.words
        out |= {"command": command, "args": args}
        if entry.environment:
            out["env"] = entry.environment
    elif entry.url_key is not None:
        out["url"] = fields[entry.url_key]
        headers: Any = fields
        for step in entry.shape.headers:
            headers = headers.get(step) if isinstance(headers, dict) else None
        if isinstance(headers, dict) and headers:
            out["headers"] = {str(name): str(value) for name, value in headers.items()}
    for theirs, ours in _KEPT.items():
        if theirs in fields and not (theirs == "cwd" and "url" in out):
            out[ours] = fields[theirs]
    return out
