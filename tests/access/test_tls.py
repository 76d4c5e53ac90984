"""TLS at the listener, and callers that are known by their certificates."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from certificates import Authority
from guarded import INITIALIZE, POST, Guarded, bearer, reach, row
from pairs import Upstream

CI = "canary-token-of-ci"


class Place(NamedTuple):
    proxy: Guarded
    authority: Authority
    alice: tuple[str, str, str]
    bob: tuple[str, str, str]
    stranger: tuple[str, str, str]
    forged: tuple[str, str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    work = tmp_path_factory.mktemp("tls")
    authority = Authority(work)
    cert, key, _ = authority.sign("gate.example")
    alice, bob, stranger = (authority.sign(name) for name in ("alice", "bob", "stranger"))
    (work / "evil").mkdir()
    forged = Authority(work / "evil", "evil authority").sign("alice")
    upstream = Upstream("stdio", work)
    config = {
        "upstream": reach(upstream),
        # Paths count from the folder of the file.
        "tls": {"cert": Path(cert).name, "key": key, "client_ca": str(authority.file)},
        "auth": {
            "tokens": [row("ci", CI)],
            "certs": [
                {"id": "alice", "name": "alice", "profile": "echoer"},
                {"id": "bob", "sha256": bob[2]},
            ],
        },
        "profiles": {"echoer": {"tools": {"allow": ["^echo$"]}}},
        "choose": {"default": "all"},
    }
    with Guarded(work, config) as proxy:
        yield Place(proxy, authority, alice, bob, stranger, forged)


def ask(
    place: Place,
    who: tuple[str, str, str] | None = None,
    path: str = "/mcp",
    headers: dict[str, str] | None = None,
    body: bytes = INITIALIZE % b"x",
) -> http.client.HTTPResponse:
    context = ssl.create_default_context(cafile=str(place.authority.file))
    if who is not None:
        context.load_cert_chain(who[0], who[1])
    connection = http.client.HTTPSConnection("localhost", place.proxy.port, timeout=10, context=context)
    connection.request("POST", path, body, {**POST, **(headers or {})})
    answer = connection.getresponse()
    answer.data = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def test_tokens_and_certificates_over_tls(place: Place) -> None:
    assert ask(place).status == 401
    assert ask(place, headers=bearer(CI)).status == 200
    assert ask(place, place.alice).status == 200
    assert ask(place, place.bob).status == 200
    assert ask(place, place.stranger).status == 401  # signed, but nobody has said what it opens
    # Who shows a token is judged by it alone.
    assert ask(place, place.alice, headers=bearer("wrong")).status == 401
    assert ask(place, place.alice, "/p/echoer/mcp").status == 200
    assert ask(place, place.bob, "/p/echoer/mcp").status == 200
    assert ask(place, place.alice, "/p/all/mcp").status == 404


def test_a_certificate_of_another_authority_is_refused_before_anything_is_read(place: Place) -> None:
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        ask(place, place.forged)


def test_a_session_belongs_to_its_certificate(place: Place) -> None:
    session = ask(place, place.bob).headers["Mcp-Session-Id"]
    more = {"Mcp-Session-Id": session}
    ping = b'{"jsonrpc":"2.0","id":3,"method":"ping"}'
    assert ask(place, place.bob, headers=more, body=ping).status == 200
    # The very same head on another connection is somebody else's.
    assert ask(place, place.alice, headers=more, body=ping).status == 404
    assert ask(place, headers=more, body=ping).status == 401
    assert ask(place, place.bob, headers=more, body=ping).status == 200


def test_a_client_that_does_not_know_our_authority_hangs_up(place: Place) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        _greet(place, ssl.create_default_context())
    assert ask(place, headers=bearer(CI)).status == 200


def _greet(place: Place, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("localhost", place.proxy.port), timeout=10)
    try:
        return context.wrap_socket(plain, server_hostname="localhost")
    except BaseException:
        plain.close()
        raise


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_versions_of_tls_are_not_spoken(place: Place) -> None:
    context = ssl.create_default_context(cafile=str(place.authority.file))
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)):
        _greet(place, context)


def test_what_is_no_tls_harms_nobody(place: Place) -> None:
    for data in (b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 99, b""):
        with socket.create_connection(("localhost", place.proxy.port), timeout=10) as plain:
            plain.sendall(data)
            plain.shutdown(socket.SHUT_WR)
            assert b"HTTP/1.1 200" not in plain.makefile("rb").read()
    assert ask(place, headers=bearer(CI)).status == 200


def test_a_large_answer_and_a_malformed_request_over_tls(place: Place) -> None:
    context = ssl.create_default_context(cafile=str(place.authority.file))
    with _greet(place, context) as secure:
        secure.sendall(b"GET /mcp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert secure.recv(100).startswith(b"HTTP/1.1 400")
    session = ask(place, headers=bearer(CI)).headers["Mcp-Session-Id"]
    big = b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"x":"%b"}}}'
    answer = ask(place, headers={**bearer(CI), "Mcp-Session-Id": session}, body=big % (b"y" * 3_000_000))
    assert answer.status == 200


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        ({"cert": "nowhere.pem", "key": "nowhere.key"}, "Cannot read"),
        ({"cert": "own.pem"}, "tls needs key"),
        ({"cert": "own.pem", "key": "other.key"}, "Cannot use the certificate"),
        ({"cert": "own.key", "key": "own.key"}, "Cannot use the certificate"),
        ({"cert": "own.pem", "key": "own.key", "client_ca": "own.key"}, "Cannot use the certificates"),
    ],
)
def test_faults_are_found_before_the_start(tls: dict[str, str], words: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign("own")
    authority.sign("other")
    file = tmp_path / "penstock.yaml"
    file.write_text(yaml.safe_dump({"upstream": {"command": ["true"]}, "tls": tls}))
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "check", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert words in done.stderr
