"""Asking the server behind an entry for its tools, and somebody which of them to hide."""

from __future__ import annotations

from penstock.clients.entry import Entry
from penstock.commands.picker import pick
from penstock.commands.selectors import has_terminal, remark
from penstock.config.model import make_filter
from penstock.errors import ConfigError
from penstock.home.examination import bridge, tools_of
from penstock.home.tool_choice import Row, ToolChoice, rows_of
from penstock.home.trial import TrialFailed

_SECONDS = 120.0  # the first start of a package may download it


def pick_for(entries: list[Entry], kind: str, is_plain: bool) -> tuple[str, ...] | None:
    """The option words that somebody chose for these entries; None when they left. Raises ConfigError."""
    if len({entry.name for entry in entries}) > 1:
        raise ConfigError("Choosing by hand is for one server at a time", "Name one")
    if not is_plain and not has_terminal():
        raise ConfigError("There is no terminal to choose at", "Use --deny, --allow or --plain")
    entry = entries[0]
    remark(f"Asking {entry.name} for its tools ...")
    rows = _rows(entry)
    choice = ToolChoice(rows, _hidden_now(entry, rows))
    if not pick(choice, is_plain):
        return None
    words = choice.option(kind)
    if not words:
        remark("Nothing is hidden, so there is nothing to wrap it for.")
        return None
    return words


def _rows(entry: Entry) -> list[Row]:
    known = entry.wrapped
    env = dict(entry.environment)
    url = known.url if known is not None else entry.fields.get(entry.url_key or "")
    if isinstance(url, str):
        headers = {name: env.get(variable, "") for name, variable in (known.headers if known else ())}
        found = entry.fields.get(entry.shape.headers[0])
        headers |= found if isinstance(found, dict) else {}
        words = tuple(bridge(url, headers, env))
    else:
        words = known.upstream if known is not None else entry.words
    try:
        rows = rows_of(tools_of(words, env, _SECONDS))
    except TrialFailed as why:
        raise ConfigError(
            f"{entry.name} does not tell its tools", f"{why.text}; try penstock doctor"
        ) from None
    if not rows:
        raise ConfigError(f"{entry.name} has no tools")
    return rows


def _hidden_now(entry: Entry, rows: list[Row]) -> list[str]:
    """What the options of an entry that is wrapped already hide."""
    if entry.wrapped is None:
        return []
    options = entry.wrapped.options
    values: dict[str, list[str]] = {"--deny": [], "--allow": []}
    for place, word in enumerate(options[:-1]):
        if word in values:
            values[word].append(options[place + 1])
    known = make_filter(values["--deny"], values["--allow"], "--read-only" in options)
    return [row.name for row in rows if known.maybe_denial(row.name, row.is_read_only) is not None]
