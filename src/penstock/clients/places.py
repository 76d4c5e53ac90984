"""Where on this machine a client's files would lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from penstock.clients.table import CLIENTS, Client

SCOPES = ("user", "project", "local", "all")


class Machine(Struct, frozen=True):
    """What decides about paths: the system, the home folder, the environment, the project's folder."""

    system: str  # as in sys.platform
    home: Path
    environ: Mapping[str, str]
    project: Path

    def expand(self, template: str) -> Path | None:
        """A path of the table on this machine; None when it is of another system."""
        values = {"home": str(self.home), "config": self._config(), "app": self._app()}
        if "{localapp}" in template:
            if self.system != "win32":
                return None
            values["localapp"] = self.environ.get("LOCALAPPDATA", str(self.home / "AppData" / "Local"))
        return Path(template.format_map(values))

    def _config(self) -> str:
        return self.environ.get("XDG_CONFIG_HOME") or str(self.home / ".config")

    def _app(self) -> str:
        if self.system == "darwin":
            return str(self.home / "Library" / "Application Support")
        if self.system == "win32":
            return self.environ.get("APPDATA", str(self.home / "AppData" / "Roaming"))
        return self._config()


class Place(Struct, frozen=True):
    """One file that exists and that a client reads."""

    client: Client
    scope: str  # "user" or "project"; entries of one project in the user's file are "local"
    path: Path


def places(machine: Machine, clients: tuple[Client, ...] = CLIENTS) -> Iterator[Place]:
    """Every file of `clients` that is there, in the order of the table."""
    for client in clients:
        seen = set()
        for scope, path in _paths(machine, client):
            if path not in seen and path.is_file():
                seen.add(path)
                yield Place(client, scope, path)


def _paths(machine: Machine, client: Client) -> Iterator[tuple[str, Path]]:
    moved = False
    for variable, below in client.home_variables:
        if folder := machine.environ.get(variable):
            moved = True
            yield "user", Path(folder, below) if below else Path(folder)
    for template in () if moved else client.user:
        path = machine.expand(template)
        if path is not None:
            yield from (("user", found) for found in _matching(path))
    for template in client.project:
        yield from (("project", found) for found in _matching(machine.project / template))


def _matching(path: Path) -> list[Path]:
    if "*" not in str(path):
        return [path]
    root = Path(path.anchor)
    return sorted(root.glob(str(path.relative_to(root))))
