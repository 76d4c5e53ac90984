"""The plain relay for stdio: our few lines of C where there is a compiler, else socat."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from bench.targets import ROOT, Place, Spec, relay


def relay_spec(work: Path) -> Spec | None:
    binary = work / "relay"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler and not binary.exists():
        source = str(ROOT / "bench" / "relay.c")
        subprocess.run([compiler, "-O2", "-o", str(binary), source], check=False, capture_output=True)
    if binary.exists():
        return relay([str(binary)], "relay")
    socat = shutil.which("socat")
    if socat is None:
        return None

    def command(place: Place) -> list[str]:
        return [socat, "-", "EXEC:" + shlex.join(place.words()).replace(",", "\\,").replace(":", "\\:")]

    return Spec("socat", "stdio", "stdio", command)
