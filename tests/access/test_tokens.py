"""Bearer tokens at the listener: who has none or a wrong one is told so, and nobody else ever sees one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gate import wait_until
from guarded import INITIALIZE, POST, Guarded, bearer, reach, row, shown, tools_of
from pairs import Upstream
from several import member_entry

CI = "canary-token-of-ci-000000000000"  # not a secret: a token of these tests
DEV = "canary-token-of-dev-11111111111"


@pytest.mark.parametrize("transport", ["stdio", "sse", "streamable"])
def test_29_a_token_that_is_absent_wrong_or_right(transport: str, tmp_path: Path) -> None:
    with Upstream(transport, tmp_path) as upstream:
        config = {
            "upstream": reach(upstream),
            "auth": {"tokens": [row("ci", CI), row("dev", DEV)]},
            "record": {"file": str(tmp_path / "record.ndjson")},
            "audit": {"file": str(tmp_path / "audit.ndjson")},
            "log": {"level": "debug"},
        }
        with Guarded(tmp_path, config) as proxy:
            absent = proxy.hello()
            assert absent.status == 401
            assert absent.headers["www-authenticate"] == "Bearer"
            wrong = proxy.hello("canary-wrong-token")
            assert wrong.status == 401
            assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
            assert b"canary" not in bytes(wrong.body)
            for era in ("legacy", "modern"):
                door = proxy.door(CI, era)
                door.begin()
                assert door.is_alive()
            with proxy.sse(CI) as older:
                older.begin()
                assert older.is_alive()
            proxy.end()
        assert "canary" not in proxy.stderr
        for path in tmp_path.rglob("*"):
            if path.is_file() and path.name != "penstock.yaml":
                assert b"canary" not in path.read_bytes(), path


@pytest.mark.parametrize("transport", ["stdio", "streamable"])
def test_a_session_is_nobody_elses(transport: str, tmp_path: Path) -> None:
    with Upstream(transport, tmp_path) as upstream:
        config = {"upstream": reach(upstream), "auth": {"tokens": [row("ci", CI), row("dev", DEV)]}}
        with Guarded(tmp_path, config) as proxy:
            mine = proxy.door(CI)
            mine.begin()
            assert mine.is_alive()
            assert mine.session is not None
            theirs = proxy.door(DEV)
            theirs.session, theirs.version = mine.session, mine.version
            call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}'
            unknown = proxy.door(DEV)
            unknown.session, unknown.version = "no-such-session", mine.version
            for method in ("POST", "GET", "DELETE"):
                body = call if method == "POST" else b""
                refused = theirs.whole(method, "/mcp", theirs.headers(), body)
                nobody = unknown.whole(method, "/mcp", unknown.headers(), body)
                assert refused.status == nobody.status == 404
                assert bytes(refused.body) == bytes(nobody.body)
            assert mine.is_alive()
            with proxy.sse(CI) as older:
                older.begin()
                refused = theirs.whole("POST", older.endpoint, POST, call)
                assert refused.status == 404
                assert older.is_alive()
            assert not [line for line in upstream.reached() if b'"id":7' in line]


@pytest.mark.parametrize(
    "fields",
    [
        [f"Bearer {CI}, Bearer {DEV}"],
        [f"Bearer {CI}", f"Bearer {CI}"],
        [f"Bearer wrong-{CI}", f"Bearer {CI}"],
        [f"Bearer {CI}", "Bearer wrong"],
        [f"Basic {CI}"],
        [f"Bearer{CI}"],
        [f"Bearer\t{CI}"],
        [f"Bearer {CI}\u00e9"],
        [f"Bearer \u00a0{CI}"],
        [f"Bearer {CI} "[:-1] + "="],
        [f"Bearer {CI.upper()}"],
        [f'Bearer "{CI}"'],
        [f"Bearer {CI[:-1]}"],
        [f"Bearer {CI}0"],
        ["Bearer"],
        [""],
        [CI],
    ],
)
def test_what_is_not_one_whole_token_is_none(fields: list[str], guarded: Guarded) -> None:
    lines = "".join(f"Authorization: {field}\r\n" for field in fields)
    assert _status(guarded, lines) == 401


@pytest.mark.parametrize("name", ["authorization", "AUTHORIZATION", "Authorization"])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_neither_the_header_nor_the_scheme_has_a_case(name: str, scheme: str, guarded: Guarded) -> None:
    assert _status(guarded, f"{name}: {scheme} {CI}\r\n") == 200


def test_a_token_is_taken_from_no_other_place(guarded: Guarded) -> None:
    for lines in (f"Cookie: token={CI}\r\n", f"X-Api-Key: {CI}\r\n", f"Proxy-Authorization: Bearer {CI}\r\n"):
        assert _status(guarded, lines) == 401
    assert _status(guarded, "", f"/mcp?access_token={CI}") == 401


def test_nothing_but_health_is_there_for_strangers(guarded: Guarded) -> None:
    door = guarded.door()
    assert door.whole("GET", "/healthz").status == 200
    assert door.whole("GET", "/readyz").status == 200
    for path in ("/mcp", "/sse", "/messages?session_id=1", "/nothing", "/p/x/mcp", "/", "//mcp"):
        for method in ("GET", "POST", "DELETE", "PUT"):
            assert door.whole(method, path, POST, b"{}" if method == "POST" else b"").status == 401, path


def test_a_head_that_was_let_in_does_not_open_the_door_for_another(guarded: Guarded) -> None:
    door = guarded.door()
    for _ in range(3):
        assert door.whole("POST", "/mcp", {**POST, **bearer(CI)}, INITIALIZE % b"a").status == 200
        assert door.whole("POST", "/mcp", POST, INITIALIZE % b"a").status == 401
        assert door.whole("POST", "/mcp", {**POST, **bearer(CI + "0")}, INITIALIZE % b"a").status == 401


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    work = tmp_path_factory.mktemp("guarded")
    upstream = Upstream("stdio", work)
    config = {"upstream": reach(upstream), "auth": {"tokens": [row("ci", CI), row("dev", DEV)]}}
    with Guarded(work, config) as proxy:
        yield proxy


def _status(proxy: Guarded, lines: str, target: str = "/mcp") -> int:
    import socket

    body = INITIALIZE % b"x"
    head = (
        f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n{lines}\r\n"
    )
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as connection:
        connection.sendall(head.encode("latin-1") + body)
        return int(connection.makefile("rb").readline().split()[1])


def test_a_new_token_is_shown_once_and_works(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "penstock", "token", "new", "ci"], capture_output=True, text=True, check=True
    )
    token = made.stdout.strip()
    assert re.fullmatch(r"pst_[A-Za-z0-9_-]{43}", token)
    assert token not in made.stderr
    found = re.search(r"sha256: ([0-9a-f]{64})", made.stderr)
    assert found is not None
    with Upstream("stdio", tmp_path) as upstream:
        rows = [{"id": "ci", "sha256": found[1]}]
        with Guarded(tmp_path, {"upstream": reach(upstream), "auth": {"tokens": rows}}) as proxy:
            assert proxy.hello(token).status == 200
            assert shown(proxy.hello())["error"]["message"]


def test_who_is_waited_for_is_no_reason_to_let_anybody_in(tmp_path: Path) -> None:
    upstream = Upstream("streamable", tmp_path)
    upstream.stop()
    config = {
        "upstream": {**reach(upstream), "on_loss": "reconnect"},
        "auth": {"tokens": [row("ci", CI)]},
    }
    with Guarded(tmp_path, config) as proxy:
        assert proxy.hello().status == 401
        assert proxy.hello(CI).status == 503
        upstream.start(int(upstream.url.split(":")[2].split("/")[0]))
        try:
            wait_until(lambda: proxy.hello(CI).status == 200)
            door = proxy.door(CI)
            door.begin()
            assert "echo" in tools_of(door)
            assert proxy.hello().status == 401
        finally:
            upstream.stop()


def test_a_request_that_was_begun_before_its_token_was_taken_out_is_refused(tmp_path: Path) -> None:
    import socket

    with Upstream("stdio", tmp_path) as upstream:
        config = {"upstream": reach(upstream), "auth": {"tokens": [row("ci", CI), row("dev", DEV)]}}
        with Guarded(tmp_path, config) as proxy:
            body = INITIALIZE % b"x"
            head = (
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                "Accept: application/json, text/event-stream\r\n"
                f"Content-Length: {len(body)}\r\nAuthorization: Bearer {CI}\r\n\r\n"
            ).encode()
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
                connection.sendall(head + body)  # this head is known from now on
                assert connection.recv(100).startswith(b"HTTP/1.1 200")
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
                connection.sendall(head + body[:10])
                proxy.write({**config, "auth": {"tokens": [row("dev", DEV)]}})
                wait_until(lambda: proxy.hello(CI).status == 401)
                connection.sendall(body[10:])
                assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_a_token_in_the_place_of_its_digest_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"auth: {{tokens: [{{id: ci, sha256: {CI}}}]}}\nupstream: {{command: ['true']}}\n")
    words = [sys.executable, "-m", "penstock", "check", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "64 hexadecimal digits" in done.stderr
    assert "canary" not in done.stderr + done.stdout


def test_an_admin_may_ask_how_the_servers_are_through_a_reverse_proxy(tmp_path: Path) -> None:
    config = {
        "mcpServers": {"one": member_entry("one", "echo"), "two": member_entry("two", "other")},
        "names": {"prefix": "always"},
        "choose": {"default": "all"},
        "auth": {"tokens": [row("ops", DEV, admin=True), row("ci", CI)]},
        "public_url": "https://gate.example",
    }
    with Guarded(tmp_path, config) as proxy:
        door = proxy.door()

        def asked(**headers: str) -> tuple[int, bytes]:
            # nginx on this machine passes on under the public name
            found = door.whole(
                "GET", "/status", {"Host": "gate.example", "X-Forwarded-For": "9.9.9.9", **headers}
            )
            return found.status, bytes(found.body)

        code, body = asked(**bearer(DEV))
        assert code == 200
        assert sorted(line.split()[0] for line in body.decode().splitlines()) == ["one", "two"]
        unknown = door.whole("GET", "/nothing", {"Host": "gate.example", **bearer(CI)})
        for headers in ({}, bearer(CI), bearer(DEV + "x"), {"Authorization": DEV}):
            code, body = asked(**headers)
            assert code == 404
            assert b"one" not in body
        assert unknown.status == 404
        command = [sys.executable, "-m", "penstock", "status", f"http://127.0.0.1:{proxy.port}"]
        nobody = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (nobody.returncode, nobody.stdout) == (1, "")
        shown_by = {**os.environ, "TOKEN": DEV}
        with_token = [*command, "--header", "Authorization: Bearer ${TOKEN}"]
        told = subprocess.run(with_token, capture_output=True, text=True, env=shown_by, check=False)
        assert told.returncode == 0, told.stderr
        assert "one ready" in told.stdout
