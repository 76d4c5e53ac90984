"""Does it work, as the client would run it: each answer of the doctor by a real fault."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gate import SCRIPTED, wait_until
from home_folder import PENSTOCK, Home

SERVER = [sys.executable, "-S", str(SCRIPTED)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def _write(home: Home, **entries: dict[str, Any]) -> None:
    home.write("project", ".mcp.json", json.dumps({"mcpServers": entries}))


def _doctor(home: Home, *words: str, **env: str) -> tuple[int, dict[str, Any]]:
    done = home.run("doctor", "--format", "json", *words, **env)
    assert "Traceback" not in done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["code"] == done.returncode
    assert report["code"] == max(server["code"] for server in report["servers"])
    for server in report["servers"]:
        assert server["code"] == max((check["code"] for check in server["checks"]), default=0)
    return done.returncode, report


def _texts(report: dict[str, Any], code: int) -> list[str]:
    return [
        f"{check['check']}: {check['text']} {check['hint']}"
        for server in report["servers"]
        for check in server["checks"]
        if check["code"] == code
    ]


def _entry(*words: str, **more: Any) -> dict[str, Any]:
    return {"command": words[0], "args": list(words[1:]), **more}


def test_a_wrapped_server_that_works_is_ready_and_its_gate_is_shut(home: Home) -> None:
    _write(home, good=_entry(str(PENSTOCK), "--deny", "^write_", "--", *SERVER), plain=_entry(*SERVER))
    code, report = _doctor(home)
    assert code == 0, report
    texts = "\n".join(_texts(report, 0))
    assert "3 tools" in texts
    assert "4 tools" in texts
    assert "gate: denied tools are absent, unknown ones refused" in texts
    assert "legacy" in texts
    shown = home.run("doctor", "good", "--client", "claude-code")
    assert shown.returncode == 0
    assert shown.stdout.endswith("Ready.\n")


def test_a_server_of_which_nothing_is_left_is_named(home: Home) -> None:
    _write(home, gone=_entry(str(PENSTOCK), "--deny", ".", "--", *SERVER))
    code, report = _doctor(home)
    assert code == 0
    assert "gate: every tool is hidden, all 4 of them" in "\n".join(_texts(report, 0))
    assert "penstock wrap gone --pick" in home.run("doctor", "gone").stdout


def test_silence_and_a_port_where_nobody_listens_are_transient(home: Home) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
        _write(home, far={"type": "http", "url": url})
        code, report = _doctor(home)
    assert code == 10
    assert "cannot be reached" in _texts(report, 10)[0]
    _write(home, mute=_entry(*SERVER, "--mute", "initialize"))
    code, report = _doctor(home, "--start-timeout", "1500ms")
    assert code == 10
    assert "does not answer within 1.5 s" in _texts(report, 10)[0]


class _Refusing(BaseHTTPRequestHandler):
    status, header = 401, 'Bearer resource_metadata="https://login.example/x"'

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("WWW-Authenticate", self.header)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/mcp"
    server.shutdown()
    server.server_close()


def test_credentials_a_budget_and_a_lock_are_blocked(home: Home, refusing: str) -> None:
    _write(home, asks={"type": "http", "url": refusing})
    code, report = _doctor(home)
    assert code == 11
    assert "401" in _texts(report, 11)[0]
    assert "https://login.example/x" in _texts(report, 11)[0]
    _write(home, dear=_entry(str(PENSTOCK), "--max-tokens", "10", "--", *SERVER))
    code, report = _doctor(home)
    assert code == 11
    assert "more than --max-tokens 10" in _texts(report, 11)[0]
    assert home.run("lock", "l.lock", "--", *SERVER).returncode == 0
    pages = home.project / "pages"
    pages.write_text('{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}\n')
    lock = str(home.project / "l.lock")
    _write(home, odd=_entry(str(PENSTOCK), "--lock", lock, "--", *SERVER, "--pages", str(pages)))
    code, report = _doctor(home)
    assert code == 11, report
    assert "The tool echo has changed" in _texts(report, 11)[0]


def test_what_can_never_work_is_misconfigured(home: Home) -> None:
    bad = _entry(sys.executable, "-c", "import sys; sys.exit('no database')")
    _write(home, ends=bad)
    code, report = _doctor(home)
    assert code == 12
    assert "exited with status 1" in _texts(report, 12)[0]
    assert "no database" in _texts(report, 12)[0]
    _write(home, ends=_entry(str(PENSTOCK), "--deny", "x", "--", *[bad["command"], *bad["args"]]))
    code, report = _doctor(home)
    assert code == 12, "also behind the gate"
    _write(home, gone=_entry("/nowhere/penstock", "--deny", "x", "--", *SERVER))
    assert "is gone" in _texts(_doctor(home)[1], 12)[0]
    _write(home, unset=_entry(*SERVER, env={"A": "${PENSTOCK_NOBODY_SETS_THIS}"}))
    code, report = _doctor(home)
    assert code == 12
    assert "PENSTOCK_NOBODY_SETS_THIS is not set" in _texts(report, 12)[0]
    home.write("project", ".mcp.json", '{"mcpServers": {\n]')
    code, report = _doctor(home)
    assert code == 12
    assert "line 2" in _texts(report, 12)[0]


def test_a_value_that_a_client_would_ask_for_cannot_be_tried(home: Home) -> None:
    _write(home, asks=_entry(*SERVER, env={"A": "${input:token}"}))
    code, report = _doctor(home)
    assert code == 0
    assert any("cannot be tried here" in text for text in _texts(report, 0))


def test_an_interpreter_that_is_not_on_the_clients_path_is_named_and_no_child_is_left(home: Home) -> None:
    tools = home.root / "elsewhere"
    tools.mkdir()
    (tools / "odd-python").symlink_to(sys.executable)
    script = home.root / "server"
    script.write_text("#!/usr/bin/env odd-python\nraise SystemExit\n")
    script.chmod(0o755)
    _write(home, odd=_entry(str(script)))
    code, report = _doctor(home, PATH="/usr/bin:/bin")
    assert code == 12
    text = _texts(report, 12)[0]
    assert "odd-python" in text
    assert "not on the PATH" in text
    mark = "penstock-doctor-test-mark"
    child = f"import time; time.sleep(99) # {mark}"
    sleeper = f"import subprocess,sys,time; subprocess.Popen([sys.executable,'-c',{child!r}]); time.sleep(99)"
    _write(home, sleeps=_entry(sys.executable, "-c", sleeper))
    assert _doctor(home, "--start-timeout", "1s")[0] == 10

    def is_left() -> bool:
        found = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True)
        return mark in found.stdout

    assert wait_until(lambda: not is_left())


def test_an_upstream_on_the_command_line_is_examined_too(home: Home) -> None:
    code, report = _doctor(home, "--deny", "^write_", "--", *SERVER)
    assert code == 0
    assert any("3 tools" in text for text in _texts(report, 0))
    code, _ = _doctor(home, "--", "penstock-no-such-program")
    assert code == 12


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to say who has the port")
def test_a_port_that_is_taken_is_told_with_who_has_it(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        _write(home, serves=_entry(str(PENSTOCK), "--listen", port, "--deny", "x", "--", *SERVER))
        code, report = _doctor(home)
    assert code == 10
    assert f"127.0.0.1:{port} is taken by " in _texts(report, 10)[0]


def test_limits_of_a_client_are_known(home: Home) -> None:
    pages = home.project / "pages"
    names = ["n" * 70, *(f"t{number}" for number in range(90))]
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    pages.write_text(json.dumps({"tools": tools}) + "\n")
    text = json.dumps({"mcpServers": {"many": _entry(*SERVER, "--pages", str(pages))}})
    home.write("project", ".cursor/mcp.json", text)
    code, report = _doctor(home, "--client", "cursor")
    assert code == 11
    assert "Cursor takes 80" in "\n".join(_texts(report, 11))
    assert "names too long" in "\n".join(_texts(report, 11))
