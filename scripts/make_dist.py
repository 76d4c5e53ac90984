"""Builds wheel and sdist twice, and the wheel again from the sdist: all must be the same bytes.

python scripts/make_dist.py [DIR]     into DIR, default dist
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(source: Path, target: Path, *what: str) -> dict[str, str]:
    """The names of what was built, with digests."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), *what, str(source)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in target.iterdir()}


def main() -> int:
    """Builds and compares; 1 when the bytes differ."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        first = build(ROOT, work / "first", "--wheel", "--sdist")
        second = build(ROOT, work / "second", "--wheel", "--sdist")
        sdist = next((work / "first").glob("*.tar.gz"))
        with tarfile.open(sdist) as archive:
            archive.extractall(work / "source", filter="data")
        third = build(next((work / "source").iterdir()), work / "third", "--wheel")
        same = first == second and all(first[name] == digest for name, digest in third.items())
        if not same:
            print("Two builds of the same source differ")
            return 1
        target.mkdir(parents=True, exist_ok=True)
        for path in (work / "first").iterdir():
            (target / path.name).write_bytes(path.read_bytes())
    wheel = next(name for name in first if name.endswith(".whl"))
    formula = (ROOT / "packaging" / "penstock.rb").read_text().replace("SHA256_OF_THE_WHEEL", first[wheel])
    (target / "penstock.rb").write_text(formula)
    for name, digest in sorted(first.items()):
        print(f"{digest}  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
