"""The chain of interceptors and rules, in both directions, over real transports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate import wait_until
from ruled import WAYS, Hook, Ruled, arguments, rule, tool


@pytest.mark.parametrize("way", WAYS)
def test_after_untrusted_content_was_read_outbound_tools_are_blocked(way: str, tmp_path: Path) -> None:
    rules = [
        rule("taint", tool("read_file"), {"set_state": {"key": "tainted", "value": True}}),
        rule(
            "no-outbound",
            [*tool("write_file"), {"state_equals": {"key": "tainted", "value": True}}],
            {"block": "Untrusted content was read"},
        ),
    ]
    with Ruled(way, tmp_path, {"rules": rules}) as ruled:
        assert ruled.client.call("write_file")["result"]
        assert ruled.client.call("read_file")["result"]
        assert ruled.client.call("write_file")["error"]["message"] == "Untrusted content was read"
        assert len(ruled.reached("write_file")) == 1
        if way == "passthrough":
            assert ruled.connect().call("write_file")["result"]  # another session has read nothing


@pytest.mark.parametrize("way", WAYS)
def test_method_interceptors_come_first_then_rules_then_general_ones(way: str, tmp_path: Path) -> None:
    config = {
        "rules": [
            rule("ruled", [{"param_equals": {"field": "arguments.a", "value": "two"}}], {"block": "a rule"}),
            rule("spelt", tool("echo"), {"set_param": {"field": "arguments.b", "value": "three"}}),
        ],
        "method_interceptors": {
            "tools/call": {
                "class": "ToolCallInterceptor",
                "config": {"allowed_tools": ["echo", "read_file"], "rate_limit": {"per_hour": 3}},
            },
            "x/nothing": {"class": "ruled_plugins:Refuses", "config": {"mark": "one"}},
        },
        "interceptors": [
            {"class": "ruled_plugins:Slow", "config": {"mark": "three"}, "methods": ["tools/call"]}
        ],
    }
    with Ruled(way, tmp_path, config) as ruled:
        refused = ruled.client.call("write_file", arguments(a="two"))["error"]
        assert refused["data"]["rule"] == "method_interceptors.tools/call"
        assert ruled.client.call("read_file", arguments(a="two"))["error"]["message"] == "a rule"
        # What a rule wrote, the general interceptor reads.
        assert ruled.client.call("echo")["error"]["message"] == "Refused by a class"
        assert ruled.client.ask("x/nothing", b'{"a":"one"}')["error"]["data"] == {
            "rule": "method_interceptors.x/nothing",
            "action": "ruled_plugins:Refuses",
        }
        assert not ruled.reached("tools/call")
        for _ in range(2):
            ruled.client.call("read_file")
        assert ruled.client.call("read_file")["error"]["message"] == "Rate limit exceeded"


GOOD_URIS = ["file:///workspace/a", "FILE:///workspace/x/../a", "file://localhost/workspace/a%20b"]
ODD_URIS = [
    ("111", "file:///workspace/../etc/x"),
    ("111", "file:///workspace/..%2fetc"),
    ("111", "file:///workspace/%2e%2e/etc"),
    ("111", "file:///workspace/%252e%252e/etc"),
    ("111", "file:///workspace/..\\\\..\\\\etc"),
    ("111", "file:///workspace/a%00.txt"),
    ("112", "file://evil.example/workspace/a"),
    ("112", "file://user@localhost/workspace/a"),
    ("112", "http://workspace/a"),
    ("113", "file:///workspace-evil/a"),
    ("113", "file:///workspace/keys/id.KEY"),
]


@pytest.mark.parametrize("way", WAYS)
def test_resources_are_read_below_the_allowed_paths_alone_threats_111_to_113(
    way: str, tmp_path: Path
) -> None:
    config = {
        "method_interceptors": {
            "resources/read": {
                "class": "ResourceAccessInterceptor",
                "config": {"allowed_paths": ["/workspace"], "deny_patterns": ["*.key"]},
            }
        }
    }
    with Ruled(way, tmp_path, config) as ruled:
        for uri in GOOD_URIS:
            assert "result" in ruled.client.ask("resources/read", b'{"uri":"%b"}' % uri.encode()), uri
        for row, uri in ODD_URIS:
            answer = ruled.client.ask("resources/read", b'{"uri":"%b"}' % uri.encode())
            assert answer.get("error", {}).get("code") == -32001, (row, uri, answer)
        assert len(ruled.reached("resources/read")) == len(GOOD_URIS)


@pytest.mark.parametrize("fail_fast", [True, False])
def test_all_are_heard_only_without_fail_fast_and_a_block_wins_either_way(
    fail_fast: bool, tmp_path: Path
) -> None:
    rules = [
        rule("first", tool("echo"), {"block": "first"}, priority=9),
        rule("second", tool("echo"), "allow", {"log": {"level": "warn", "message": "second heard"}}),
    ]
    with Ruled("stdio", tmp_path, {"rules": rules, "chain": {"fail_fast": fail_fast}}) as ruled:
        assert ruled.client.call("echo")["error"]["data"] == {"rule": "first", "action": "block"}
        assert ruled.is_settled()
        assert ("second heard" in ruled.stderr) is not fail_fast
        assert not ruled.reached("tools/call")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["Crashes", "Hangs"])
def test_156_a_crash_or_a_hang_blocks_reviewed_methods_and_tells_no_secret(
    way: str, how: str, tmp_path: Path
) -> None:
    interceptors = [{"class": f"ruled_plugins:{how}", "methods": ["tools/call", "v/logged"]}]
    config = {"interceptors": interceptors, "chain": {"timeout": "300ms"}}
    with Ruled(way, tmp_path, config) as ruled:
        answer = ruled.client.call("echo")
        assert answer["error"]["code"] == -32001
        assert answer["error"]["data"]["action"] == ("error" if how == "Crashes" else "timeout")
        assert "secret" not in json.dumps(answer)
        assert not ruled.reached("tools/call")
        # A method that is not reviewed falls to default_action, which is: allow.
        assert ruled.client.ask("v/logged")["result"] == {"heard": "v/logged"}


@pytest.mark.parametrize("way", WAYS)
def test_156_two_rules_of_one_priority_disagree_and_the_block_wins(way: str, tmp_path: Path) -> None:
    rules = [
        rule("a", tool("echo"), "allow", priority=5),
        rule("b", tool("echo"), {"block": "no"}, priority=5),
    ]
    with Ruled(way, tmp_path, {"rules": rules}) as ruled:
        assert ruled.client.call("echo")["error"]["data"]["rule"] == "b"
        assert not ruled.reached("tools/call")


@pytest.mark.parametrize("way", WAYS)
def test_in_transport_mode_rules_see_frames_of_every_method(way: str, tmp_path: Path) -> None:
    metered = {"rate_limit": {"limit": 3, "window": "1h", "key": "all"}}
    config = {"mode": "transport", "rules": [rule("few", [], metered)]}
    with Ruled(way, tmp_path, config) as ruled:
        answers = [ruled.client.ask(f"v/{number}") for number in range(4)]
        assert "result" in answers[0]
        assert answers[3]["error"]["data"] == {"rule": "few", "action": "rate_limit"}


def asked_back(ruled: Ruled, id: int, method: str) -> Any:
    """Lets the upstream ask the client something; what the upstream heard as the answer."""
    raw = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {"n": 1}})
    token = ruled.client.new_id()
    ruled.client.begin_order("ask", token, raw=raw)
    return token


@pytest.mark.parametrize("way", ["stdio", "passthrough"])
def test_a_blocked_request_of_the_upstream_is_answered_to_the_upstream(way: str, tmp_path: Path) -> None:
    rules = [
        rule(
            "no-sampling",
            [{"method_equals": "sampling/createMessage"}],
            {"block": "no sampling here"},
            direction="upstream",
        )
    ]
    with Ruled(way, tmp_path, {"rules": rules}) as ruled:
        token = asked_back(ruled, 9001, "sampling/createMessage")
        got = json.loads(ruled.client.answer(token))["result"]["got"]
        assert got["id"] == 9001
        assert got["error"]["message"] == "no sampling here"
        assert not [
            heard for heard in ruled.client.heard if b"sampling" in heard.raw and b"method" in heard.raw
        ]


@pytest.mark.parametrize("way", ["stdio", "passthrough"])
def test_a_rule_about_the_clients_answers_sees_the_question(way: str, tmp_path: Path) -> None:
    rules = [
        rule(
            "no-answer",
            [{"method_equals": "sampling/createMessage"}, {"result_exists": "secret"}],
            {"block": "not that answer"},
            direction="client",
        )
    ]
    with Ruled(way, tmp_path, {"rules": rules}) as ruled:
        token = asked_back(ruled, 9002, "sampling/createMessage")
        ruled.client.message(lambda raw: b"9002" in raw and b"method" in raw)
        ruled.client.say(b'{"jsonrpc":"2.0","id":9002,"result":{"secret":1}}')
        got = json.loads(ruled.client.answer(token))["result"]["got"]
        assert (got["id"], got["error"]["message"]) == (9002, "not that answer")


@pytest.mark.parametrize("way", WAYS)
def test_blocked_notifications_are_dropped_in_either_direction(way: str, tmp_path: Path) -> None:
    rules = [
        rule("up", [{"method_equals": "notifications/secret"}], {"block": "x"}, direction="both"),
        rule("log", [{"method_equals": "notifications/progress"}], {"block": "x"}, direction="upstream"),
    ]
    with Ruled(way, tmp_path, {"rules": rules}) as ruled:
        ruled.client.say(b'{"jsonrpc":"2.0","method":"notifications/secret","params":{"n":"from-client"}}')
        secret = '{"jsonrpc":"2.0","method":"notifications/secret","params":{"n":"from-upstream"}}\n'
        open_ = '{"jsonrpc":"2.0","method":"notifications/open","params":{"n":"seen"}}\n'
        ruled.client.order("say", raw=secret + open_)
        ruled.client.message(lambda raw: b"notifications/open" in raw)
        assert not [heard for heard in ruled.client.heard if b"from-upstream" in heard.raw]
        assert not ruled.reached("from-client")


@pytest.mark.parametrize("way", WAYS)
def test_an_opaque_rule_looks_exactly_like_a_tool_that_does_not_exist(way: str, tmp_path: Path) -> None:
    hides = rule("hide", tool("read_file"), {"block": "secret words"}, opaque=True)
    with Ruled(way, tmp_path, {"rules": [hides]}, "--deny", "^delete_file$") as ruled:
        shapes = []
        for name in ("read_file", "reed_file"):
            token = ruled.client.new_id()
            ruled.client.request(token, "tools/call", b'{"name":"%b","arguments":{}}' % name.encode())
            raw = ruled.client.answer(token)
            post = getattr(ruled.client, "posts", {}).get(token)
            head = None if post is None else (post.status, post.headers)
            shapes.append((raw.replace(token, b"ID").replace(name.encode(), b"NAME"), str(head)))
        assert shapes[0] == shapes[1]
        assert not ruled.reached("read_file")


@pytest.mark.parametrize("way", WAYS)
def test_a_rule_never_makes_a_hidden_tool_callable(way: str, tmp_path: Path) -> None:
    renames = rule("rename", tool("echo"), {"set_param": {"field": "name", "value": "delete_file"}})
    with Ruled(way, tmp_path, {"rules": [renames]}, "--deny", "^delete_file$") as ruled:
        assert "error" in ruled.client.call("echo")
        assert not ruled.reached("tools/call")


@pytest.mark.parametrize("way", WAYS)
def test_the_name_in_the_headers_follows_a_changed_tool(way: str, tmp_path: Path) -> None:
    renames = rule("rename", tool("echo"), {"set_param": {"field": "name", "value": "read_file"}})
    with Ruled(way, tmp_path, {"rules": [renames]}) as ruled:
        if way == "passthrough":
            headers = {"Mcp_Method": "tools/call", "Mcp_Name": "echo"}
            raw = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{}}}'
            post = ruled.client.post(raw, **headers)
            ruled.client.until(lambda: post.is_over)
            names = [head["mcp-name"] for head in ruled.upstream.heads() if "mcp-name" in head]
            assert names == ["read_file"]
            assert b'"called" : "read_file"' in bytes(post.body)
        else:
            assert ruled.client.call("echo")["result"]["called"] == "read_file"


@pytest.mark.parametrize("way", WAYS)
def test_a_webhook_that_only_tells_never_delays_the_message(way: str, tmp_path: Path) -> None:
    with Hook() as hook:
        hook.gate.clear()
        with Ruled(way, tmp_path, {"rules": [rule("tell", tool("echo"), hook.action())]}) as ruled:
            assert ruled.client.call("echo")["result"]["called"] == "echo"  # while the hook still thinks
            assert hook.wait()[0]["message"]["params"]["name"] == "echo"
            hook.gate.set()


def test_114_a_webhook_is_not_sent_to_a_private_address_nor_after_a_redirect(tmp_path: Path) -> None:
    with Hook(lambda told: (307, b"")) as hook:
        private = hook.action(wait=True, allow_private=False)
        moved = hook.action(wait=True)
        rules = [rule("private", tool("echo"), private), rule("moved", tool("read_file"), moved)]
        with Ruled("stdio", tmp_path, {"rules": rules}) as ruled:
            assert ruled.client.call("echo")["error"]["data"] == {"rule": "private", "action": "error"}
            assert not hook.told
            assert ruled.client.call("read_file")["error"]["data"] == {"rule": "moved", "action": "error"}
            assert len(hook.told) == 1


@pytest.mark.parametrize("way", WAYS)
def test_116_every_one_of_two_equal_keys_is_looked_at(way: str, tmp_path: Path) -> None:
    hidden = {"param_equals": {"field": "arguments.path", "value": "/etc"}}
    with Ruled(way, tmp_path, {"rules": [rule("etc", [*tool("echo"), hidden], {"block": "no"})]}) as ruled:
        for pair in (
            b'{"path":"/etc","path":"/ok"}',
            b'{"path":"/ok","path":"/etc"}',
            b'{"p\\u0061th":"/etc"}',
        ):
            assert ruled.client.call("echo", pair)["error"]["code"] == -32001, pair
        assert ruled.client.call("echo", b'{"path":"/ok"}')["result"]
        assert len(ruled.reached("tools/call")) == 1


@pytest.mark.parametrize("way", ["passthrough", "modern"])
def test_119_what_was_cached_for_one_is_not_given_to_another(way: str, tmp_path: Path) -> None:
    with Ruled(
        way, tmp_path, {"rules": [rule("keep", [{"method_equals": "v/mine"}], {"cache": {"ttl": "1h"}})]}
    ) as ruled:
        alice = ruled.connect(more={"Authorization": "Bearer alice"})
        again = ruled.connect(more={"Authorization": "Bearer alice"})
        bob = ruled.connect(more={"Authorization": "Bearer bob"})
        for client in (alice, again, bob):
            assert client.ask("v/mine", b'{"n":1}')["result"] == {"heard": "v/mine"}
        assert len(ruled.reached("v/mine")) == 2
        # Another's session with one's own rights is not enough either.
        bob.session = alice.session
        bob.more = {"Authorization": "Bearer eve"}
        bob.ask("v/mine", b'{"n":1}')
        assert len(ruled.reached("v/mine")) == 3


@pytest.mark.parametrize("way", WAYS)
def test_119_only_complete_and_successful_results_are_kept(way: str, tmp_path: Path) -> None:
    keeps = rule("keep", [{"method_equals": "x/say"}], {"cache": {"ttl": "1h"}})
    with Ruled(way, tmp_path, {"rules": [keeps]}) as ruled:
        for mark, body in (
            ("failed", '"error":{"code":-32000,"message":"x"}'),
            ("is-error", '"result":{"isError":true}'),
            ("partial", '"result":{"resultType":"input_required"}'),
            ("paged", '"result":{"nextCursor":"more"}'),
            ("spent", '"result":{"ttlMs":0}'),
        ):
            raw = '{"jsonrpc":"2.0","id":<id>,' + body + "}\n"
            for _ in range(2):
                ruled.client.order("say", raw=raw, mute=True, mark=mark)
            assert len(ruled.reached(f'"{mark}"')) == 2, mark
        private = '{"jsonrpc":"2.0","id":<id>,"result":{"cacheScope":"private"}}\n'
        for _ in range(2):
            ruled.client.order("say", raw=private, mute=True, mark="own")
        assert len(ruled.reached('"own"')) == 1
        if way == "passthrough":
            ruled.connect().order("say", raw=private, mute=True, mark="own")
            assert len(ruled.reached('"own"')) == 2


def test_118_keys_of_a_rate_limit_do_not_run_into_each_other(tmp_path: Path) -> None:
    limit = {"rate_limit": {"limit": 1, "window": "1h", "key": "${param.a}:${param.b}"}}
    with Ruled("stdio", tmp_path, {"rules": [rule("few", [{"method_equals": "v/r"}], limit)]}) as ruled:
        assert "result" in ruled.client.ask("v/r", b'{"a":"x:y","b":"z"}')
        assert "result" in ruled.client.ask("v/r", b'{"a":"x","b":"y:z"}')
        assert "error" in ruled.client.ask("v/r", b'{"a":"x","b":"y:z"}')


@pytest.mark.parametrize("way", WAYS)
def test_a_broken_transform_blocks_and_its_words_stay_here(way: str, tmp_path: Path) -> None:
    with Ruled(
        way, tmp_path, {"rules": [rule("t", tool("echo"), {"transform": "ruled_plugins:broken"})]}
    ) as ruled:
        error = ruled.client.call("echo")["error"]
        assert error["data"] == {"rule": "t", "action": "error"}
        assert "secret" not in json.dumps(error)
        assert wait_until(lambda: "a secret" in ruled.stderr)


def test_an_answer_as_events_is_ruled_like_one_as_json(tmp_path: Path) -> None:
    masks = rule("mask", [{"method_equals": "x/events"}], {"set_result": {"field": "text", "value": "***"}})
    with Ruled("passthrough", tmp_path, {"rules": [masks]}) as ruled:
        token = ruled.client.new_id()
        before = '{"jsonrpc":"2.0","method":"notifications/message","params":{"n" : 1.0}}'
        answer = '{"jsonrpc" : "2.0","id":<id>,"result":{"text" : "me@example.org", "n":1.0}}'
        ruled.client.begin_order("events", token, raw=f"id: 7\ndata: {before}\n\nid: 8\ndata: {answer}\n\n")
        got = ruled.client.answer(token)
        assert got == b'{"jsonrpc" : "2.0","id":%b,"result":{"text" : "***", "n":1.0}}' % token
        post = ruled.client.posts[token]
        assert post.events[0] == f"id: 7\ndata: {before}\n\n".encode()
        assert b"id: 8\n" in post.events[1]


def test_an_answer_on_a_resumed_stream_is_ruled_too(tmp_path: Path) -> None:
    blocks = rule("no", [{"method_equals": "x/poll"}, {"result_exists": "polled"}], {"block": "withheld"})
    with Ruled("passthrough", tmp_path, {"rules": [blocks]}) as ruled:
        token = ruled.client.new_id()
        ruled.client.begin_order("poll", token, mark="m-1")
        post = ruled.client.posts[token]
        ruled.client.until(lambda: post.is_over)
        ruled.client.http("GET", "/mcp", {**ruled.client.headers(), "Last-Event-ID": "m-1"}, label="GET")
        assert json.loads(ruled.client.answer(token))["error"]["message"] == "withheld"
