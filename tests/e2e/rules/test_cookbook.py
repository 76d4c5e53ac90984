"""Every recipe of the cookbook holds in front of the published server that it is meant for."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from gate import DEADLINE, ROOT, SCRIPTED, wait_until
from ruled import Hook

BIN = ROOT / ".peers" / "node" / "node_modules" / ".bin"
PAGE = (ROOT / "docs" / "rules.md").read_text().split("# Cookbook\n")[1]
RECIPES = dict(re.findall(r"^## ([^\n]+)\n.*?```yaml\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(not (BIN / "mcp-server-filesystem").exists(), reason="run scripts/node_setup first"),
]

TRIED: dict[str, Callable[[Path], None]] = {}


def recipe(heading: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def keep(check: Callable[[Path], None]) -> Callable[[Path], None]:
        TRIED[heading] = check
        return check

    return keep


class Kitchen:
    """A published server behind one recipe, and a client that speaks over stdin and stdout."""

    def __init__(self, work: Path, heading: str, *server: str, change: Callable[[str], str] = str) -> None:
        text = change(RECIPES[heading])
        self.heard = work / "heard"  # what reached the server
        self.heard.touch()
        name, *words = server
        if not (BIN / name).exists():
            pytest.skip(f"{name} is not here: run scripts/node_setup")
        command = f"tee -a {shlex.quote(str(self.heard))} | {shlex.join([str(BIN / name), *words])}"
        config = {**yaml.safe_load(text), "upstream": {"command": ["sh", "-c", command]}}
        self.file = work / "penstock.json"
        self.file.write_text(json.dumps(config))
        self.errors = work / "stderr"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "--stdio", "--config", str(self.file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._number = 0
        self.questions = 0
        info = {"name": "cook", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {"sampling": {}}, "clientInfo": info}
        self.ask("initialize", hello)
        self._say({"method": "notifications/initialized"})
        self.tools = {tool["name"] for tool in self.ask("tools/list")["result"]["tools"]}

    def ask(self, method: str, params: Any = None) -> Any:
        self._number += 1
        self._say({"id": self._number, "method": method, **({} if params is None else {"params": params})})
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                return message
            if message.get("method") == "sampling/createMessage":
                self.questions += 1
                assert "tools" not in message["params"]
                said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "well"}}
                self._say({"id": message["id"], "result": said})
        raise AssertionError(self.errors.read_text())

    def call(self, tool: str, **arguments: Any) -> Any:
        assert tool in self.tools, f"{tool} is none of {sorted(self.tools)}"
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def text(self, tool: str, **arguments: Any) -> str:
        """What a call that is answered by the server says."""
        answer = self.call(tool, **arguments)
        assert not answer["result"].get("isError"), answer
        return "".join(part.get("text", "") for part in answer["result"]["content"])

    def refusal(self, tool: str, **arguments: Any) -> str:
        """What a call is told that never reaches the server."""
        before = self.heard.read_bytes()
        answer = self.call(tool, **arguments)
        assert self.heard.read_bytes() == before, "it reached the server"
        if "error" in answer:
            return str(answer["error"]["message"])
        assert answer["result"]["isError"] is True
        return str(answer["result"]["content"][0]["text"])

    def _say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def __enter__(self) -> Kitchen:
        return self

    def __exit__(self, *why: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(DEADLINE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()


def test_every_recipe_is_tried() -> None:
    assert set(TRIED) == set(RECIPES)
    assert len(RECIPES) == len(re.findall(r"^## ", PAGE, re.MULTILINE))


@pytest.mark.parametrize("heading", RECIPES)
def test_a_recipe_holds(heading: str, tmp_path: Path) -> None:
    TRIED[heading](tmp_path)


@pytest.mark.parametrize("heading", RECIPES)
def test_check_finds_nothing_wrong_with_a_recipe(heading: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPES[heading])
    command = [sys.executable, "-m", "penstock", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def _workspace(work: Path) -> Path:
    root = (work / "workspace").resolve()
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n")
    return root


@recipe("A filesystem that is only read")
def _reading(work: Path) -> None:
    root = _workspace(work)
    with Kitchen(work, "A filesystem that is only read", "mcp-server-filesystem", str(root)) as kitchen:
        assert kitchen.text("read_text_file", path=f"{root}/a.txt") == "one\ntwo\n"
        for tool, arguments in (
            ("write_file", {"path": f"{root}/b", "content": "x"}),
            ("move_file", {"source": f"{root}/a.txt", "destination": f"{root}/b"}),
            ("create_directory", {"path": f"{root}/c"}),
        ):
            assert kitchen.refusal(tool, **arguments) == "Not allowed by any rule"
    assert [path.name for path in root.iterdir()] == ["a.txt"]


@recipe("No secrets in arguments")
def _secrets(work: Path) -> None:
    secret = "AKIA" + "ABCDEFGH" * 2
    repository = {"owner": "o", "repo": "r", "branch": "main", "message": "m"}
    with Kitchen(work, "No secrets in arguments", "mcp-server-github") as kitchen:
        for files in (
            [{"path": "a", "content": f"key = {secret}"}],
            [{"path": "a", "content": "fine"}, {"path": "b", "content": json.dumps({"deep": [secret]})}],
            [{"path": secret, "content": "fine"}],
        ):
            told = kitchen.refusal("push_files", **repository, files=files)
            assert told == "The arguments hold a secret. Leave it out."
        # Given as a text, which some servers read as the list that it spells.
        escaped = json.dumps([{"path": "a", "content": secret}]).replace("AKIA", "\\u0041KIA")
        assert "secret" in kitchen.refusal("push_files", **repository, files=escaped)
        # Without a token the server fails, but it is asked.
        kitchen.call("push_files", **repository, files=[{"path": "a", "content": "fine"}])
        assert kitchen.heard.read_text().count('"push_files"') == 1
        assert secret not in kitchen.errors.read_text()


@recipe("A search that is not asked too often")
def _search(work: Path) -> None:
    root = _workspace(work)
    with Kitchen(work, "A search that is not asked too often", "mcp-server-filesystem", str(root)) as kitchen:
        assert "a.txt" in kitchen.text("search_files", path=str(root), pattern="**/*.txt")
        assert kitchen.refusal("search_files", path=str(root), pattern="*") == "Rate limit exceeded"
        assert kitchen.text("read_text_file", path=f"{root}/a.txt")


@recipe("Nothing goes out after something untrusted came in")
def _taint(work: Path) -> None:
    heading = "Nothing goes out after something untrusted came in"
    with Kitchen(work, heading, "mcp-server-everything") as kitchen:
        assert kitchen.text("toggle-simulated-logging")
        assert kitchen.text("echo", message="x")
        kitchen.call("gzip-file-as-resource", name="a.gz", data="data:text/plain,hello")
        told = "This session has read untrusted content. It can only look from now on."
        assert kitchen.refusal("toggle-simulated-logging") == told
        assert kitchen.text("echo", message="still") == "Echo: still"


@recipe("Mail addresses are masked in results")
def _mails(work: Path) -> None:
    root = _workspace(work)
    (root / "mail.txt").write_text("From: a.b@c.example\nTo: everybody\n")
    with Kitchen(work, "Mail addresses are masked in results", "mcp-server-filesystem", str(root)) as kitchen:
        answer = kitchen.call("read_text_file", path=f"{root}/mail.txt")
        assert "@c.example" not in json.dumps(answer)
        assert answer["result"]["content"][0]["text"] == "From: [masked]\nTo: everybody\n"


@recipe("Long answers are cut")
def _long(work: Path) -> None:
    root = _workspace(work)
    (root / "long.txt").write_text("ä" * 20_000)
    with Kitchen(work, "Long answers are cut", "mcp-server-filesystem", str(root)) as kitchen:
        text = kitchen.text("read_text_file", path=f"{root}/long.txt")
        assert text == "ä" * 8192 + "\n[cut by Penstock: ask for less, with head or tail]"
        assert kitchen.text("read_text_file", path=f"{root}/a.txt") == "one\ntwo\n"


@recipe("Somebody has to approve")
def _approve(work: Path) -> None:
    root = _workspace(work)

    def decide(told: dict[str, Any]) -> tuple[int, bytes]:
        is_fine = told["message"]["params"]["arguments"].get("content") == "fine"
        return 200, b'{"decision":"allow"}' if is_fine else b'{"decision":"block","reason":"Ada says no"}'

    with Hook(decide) as hook:

        def at_home(text: str) -> str:
            url = f'"http://127.0.0.1:{hook.port}/", allow_http: true, allow_private: true'
            return text.replace('"https://approvals.example.org/ask"', url)

        heading = "Somebody has to approve"
        with Kitchen(work, heading, "mcp-server-filesystem", str(root), change=at_home) as kitchen:
            assert kitchen.text("write_file", path=f"{root}/b.txt", content="fine")
            assert kitchen.refusal("write_file", path=f"{root}/c.txt", content="bad") == "Ada says no"
            assert kitchen.text("read_text_file", path=f"{root}/a.txt")
    assert len(hook.told) == 2
    assert sorted(path.name for path in root.iterdir()) == ["a.txt", "b.txt"]


@recipe("Shadow traffic for the next version")
def _shadow(work: Path) -> None:
    notes = work / "shadow"
    notes.touch()
    shadow = json.dumps([sys.executable, "-S", str(SCRIPTED), "--record", str(notes)])

    def to_a_command(text: str) -> str:
        return text.replace('url: "https://next.example.org/mcp"', f"command: {shadow}")

    heading = "Shadow traffic for the next version"
    with Kitchen(work, heading, "mcp-server-everything", change=to_a_command) as kitchen:
        assert kitchen.text("echo", message="both hear this") == "Echo: both hear this"
        assert wait_until(lambda: b"both hear this" in notes.read_bytes())


@recipe("Lists are asked for once")
def _lists(work: Path) -> None:
    with Kitchen(work, "Lists are asked for once", "mcp-server-everything") as kitchen:
        first, second = kitchen.ask("prompts/list"), kitchen.ask("prompts/list")
        assert first["result"] == second["result"]
        assert first["result"]["prompts"]
        assert kitchen.heard.read_text().count('"prompts/list"') == 1


@recipe("A jail for paths")
def _jail(work: Path) -> None:
    root = _workspace(work)
    outside = (work / "outside").resolve()
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (root / "link").symlink_to(outside)
    # The server itself may read both: only the recipe keeps them apart.
    server = ("mcp-server-filesystem", str(root), str(outside))

    def here(text: str) -> str:
        return text.replace("/workspace", str(root))

    with Kitchen(work, "A jail for paths", *server, change=here) as kitchen:
        assert kitchen.text("read_text_file", path=f"{root}/a.txt") == "one\ntwo\n"
        assert "one" in kitchen.text("read_multiple_files", paths=[f"{root}/a.txt"])
        for path in (
            f"{outside}/secret.txt",
            f"{root}/link/secret.txt",
            f"{root}/../outside/secret.txt",
            f"{root}/link/../outside/secret.txt",
            f'"{outside}/secret.txt"',
            f" {outside}/secret.txt",
            "../outside/secret.txt",
            "a.txt",
        ):
            assert kitchen.refusal("read_text_file", path=path) == f"Only below {root}", path
        both = [f"{root}/a.txt", f"{outside}/secret.txt"]
        assert kitchen.refusal("read_multiple_files", paths=both)
        assert kitchen.refusal("move_file", source=f"{root}/a.txt", destination=f"{outside}/a.txt")
        assert kitchen.refusal("move_file", source=f"{outside}/secret.txt", destination=f"{root}/b.txt")
        assert kitchen.refusal("write_file", path=f"{root}/link/new.txt", content="x")
        assert kitchen.text("move_file", source=f"{root}/a.txt", destination=f"{root}/b.txt")
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


@recipe("Enough errors")
def _errors(work: Path) -> None:
    root = _workspace(work)
    with Kitchen(work, "Enough errors", "mcp-server-filesystem", str(root)) as kitchen:
        for _ in range(2):
            answer = kitchen.call("read_text_file", path=f"{root}/none.txt")
            assert "error" in answer or answer["result"]["isError"]
        assert kitchen.refusal("read_text_file", path=f"{root}/a.txt") == "Too many errors in this session"


@recipe("Only during office hours")
def _hours(work: Path) -> None:
    def is_open() -> bool:
        now = datetime.now(ZoneInfo("Europe/Berlin"))
        return now.weekday() < 5 and 8 <= now.hour < 18

    with Kitchen(work, "Only during office hours", "mcp-server-everything") as kitchen:
        before = is_open()
        answer = kitchen.call("echo", message="x")["result"]
        if is_open() is before:  # else the clock struck just now
            assert (not answer.get("isError")) is before
            words = "Echo: x" if before else "Come back on a workday, between eight and six."
            assert answer["content"][0]["text"] == words


@recipe("A tool that seems not to exist")
def _opaque(work: Path) -> None:
    heading = "A tool that seems not to exist"
    with Kitchen(work, heading, "mcp-server-everything") as kitchen:
        assert kitchen.refusal("get-env") == "Tool not found: get-env"
        assert kitchen.text("echo", message="x") == "Echo: x"
    listener = subprocess.Popen(
        [sys.executable, "-m", "penstock", "--listen", "0", "--config", str(kitchen.file)],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    try:
        assert listener.stderr is not None
        port = 0
        while not port:
            line = listener.stderr.readline().decode()
            assert line, "it ended"
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            port = int(found[1]) if found else 0
        assert "Tool not found" in _over_http(port, {})
        assert "PATH" in _over_http(port, {"X-Team": "ops"})
    finally:
        listener.terminate()
        listener.communicate(timeout=DEADLINE)


def _over_http(port: int, more: dict[str, str]) -> str:
    """The answer to a call of get-env with these headers, in a session of its own."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **more}

    def post(message: dict[str, Any]) -> tuple[str, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
        response = connection.getresponse()
        return response.read().decode(), response

    info = {"name": "cook", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    _, response = post({"id": 1, "method": "initialize", "params": hello})
    headers["Mcp-Session-Id"] = str(response.getheader("mcp-session-id"))
    post({"method": "notifications/initialized"})
    return post({"id": 2, "method": "tools/call", "params": {"name": "get-env", "arguments": {}}})[0]


@recipe("No sampling with tools")
def _sampling(work: Path) -> None:
    with Kitchen(work, "No sampling with tools", "mcp-server-everything") as kitchen:
        # The tool comes once the server knows that its client has a model.
        kitchen.tools = {tool["name"] for tool in kitchen.ask("tools/list")["result"]["tools"]}
        for _ in range(6):
            kitchen.call("trigger-sampling-request", prompt="hi", maxTokens=5)
        assert kitchen.questions == 5
