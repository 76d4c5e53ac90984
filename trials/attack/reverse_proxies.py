"""nginx and HAProxy before Penstock, set to pass on as much as they can of an attack.

Their connections to Penstock are kept and shared by all clients. So what one of the two readers takes for the
end of a request and the other does not, shows at once: the next call, of whoever it is, gets a wrong answer.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.targets import system_binary
from gate import wait_until

IDLE_SECONDS = 1
"""After which a client's connection is closed, so that an attack which is not answered is over soon."""


def _nginx(work: Path, port: int, behind: int) -> list[str]:
    """As the benchmark has it, but nothing is held back, and the client's own Host goes on."""
    is_root = os.geteuid() == 0  # the workers would be somebody else, who may not write here
    (work / "nginx.conf").write_text(f"""
{"user root;" if is_root else ""} daemon off; worker_processes 1; pid {work}/pid; error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_max_body_size 20m; keepalive_timeout {IDLE_SECONDS}s;
    client_header_timeout 5s; client_body_timeout 5s;
    client_body_temp_path {work}/body; proxy_temp_path {work}/proxy;
    fastcgi_temp_path {work}/f; uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
    upstream penstock {{ server 127.0.0.1:{behind}; keepalive 16; }}
    server {{
        listen 127.0.0.1:{port};
        ignore_invalid_headers off; underscores_in_headers on;
        proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
        proxy_request_buffering off; proxy_buffering off; proxy_read_timeout 1h;
        location / {{ proxy_pass http://penstock; }}
    }}
}}
""")
    return ["-p", str(work), "-c", str(work / "nginx.conf")]


def _haproxy(work: Path, port: int, behind: int) -> list[str]:
    (work / "haproxy.cfg").write_text(f"""
global
    nbthread 1
    maxconn 500
defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout http-request 5s
    timeout http-keep-alive {IDLE_SECONDS}s
frontend clients
    bind 127.0.0.1:{port}
    option accept-invalid-http-request
    default_backend penstock
backend penstock
    server one 127.0.0.1:{behind}
""")
    return ["-db", "-q", "-f", str(work / "haproxy.cfg")]


_WORDS: dict[str, Callable[[Path, int, int], list[str]]] = {"nginx": _nginx, "haproxy": _haproxy}
NAMES = tuple(_WORDS)


def maybe_missing(name: str) -> str | None:
    """Why nothing can be attacked through `name` here; None when it can."""
    return None if system_binary(name) else f"there is no {name} here"


class ReverseProxy:
    """One of them, running before the Penstock on port `behind`."""

    def __init__(self, name: str, work: Path, behind: int) -> None:
        binary = system_binary(name)
        assert binary is not None, maybe_missing(name)
        here = Path(tempfile.mkdtemp(dir=work))
        self.port = _free_port()
        with (here / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [binary, *_WORDS[name](here, self.port, behind)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        assert wait_until(self._is_listening), (here / "stderr").read_text("utf-8", "replace")

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """Ends it, and every connection with it."""
        self._process.terminate()
        self._process.wait(20)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
