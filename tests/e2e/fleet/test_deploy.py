"""What deploy/ has: manifests that a validator takes, a configuration that loads, nginx before three."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from doors import LegacyDoor
from fleet import SECRET, Instances, shared
from gate import ROOT, wait_until
from pairs import Upstream
from penstock.config.file import load_file
from redis_server import RedisServer, free_port, needs_redis

DEPLOY = ROOT / "deploy"
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/bin")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_kubernetes_takes_the_manifests(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_the_validator_would_see_a_fault() -> None:
    wrong = {**MANIFESTS[0], "spec": {**MANIFESTS[0]["spec"], "replicas": "three"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_configuration_loads_and_fits_the_manifests() -> None:
    names = {
        "UPSTREAM_URL": "https://a.example/mcp",
        "REDIS_PASSWORD": "pass-word",
        "PENSTOCK_SECRET": SECRET,
    }
    config = load_file(str(DEPLOY / "penstock.yaml"), {**names, "PEER_HOST": "10.0.0.7"})
    assert config.peer is not None
    assert config.peer.address == "10.0.0.7:8909"
    container = MANIFESTS[0]["spec"]["template"]["spec"]["containers"][0]
    assert {port["containerPort"] for port in container["ports"]} == {8808, config.peer.listen[1]}
    grace = MANIFESTS[0]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > config.peer.drain
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert compose["services"]["penstock"]["deploy"]["replicas"] == 3
    assert set(compose["services"]) == {"nginx", "penstock", "redis"}


@needs_redis
@pytest.mark.skipif(NGINX is None, reason="there is no nginx here")
def test_15_a_session_works_behind_round_robin(tmp_path: Path) -> None:
    assert NGINX is not None
    with RedisServer(tmp_path) as redis:
        document = {"shared": shared(redis.url), "peer": {"listen": "127.0.0.1:0", "drain": "1s"}}
        with Instances(tmp_path, Upstream("stdio", tmp_path).words(), document, count=3) as fleet:
            port = free_port()
            text = (DEPLOY / "nginx.conf").read_text().replace("listen 8080", f"listen 127.0.0.1:{port}")
            servers = "".join(f"server 127.0.0.1:{one};" for one in fleet.ports)
            text = text.replace("server penstock:8808;", servers).replace(
                "worker_processes auto", "worker_processes 1"
            )
            paths = f"pid {tmp_path}/nginx.pid; error_log {tmp_path}/nginx.log; daemon off;\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
                text = text.replace("http {\n", f"http {{ {name}_temp_path {tmp_path}/{name};\n", 1)
            text = text.replace("http {", "http { access_log off;", 1)
            (tmp_path / "nginx.conf").write_text(paths + text)
            nginx = subprocess.Popen([NGINX, "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)])
            try:
                probe = LegacyDoor(port, "legacy", listens=False)

                def is_up() -> bool:
                    try:
                        return probe.whole("GET", "/healthz", {"Host": "localhost"}).status == 200
                    except OSError:
                        return False

                assert wait_until(is_up)
                client = LegacyDoor(port, "legacy")
                client.begin()
                for _ in range(9):
                    assert client.ask("x/nothing") is not None
                client.close()
                probe.close()
            finally:
                nginx.terminate()
                nginx.wait(20)
