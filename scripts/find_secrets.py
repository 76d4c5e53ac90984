"""Looks for secrets in tracked files: keys, tokens, passwords in URLs, strings of high entropy.

What `.secrets.baseline` lists was looked at and is none: samples in tests and documents. It is compared by
file, kind and hash, so that moving a line changes nothing. `--update` writes it anew; look at the change.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.core.secrets_collection import SecretsCollection
from detect_secrets.settings import transient_settings

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ".secrets.baseline"
FILTERS = """
    allowlist.is_line_allowlisted
    heuristic.is_indirect_reference heuristic.is_likely_id_string heuristic.is_lock_file
    heuristic.is_not_alphanumeric_string heuristic.is_potential_uuid
    heuristic.is_prefixed_with_dollar_sign heuristic.is_sequential_string heuristic.is_swagger_file
    heuristic.is_templated_secret
""".split()
"""All of the tool's own but the one that asks the provider whether a key works: nothing is sent anywhere."""

Finding = tuple[str, str, str]  # file, kind, hash


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    parser.add_argument("--update", action="store_true", help="take what is found now for no secret")
    options = parser.parse_args()
    found = scan(options.root)
    path = options.root / BASELINE
    if options.update:
        path.write_text(json.dumps([list(finding) for finding in sorted(found)], indent=1) + "\n")
        print(f"{len(found)} findings written to {BASELINE}.")
        return 0
    known = {tuple(finding) for finding in json.loads(path.read_text())} if path.exists() else set()
    new = sorted(set(found) - known)
    for finding in new:
        print(f"{finding[0]}:{found[finding]}: {finding[1]}")
    if new:
        print(f"{len(new)} new. A secret: take it out, and out of the history. None: --update.")
        return 1
    print(f"No secrets in tracked files ({len(known)} known samples).")
    return 0


def scan(root: Path) -> dict[Finding, int]:
    """Everything that looks like a secret in the tracked files of `root`, with its line."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    plugins = [{"name": kind.__name__} for kind in get_mapping_from_secret_type_to_class().values()]
    settings = {
        "plugins_used": plugins,
        "filters_used": [{"path": f"detect_secrets.filters.{name}"} for name in FILTERS],
    }
    collection = SecretsCollection(root=str(root))
    with transient_settings(settings):
        for name in names:
            if name and name != BASELINE and (root / name).is_file():
                collection.scan_file(name)
    return {(name, secret.type, secret.secret_hash): secret.line_number for name, secret in collection}


if __name__ == "__main__":
    sys.exit(main())
