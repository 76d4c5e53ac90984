"""Whether everything that carries a version carries this one, before a tag is set.

python scripts/release_check.py VERSION
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def faults(version: str, root: Path = ROOT) -> Iterator[str]:
    """What does not carry `version`, a sentence each."""
    if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?", version):
        yield f"{version} is no version"
    found = re.search(r'__version__ = "(.*)"', (root / "src/penstock/__init__.py").read_text())
    if found is None or found[1] != version:
        yield f"src/penstock/__init__.py says {found and found[1]}"
    if not re.search(rf"^## {re.escape(version)}\b", (root / "CHANGELOG.md").read_text(), re.M):
        yield f"CHANGELOG.md has no section ## {version}"
    server = json.loads((root / "packaging/server.json").read_text())
    if {server["version"], *(package["version"] for package in server["packages"])} != {version}:
        yield f"packaging/server.json says {server['version']}"
    if len(server["description"]) > 100:
        yield "packaging/server.json: the description has more than 100 characters"
    if f"mcp-name: {server['name']}" not in (root / "README.md").read_text():
        yield f"README.md does not say mcp-name: {server['name']}"
    if f"/v{version}/penstock-{version}-" not in (root / "packaging/penstock.rb").read_text():
        yield "packaging/penstock.rb is of another version"
    for name in ("Dockerfile", "Dockerfile.node"):
        if f"ARG VERSION={version}\n" not in (root / name).read_text():
            yield f"{name} is of another version"


def main() -> int:
    """Prints every fault; 1 when there is one."""
    if len(sys.argv) != 2:
        print("Usage: make release-check VERSION=x.y.z")
        return 2
    told = list(faults(sys.argv[1]))
    stale = subprocess.run([sys.executable, str(ROOT / "scripts/make_share.py"), "--check"], check=False)
    for fault in told:
        print(fault)
    if not told and not stale.returncode:
        print(f"Everything says {sys.argv[1]}.")
    return 1 if told or stale.returncode else 0


if __name__ == "__main__":
    raise SystemExit(main())
