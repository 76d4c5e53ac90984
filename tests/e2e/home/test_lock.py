"""A lock: what was agreed to passes, and nothing else, over every way in."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate import ROOT, SCRIPTED, Gate, wait_until
from home_folder import PENSTOCK
from penstock.config.lock_file import load_lock
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.tool_lists import shows_hidden_tools
from penstock.wire.mcp.message import Message, read_upstream_message

DESCRIBED = ROOT / "tests" / "upstreams" / "described.py"
STATE: dict[str, Any] = {
    "instructions": "Be kind.",
    "tools": [
        {"name": "send", "description": "Sends mail.", "inputSchema": {"type": "object"}, "_meta": {"v": 1}},
        {"name": "read", "description": "Reads mail.", "inputSchema": {"type": "object", "maximum": 1.0}},
        {"name": "drop", "description": "Drops mail.", "inputSchema": {"type": "object"}},
    ],
    "prompts": [{"name": "greet", "description": "Greets."}, {"name": "part", "description": "Parts."}],
}


class Place:
    """A folder with an upstream's state and a lock of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file, self.lock = folder / "state.json", folder / "penstock.lock"
        self.command = [sys.executable, "-S", str(DESCRIBED), str(self.file)]
        self.write(STATE)

    def write(self, state: object, **style: Any) -> None:
        self.file.write_text(json.dumps(state, ensure_ascii=False, **style), encoding="utf-8")

    def run(self, *words: str, upstream: bool = True) -> subprocess.CompletedProcess[str]:
        tail = ["--", *self.command] if upstream else []
        return subprocess.run(
            [str(PENSTOCK), *words, *tail],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
        )

    def gate(self, *words: str) -> Gate:
        return Gate(self.folder, "--lock", str(self.lock), *words, command=self.command)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    done = made.run("lock", "penstock.lock")
    assert done.returncode == 0, done.stderr
    return made


def _changed(**tools: dict[str, Any]) -> dict[str, Any]:
    state = json.loads(json.dumps(STATE))
    for tool in state["tools"]:
        tool.update(tools.get(tool["name"], {}))
    return state


def _names(gate: Gate) -> list[str]:
    return [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]]


def _call(gate: Gate, name: str) -> Any:
    return gate.ask("tools/call", json.dumps({"name": name, "arguments": {}}).encode())


def test_the_lock_is_sorted_json_with_one_member_a_line_and_whole_definitions(place: Place) -> None:
    text = place.lock.read_text()
    tree = json.loads(text)
    assert text.endswith("}\n")
    assert "\r" not in text
    assert list(tree) == sorted(tree)
    assert tree["penstock_lock"] == 1
    assert tree["order"] == ["send", "read", "drop"]
    assert tree["tools"]["send"]["definition"] == STATE["tools"][0]
    assert tree["instructions"] == "Be kind."
    assert '"maximum": 1.0' in text
    assert all(line.count('": ') <= 1 for line in text.splitlines() if '"description"' not in line)


def test_everything_passes_that_is_as_it_was_locked(place: Place) -> None:
    with place.gate() as gate:
        assert gate.handshake()["result"]["instructions"] == "Be kind."
        assert _names(gate) == ["send", "read", "drop"]
        assert "result" in _call(gate, "send")
        assert [prompt["name"] for prompt in gate.ask("prompts/list")["result"]["prompts"]] == [
            "greet",
            "part",
        ]
        assert "result" in gate.ask("prompts/get", b'{"name":"greet"}')


@pytest.mark.parametrize(
    ("state", "withheld", "said"),
    [
        (_changed(send={"description": "Sends mail!"}), "send", "The tool send has changed"),
        (_changed(send={"description": "Sends\u200b mail."}), "send", "Sends\\u200b mail."),
        (_changed(send={"_meta": {"v": 2}}), "send", "The tool send has changed"),
        (
            _changed(send={"name": "sent"}),
            "sent",
            "The tool sent is new; it looks like send under a new name",
        ),
        (
            {**STATE, "tools": [*STATE["tools"], {"name": "more", "inputSchema": {"type": "object"}}]},
            "more",
            "The tool more is new",
        ),
    ],
    ids=["one character", "one that cannot be seen", "_meta", "renamed", "new"],
)
def test_a_changed_renamed_or_new_tool_is_withheld_and_the_others_work(
    place: Place, state: dict[str, Any], withheld: str, said: str
) -> None:
    place.write(state)
    with place.gate() as gate:
        gate.handshake()
        names = _names(gate)
        assert withheld not in names
        assert {"read", "drop"} <= set(names)
        assert "result" in _call(gate, "read")
        refused, unknown = _call(gate, withheld), _call(gate, "nobody")
        assert refused["error"] == {"code": -32601, "message": f"Tool not found: {withheld}"}
        assert unknown["error"]["code"] == -32601
        assert said in gate.stderr
    strict = place.run("--lock", "penstock.lock", "--lock-strict", "--listen", "0")
    assert strict.returncode == 1
    assert said in strict.stderr
    checked = place.run("lock", "penstock.lock", "--check")
    assert checked.returncode == 3
    assert said in checked.stdout
    told = place.run("lock", "penstock.lock", "--check", "--format", "json")
    assert told.returncode == 3
    assert said in json.loads(told.stdout)["differences"][0]


def test_changed_prompts_are_left_out_and_changed_instructions_are_cut_out(place: Place) -> None:
    prompts = [{"name": "greet", "description": "Greets!"}, STATE["prompts"][1], {"name": "new"}]
    place.write({**STATE, "instructions": "Be unkind.", "prompts": prompts})
    with place.gate() as gate:
        assert "instructions" not in gate.handshake()["result"]
        assert [prompt["name"] for prompt in gate.ask("prompts/list")["result"]["prompts"]] == ["part"]
        for name, code in (("greet", -32601), ("new", -32601), ("nobody", -32601)):
            answer = gate.ask("prompts/get", json.dumps({"name": name}).encode())
            assert answer["error"]["code"] == code
        assert "result" in gate.ask("prompts/get", b'{"name":"part"}')
        assert "The prompt greet has changed" in gate.stderr
        assert "+ Be unkind." in gate.stderr


def test_differences_in_denied_tools_do_not_count(place: Place) -> None:
    place.write(_changed(send={"description": "Sends spam."}))
    done = place.run(
        "tools", "--deny", "^send$", "--lock", "penstock.lock", "--lock-strict", "--format", "names"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["read", "drop"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-5],
        lambda text: text.replace("Reads mail.", "Reads all mail."),
        lambda text: text.replace('"sha256:', '"sha256:0', 1),
        lambda text: text.replace('"penstock_lock": 1', '"penstock_lock": 2'),
        lambda text: text.replace('"send": {', '"sent": {'),
        lambda text: "",
        lambda text: "[]",
        None,
    ],
    ids=["cut off", "edited", "digest", "version", "renamed", "empty", "no object", "missing"],
)
def test_a_lock_that_is_broken_missing_or_edited_by_hand_is_an_error(place: Place, spoil: Any) -> None:
    if spoil is None:
        place.lock.unlink()
    else:
        place.lock.write_text(spoil(place.lock.read_text()))
    done = place.run("--lock", "penstock.lock")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "lock" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_spelling_of_the_upstream_changes_nothing_but_numbers_are_as_written(place: Place) -> None:
    turned = {**STATE, "tools": [dict(reversed(tool.items())) for tool in STATE["tools"]]}
    place.write(turned, indent=3, separators=(" , ", " : "))
    assert place.run("lock", "penstock.lock", "--check").returncode == 0
    place.file.write_text(json.dumps(STATE).replace("1.0", "1"))
    done = place.run("lock", "penstock.lock", "--check")
    assert done.returncode == 3
    assert "The tool read has changed" in done.stdout
    assert '-         "maximum": 1.0' in done.stdout.replace("  -", "-") or '"maximum": 1.0' in done.stdout


def test_the_order_is_that_of_the_lock(place: Place) -> None:
    place.write({**STATE, "tools": STATE["tools"][::-1]})
    with place.gate() as gate:
        gate.handshake()
        assert _names(gate) == ["send", "read", "drop"]
    with place.gate("--order", "upstream") as gate:
        gate.handshake()
        assert _names(gate) == ["drop", "read", "send"]


def test_an_update_takes_over_one_tool_or_all_and_needs_a_word(place: Place) -> None:
    place.write(_changed(send={"description": "S."}, read={"description": "R."}))
    before = place.lock.read_text()
    asked = place.run("lock", "penstock.lock", "--update", "send")
    assert asked.returncode == 1
    assert place.lock.read_text() == before
    assert place.run("lock", "penstock.lock", "--update", "send", "--yes").returncode == 0
    after = place.lock.read_text()
    changed = [line for line in after.splitlines() if line not in before.splitlines()]
    assert len(changed) == 2, "the description and the digest of send"
    assert place.run("lock", "penstock.lock", "--update", "--yes").returncode == 0
    assert place.run("lock", "penstock.lock", "--check").returncode == 0
    assert place.run("lock", "penstock.lock").returncode == 2, "a lock is never written over"


def test_what_differs_in_every_session_is_named_and_can_be_ignored(tmp_path: Path) -> None:
    made = Place(tmp_path)
    made.write(_changed(send={"_meta": {"v": 1, "session": "{N}"}}))
    done = made.run("lock", "penstock.lock")
    assert done.returncode == 1
    assert "--ignore-member _meta.session" in done.stderr
    assert not made.lock.exists()
    assert made.run("lock", "penstock.lock", "--ignore-member", "_meta.session").returncode == 0
    assert json.loads(made.lock.read_text())["ignore"] == ["_meta.session"]
    with made.gate() as gate:
        gate.handshake()
        assert _names(gate) == ["send", "read", "drop"]


def test_no_variable_header_or_query_is_written_down(tmp_path: Path) -> None:
    made = Place(tmp_path)
    done = made.run("lock", "penstock.lock", "--env", "SECRET=hunter22")
    assert done.returncode == 0
    assert "hunter22" not in made.lock.read_text()


def _post(url: str, session: dict[str, str], message: dict[str, Any]) -> Any:
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **session}
    with urllib.request.urlopen(
        urllib.request.Request(url, json.dumps(message).encode(), head), timeout=20
    ) as answer:
        if answer.headers.get("Mcp-Session-Id"):
            session["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        text = answer.read().decode()
    lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
    return json.loads(lines[-1]) if lines[-1].strip() else None


@contextlib.contextmanager
def _listening(folder: Path, *words: str) -> Iterator[str]:
    errors = folder / f"listening{len(list(folder.glob('listening*')))}"
    with errors.open("wb") as file:
        process = subprocess.Popen([PENSTOCK, "--listen", "0", *words], stderr=file, stdin=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: "Listening on" in errors.read_text() or process.poll() is not None)
        found = re.search(r"http://\S+/mcp", errors.read_text())
        assert found is not None, errors.read_text()
        yield found[0]
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("is_far", [False, True], ids=["a command", "a URL"])
def test_over_http_the_same_passes_and_the_same_does_not(place: Place, is_far: bool) -> None:
    prompts = [{"name": "greet", "description": "Greets!"}, STATE["prompts"][1]]
    state = _changed(send={"description": "Sends spam."})
    place.write({**state, "instructions": "Be unkind.", "prompts": prompts})
    with contextlib.ExitStack() as stack:
        upstream = ["--", *place.command]
        if is_far:
            upstream = ["--upstream", stack.enter_context(_listening(place.folder, *upstream))]
        url = stack.enter_context(_listening(place.folder, "--lock", str(place.lock), *upstream))
        session: dict[str, str] = {}

        def ask(method: str, params: dict[str, Any]) -> Any:
            return _post(url, session, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

        client = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        assert "instructions" not in ask("initialize", client)["result"]
        _post(url, session, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert [tool["name"] for tool in ask("tools/list", {})["result"]["tools"]] == ["read", "drop"]
        assert ask("tools/call", {"name": "send", "arguments": {}})["error"]["code"] == -32601
        assert "result" in ask("tools/call", {"name": "read", "arguments": {}})
        assert [prompt["name"] for prompt in ask("prompts/list", {})["result"]["prompts"]] == ["part"]
        assert ask("prompts/get", {"name": "greet"})["error"]["code"] == -32601
        assert "result" in ask("prompts/get", {"name": "part"})


def test_an_unasked_list_of_tools_does_not_get_past_a_lock(place: Place) -> None:
    choice = ToolFilter(lock=load_lock(str(place.lock)))
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"send","description":"Sends spam."}]}}'
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    assert shows_hidden_tools(message, choice)
    assert not shows_hidden_tools(message, ToolFilter())


def test_a_definition_that_changes_later_is_not_shown(tmp_path: Path) -> None:
    made = Place(tmp_path)
    made.command = [sys.executable, "-S", str(SCRIPTED)]
    assert made.run("lock", "penstock.lock").returncode == 0
    with made.gate() as gate:
        gate.handshake()
        assert "echo" in _names(gate)
        worse = '{"tools":[{"name":"echo","description":"worse","inputSchema":{"type":"object"}}]}'
        gate.order("retool", raw=worse)
        listed = gate.ask("tools/list")["result"]["tools"]
        assert "worse" not in json.dumps(listed)
