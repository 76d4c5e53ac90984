"""One server in a client's file: what it is, whether it is wrapped, whether it can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from penstock.clients.client_file import ClientFile
from penstock.clients.table import Client, Shape
from penstock.clients.wrapped_words import Wrapped, maybe_wrapped
from penstock.config.formats.document import Path


class Entry(Struct, frozen=True):
    """One server as the file has it."""

    name: str
    scope: str
    path: Path  # of the object that holds `command`
    shape: Shape
    fields: dict[str, Any]
    refusal: str | None = None  # why it cannot be wrapped

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its command; none when it is a URL."""
        command = self.fields.get(self.shape.command)
        if isinstance(command, list):
            return tuple(map(str, command))
        if not isinstance(command, str):
            return ()
        args = self.fields.get(self.shape.args or "") or []
        return (command, *(map(str, args) if isinstance(args, list) else ()))

    @property
    def wrapped(self) -> Wrapped | None:
        """The parts of a wrapped command; None when it is plain."""
        return maybe_wrapped(self.words)

    @property
    def url_key(self) -> str | None:
        """The member that holds its URL, if it has one."""
        found = [name for name in self.shape.urls if isinstance(self.fields.get(name), str)]
        return found[0] if found and not self.words else None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the entry sets."""
        found = self.fields.get(self.shape.env)
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    @property
    def state(self) -> str:
        """What `penstock clients` says of it."""
        wrapped = self.wrapped
        if wrapped is not None:
            return f"wrapped: {wrapped.shown}" if wrapped.options else "wrapped, nothing hidden"
        if self.refusal is not None:
            return f"cannot wrap: {self.refusal}"
        return "plain (url)" if self.url_key else "plain"


def entries(file: ClientFile, client: Client, scope: str, project: str) -> Iterator[Entry]:
    """Every server in the file; those for one project in a user's file only for `project`."""
    tree = file.tree
    if not isinstance(tree, dict):
        return
    shape = client.shape
    if client.name == "continue" and file.form == "json":
        shape = Shape(remote_types=("http", "sse"))
    yield from in_table(tree, (), shape, scope)
    if client.has_local_scope and scope == "user":
        projects = tree.get("projects")
        inner = projects.get(project) if isinstance(projects, dict) else None
        if isinstance(inner, dict):
            yield from in_table(inner, ("projects", project), shape, "local")


def in_table(tree: dict[str, Any], path: Path, shape: Shape, scope: str) -> Iterator[Entry]:
    """The servers in the table of a client's file, or of a part of it."""
    table: Any = tree
    for step in shape.table:
        table = table.get(step) if isinstance(table, dict) else None
    path = (*path, *shape.table)
    if shape.is_list and isinstance(table, list):
        for place, fields in enumerate(table):
            if isinstance(fields, dict):
                yield _entry(str(fields.get("name", place)), scope, (*path, place), shape, fields)
    elif isinstance(table, dict):
        for name, fields in table.items():
            if isinstance(fields, dict):
                yield _entry(name, scope, (*path, name), shape, fields)


def _entry(name: str, scope: str, path: Path, shape: Shape, fields: dict[str, Any]) -> Entry:
    inner = fields.get("transport")
    if isinstance(inner, dict):  # one of Cline's two spellings
        path, fields = (*path, "transport"), inner
    command = fields.get(shape.command)
    if isinstance(command, dict) and isinstance(command.get("path"), str):  # as Zed wrote it before
        old = Shape(table=shape.table, command="path", env=shape.env)
        return Entry(name, scope, (*path, "command"), old, command)
    return Entry(name, scope, path, shape, fields, _maybe_refusal(shape, fields))


def _maybe_refusal(shape: Shape, fields: dict[str, Any]) -> str | None:
    kind = fields.get(shape.type)
    if fields.get("source") == "extension":
        return "an extension's"
    if kind in ("builtin", "platform", "frontend", "inline_python"):
        return "built in"
    command = fields.get(shape.command)
    if (
        shape.args is None
        and isinstance(command, list)
        and all(isinstance(w, str) for w in command)
        and command
    ):
        return None
    if isinstance(command, str) and command and shape.args is not None:
        args = fields.get(shape.args, [])
        if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
            return "its args are no list of texts"
        return None
    if any(isinstance(fields.get(name), str) for name in shape.urls):
        return None if shape.takes_urls else "this client takes no URLs"
    return "an extension's" if "settings" in fields else "it names no command"
