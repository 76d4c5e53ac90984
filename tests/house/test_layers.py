"""The house stands as drawn: who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "penstock"

PLAIN = {"digests", "errors", "lazy_imports", "limits", "__init__"}  # anybody may import these
ALLOWED = {
    "wire": set(),
    "policy": {"wire"},
    "bridge": {"wire"},
    "net": {"wire"},
    "state": {"wire"},
    "gate": {"policy", "wire"},
    "relay": {"gate", "policy", "bridge", "wire"},
    "auth": {"policy", "wire", "net"},
    "downstream": {"auth", "relay", "gate", "policy", "wire", "net"},
    "upstream": {"relay", "gate", "policy", "wire", "net"},
    "observe": {"relay", "gate", "policy", "wire", "net", "state"},
    "learn": {"observe", "relay", "gate", "policy", "wire", "state"},
    "effects": {"relay", "gate", "policy", "wire", "net", "state"},
    "fleet": {"downstream", "relay", "gate", "policy", "wire", "net", "state"},
    "clients": {"config", "policy", "wire"},
    "home": {"clients", "config", "policy", "wire"},
    "watch": {"observe", "relay", "gate", "policy", "wire", "net", "state"},
}
ROOMS = sorted(room for room in ALLOWED if (SOURCE / room).is_dir())
FILES = sorted(path for room in ROOMS for path in (SOURCE / room).rglob("*.py"))


def _imports(path: Path) -> set[str]:
    """Every module that the file imports, anywhere in it, with full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            found.add(node.module)
            if node.module == "penstock":
                found.update(f"penstock.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_arrows_point_one_way(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0]
    for module in _imports(path):
        if module.startswith("penstock."):
            other = module.split(".")[1]
            assert other in ALLOWED[room] | PLAIN | {room} or other.startswith("__"), (
                f"{room} imports {module}"
            )


@pytest.mark.parametrize("room", ["wire", "policy"])
def test_what_decides_does_no_io(room: str) -> None:
    forbidden = {"asyncio", "socket", "subprocess", "threading", "select", "selectors", "ssl", "os", "time"}
    for path in (SOURCE / room).rglob("*.py"):
        roots = {module.split(".")[0] for module in _imports(path)}
        assert not roots & forbidden, path


def test_only_the_composition_root_knows_everybody() -> None:
    inside = {f"penstock.{path.stem}" for path in SOURCE.glob("*.py")} - {
        f"penstock.{name}" for name in PLAIN
    }
    for path in FILES:
        assert not _imports(path) & inside, f"{path.name} imports what stands above it"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_opens_with_what_it_promises(path: Path) -> None:
    if path.name == "__init__.py" and not path.read_text().strip():
        return
    assert ast.get_docstring(ast.parse(path.read_text())), path


def test_no_file_asks_the_question() -> None:
    long = {
        path.name: count
        for path in SOURCE.rglob("*.py")
        if (count := len(path.read_text().splitlines())) > 450 and path.name != "limits.py"  # a table
    }
    assert not long, "over 400 lines is a question to ask yourself"
