"""Writes schema/penstock.schema.json. With --check, only says whether it is up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.config.schema import make_schema
from penstock.policy.rules.interceptor_config import json_schema

PLACE = Path(__file__).resolve().parent.parent / "schema" / "penstock.schema.json"


def text() -> str:
    """What should be in the file."""
    return json.dumps(make_schema(json_schema()), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    if "--check" in sys.argv:
        is_current = PLACE.exists() and PLACE.read_text() == text()
        print(f"{PLACE.name} is {'' if is_current else 'not '}up to date")
        return 0 if is_current else 1
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
