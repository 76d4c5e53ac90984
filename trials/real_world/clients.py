"""Published clients in front of Penstock: each lists the tools of a published server and calls one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from trials.real_world.place import install, maybe_version, node_home, python_home
from trials.real_world.servers import PENSTOCK, Server, listening

DRIVERS = Path(__file__).parent / "drivers"
HIDDEN = "get-env"  # a tool of the server that no client may see
_SECONDS = 120


class Client(NamedTuple):
    """A published client, driven by a script of ours or by its own command line."""

    registry: str
    package: str
    kind: str = "library"  # or the name of its own program
    also: tuple[str, ...] = ()  # what it needs besides


class Seen(NamedTuple):
    """One row of the table."""

    label: str
    version: str
    stdio: str
    http: str
    is_right: bool


def try_client(client: Client, server: Server, is_installing: bool = True) -> Seen:
    """Lets it list and call over stdio and over HTTP."""
    why = install(client.registry, client.package, client.also) if is_installing else None
    version = maybe_version(client.registry, client.package)
    if why is not None or version is None:
        return Seen(client.package, "", f"not installed here: {why or ''}", "", True)
    with tempfile.TemporaryDirectory() as work:
        upstream = ["--deny", f"^{HIDDEN}$", "--", *server.command(work)]
        over_stdio = _outcome(client, ["stdio", *PENSTOCK, "--stdio", *upstream], work)
        with listening(upstream, server.environment()) as url:
            over_http = _outcome(client, ["http", url], work)
        if over_stdio.startswith("FAILED"):
            alone = _outcome(client, ["stdio", *server.command(work)], work, hides=False)
            if alone.startswith("FAILED"):
                words = f"fails without Penstock too: {alone.partition(': ')[2]}"
                return Seen(client.package, version, words, "", True)
    is_right = not any(word.startswith("FAILED") for word in (over_stdio, over_http))
    return Seen(client.package, version, over_stdio, over_http, is_right)


_PLACE = re.compile(r"(?: imported from)? (?:file://)?/\S+")  # where a program is here is nobody's business


def _outcome(client: Client, words: list[str], work: str, hides: bool = True) -> str:
    try:
        found = _driven(client, words, work)
    except (subprocess.TimeoutExpired, ValueError, KeyError, OSError) as error:
        return f"FAILED: {type(error).__name__}: {error}"[:160].replace("\n", " ")
    if "error" in found:
        return f"FAILED: {_PLACE.sub('', str(found['error']))}"[:160].replace("\n", " ")
    names = [str(name) for name in found["tools"]]
    if (hides and HIDDEN in names) or "echo" not in names:
        return f"FAILED: it sees {', '.join(names)}"
    if "said" not in str(found["said"]):
        return f"FAILED: echo answered {found['said']}"[:160]
    return f"{len(names)} tools, echo answers"


def _driven(client: Client, words: list[str], work: str) -> dict[str, Any]:
    env = {**os.environ, "HOME": work, "OPENAI_API_KEY": "none", "DO_NOT_TRACK": "1", "NO_COLOR": "1"}
    if client.kind != "library":
        return _commanded(client, words, work, env)
    if client.registry == "npm":
        program = shutil.which("node") or "node"
        command = [
            program,
            str(DRIVERS / "clients.mjs"),
            str(node_home(client.package)),
            client.package,
            *words,
        ]
    else:
        python = python_home(client.package) / "bin" / "python"
        command = [str(python), str(DRIVERS / "clients.py"), client.package, *words]
    done = _run(command, work, env)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"error": done.stderr.strip()[-160:] or f"exit {done.returncode}"}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _commanded(client: Client, words: list[str], work: str, env: dict[str, str]) -> dict[str, Any]:
    """Command lines of their own: one run lists, one calls."""
    program = str(node_home(client.package) / "node_modules" / ".bin" / client.kind)
    kind, *target = words
    entry = {"url": target[0]} if kind == "http" else {"command": target[0], "args": target[1:]}
    file = Path(work) / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"s": entry}}))
    listed = _run([program, "list", "s", "--json", "--config", str(file)], work, env)
    called = _run([program, "call", "s.echo", "message=said", "--config", str(file)], work, env)
    found = json.loads(listed.stdout)
    tools = found.get("tools") or found["servers"][0]["tools"]
    return {"tools": [tool["name"] for tool in tools], "said": called.stdout}


def _run(command: list[str], work: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=work, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
