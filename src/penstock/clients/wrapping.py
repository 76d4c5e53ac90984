"""The edits that wrap an entry, give it other options, or take Penstock out of it again."""

from __future__ import annotations

import re
from typing import Any

from penstock.clients.client_file import CannotEdit
from penstock.clients.edits import Edit, InsertAfter, Remove, Rename, Replace, ReplaceHead
from penstock.clients.entry import Entry
from penstock.clients.wrapped_words import Wrapped, wrapped_words
from penstock.config.formats.document import Path

_VARIABLE = "PENSTOCK_HEADER_"


def wrap_edits(entry: Entry, penstock: str, options: tuple[str, ...]) -> list[Edit]:
    """What puts Penstock before the entry's upstream, or changes its options. Raises CannotEdit."""
    if entry.refusal is not None:
        raise CannotEdit(entry.refusal)
    known = entry.wrapped
    if known is None and entry.url_key is not None:
        return _wrap_url(entry, penstock, options)
    if known is None:
        known = Wrapped(options, entry.words)
    elif not known.upstream and known.url is None:
        raise CannotEdit("its Penstock takes the upstream from a file")
    new = Wrapped(options, known.upstream, known.url, known.headers)
    return _with_words(entry, wrapped_words(penstock, new), len(known.upstream))


def unwrap_edits(entry: Entry, before: dict[str, Any] | None = None) -> list[Edit]:
    """What takes Penstock out. `before` is the entry as it was, where that is known. Raises CannotEdit."""
    known = entry.wrapped
    if known is None:
        return []
    if known.url is not None:
        return _unwrap_url(entry, known, before or {})
    if not known.upstream:
        raise CannotEdit("its Penstock takes the upstream from a file")
    edits: list[Edit] = _with_words(entry, known.upstream, len(known.upstream) - 1)
    args = entry.shape.args
    if args is not None and len(known.upstream) == 1 and before is not None and args not in before:
        edits = [*(edit for edit in edits if isinstance(edit, Replace)), Remove((*entry.path, args))]
    return edits


def _with_words(entry: Entry, words: tuple[str, ...], kept: int) -> list[Edit]:
    """The edits after which the entry's command is `words`, of which the last `kept` stay as they stand."""
    shape, path = entry.shape, entry.path
    if words == entry.words:
        return []
    if shape.args is None:
        old = len(entry.words)
        return [ReplaceHead((*path, shape.command), old - kept, words[: len(words) - kept])]
    edits: list[Edit] = []
    if words[0] != entry.words[0]:
        edits.append(Replace((*path, shape.command), words[0]))
    new = words[1:]
    if shape.args not in entry.fields:
        return [*edits, InsertAfter((*path, shape.command), shape.args, list(new))] if new else edits
    # The command itself may have become the last word in front, or the other way round.
    kept = min(kept, len(entry.words) - 1, len(new))
    count = len(entry.words) - 1 - kept
    return [*edits, ReplaceHead((*path, shape.args), count, new[: len(new) - kept])]


def _wrap_url(entry: Entry, penstock: str, options: tuple[str, ...]) -> list[Edit]:
    """A URL becomes a command. Values of headers stay in place: their table becomes that of variables."""
    shape, path, key = entry.shape, entry.path, entry.url_key
    assert key is not None
    if len(shape.headers) > 1 and _headers(entry):
        raise CannotEdit("its headers lie deeper than variables do")
    edits: list[Edit] = []
    pairs: list[tuple[str, str]] = []
    headers = _headers(entry)
    if headers and entry.environment:
        raise CannotEdit("it has headers and variables; put them together by hand")
    for name in headers:
        variable = _VARIABLE + re.sub("[^A-Z0-9]", "_", name.upper())
        if variable in dict(pairs).values():
            raise CannotEdit("two of its headers have nearly the same name")
        pairs.append((name, variable))
        edits.append(Rename((*path, shape.headers[0], name), variable))
    if headers:
        edits.append(Rename((*path, shape.headers[0]), shape.env))
    options += _codex_headers(entry, edits)
    words = wrapped_words(penstock, Wrapped(options, (), entry.fields[key], tuple(pairs)))
    edits.append(Rename((*path, key), shape.command))
    if shape.args is None:
        edits.append(Replace((*path, key), list(words)))
    else:
        edits += [Replace((*path, key), words[0]), InsertAfter((*path, key), shape.args, list(words[1:]))]
    if entry.fields.get(shape.type) in shape.remote_types:
        edits.append(Replace((*path, shape.type), shape.local_type))
    return edits


def _headers(entry: Entry) -> dict[str, str]:
    found: Any = entry.fields
    for step in entry.shape.headers:
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _codex_headers(entry: Entry, edits: list[Edit]) -> tuple[str, ...]:
    """Headers that Codex takes from variables: it must pass those variables on, and we read them."""
    token = entry.fields.get("bearer_token_env_var")
    others = entry.fields.get("env_http_headers")
    if others:
        raise CannotEdit("its env_http_headers cannot be passed on; use http_headers")
    if not isinstance(token, str):
        return ()
    where: Path = (*entry.path, "bearer_token_env_var")
    edits += [Rename(where, "env_vars"), Replace(where, [token])]
    return ("--header", f"Authorization: Bearer ${{{token}}}")


def _unwrap_url(entry: Entry, known: Wrapped, before: dict[str, Any]) -> list[Edit]:
    shape, path = entry.shape, entry.path
    key = next((name for name in shape.urls if name in before), shape.urls[0])
    edits: list[Edit] = [
        Rename((*path, shape.command), key),
        Replace((*path, shape.command), known.url),
    ]
    if shape.args is not None:
        edits.append(Remove((*path, shape.args)))
    ours = [(name, variable) for name, variable in known.headers if variable in entry.environment]
    if ours and len(ours) != len(entry.environment):
        raise CannotEdit("it has variables of its own beside the headers; take them apart by hand")
    for name, variable in ours:
        edits.append(Rename((*path, shape.env, variable), name))
    if ours:
        edits.append(Rename((*path, shape.env), shape.headers[0]))
    if entry.fields.get(shape.type) == shape.local_type and shape.remote_types:
        kind = before.get(shape.type, shape.remote_types[0])
        edits.append(Replace((*path, shape.type), kind))
    tokens = entry.fields.get("env_vars")
    if "--header" in known.options and isinstance(tokens, list) and len(tokens) == 1:
        edits += [
            Rename((*path, "env_vars"), "bearer_token_env_var"),
            Replace((*path, "env_vars"), tokens[0]),
        ]
    return edits
