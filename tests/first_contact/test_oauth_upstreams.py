"""OAuth through --listen, with the SDKs' own OAuth providers and an upstream that checks the audience."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from authorization_server import AuthorizationServer
from gate import ROOT
from oauth_clients import CLIENT, NODE, NODE_CLIENT, PYTHON_CLIENT
from pairs import Proxy, said

UPSTREAM = ROOT / "tests" / "upstreams" / "oauth_server.py"


class Place(NamedTuple):
    """An authorization server, an upstream that takes its tokens, and Penstock in front of it."""

    server: AuthorizationServer
    upstream: str
    ours: str
    audience: Path  # what the upstream wants to read in a token
    errors: Path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    work = tmp_path_factory.mktemp("oauth")
    audience, errors = work / "audience", work / "upstream"
    with AuthorizationServer() as server, errors.open("wb") as file:
        command = [sys.executable, str(UPSTREAM), server.issuer, server.jwks_uri, "--audience", str(audience)]
        process = subprocess.Popen(command, stderr=file)
        try:
            url = said(errors, rb"listening on (\S+)", process)
            with Proxy(work, ["--deny", "^erase$", "--upstream", url]) as proxy:
                yield Place(server, url, f"http://127.0.0.1:{proxy.port}/mcp", audience, errors)
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def place(shared: Place) -> Place:
    """Everything as it is at first: the upstream wants tokens for itself and nobody else."""
    shared.audience.write_text(shared.upstream)
    shared.server.also = ()
    shared.server.authorized.clear()
    shared.server.exchanged.clear()
    return shared


def drive(client: list[str], *words: str) -> dict[str, Any]:
    done = subprocess.run([*client, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@CLIENT
def test_it_works_where_a_token_is_for_both(client: list[str], place: Place) -> None:
    # The authorization server knows that a token for us is one for the upstream behind us.
    place.server.also = (place.upstream,)
    assert drive(client, place.ours) == {"tools": ["echo"], "said": "said"}
    # The client went to the upstream's authorization server, and asked for a token for us.
    asked = place.server.authorized + place.server.exchanged
    assert len(asked) >= 2
    assert {parameters["resource"] for parameters in asked} == {place.ours}


@pytest.mark.parametrize("client", [[sys.executable, PYTHON_CLIENT]], ids=["python 2.x"])
def test_it_works_where_the_upstream_takes_tokens_for_us(client: list[str], place: Place) -> None:
    place.audience.write_text(place.ours)
    assert drive(client, place.ours) == {"tools": ["echo"], "said": "said"}


def test_an_upstream_that_wants_its_own_audience_only_refuses(place: Place, tmp_path: Path) -> None:
    client = [sys.executable, PYTHON_CLIENT]
    assert drive(client, place.upstream)["said"] == "said"  # without us it works: this is about the audience
    assert "error" in drive(client, place.ours)
    assert "Audience doesn't match" in place.errors.read_text()
    # One way out: we hold a token for the upstream, and the client needs none.
    token = place.server.token(place.upstream, client_id="penstock")
    held = ["--header", f"Authorization: Bearer {token}", "--upstream", place.upstream]
    with Proxy(tmp_path, held) as proxy:
        assert drive(client, f"http://127.0.0.1:{proxy.port}/mcp")["said"] == "said"


@pytest.mark.node
@pytest.mark.skipif(not NODE.exists(), reason="run scripts/node_setup first")
@pytest.mark.parametrize("generation", ["1", "2"])
def test_a_client_that_can_be_told_asks_for_the_upstreams_audience(generation: str, place: Place) -> None:
    # Another way out: the provider's own hook for this, validateResourceURL.
    report = drive([str(NODE), NODE_CLIENT, generation], place.ours, place.upstream)
    assert report == {"tools": ["echo"], "said": "said"}
    assert {parameters["resource"] for parameters in place.server.authorized} == {place.upstream}
