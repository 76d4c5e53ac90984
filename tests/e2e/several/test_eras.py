"""Upstreams of both eras behind one door, for clients of either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doors import Client
from several import Several, names, over_http, says, wait_until


def test_33_two_legacy_and_a_dual_upstream_and_a_client_that_asks_for_the_newer_era_first(
    tmp_path: Path,
) -> None:
    several = (
        Several(tmp_path).add("one", tools=["a"]).add("two", tools=["b"]).add("dual", era="dual", tools=["c"])
    )
    with several.stdio(era="modern") as client:
        assert client.heard, "discovery was answered"
        assert json.loads(client.heard[0].raw)["error"]["code"] == -32601
        client.era = "legacy"
        client.begin()
        assert names(client) == ["a", "b", "c"]
        assert [says(client.call(name)) for name in "abc"] == ["one:a", "two:b", "dual:c"]


def test_33_over_http_too(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["a"]).add("dual", era="dual", tools=["b"])
    with several.listening() as port:
        with over_http(port, "modern") as client:
            assert "error" in json.loads(client.heard[0].raw)
        with over_http(port) as client:
            assert names(client) == ["a", "b"]
            assert [says(client.call(name)) for name in "ab"] == ["one:a", "dual:b"]


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_a_modern_only_upstream_beside_a_legacy_one(tmp_path: Path, door: str) -> None:
    several = Several(tmp_path).add("one", tools=["a"]).add("new", era="modern", tools=["b"])
    if door == "stdio":
        with several.stdio() as client:
            assert [says(client.call(name)) for name in names(client)] == ["one:a", "new:b"]
        return
    with several.listening() as port, over_http(port) as client:
        assert [says(client.call(name)) for name in names(client)] == ["one:a", "new:b"]


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_15_all_modern_upstreams_in_their_own_era(tmp_path: Path, door: str) -> None:
    several = Several(tmp_path).add("one", era="dual", tools=["a", "ask_elicitation"], cache=[9000, "public"])
    several.add("two", era="modern", tools=["a"], cache=[3000, "private"])

    def check(client: object) -> None:
        listed = client.ask("tools/list")["result"]  # type: ignore[attr-defined]
        assert [tool["name"] for tool in listed["tools"]] == ["a", "ask_elicitation", "two__a"]
        assert (listed["ttlMs"], listed["cacheScope"], listed["resultType"]) == (3000, "private", "complete")
        assert says(client.call("a")) == "one:a"  # type: ignore[attr-defined]
        assert says(client.call("two__a")) == "two:a"  # type: ignore[attr-defined]
        asked = client.call("ask_elicitation")["result"]  # type: ignore[attr-defined]
        assert asked["requestState"] == "state of one"
        assert asked["inputRequests"]["who"]["params"]["message"] == "[one] from one"
        words = {"inputResponses": {"who": {"action": "accept"}}, "requestState": "state of one"}
        retry = json.dumps({"name": "ask_elicitation", "arguments": {}, **words}).encode()
        answer = client.ask("tools/call", retry)["result"]  # type: ignore[attr-defined]
        assert answer["state"] == "state of one"

    if door == "stdio":
        with several.stdio(era="modern") as client:
            assert json.loads(client.heard[0].raw)["result"]["supportedVersions"] == ["2026-07-28"]
            check(client)
        return
    with several.listening() as port, over_http(port, "modern") as client:
        check(client)


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_16_one_acknowledgement_and_the_stream_outlives_an_upstream(tmp_path: Path, door: str) -> None:
    several = Several(tmp_path).add("one", era="modern", tools=["change", "die"])
    several.add("two", era="modern", tools=["change"], resources=[{"uri": "two:x", "name": "x"}])

    def check(client: Client) -> None:
        wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["two:x"]}}
        client.request(b"77", "subscriptions/listen", json.dumps(wanted).encode())
        acks = b"notifications/subscriptions/acknowledged"
        first = json.loads(client.message(lambda raw: acks in raw).raw)
        assert first["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 77}
        client.call("two__change", b'{"add":["new"]}')
        told = json.loads(client.message(lambda raw: b"tools/list_changed" in raw).raw)
        assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 77}
        assert "error" in client.call("die")
        wait_until(lambda: len(several.starts("one")) > 1)

        def listened(name: str) -> int:
            return sum(one["method"] == "subscriptions/listen" for one in several.heard(name))

        wait_until(lambda: listened("one") == 2)
        wait_until(lambda: "result" in client.call("change", b'{"add":["back"]}'))
        wait_until(lambda: "back" in names(client))
        assert sum(acks in one.raw for one in client.heard) == 1
        asked = [one for one in several.heard("two") if one["method"] == "subscriptions/listen"]
        filters = [one["params"]["notifications"] for one in asked]
        assert ["two:x"] in [one.get("resourceSubscriptions") for one in filters]
        assert not any(b"two:x" in line for line in several.lines("one"))

    if door == "stdio":
        with several.stdio(era="modern") as client:
            check(client)
    else:
        with several.listening() as port, over_http(port, "modern") as http:
            check(http)


def test_nobody_waits_for_whoever_wants_to_hear_of_very_many_resources(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", era="modern", tools=["echo"])
    several.add("two", era="modern", templates=[{"uriTemplate": "two:{x}", "name": "x"}])
    uris = [f"two:{number}" for number in range(200_000)]
    wanted = json.dumps({"notifications": {"resourceSubscriptions": uris}}).encode()
    with several.listening() as port, over_http(port, "modern") as client:
        assert says(client.call("echo")) == "one:echo"
        client.request(b"77", "subscriptions/listen", wanted)
        refused = json.loads(client.answer(b"77"))
        assert refused["error"] == {"code": -32603, "message": "Too many subscriptions"}
        assert says(client.call("echo")) == "one:echo"
        few = json.dumps({"notifications": {"resourceSubscriptions": uris[:1000] * 3}}).encode()
        client.request(b"78", "subscriptions/listen", few)
        client.message(lambda raw: b"notifications/subscriptions/acknowledged" in raw)
    asked = [one["params"] for one in several.heard("two") if one["method"] == "subscriptions/listen"]
    named = [one["notifications"].get("resourceSubscriptions") for one in asked]
    wanted_there = [one for one in named if one is not None]  # the others are the lists' own
    assert wanted_there
    assert all(one == uris[:1000] for one in wanted_there)
