"""The hub on every address of the machine: TLS, users with roles, and nobody else (acceptance 9, 11, 12).

It listens on 0.0.0.0 and is asked over loopback only.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import Authority
from gate import SAMPLE, Gate
from live import Hub, asked
from penstock.watch.api import routes
from watched import run

ROLES = ("view", "approve", "control")
EVERYWHERE = "0.0.0.0"


class Far:
    """A hub off loopback, with one user for each role and a proxy that it watches."""

    def __init__(self, work: Path) -> None:
        self.authority = Authority(work)
        self.cert, self.key, _ = self.authority.sign("hub.example")
        self.tokens: dict[str, str] = {}
        lines = ["# who may look"]
        for role in ROLES:
            token, line = new_user(f"{role}-user", role)
            self.tokens[role] = token
            lines.append(line)
        self.users = work / "users"
        self.users.write_text("\n".join(lines) + "\n")
        self.hub = Hub(*self.words(), address=EVERYWHERE, authority=self.authority.file)
        self.gate = Gate(work, "--dashboard", "auto", command=["python3", str(SAMPLE)])
        self.gate.handshake()
        self.gate.ask("tools/call", b'{"name":"echo","arguments":{"password":"hunter2-far"}}')
        self.hub.rows("tool:echo", 2)
        self.bearers = {role: self.log_in(role) for role in ROLES}

    def words(self) -> list[str]:
        return ["--cert", self.cert, "--key", self.key, "--users", str(self.users)]

    def log_in(self, role: str) -> str:
        status, found = self.hub.call("POST", "login", {"token": self.tokens[role]}, token="-")
        assert status == 200, found
        assert (found["who"], found["role"]) == (f"{role}-user", role)
        return str(found["token"])

    def close(self) -> None:
        self.gate.__exit__(None, None, None)
        self.hub.close()


def new_user(name: str, role: str) -> tuple[str, str]:
    """The token of a new user, and the line of the file."""
    done = run("token", "new", name, "--role", role)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip(), done.stderr.decode().splitlines()[-1]


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    made = Far(tmp_path_factory.mktemp("far"))
    yield made
    made.close()


def test_it_speaks_tls_and_nothing_else(far: Far) -> None:
    hub = far.hub
    with socket.create_connection(("127.0.0.1", hub.port), 5) as plain:
        plain.sendall(f"GET / HTTP/1.1\r\nHost: {hub.host}\r\n\r\n".encode())
        try:
            assert b"HTTP/1.1" not in plain.recv(4096)
        except ConnectionResetError:
            pass
    status, page = hub.raw("GET", "/", token="-")
    assert status == 200
    assert b"Penstock" in page
    assert f"https://hub.example:{hub.port}/" in hub.said()


HOSTS = [
    ("127.0.0.1:{port}", 200),
    ("localhost:{port}", 200),
    ("hub.example:{port}", 200),
    ("HUB.example:{port}", 200),
    ("hub.example", 403),
    ("hub.example:{other}", 403),
    ("evil.example:{port}", 403),
    ("0.0.0.0:{port}", 403),
    ("hub.example.evil.example:{port}", 403),
]


@pytest.mark.parametrize(("host", "status"), HOSTS)
def test_9_its_names_are_those_of_the_certificate(far: Far, host: str, status: int) -> None:
    shown = host.format(port=far.hub.port, other=far.hub.port + 1)
    assert far.hub.raw("GET", "/api/v1/me", token=far.bearers["view"], Host=shown)[0] == status


def test_9_only_its_own_https_origin_is_heard(far: Far) -> None:
    hub, token = far.hub, far.bearers["control"]
    for origin, status in (
        (f"https://hub.example:{hub.port}", 200),
        (f"http://hub.example:{hub.port}", 403),
        ("https://hub.example", 403),
        ("https://evil.example", 403),
    ):
        assert hub.call("GET", "me", token=token, Origin=origin)[0] == status, origin


NEEDS = [one for one in routes() if one[2] != "view"]


@pytest.mark.parametrize(("method", "pattern", "needed"), NEEDS)
@pytest.mark.parametrize("role", ROLES)
def test_12_a_role_may_what_it_may_and_no_more(
    far: Far, role: str, method: str, pattern: str, needed: str
) -> None:
    path = asked(pattern)
    status, _ = far.hub.call(method, path, {}, token=far.bearers[role])
    assert status != 401
    assert (status == 403) is (ROLES.index(role) < ROLES.index(needed)), (status, path)


def test_13_who_may_look_sees_it_masked_and_who_approves_may_reveal(far: Far) -> None:
    hub = far.hub
    seq = hub.rows("from:client tool:echo")[-1]["seq"]
    for role in ("view", "control"):
        _, data = hub.raw("GET", f"/api/v1/messages/{seq}", token=far.bearers[role])
        assert b"hunter2-far" not in data
    assert hub.call("POST", f"messages/{seq}/reveal", {}, token=far.bearers["view"])[0] == 403
    status, found = hub.call("POST", f"messages/{seq}/reveal", {}, token=far.bearers["approve"])
    assert status == 200
    assert "hunter2-far" in found["text"]
    _, data = hub.raw("GET", f"/api/v1/messages/{seq}", token=far.bearers["control"])
    assert b"hunter2-far" not in data  # it was shown to the one who asked


def test_a_call_is_released_by_a_user_whose_name_is_written_down(far: Far) -> None:
    hub, gate = far.hub, far.gate
    point = {"filter": "tool:write_file from:client"}
    assert hub.call("PUT", "breakpoints/t", point, token=far.bearers["control"])[0] == 200
    gate.say(b'{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{"name":"write_file","arguments":{}}}')
    held = hub.held()[0]
    click = {"action": "release", "sha": held["sha"]}
    assert hub.call("POST", f"held/{held['id']}", click, token=far.bearers["view"])[0] == 403
    edit = {**click, "action": "edit", "part": "params", "value": "{}"}
    assert hub.call("POST", f"held/{held['id']}", edit, token=far.bearers["approve"])[0] == 403
    assert hub.call("POST", f"held/{held['id']}", click, token=far.bearers["approve"])[0] == 200
    assert b'"result"' in gate.answer(b"71")
    noted = hub.rows("method:decided")[-1]
    _, shown = hub.call("GET", f"messages/{noted['seq']}", token=far.bearers["view"])
    assert "approve-user" in shown["text"]
    hub.call("DELETE", "breakpoints/t", token=far.bearers["control"])


def test_wrong_tokens_are_counted_and_logins_that_are_open_go_on(far: Far) -> None:
    hub = far.hub
    for wrong in ("", "x", "token-view", far.tokens["view"][:-1], "0" * 64):
        assert hub.call("POST", "login", {"token": wrong}, token="-")[0] == 401
    assert hub.call("POST", "login", {"token": far.tokens["view"]}, token="-")[0] == 429
    assert hub.call("GET", "me", token=far.bearers["view"])[0] == 200
    assert all(token not in hub.said() for token in far.tokens.values())


@pytest.mark.parametrize("missing", ["--cert", "--key", "--users"])
def test_11_nothing_of_it_may_be_missing(far: Far, missing: str) -> None:
    words = far.words()
    place = words.index(missing)
    del words[place : place + 2]
    done = run("watch", "--web", f"{EVERYWHERE}:0", *words)
    assert done.returncode == 1
    assert missing.encode() in done.stderr


BAD_USERS = [
    ("", b"names no user"),
    ("ann admin " + "0" * 64, b"line 1: no user"),
    ("ann view abc", b"line 1: no user"),
    ("ann view " + "0" * 64 + " more", b"line 1: no user"),
]


@pytest.mark.parametrize(("text", "said"), BAD_USERS)
def test_users_that_are_none_are_told(far: Far, tmp_path: Path, text: str, said: bytes) -> None:
    users = tmp_path / "users"
    users.write_text(text)
    done = run("watch", "--web", f"{EVERYWHERE}:0", *far.words()[:-1], str(users))
    assert done.returncode == 1
    assert said in done.stderr


def test_users_that_others_may_write_are_not_believed(far: Far, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(far.users.read_text())
    users.chmod(0o666)
    done = run("watch", "--web", f"{EVERYWHERE}:0", *far.words()[:-1], str(users))
    assert done.returncode == 1
    assert b"Others may write" in done.stderr


def test_a_login_outlasts_the_hub_and_a_user_who_was_taken_out_does_not(far: Far) -> None:
    before = os.environ["XDG_RUNTIME_DIR"]
    work = far.users.parent / "again"
    work.mkdir()
    (ann, ann_line), (bob, bob_line) = new_user("ann", "view"), new_user("bob", "view")
    users = work / "users"
    users.write_text(f"{ann_line}\n{bob_line}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [*far.words()[:-1], str(users)]

    def started(folder: str | None = None) -> Hub:
        return Hub(*words, folder=folder, port=port, address=EVERYWHERE, authority=far.authority.file)

    first = started()
    bearers = [first.call("POST", "login", {"token": token}, token="-")[1]["token"] for token in (ann, bob)]
    first.process.kill()
    first.process.wait()
    users.write_text(bob_line)
    with started(first.folder) as second:
        assert second.call("GET", "me", token=bearers[0])[0] == 401
        assert second.call("GET", "me", token=bearers[1])[1]["who"] == "bob"
        kept = Path(second.folder, "penstock", f"hub.{port}.logins")
        assert kept.stat().st_mode & 0o777 == 0o600
        assert bearers[1] not in kept.read_text()
    kept.chmod(0o644)  # somebody else could have read it
    with started(first.folder) as third:
        assert third.call("GET", "me", token=bearers[1])[0] == 401
    os.environ["XDG_RUNTIME_DIR"] = before
