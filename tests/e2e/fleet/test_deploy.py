"""What deploy/ has: manifests that a validator takes, a configuration that loads, nginx before three."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from doors import LegacyDoor
from fleet import DEPLOY, NGINX, SECRET, Balancer, Instances, shared
from pairs import Upstream
from penstock.config.file import load_file
from redis_server import RedisServer, needs_redis

MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


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
    with RedisServer(tmp_path) as redis:
        document = {"shared": shared(redis.url), "peer": {"listen": "127.0.0.1:0", "drain": "1s"}}
        with (
            Instances(tmp_path, Upstream("stdio", tmp_path).words(), document, count=3) as fleet,
            Balancer(tmp_path, fleet.ports) as balancer,
        ):
            client = LegacyDoor(balancer.port, "legacy")
            client.begin()
            for _ in range(9):
                assert client.ask("x/nothing") is not None
            client.close()
