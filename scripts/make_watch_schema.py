"""Writes schema/watch-api.json: the API of the live view, as OpenAPI."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.watch.api_schema import api_schema

TARGET = Path(__file__).resolve().parent.parent / "schema" / "watch-api.json"

if __name__ == "__main__":
    text = json.dumps(api_schema(), indent=2) + "\n"
    if "--check" in sys.argv:
        sys.exit(TARGET.read_text() != text)
    TARGET.write_text(text)
