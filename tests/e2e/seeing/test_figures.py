"""Figures for Prometheus, as its own parser and, where there is one, a real Prometheus read them."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse
from test_recordings import write_rules

from gate import wait_until
from watched import Watched

COUNTING = """
tools: {deny: ["^write_"]}
interceptor:
  rules:
    - id: no-keys
      conditions: [{param_matches: {field: arguments.path, pattern: "key$"}}]
      actions: [{metric: {name: keys_asked_for}}, {block: no}]
"""


def port_of(watched: Watched) -> int:
    found = re.search(r"Metrics on http://127\.0\.0\.1:(\d+)/metrics", watched.stderr)
    assert found is not None, watched.stderr
    return int(found[1])


def get(port: int, accept: str = "text/plain") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def samples(text: str, is_open: bool = False) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found: dict[Any, float] = {}
    for family in (parse_open if is_open else parse)(text):
        assert family.documentation
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"{key} stands twice"
            found[key] = sample.value
    return found


@pytest.mark.parametrize(("client", "upstream"), [("stdio", "stdio"), ("streamable", "streamable")])
def test_everything_that_was_promised_is_counted(tmp_path: Path, client: str, upstream: str) -> None:
    rules = write_rules(tmp_path, COUNTING)
    with Watched(tmp_path, client, upstream, "--metrics", "0", "--config", rules, deny="") as watched:
        door = watched.connect()
        door.ask("tools/list")
        door.call("echo", b'{"path":"/a"}')
        door.call("echo", b'{"path":"/a.key"}')
        door.call("write_file")
        door.ask("x/vendor")
        port = port_of(watched)
        found = samples(get(port))
        opened = samples(get(port, "application/openmetrics-text"), is_open=True)
        watched.end()
    one = {name: value for (name, labels), value in found.items() if not labels}
    assert one["penstock_sessions"] >= 1
    assert one["penstock_upstream_up"] == 1
    assert one["penstock_pending_requests"] == 0
    assert one["process_resident_memory_bytes"] > 1e6
    assert found["penstock_tools", frozenset({("state", "denied")})] == 1
    assert found["penstock_tools", frozenset({("state", "allowed")})] == 3
    assert found["penstock_rule_hits_total", frozenset({("rule", "no-keys")})] == 1
    assert found["penstock_custom_total", frozenset({("name", "keys_asked_for")})] == 1
    verdicts = {
        dict(labels)["verdict"]: value
        for (name, labels), value in found.items()
        if name == "penstock_messages_total"
        and dict(labels)["from"] == "client"
        and dict(labels)["kind"] == "request"
    }
    assert verdicts["deny"] == verdicts["block"] == 1
    calls = [
        (dict(labels), value)
        for (name, labels), value in found.items()
        if name == "mcp_server_operation_duration_seconds_count"
        and dict(labels)["mcp_method_name"] == "tools/call"
    ]
    assert {labels["gen_ai_tool_name"] for labels, _ in calls} == {"echo", "write_file"}
    assert {labels["error_type"] for labels, _ in calls} == {"", "-32001", "-32601"}
    assert not any("x/vendor" in dict(labels).values() for (name, labels) in found if name.startswith("mcp_"))
    assert any(name == "penstock_gate_seconds_bucket" for name, _ in found)
    assert any(name == "penstock_build_info" for name, _ in found)
    assert any(name == "penstock_message_bytes_total" for name, _ in opened)


def test_many_methods_and_tools_are_few_series(tmp_path: Path) -> None:
    from records import answer, record

    from penstock.observe.metrics import Metrics

    metrics = Metrics()
    for number in range(100_000):
        asked = record(method=f"vendor/{number}", tool=f"tool-{number}", received=1.0)
        metrics.saw(asked)
        metrics.saw(answer(asked, received=1.5))
    found = samples(metrics.text().decode())
    by_name: dict[str, int] = {}
    for name, _ in found:
        by_name[name] = by_name.get(name, 0) + 1
    assert max(count for name, count in by_name.items() if not name.endswith("_bucket")) <= 1000
    assert sum(value for (name, _), value in found.items() if name == "penstock_methods_total") == 100_000


def test_only_who_means_us_is_answered(tmp_path: Path) -> None:
    with Watched(tmp_path, "stdio", "stdio", "--metrics", "0") as watched:
        watched.connect()
        port = port_of(watched)
        for method, path, host, status in [
            ("GET", "/metrics", f"localhost:{port}", 200),
            ("GET", "/metrics", f"127.0.0.1:{port}", 200),
            ("GET", "/metrics", f"evil.example:{port}", 403),
            ("GET", "/", "localhost", 404),
            ("POST", "/metrics", "localhost", 405),
        ]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request(method, path, headers={"Host": host})
            assert connection.getresponse().status == status, (method, path, host)
            connection.close()
        watched.end()


def test_a_taken_port_ends_it_before_the_upstream_starts(tmp_path: Path) -> None:
    import socket

    from watched import run

    with socket.create_server(("127.0.0.1", 0)) as taken:
        mark = tmp_path / "spawned"
        done = run(
            "--stdio", "--metrics", str(taken.getsockname()[1]), "--", "sh", "-c", f"touch {mark}; cat"
        )
    assert done.returncode == 1
    assert not mark.exists()


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no prometheus here")
def test_a_real_prometheus_scrapes_us(tmp_path: Path) -> None:
    with Watched(tmp_path, "stdio", "stdio", "--metrics", "0") as watched:
        door = watched.connect()
        assert door.is_alive()
        config = tmp_path / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\nscrape_configs:\n"
            f"  - {{job_name: penstock, static_configs: [{{targets: ['127.0.0.1:{port_of(watched)}']}}]}}\n"
        )
        words = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        errors = tmp_path / "prometheus-errors"
        with errors.open("wb") as file:
            scraper = subprocess.Popen(words, stdout=file, stderr=file)
        try:
            assert wait_until(
                lambda: re.search(rb"Listening on\S* address=127\.0\.0\.1:(\d+)", errors.read_bytes())
            )
            found = re.search(rb"Listening on\S* address=127\.0\.0\.1:(\d+)", errors.read_bytes())
            assert found is not None
            url = f"http://127.0.0.1:{int(found[1])}/api/v1/query?query=penstock_messages_total"
            end = time.monotonic() + 30
            result: list[Any] = []
            while not result and time.monotonic() < end:
                time.sleep(0.5)
                try:
                    result = json.load(urllib.request.urlopen(url, timeout=5))["data"]["result"]
                except OSError:
                    continue
            assert result
        finally:
            scraper.kill()
            scraper.wait()
        watched.end()
