"""The hub: who may ask it, what it says, and that traffic never waits for it (4, 9, 11 to 13, 19, 21, 26)."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as penstock_package
from gate import SAMPLE, Gate
from live import Hub, asked, until
from penstock.watch import runtime
from penstock.watch.api import routes
from watched import penstock, run

CANARY = "sk-canary0canary0canary0canary0"
SECRET = "hunter2-hunter2"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    users = tmp_path_factory.mktemp("users") / "users"
    lines = [
        f"{role} {role} {hashlib.sha256(f'token-{role}'.encode()).hexdigest()}"
        for role in ("view", "approve")
    ]
    users.write_text("\n".join(lines))
    with Hub("--users", str(users)) as found:
        yield found


@pytest.fixture(scope="module")
def gate(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    work = tmp_path_factory.mktemp("gate")
    words = [
        "--dashboard",
        "auto",
        "--deny",
        "^delete_",
        "--record",
        str(work / "r.jsonl"),
        "--audit",
        str(work / "a.jsonl"),
    ]
    with Gate(work, *words, command=["python3", str(SAMPLE)]) as found:
        found.handshake()
        found.ask("tools/list")
        for number in range(5):
            found.ask(
                "tools/call",
                b'{"name":"echo","arguments":{"text":"t%d","password":"%b"}}' % (number, SECRET.encode()),
            )
        found.ask(
            "tools/call", b'{"name":"echo","arguments":{"text":"%b", "a":1e400, "a":2 }}' % CANARY.encode()
        )
        found.say(
            b'{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"delete_file","arguments":{}}}'
        )
        found.answer(b"900")
        hub.rows("method:tools/call", 12)
        yield found


ROUTES = [(method, asked(pattern), role) for method, pattern, role in routes()]


@pytest.mark.parametrize(("method", "path", "role"), ROUTES)
def test_9_nothing_without_a_token(hub: Hub, method: str, path: str, role: str) -> None:
    body = None if method == "GET" else {}
    for token in ("x", "Bearer", "x" * 300):
        assert hub.call(method, path, body, token=token)[0] == 401
    assert hub.call(method, f"{path}?token={hub.token}", body, token="-")[0] == 401
    assert hub.call(method, path, body, Host=f"evil.example:{hub.port}")[0] == 403
    assert hub.call(method, path, body, Host=f"127.0.0.1:{hub.port + 1}")[0] == 403
    assert hub.call(method, path, body, Host="127.0.0.1")[0] == 403
    assert hub.call(method, path, body, Origin="http://evil.example")[0] == 403
    assert hub.call(method, path, body, Origin=f"http://127.0.0.1:{hub.port + 1}")[0] == 403
    assert hub.call(method, path, body, Origin="null")[0] == 403
    for site in ("cross-site", "same-site"):
        assert hub.call(method, path, body, Sec_Fetch_Site=site)[0] == 403
    if method != "GET":
        assert hub.call(method, path, body, Content_Type="text/plain")[0] == 415


@pytest.mark.parametrize(("method", "path", "role"), [one for one in ROUTES if one[0] != "GET"])
def test_12_who_only_looks_changes_nothing(hub: Hub, method: str, path: str, role: str) -> None:
    token = hub.call("POST", "login", {"token": "token-view"})[1]["token"]
    status = hub.call(method, path, {}, token=token)[0]
    assert status == (200 if path == "logout" else 403)


def test_12_who_approves_neither_edits_nor_replays(hub: Hub, gate: Gate) -> None:
    token = hub.call("POST", "login", {"token": "token-approve"})[1]["token"]
    assert hub.call("GET", "me", token=token)[1] == {"who": "approve", "role": "approve"}
    for method, path in (("PUT", "breakpoints/x"), ("POST", "try"), ("POST", "exchanges/1/replay")):
        assert hub.call(method, path, {"filter": "a"}, token=token)[0] == 403


def test_10_a_code_is_good_once_and_guessing_ends(tmp_path: Path) -> None:
    with Hub() as own:
        code = own.code()
        assert own.call("POST", "login", {"code": code})[0] == 200
        assert own.call("POST", "login", {"code": code})[0] == 401
        for _ in range(4):
            assert own.call("POST", "login", {"code": "wrong"})[0] == 401
        assert own.call("POST", "login", {"code": own.code()})[0] == 429
        assert code not in own.said()
        assert code.encode() not in b"".join(
            path.read_bytes() for path in Path(own.folder).rglob("*") if path.is_file()
        )


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/%2e%2e/api.py", "//etc/passwd", "/site/app.js", "/app.js/"]
)
def test_only_the_files_of_the_page_are_served(hub: Hub, path: str) -> None:
    assert hub.raw("GET", path)[0] in (400, 404)
    status, page = hub.raw("GET", "/")
    assert status == 200
    assert b"Penstock" in page


def test_4_the_bytes_of_an_untouched_message_are_the_wires(hub: Hub, gate: Gate) -> None:
    row = hub.rows("from:client tool:echo")[-1]
    seq = row["seq"]
    status, shown = hub.raw("GET", f"/api/v1/messages/{seq}/bytes")
    assert b'"a":1e400, "a":2 }' in shown  # masked, and every other byte as it was
    assert CANARY.encode() not in shown
    assert hub.call("POST", f"messages/{seq}/reveal", {})[0] == 200
    status, shown = hub.raw("GET", f"/api/v1/messages/{seq}/bytes")
    assert status == 200
    assert b'{"text":"%b", "a":1e400, "a":2 }' % CANARY.encode() in shown
    audited = until(lambda: b'"reveal"' in (gate.record.parent / "a.jsonl").read_bytes())
    assert audited


def test_4_what_nobody_touched_is_to_the_byte_what_went_by_live_and_in_a_recording(
    hub: Hub, gate: Gate
) -> None:
    asked = (
        b'{"id" : 9041,"jsonrpc":"2.0", "params":{"arguments":{"path":"\\u00fc \xc3\xbc \\/", "n":1e400,'
        b'"n":1.0},"name":"read_file"}, "method":"tools/call" }'
    )
    gate.say(asked)
    answered = gate.answer(b"9041")
    for words, wire in (("id:9041 from:client", asked), ("id:9041 from:upstream", answered)):
        (row,) = hub.rows(words)
        assert hub.raw("GET", f"/api/v1/messages/{row['seq']}/bytes") == (200, wire.rstrip(b"\n"))
    path = gate.record.parent / "r.jsonl"
    until(lambda: asked in path.read_bytes() and answered.rstrip(b"\n") in path.read_bytes())
    with Hub(str(path), folder=hub.folder) as recorded:
        for words, wire in (("id:9041 from:client", asked), ("id:9041 from:upstream", answered)):
            (row,) = recorded.rows(words)
            assert recorded.raw("GET", f"/api/v1/messages/{row['seq']}/bytes") == (200, wire.rstrip(b"\n"))


def test_21_a_try_over_a_recording_says_of_each_message_what_backtest_says(
    hub: Hub, gate: Gate, tmp_path: Path
) -> None:
    rules = (
        'interceptor: {rules: [{id: no, conditions: [{tool: echo}], actions: [{block: "never"}]},'
        '{id: read, conditions: [{tool: read_file}], actions: [{block: "not today"}]}]}'
    )
    config, path = tmp_path / "rules.yaml", gate.record.parent / "r.jsonl"
    config.write_text(rules)
    gate.ask("tools/call", b'{"name":"read_file","arguments":{"path":"README.md"}}')
    until(lambda: b"README.md" in path.read_bytes())
    done = run("backtest", str(path), "--config", str(config), "--format", "json")
    told = json.loads(done.stdout)
    expected = {
        (index, one["rule"])
        for one in told["differences"]
        for index in one["indexes"]
        if one["kind"] == "newly blocked"
    }
    assert len(expected) == told["newly_blocked"] >= 6
    with Hub(str(path), folder=hub.folder) as recorded:
        until(lambda: recorded.get("rows?limit=1")["total"] >= told["messages"])
        status, found = recorded.call("POST", "try", {"rules": rules})
        assert (status, found["faults"]) == (200, [])
        blocked = {
            (recorded.get(f"messages/{one['seq']}")["index"], one["rule"])
            for one in found["verdicts"]
            if one["verdict"] == "block"
        }
    assert blocked == expected


def test_13_secrets_are_in_no_answer_until_somebody_reveals_them(hub: Hub, gate: Gate) -> None:
    token = hub.call("POST", "login", {"token": "token-view"})[1]["token"]
    rows = hub.rows("tool:echo")
    paths = [path for method, path, _ in ROUTES if method == "GET" and path != "events"]
    paths += [f"messages/{row['seq']}" for row in rows] + [f"messages/{row['seq']}/bytes" for row in rows]
    for path in paths:
        _, data = hub.raw("GET", f"/api/v1/{path}", token=token)
        assert SECRET.encode() not in data, path
        assert CANARY.encode() not in data, path
    for words in (SECRET, f"arg.password:{SECRET}", f"text~{SECRET[:5]}.*", f"arg.text:{CANARY}"):
        status, found = hub.call("GET", f"rows?filter={words}", token=token)
        assert status == 200
        assert found["matched"] == 0, words
    assert hub.call("GET", f"rows?filter=arg.password:{SECRET}")[1]["matched"] == 5


def test_21_try_judges_as_backtest_does(hub: Hub, gate: Gate, tmp_path: Path) -> None:
    rules = 'interceptor: {rules: [{id: no, conditions: [{tool: echo}], actions: [{block: "never"}]}]}'
    status, found = hub.call("POST", "try", {"rules": rules, "filter": "method:tools/call"})
    assert status == 200
    assert found["faults"] == []
    assert found["blocked"] == 6
    config = tmp_path / "rules.yaml"
    config.write_text(rules)
    done = run("backtest", str(gate.record.parent / "r.jsonl"), "--config", str(config), "--format", "json")
    assert json.loads(done.stdout)["newly_blocked"] == found["blocked"], done.stderr
    status, found = hub.call(
        "POST", "try", {"rules": "interceptor: {rules: [{id: no, actions: [{blok: x}]}]}"}
    )
    assert found["faults"][0]["line"] == 1
    assert "blok" in found["faults"][0]["message"]


@pytest.mark.parametrize(
    "rules",
    [
        "interceptor: {rules: [{id: a, actions: [{transform: 'os:getcwd'}]}]}",
        "interceptor: {interceptors: [{class: 'antigravity.x'}]}",
        "tools: {lock: /etc/passwd}",
        "upstream: {command: [touch, /tmp/never]}",
    ],
)
def test_try_imports_and_runs_nothing(hub: Hub, gate: Gate, rules: str) -> None:
    status, found = hub.call("POST", "try", {"rules": rules})
    assert status == 200
    assert found["faults"]


def test_26_tools_cost_what_penstock_tools_says_and_the_proposal_meets_the_budget(
    hub: Hub, gate: Gate
) -> None:
    words = ["--deny", "^delete_", "--", "python3", str(SAMPLE)]
    told = json.loads(penstock("tools", "--format", "json", *words))
    found = hub.get("tools?budget=150")
    assert found["tokens"] == {name: told["tokens"][name] for name in ("allowed", "denied")}
    assert found["budget"]["used"] == told["tokens"]["allowed"]
    fix = found["budget"]["fix"].rpartition("--deny '")[2].rstrip("'")
    fixed = json.loads(penstock("tools", "--format", "json", "--deny", fix, *words))
    assert fixed["tokens"]["allowed"] <= 150


@pytest.mark.parametrize(
    "words", [["watch", "--web", "0.0.0.0:1"], ["--dashboard", "0.0.0.0:1", "--", "true"]]
)
def test_11_off_loopback_it_takes_tls_and_users(words: list[str]) -> None:
    done = run(*words)
    assert done.returncode == 1
    assert b"--cert" in done.stderr
    assert b"--users" in done.stderr


def test_19_approve_without_a_dashboard_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("interceptor: {rules: [{id: ask, conditions: [{tool: x}], actions: [approve]}]}\n")
    done = run("--config", str(config), "--", "true")
    assert done.returncode == 1
    assert b'The rule "ask" wants a person to approve, and there is no dashboard' in done.stderr
    done = run("check", str(config))
    assert done.returncode == 1
    assert b"needs a dashboard" in done.stderr
    config.write_text("dashboard: {listen: auto}\n" + config.read_text())
    assert run("check", str(config)).returncode == 0


def test_the_sockets_are_ours_alone(hub: Hub, gate: Gate) -> None:
    for path in [*runtime.taps(), *runtime.hubs()]:
        assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(runtime.runtime_folder()).st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="another user's socket takes root to try")
def test_another_user_is_not_heard(hub: Hub, gate: Gate) -> None:
    path = runtime.taps()[0]
    script = (
        "import os,socket,sys\nos.setgid(65534);os.setuid(65534)\ns=socket.socket(socket.AF_UNIX)\n"
        "s.settimeout(3)\ntry:\n s.connect(sys.argv[1]); print(s.recv(10))\nexcept OSError: print(b'')\n"
    )
    folder, rights = os.path.dirname(path), os.stat(path).st_mode
    try:
        os.chmod(os.path.dirname(folder), 0o755)
        os.chmod(folder, 0o755)
        os.chmod(path, 0o666)  # as if somebody had opened it
        done = subprocess.run(
            [sys.executable, "-S", "-c", script, path], capture_output=True, text=True, check=False
        )
    finally:
        os.chmod(path, rights)
        os.chmod(folder, 0o700)
    assert done.stdout.strip() == "b''", done.stderr


def test_a_hub_that_hangs_or_dies_slows_and_loses_no_message(hub: Hub, tmp_path: Path) -> None:
    with (
        Hub(folder=hub.folder) as hung,
        Gate(tmp_path, "--dashboard", "auto", command=["python3", str(SAMPLE)]) as gate,
    ):
        gate.handshake()
        pid = str(gate.process.pid)
        until(
            lambda: any(
                str(one["pid"]) == pid and one["connected"] for one in hung.get("instances")["instances"]
            )
        )
        os.kill(hung.process.pid, signal.SIGSTOP)
        text = b"x" * 200_000
        for _ in range(80):  # twice what may wait for a hub
            answer = gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"%b"}}' % text)
            assert len(answer["result"]["content"][0]["text"]) > 200_000
        os.kill(hung.process.pid, signal.SIGCONT)
        gate.ask("ping")
        lost = until(
            lambda: (gate.ask("ping"), sum(one["lost"] for one in hung.get("instances")["instances"]))[1]
        )
        assert 0 < lost < 160
        os.kill(hung.process.pid, signal.SIGKILL)
        for _ in range(20):
            gate.ask("ping")
        assert gate.ask("ping")["result"] == {}


def test_a_hub_as_our_child_dies_with_us(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Gate(tmp_path, "--dashboard", str(port), command=["python3", str(SAMPLE)]) as gate:
        gate.handshake()
        path = runtime.hub_path(port)
        until(lambda: os.path.exists(path), lambda: gate.errors.read_text())
        gate.end()
    until(lambda: not os.path.exists(path))
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), 2).close()


def test_6_without_a_dashboard_nothing_of_it_is_imported() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "penstock", "--", "python3", str(SAMPLE)]
    done = subprocess.run(words, input=b"", capture_output=True, timeout=60, check=False)
    assert b"penstock.serve_stdio" in done.stderr
    assert b"penstock.watch" not in done.stderr
    assert b"penstock.gate.held" not in done.stderr
    assert b"penstock.observe." not in done.stderr


def test_5_while_nobody_attends_little_more_than_a_ring_is_loaded(tmp_path: Path) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "penstock", "--dashboard", "auto"]
    hello = b'{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}'
    asked = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%b}\n'
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{}}}\n' % hello
    )
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    words += ["--", "python3", str(SAMPLE)]
    done = subprocess.run(words, input=asked, capture_output=True, timeout=60, check=False, env=env)
    assert done.stdout.count(b"\n") == 2, done.stderr[-500:]
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines() if b"|" in line}
    assert {"penstock.watch.dashboard", "penstock.watch.ring"} <= loaded
    for name in ("audience", "holds", "line_socket", "tap_line", "process_facts", "hub_child"):
        assert f"penstock.watch.{name}" not in loaded
    for name in ("auditor", "masking", "recorder", "recording", "rows", "writing", "filter_words"):
        assert f"penstock.observe.{name}" not in loaded
    assert not [name for name in loaded if name.startswith("penstock.policy.rules")]
    assert not {"hashlib", "ipaddress", "ssl", "penstock.gate.held", "penstock.replay_call"} & loaded


def test_6_the_page_is_small_and_asks_nobody_else() -> None:
    site = Path(penstock_package.__file__).parent / "watch" / "site"
    sizes = {kind: sum(len(path.read_bytes()) for path in site.glob(f"*.{kind}")) for kind in ("js", "css")}
    assert sizes["js"] <= 120_000
    assert sizes["css"] <= 20_000
    for path in site.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, path
        assert "https://" not in text, path
        assert "innerHTML" not in text, path


def test_lines_for_pipes_and_recordings(hub: Hub, gate: Gate) -> None:
    path = str(gate.record.parent / "r.jsonl")
    lines = until(lambda: penstock("watch", path, "--lines", "--filter", "tool:delete_file").splitlines())
    assert "tools/call" in lines[0]
    assert "deny" in lines[0]
    found = [json.loads(line) for line in penstock("watch", path, "--format", "json").splitlines()]
    assert SECRET not in json.dumps(found)
    assert {"method", "tool", "verdict", "text"} <= set(found[-1])
    done = run("watch", path, "--filter", "tool:[ nope>")
    assert done.returncode == 2
