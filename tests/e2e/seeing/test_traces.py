"""Traces, as a collector receives them."""

from __future__ import annotations

import gzip
import http.server
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from test_recordings import write_rules

from gate import wait_until
from watched import PENSTOCK, Watched, raws

SERVER, CLIENT = 2, 3
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector:
    """Takes spans over OTLP and HTTP, and keeps them decoded."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[Any] = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            self.resources.append(resource.resource)
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *why: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def exporters_of(parent: int) -> list[int]:
    """The exporters that a process has started, whichever of its threads did."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_child = f"PPid:\t{parent}\n" in (place / "status").read_text()
            if is_child and b"penstock.observe.exporter" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@pytest.mark.parametrize(("client", "upstream"), [("stdio", "stdio"), ("streamable", "streamable")])
def test_spans_have_the_names_kinds_and_parents_of_the_conventions(
    tmp_path: Path, client: str, upstream: str
) -> None:
    with Collector() as collector:
        with Watched(tmp_path, client, upstream, "--otel", collector.url) as watched:
            door = watched.connect()
            door.say(
                b'{"jsonrpc":"2.0","id":70,"method":"tools/call","params":{"name":"echo","arguments":{"secret":"s3"},'
                b'"_meta":{"traceparent":"%b"}}}' % PARENT.encode()
            )
            door.answer(b"70")
            door.call("write_file")
            door.ask("resources/read", b'{"uri":"file:///a?token=abc"}')
            watched.end()
        assert wait_until(lambda: len(collector.spans) >= 7), [span.name for span in collector.spans]
    calls = [span for span in collector.spans if span.name == "tools/call echo"]
    server = next(span for span in calls if span.kind == SERVER)
    hop = next(span for span in calls if span.kind == CLIENT)
    assert server.trace_id.hex() == PARENT.split("-")[1]
    assert server.parent_span_id.hex() == PARENT.split("-")[2]
    assert hop.parent_span_id == server.span_id
    assert hop.trace_id == server.trace_id
    assert server.start_time_unix_nano <= hop.start_time_unix_nano <= hop.end_time_unix_nano
    told = attributes(server)
    assert told["mcp.method.name"] == "tools/call"
    assert told["gen_ai.tool.name"] == "echo"
    assert told["gen_ai.operation.name"] == "execute_tool"
    assert told["jsonrpc.request.id"] == "70"
    assert told["network.transport"] == ("pipe" if client == "stdio" else "tcp")
    assert told["mcp.protocol.version"] == "2025-11-25"
    assert told["penstock.verdict"] == "pass"
    assert not {"mcp.session.id", "gen_ai.tool.call.arguments"} & set(told)
    assert ("server.address" in attributes(hop)) == (upstream != "stdio")
    denied = [span for span in collector.spans if span.name == "tools/call write_file"]
    assert [span.kind for span in denied] == [SERVER]  # it never went upstream
    assert attributes(denied[0])["error.type"] == "-32601"
    assert attributes(denied[0])["penstock.verdict"] == "deny"
    assert denied[0].status.code == 2
    reading = next(span for span in collector.spans if span.name == "resources/read")
    assert attributes(reading)["mcp.resource.uri"] == "file:///a"
    assert {one.key: one.value.string_value for one in collector.resources[0].attributes}[
        "service.name"
    ] == "penstock"


def test_arguments_are_in_spans_only_when_asked_for_and_masked(tmp_path: Path) -> None:
    with Collector() as collector:
        config = write_rules(
            tmp_path, f'telemetry: {{otlp: "{collector.url}", content: true, session_ids: true}}\n'
        )
        with Watched(tmp_path, "stdio", "stdio", "--config", config) as watched:
            door = watched.connect()
            door.call("echo", b'{"path":"/a","password":"hunter2"}')
            watched.end()
        assert wait_until(lambda: any(span.name == "tools/call echo" for span in collector.spans))
        told = attributes(next(span for span in collector.spans if span.name == "tools/call echo"))
    assert json.loads(told["gen_ai.tool.call.arguments"]) == {"path": "/a", "password": "[masked]"}
    assert told["mcp.session.id"]


def test_a_dead_collector_harms_no_call(tmp_path: Path) -> None:
    with Watched(tmp_path, "stdio", "stdio", "--otel", "http://127.0.0.1:9") as watched:
        door = watched.connect()
        for _ in range(20):
            assert door.is_alive()
        watched.end()


def test_an_exporter_that_dies_is_started_again(tmp_path: Path) -> None:
    with Collector() as collector, Watched(tmp_path, "stdio", "stdio", "--otel", collector.url) as watched:
        door = watched.connect()
        assert door.is_alive()

        pid = door.process.pid
        assert wait_until(lambda: exporters_of(pid))
        first = exporters_of(pid)[0]
        subprocess.run(["kill", "-9", str(first)], check=True)
        assert wait_until(lambda: [one for one in exporters_of(pid) if one != first])
        assert door.is_alive()
        watched.end()
        assert wait_until(lambda: any(span.name == "tools/call echo" for span in collector.spans))


def test_nothing_is_left_when_it_is_killed(tmp_path: Path) -> None:
    from gate import is_running

    with Collector() as collector, Watched(tmp_path, "stdio", "stdio", "--otel", collector.url) as watched:
        door = watched.connect()
        assert wait_until(lambda: exporters_of(door.process.pid))
        left = exporters_of(door.process.pid)
        door.process.kill()
        door.process.wait()
        assert wait_until(lambda: not any(is_running(pid) for pid in left))


def test_pass_changes_no_byte_and_inject_only_the_traceparent(tmp_path: Path) -> None:
    with Collector() as collector:
        for mode in ("pass", "inject"):
            work = tmp_path / mode
            work.mkdir()
            config = write_rules(work, f'telemetry: {{otlp: "{collector.url}", propagate: {mode}}}\n')
            with Watched(work, "stdio", "stdio", "--config", config) as watched:
                door = watched.connect()
                assert door.is_alive()  # from here on nothing is held, so what is said arrives in its order
                said = []
                for number, rest in enumerate(
                    [
                        b',"params":{ "name":"echo" , "arguments":{"n":1e400}}',
                        b',"params":{"name":"echo","arguments":{}, "_meta":{ "a":1 }}',
                        b',"params":{"name":"echo","_meta":{"traceparent": "%b" }}' % PARENT.encode(),
                        b',"params":{"name":"echo","_meta":{}}',
                        b',"params":{}',
                        b"",
                    ]
                ):
                    method = b"tools/call" if b"echo" in rest else b"x/vendor"
                    raw = b'{"jsonrpc":"2.0","id":%d,"method":"%b"%b}' % (number + 500, method, rest)
                    door.say(raw)
                    said.append(raw)
                for number in range(6):
                    door.answer(b"%d" % (number + 500))
                reached = [one for one in watched.upstream.reached() if b'"id":50' in one]
                watched.end()
            if mode == "pass":
                assert reached == said
                continue
            for sent, got in zip(said, reached, strict=True):
                message, other = json.loads(sent), json.loads(got)
                meta = other.get("params", {}).get("_meta", {})
                parent = meta.pop("traceparent")
                assert len(parent) == 55
                (message.get("params", {}).get("_meta") or {}).pop("traceparent", None)
                if "_meta" not in message.get("params", {}):
                    other["params"].pop("_meta")
                if "params" not in message:
                    other.pop("params")
                assert other == message
                assert b"1e400" not in sent or b"1e400" in got
            assert wait_until(lambda: len(collector.spans) >= 20)
            hops = {span.span_id.hex() for span in collector.spans if span.kind == CLIENT}
            assert {
                json.loads(one)["params"]["_meta"]["traceparent"].split("-")[2] for one in reached
            } <= hops
            assert (
                json.loads(reached[2])["params"]["_meta"]["traceparent"].split("-")[1] == PARENT.split("-")[1]
            )


def test_inject_tells_an_upstream_over_http_in_its_header_too(tmp_path: Path) -> None:
    with Collector() as collector:
        config = write_rules(tmp_path, f'telemetry: {{otlp: "{collector.url}", propagate: inject}}\n')
        with Watched(tmp_path, "streamable", "streamable", "--config", config) as watched:
            assert watched.proxy is not None
            other = "00-11111111111111111111111111111111-2222222222222222-01"
            door = watched.proxy.connect("streamable", "legacy", more={"traceparent": other})
            watched.doors.append(door)
            door.begin()
            assert door.is_alive()
            heads = [head.get("traceparent") for head in watched.upstream.heads()]
            reached = [raw for raw in watched.upstream.reached() if b"tools/call" in raw]
            watched.end()
    inside = json.loads(reached[-1])["params"]["_meta"]["traceparent"]
    assert inside.split("-")[1] == other.split("-")[1]
    assert inside in heads
    assert other not in heads[-1:]


@pytest.mark.parametrize("upstream", ["streamable", "sse"])
def test_inject_tells_an_upstream_over_http_whoever_the_client_is(tmp_path: Path, upstream: str) -> None:
    with Collector() as collector:
        config = write_rules(tmp_path, f'telemetry: {{otlp: "{collector.url}", propagate: inject}}\n')
        with Watched(tmp_path, "stdio", upstream, "--config", config) as watched:
            door = watched.connect()
            assert door.is_alive()
            heads = [head.get("traceparent") for head in watched.upstream.heads()]
            reached = [raw for raw in watched.upstream.reached() if b"tools/call" in raw]
            watched.end()
    assert json.loads(reached[-1])["params"]["_meta"]["traceparent"] in heads


def test_credentials_are_in_no_span(tmp_path: Path) -> None:
    canary = "canary-in-a-span-27182"
    more = {"authorization": f"Bearer {canary}-a", "cookie": f"a={canary}-b", "x-api-key": f"{canary}-c"}
    with Collector() as collector:
        with Watched(
            tmp_path, "streamable", "streamable", "--otel", collector.url, "--header", f"X-Own: {canary}-d"
        ) as watched:
            assert watched.proxy is not None
            door = watched.proxy.connect("streamable", "legacy", more=more)
            watched.doors.append(door)
            door.begin()
            assert door.is_alive()
            session = door.session
            assert door.call("echo", b'{"password":"%b-e"}' % canary.encode())
            watched.end()
        assert wait_until(lambda: len(collector.spans) >= 4)
        seen = repr(collector.spans) + repr(collector.resources)
    assert canary not in seen
    assert session
    assert session not in seen


def test_without_the_extra_the_pip_line_is_said(tmp_path: Path) -> None:
    block = tmp_path / "opentelemetry"
    block.mkdir()
    (block / "__init__.py").write_text("")
    done = subprocess.run(
        [*PENSTOCK, "--stdio", "--otel", "http://127.0.0.1:9", "--", "cat"],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert b'pip install "penstock[otel]"' in done.stderr


def test_the_proxy_itself_never_loads_the_sdk(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        "name = os.environ['SEEN'] + str(os.getpid())\n"
        "atexit.register(lambda: open(name, 'w').write(' '.join(sys.modules)))\n"
    )
    with Collector() as collector:
        started = subprocess.Popen(
            [
                *PENSTOCK,
                "--stdio",
                "--otel",
                collector.url,
                "--record",
                str(tmp_path / "r.jsonl"),
                "--",
                "cat",
            ],
            env={"PYTHONPATH": str(tmp_path), "SEEN": str(tmp_path / "seen-"), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1.0)
        assert started.stdin is not None
        started.stdin.close()
        started.wait(20)
    seen = (tmp_path / f"seen-{started.pid}").read_text().split()
    assert "penstock.observe.tap" in seen
    assert not [name for name in seen if name.startswith("opentelemetry.sdk.")]
    assert "google.protobuf" not in seen
    assert sys.executable
    assert raws(tmp_path / "r.jsonl") == []
