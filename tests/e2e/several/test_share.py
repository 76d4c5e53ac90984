"""One process for all sessions (`share: true`): each hears what belongs to it, and nothing else."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from doors import Client
from penstock.limits import SUBSCRIBED_BYTES
from several import Several, names, over_http, over_sse, says, wait_until

SHARED = {"share": True}
ASKS = b'{"sampling":{},"elicitation":{},"roots":{}}'


def shared(work: Path, *tools: str, **spec: Any) -> Several:
    return Several(work).add("one", SHARED, tools=list(tools), **spec).add("two", tools=["other"])


def call(name: str, **more: Any) -> bytes:
    return json.dumps({"name": name, "arguments": {}, **more}).encode()


def test_sessions_share_one_process_and_equal_ids_do_not_meet(tmp_path: Path) -> None:
    several = shared(tmp_path, "echo", "slow")
    with several.listening() as port, over_http(port) as first, over_http(port) as second:
        with over_sse(port) as third:
            for client in (first, second, third):
                client.request(b"7", "tools/call", call("slow", arguments={"seconds": 0.1}))
            answers = [json.loads(client.answer(b"7")) for client in (first, second, third)]
            assert [says(answer) for answer in answers] == ["one:slow"] * 3
            pids = {answer["result"]["pid"] for answer in answers}
            pids |= {client.call("echo")["result"]["pid"] for client in (first, second, third)}
            assert len(pids) == 1
        assert says(first.call("echo")) == "one:echo"  # the process outlives a session
        assert says(second.call("other")) == "two:other"
        assert len(several.starts("one")) == 1
        for client in (first, second):
            told = [json.loads(heard.raw) for heard in client.heard]
            assert all(one.get("id") is None or isinstance(one["id"], int) for one in told)
    greetings = [one for one in several.heard("one") if one.get("method") == "initialize"]
    assert len(greetings) == 1
    assert greetings[0]["params"]["clientInfo"]["name"] == "penstock"


def test_progress_goes_to_the_session_that_asked(tmp_path: Path) -> None:
    several = shared(tmp_path, "progress", "echo")
    with several.listening() as port, over_http(port) as first, over_http(port) as second:
        for client in (first, second):
            client.request(b"8", "tools/call", call("progress", _meta={"progressToken": "p"}))
        for client in (first, second):
            client.answer(b"8")
            client.call("echo")
            told = [json.loads(one.raw) for one in client.heard]
            news = [one["params"] for one in told if one.get("method") == "notifications/progress"]
            assert [(one["progressToken"], one["progress"]) for one in news] == [("p", 1), ("p", 2)]


def test_a_question_goes_to_the_only_session_that_waits_and_else_to_none(tmp_path: Path) -> None:
    several = shared(tmp_path, "ask_sampling", "hang", "echo")
    with several.listening() as port:  # noqa: SIM117
        with over_http(port, capabilities=ASKS) as first, over_http(port, capabilities=ASKS) as second:
            second.call("echo")
            first.request(b"9", "tools/call", call("ask_sampling"))
            asked = json.loads(first.message(lambda raw: b"sampling/createMessage" in raw).raw)
            # Whoever was not asked cannot answer.
            forged = {"jsonrpc": "2.0", "id": asked["id"], "result": {"forged": 1}}
            second.say(json.dumps(forged).encode())
            second.say(json.dumps({**forged, "id": 1}).encode())
            first.say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"ok": 1}}).encode())
            assert json.loads(first.answer(b"9"))["result"]["answer"] == {"ok": 1}
            second.request(b"5", "tools/call", call("hang"))
            wait_until(lambda: "hang" in several.calls("one"))
            answer = first.call("ask_sampling")["result"]["answer"]
            assert answer["code"] == -32601
            assert not any(b"createMessage" in one.raw for one in second.heard)


def test_a_cancel_reaches_only_what_is_its_own(tmp_path: Path) -> None:
    several = shared(tmp_path, "hang", "echo")

    def cancelled() -> list[Any]:
        heard = several.heard("one")
        return [one["params"]["requestId"] for one in heard if one["method"] == "notifications/cancelled"]

    with several.listening() as port, over_http(port) as first:
        with over_http(port) as second:
            first.request(b"5", "tools/call", call("hang"))
            wait_until(lambda: "hang" in several.calls("one"))
            cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}'
            second.say(cancel)
            second.call("echo")
            assert cancelled() == []
            first.say(cancel)
            wait_until(lambda: len(cancelled()) == 1)
            sent = [one["id"] for one in several.heard("one") if one["method"] == "tools/call"]
            assert cancelled() == [sent[0]]
            second.request(b"6", "tools/call", call("hang"))
            wait_until(lambda: several.calls("one").count("hang") == 2)
            second.whole("DELETE", "/mcp", second.headers())
        wait_until(lambda: len(cancelled()) == 2)  # who leaves has cancelled
        assert says(first.call("echo")) == "one:echo"


def test_a_loss_is_told_to_all_and_one_process_comes_back(tmp_path: Path) -> None:
    several = shared(tmp_path, "hang", "echo")
    with several.listening() as port, over_http(port) as first, over_http(port) as second:
        for client in (first, second):
            client.request(b"5", "tools/call", call("hang"))
        wait_until(lambda: several.calls("one").count("hang") == 2)
        os.kill(several.starts("one")[0], signal.SIGKILL)
        for client in (first, second):
            assert json.loads(client.answer(b"5"))["error"]["message"] == "one is not available"
        for client in (first, second):
            wait_until(lambda client=client: "result" in client.call("echo"))
        assert len(several.starts("one")) == 2


def test_news_go_to_who_wants_them(tmp_path: Path) -> None:
    several = shared(tmp_path, "change", "echo", resources=[{"uri": "one:x", "name": "x"}])
    with several.listening() as port, over_http(port) as first, over_http(port) as second:
        for client in (first, second):
            assert "change" in names(client)
            client.call("echo")
        first.ask("resources/subscribe", b'{"uri":"one:x"}')
        first.message(lambda raw: b"resources/updated" in raw)
        first.call("change", b'{"add":["newer"]}')
        for client in (first, second):
            client.message(lambda raw: b"tools/list_changed" in raw)
            assert "newer" in names(client)
        assert not any(b"resources/updated" in one.raw for one in second.heard)


def test_subscriptions_are_bounded_and_end_with_their_session(tmp_path: Path) -> None:
    several = shared(tmp_path, "echo", templates=[{"uriTemplate": "one:{x}", "name": "x"}])

    def subscribe(client: Client, uri: str) -> Any:
        return client.ask("resources/subscribe", json.dumps({"uri": uri}).encode())

    def ended() -> list[str]:
        heard = several.heard("one")
        return [one["params"]["uri"] for one in heard if one["method"] == "resources/unsubscribe"]

    with several.listening() as port, over_http(port) as second:
        with over_sse(port) as first:
            for client in (first, second):
                assert "result" in subscribe(client, "one:both")
            assert "result" in subscribe(first, "one:a")
            refused = subscribe(first, "one:" + "x" * SUBSCRIBED_BYTES)
            assert refused["error"] == {"code": -32603, "message": "Too many subscriptions"}
        wait_until(lambda: ended() == ["one:a"])
        assert second.call("echo")["result"]
        asked = [one for one in several.heard("one") if one["method"] == "resources/subscribe"]
        assert [one["params"]["uri"] for one in asked] == ["one:both", "one:a"]


@pytest.mark.parametrize("era", ["modern", "dual"])
def test_a_process_of_the_newer_era_is_shared_too(era: str, tmp_path: Path) -> None:
    several = shared(tmp_path, "echo", era=era)
    with several.listening() as port, over_http(port) as first, over_http(port) as second:
        assert len({client.call("echo")["result"]["pid"] for client in (first, second)}) == 1
    assert len(several.starts("one")) == 1


def test_it_leaves_with_the_file_and_with_us(tmp_path: Path) -> None:
    several = shared(tmp_path, "echo")
    with several.listening() as port, over_http(port) as client:
        pid = client.call("echo")["result"]["pid"]
        several.add("one", SHARED, tools=["echo", "more"]).write()
        several.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "more" in names(client))
        assert client.call("echo")["result"]["pid"] != pid
        wait_until(lambda: not _is_alive(pid))
    wait_until(lambda: not any(_is_alive(one) for one in several.starts("one")))


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_check_says_what_cannot_be_shared(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = shared(tmp_path, "echo").write()
    words = [sys.executable, "-m", "penstock", "check", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "one process for all sessions" in done.stdout
    several = Several(tmp_path).add_entry("one", {"url": "http://127.0.0.1:1/mcp", **SHARED})
    done = subprocess.run(
        [*words[:-1], str(several.write())], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "share is for a command" in done.stdout + done.stderr
