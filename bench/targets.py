"""What is measured: how each target is started, and how a client reaches it."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.handshake import await_port, open_http_session, open_pipe, open_sse_session
from bench.lines import HttpLine, Line, PipeLine
from bench.load import Sample, run
from bench.messages import DENY, tool_names
from bench.processes import Program, Unfit
from bench.watchdog import within
from bench.workloads import Checker, Workload

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60.0
MEASURE_SECONDS = 600.0
TOOLS = 100
PATHS = {"http": "/mcp", "sse": "/sse"}


def upstream_command(kind: str, tools: int = TOOLS) -> list[str]:
    return [sys.executable, "-S", "-E", str(ROOT / "bench" / "upstream.py"), kind, str(tools)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


class Upstream:
    """The upstream over HTTP that the targets of one group share."""

    def __init__(self, work: Path, tools: int = TOOLS) -> None:
        self.tools = tools
        self.program = Program(upstream_command("http", tools), work, f"upstream-{tools}", has_pipes=False)
        until = time.monotonic() + START_SECONDS
        while not (said := self.program.log.read_text()).endswith("\n"):
            self.program.check()
            if time.monotonic() > until:
                raise Unfit("the upstream does not say its port")
            time.sleep(0.01)
        self.port = int(said)

    def url(self, kind: str) -> str:
        return f"http://127.0.0.1:{self.port}{PATHS[kind]}"


@dataclass(frozen=True)
class Place:
    """What a target is told: where its upstream is, where it shall listen, where it may write."""

    upstream: Upstream
    back: str  # stdio, http or sse: how it reaches the upstream
    port: int
    work: Path

    @property
    def tools(self) -> int:
        return self.upstream.tools

    def words(self) -> list[str]:
        """The upstream as a command or as a URL."""
        return (
            upstream_command("stdio", self.tools) if self.back == "stdio" else [self.upstream.url(self.back)]
        )


@dataclass(frozen=True)
class Spec:
    """One target in one pair of transports."""

    name: str
    front: str  # stdio, http or sse: how clients reach it
    back: str
    command: Callable[[Place], list[str]] | None  # None: nothing stands between
    is_filter: bool = False
    path: str = ""
    is_peer: bool = False
    keeps_home: bool = True


class Target:
    """A started target. Ends with `end`, whatever happened."""

    def __init__(self, spec: Spec, upstream: Upstream, work: Path) -> None:
        self.spec = spec
        self.path = spec.path or PATHS.get(spec.front, "")
        self.program: Program | None = None
        self.upstream = upstream
        self.checkers: dict[Workload, Checker] = {}
        self.paces: dict[
            str, float
        ] = {}  # answers a second, by step, where that decides how often it is asked
        self.session: bytes | None = None
        self.pipe: PipeLine | None = None
        self.port = upstream.port
        begun = time.perf_counter()
        if spec.command is not None:
            self.port = free_port()
            command = spec.command(Place(upstream, spec.back, self.port, work))
            name = f"{spec.name}-{spec.front}-{spec.back}".replace(" ", "_").replace("/", "_")
            self.program = Program(
                command, work, name, spec.front == "stdio", cwd=work, home=None if spec.keeps_home else work
            )
        try:
            with within(2 * START_SECONDS):
                self._begin()
        except BaseException:
            self.end()
            raise
        self.start_seconds = time.perf_counter() - begun

    def _begin(self) -> None:
        if self.spec.front == "stdio":
            assert self.program is not None
            self.pipe = open_pipe(self.program, START_SECONDS)
            return
        await_port(self.port, self.program, START_SECONDS)
        if self.spec.front == "http":
            self.session = open_http_session(self.port, self.path)
        else:
            open_sse_session(self.port, self.path, START_SECONDS).close()

    def lines(self, workload: Workload, in_flight: int) -> list[Line]:
        """What `in_flight` requests at once travel on."""
        if self.pipe is not None:
            return [self.pipe]
        lines: list[Line] = []
        try:
            for _ in range(in_flight):
                if self.spec.front == "sse":
                    lines.append(open_sse_session(self.port, self.path, START_SECONDS))
                else:
                    session = b"" if workload.is_modern else self.session or b""
                    lines.append(HttpLine(self.port, self.path, session, workload))
        except BaseException:
            for line in lines:
                line.close()
            raise
        return lines

    def measure(self, workload: Workload, count: int, in_flight: int) -> tuple[Sample, float, float]:
        """A sample, and the seconds of processor time that the target and the upstream used for it."""
        if workload not in self.checkers:
            listed = [n for n in tool_names(self.upstream.tools) if not n.startswith(DENY[1:])]
            number = len(listed) if self.spec.is_filter else self.upstream.tools
            self.checkers[workload] = Checker(workload, number)
        checker = self.checkers[workload]
        if self.program is not None:
            self.program.check()
        with within(MEASURE_SECONDS):
            return self._measured(workload, checker, count, in_flight)

    def _measured(
        self, workload: Workload, checker: Checker, count: int, in_flight: int
    ) -> tuple[Sample, float, float]:
        lines = self.lines(workload, in_flight)
        try:
            run(lines, workload, checker, min(count, max(in_flight, count // 20)), in_flight)
            before, upstream_before = self.cpu(), self.upstream_cpu()
            sample = run(lines, workload, checker, count, in_flight)
            return sample, self.cpu() - before, self.upstream_cpu() - upstream_before
        finally:
            for line in lines:
                line.close()

    def cpu(self) -> float:
        return 0.0 if self.program is None else self.program.cpu()

    def upstream_cpu(self) -> float:
        """Of the upstream over HTTP and of those that were spawned."""
        spawned = 0.0 if self.program is None else self.program.cpu_of_upstreams()
        return spawned + self.upstream.program.cpu_of_upstreams()

    def end(self) -> None:
        if self.program is not None:
            self.program.end()
            self.program = None


def direct(front: str) -> Spec:
    command = (lambda place: upstream_command("stdio", place.tools)) if front == "stdio" else None
    return Spec("direct", front, front, command)


def penstock(front: str, back: str, *options: str, name: str = "penstock", is_filter: bool = True) -> Spec:
    def command(place: Place) -> list[str]:
        words = [sys.executable, "-m", "penstock", *options]
        if is_filter:
            words += ["--deny", DENY]
        words += ["--stdio"] if front == "stdio" else ["--listen", f"127.0.0.1:{place.port}"]
        return words + (["--", *place.words()] if back == "stdio" else ["--upstream", *place.words()])

    return Spec(name, front, back, command, is_filter=is_filter)


def nginx(front: str) -> Spec:
    """Debian's, as a plain reverse proxy: what is not said here is its default."""

    def command(place: Place) -> list[str]:
        conf = place.work / f"nginx-{place.port}.conf"
        conf.write_text(f"""
daemon off; worker_processes 1; pid {place.work}/nginx-{place.port}.pid; error_log stderr error;
events {{ worker_connections 8192; }}
http {{
    access_log off; client_max_body_size 20m; client_body_buffer_size 2m; keepalive_requests 100000000;
    client_body_temp_path {place.work}/body; proxy_temp_path {place.work}/proxy;
    fastcgi_temp_path {place.work}/f; uwsgi_temp_path {place.work}/u; scgi_temp_path {place.work}/s;
    upstream up {{ server 127.0.0.1:{place.upstream.port}; keepalive 64; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{place.port} backlog=1024;
        proxy_http_version 1.1; proxy_set_header Connection "";
        location / {{ proxy_pass http://up; }}
        location /sse {{ proxy_pass http://up; proxy_buffering off; proxy_read_timeout 1h; }}
    }}
}}
""")
        return [nginx_binary() or "nginx", "-p", str(place.work), "-c", str(conf)]

    return Spec("nginx", front, front, command)


def nginx_binary() -> str | None:
    return system_binary("nginx")


def system_binary(name: str) -> str | None:
    """A program that the system may have, also where only root's path leads to it."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def relay(binary: list[str], name: str) -> Spec:
    return Spec(name, "stdio", "stdio", lambda place: [*binary, *place.words()])
