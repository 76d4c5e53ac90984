"""The SDKs' own OAuth providers against Penstock as the protected resource, nginx with TLS in front of it.

Behind it are two upstreams, one of which wants a token of its own: that one is in the configuration.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from authorization_server import AuthorizationServer
from certificates import Authority
from gate import ROOT, wait_until
from guarded import Guarded, free_port
from oauth_clients import CLIENT, PYTHON_CLIENT
from pairs import said

UPSTREAM = ROOT / "tests" / "upstreams" / "oauth_server.py"
MEMBER = str(ROOT / "tests" / "upstreams" / "member.py")
NGINX = next((path for path in ("/usr/sbin/nginx", "/usr/bin/nginx") if Path(path).exists()), None)


class Place(NamedTuple):
    server: AuthorizationServer
    url: str  # where clients find us
    authority: Path
    proxy: Guarded
    upstream: Path  # what the upstream has said


def nginx_before(work: Path, port: int, behind: int, cert: str, key: str) -> subprocess.Popen[bytes]:
    """nginx that speaks TLS for us."""
    assert NGINX is not None
    user = "user root;" if os.geteuid() == 0 else ""  # the workers would be somebody else
    (work / "nginx.conf").write_text(f"""
{user} daemon off; worker_processes 1; pid {work}/pid; error_log stderr crit;
events {{ worker_connections 256; }}
http {{
    access_log off; client_body_temp_path {work}/body; proxy_temp_path {work}/proxy;
    fastcgi_temp_path {work}/f; uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
    server {{
        listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key};
        location / {{
            proxy_pass http://127.0.0.1:{behind}; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_set_header Host $host; proxy_buffering off; proxy_read_timeout 1h;
        }}
    }}
}}
""")
    return subprocess.Popen(
        [NGINX, "-p", str(work), "-c", str(work / "nginx.conf")], stderr=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if NGINX is None:
        pytest.skip("nginx is not here")
    work = tmp_path_factory.mktemp("sdk")
    authority = Authority(work)
    cert, key, _ = authority.sign("gate.example")
    port, behind, errors = free_port(), free_port(), work / "upstream"
    url = f"https://localhost:{port}"
    with AuthorizationServer() as server, errors.open("wb") as file:
        command = [sys.executable, str(UPSTREAM), server.issuer, server.jwks_uri]
        (work / "audience").write_text("https://upstream.example")
        started = [subprocess.Popen([*command, "--audience", str(work / "audience")], stderr=file)]
        try:
            found = said(errors, rb"listening on (\S+)", started[0])
            token = server.token("https://upstream.example", client_id="penstock", seconds=3600)
            spec = json.dumps({"name": "other", "tools": ["find"]})
            config: dict[str, Any] = {
                "mcpServers": {
                    "talk": {"url": found, "headers": {"Authorization": f"Bearer {token}"}},
                    "other": {"command": sys.executable, "args": ["-S", MEMBER, spec]},
                    # Nobody gives it a credential that it takes; that is its own misfortune.
                    "closed": {"url": found},
                },
                "public_url": url,
                "auth": {"jwt": {"issuer": server.issuer, "scopes": ["use"]}},
                "profiles": {"talker": {"upstreams": ["talk"], "tools": {"deny": ["^erase$"]}}},
                "choose": {"default": "all"},
                "lists": {"wait": "5s"},
            }
            started.append(nginx_before(work, port, behind, cert, key))
            with Guarded(work, config, listen=str(behind)) as proxy:
                wait_until(lambda: _listens(port))
                yield Place(server, url, authority.file, proxy, errors)
        finally:
            for process in started:
                process.terminate()
                process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def drive(client: list[str], place: Place, path: str) -> dict[str, Any]:
    env = {
        **os.environ,
        "SSL_CERT_FILE": str(place.authority),
        "NODE_EXTRA_CA_CERTS": str(place.authority),
    }
    words = [*client, place.url + path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@CLIENT
def test_each_door_is_a_resource_of_its_own(client: list[str], place: Place) -> None:
    place.server.authorized.clear()
    assert drive(client, place, "/p/talker/mcp") == {"tools": ["echo"], "said": "said"}
    assert {asked["resource"] for asked in place.server.authorized} == {f"{place.url}/p/talker/mcp"}


@pytest.mark.parametrize("client", [[sys.executable, PYTHON_CLIENT]], ids=["python 2.x"])
def test_one_upstream_that_wants_other_credentials_empties_nobody_else(
    client: list[str], place: Place
) -> None:
    report = drive(client, place, "/mcp")
    assert report == {"tools": ["echo", "erase", "find"], "said": "said"}
    # No token of a client's has reached an upstream: it would have been said why it does not count.
    assert "Audience doesn't match" not in place.upstream.read_text()
