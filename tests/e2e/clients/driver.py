"""What all Python client drivers share: the command line, and the one line of JSON they print.

    CLIENT [--era auto|legacy|modern] [--at-once] [--call NAME JSON]...
           (--http URL | --sse URL | --stdio COMMAND ARGS...)

`--stdio` takes the rest of the line. With `--at-once` no call waits for another (in the legacy drivers).
DRIVER_TOKEN in the environment is shown over HTTP and SSE. The line printed has

    ok        the connection was made, and the tools were listed
    error     why not, if not: {type, code, message}
    version   protocol version agreed on;  server: its name
    tools     names, in the order received
    calls     one for each --call: the result as received, or {error: {code, message}}
    asked     methods that the server asked of this client meanwhile, all of which it answers
    progress  [progress, total] of every report received;  logs: data of every log message

Exit 0 if ok, else 1. Only the standard library: this runs beside either generation of the SDK.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from typing import Any

MODERN = "2026-07-28"
CONNECT_SECONDS = 30.0


@dataclass
class Report:
    client: str
    ok: bool = False
    error: dict[str, Any] | None = None
    version: str | None = None
    server: str | None = None
    tools: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    progress: list[list[float | None]] = field(default_factory=list)
    logs: list[Any] = field(default_factory=list)

    async def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append([progress, total])

    def blame(self, why: BaseException) -> None:
        """Remember why it failed; the innermost of a group, because task groups wrap what went wrong."""
        while isinstance(why, BaseExceptionGroup):
            why = why.exceptions[0]
        self.ok = False
        self.error = {"type": type(why).__name__, **error_of(why)}

    def finish(self) -> None:
        print(json.dumps(vars(self), ensure_ascii=False))
        sys.exit(0 if self.ok else 1)


def error_of(why: BaseException) -> dict[str, Any]:
    """Code and message of a JSON-RPC error; both generations of the SDK keep it in `error`."""
    data = getattr(why, "error", None)
    code = getattr(data, "code", None)
    return {"code": code, "message": str(getattr(data, "message", None) or why)}


def an_answer_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Something that fits a form: its defaults, else the first choice, else a plain value of the type."""
    plain = {"string": "something", "integer": 1, "number": 1.5, "boolean": True, "array": []}
    filled = {}
    for name, field_schema in schema.get("properties", {}).items():
        choices = field_schema.get("enum") or [choice["const"] for choice in field_schema.get("oneOf", [])]
        fallback = choices[0] if choices else plain.get(field_schema.get("type", "string"))
        filled[name] = field_schema.get("default", fallback)
    return filled


def parse(*, eras: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--era", choices=eras, default=eras[0])
    parser.add_argument("--call", nargs=2, action="append", default=[], metavar=("NAME", "JSON"))
    parser.add_argument("--at-once", action="store_true")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--http", metavar="URL")
    where.add_argument("--sse", metavar="URL")
    where.add_argument("--stdio", nargs=argparse.REMAINDER, metavar="COMMAND")
    chosen = parser.parse_args()
    chosen.call = [(name, json.loads(arguments)) for name, arguments in chosen.call]
    return chosen
