"""How several upstreams start, fail, come back and end: none of them is the others' trouble."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

from doors import DEADLINE, LegacyDoor, StdioDoor
from several import PENSTOCK, Several, names, over_http, says, wait_until

CHANGED = b"notifications/tools/list_changed"


def changes(client: object) -> int:
    return sum(CHANGED in one.raw for one in client.heard)  # type: ignore[attr-defined]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_19_the_rest_is_there_when_some_are_refused_hung_or_garbage(tmp_path: Path) -> None:
    several = Several(tmp_path, lists={"wait": "2s"}).add("one").add("garbage", garbage=True, exit=True)
    several.add_entry("nowhere", {"url": f"http://127.0.0.1:{unused_port()}/mcp"})
    several.add_entry("nothing", {"command": str(tmp_path / "no-such-program")})
    several.add("hung", silent=["initialize"])
    with several.stdio() as client:
        assert names(client) == ["echo"]
        assert says(client.call("echo")) == "one:echo"


def test_19_when_all_have_failed_we_end_and_name_each(tmp_path: Path) -> None:
    several = Several(tmp_path).add("first", exit=True).add("second", exit=True)
    with several.errors.open("ab") as errors:
        client = StdioDoor(several.words("--stdio"), "legacy", errors)
        client.request(
            b"1",
            "initialize",
            b'{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}',
        )
        assert client.process.wait(DEADLINE) == 1
        client.close()
    said = several.errors.read_text()
    assert "No upstream could be had" in said
    assert "first:" in said
    assert "second:" in said


def test_19_a_required_one_that_is_not_there_ends_us(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one").add("must", {"required": True}, exit=True)
    with several.errors.open("ab") as errors:
        process = subprocess.Popen(several.words("--listen", "0"), stdin=subprocess.DEVNULL, stderr=errors)
    assert process.wait(DEADLINE) == 1
    assert "Required and not there: must" in several.errors.read_text()


def test_20_a_killed_upstream_is_an_error_at_once_and_works_again_by_itself(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["hang", "echo"]).add("two", tools=["other"])
    with several.stdio() as client:
        before = client.ask("tools/list")["result"]
        client.request(b"9", "tools/call", b'{"name":"hang","arguments":{}}')
        wait_until(lambda: several.calls("one"))
        os.kill(several.starts("one")[0], signal.SIGKILL)
        error = json.loads(client.answer(b"9"))["error"]
        assert (error["code"], error["message"]) == (-32603, "one is not available")
        assert says(client.call("other")) == "two:other"
        assert client.ask("tools/list")["result"] == before
        wait_until(lambda: len(several.starts("one")) == 2)
        wait_until(lambda: "result" in client.call("echo"))
        assert changes(client) == 0
    assert len(several.starts("two")) == 1


def test_22_a_late_starter_comes_by_a_notice(tmp_path: Path) -> None:
    now = tmp_path / "now"
    several = Several(tmp_path, lists={"wait": "1s"}).add("one").add("late", tools=["later"], until=str(now))
    with several.stdio() as client:
        wait_until(lambda: names(client) == ["echo"])
        client.heard.clear()
        now.touch()
        client.message(lambda raw: CHANGED in raw)
        assert names(client) == ["echo", "later"]
        assert says(client.call("later")) == "late:later"


def test_24_sessions_that_only_list_start_no_child_and_none_is_left(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one").add("two", tools=["other"])
    with several.listening() as port:
        for _ in range(100):
            with over_http(port, listens=False) as client:
                assert names(client) == ["echo", "other"]
        assert [len(several.starts(name)) for name in ("one", "two")] == [1, 1]
        with over_http(port) as client:
            assert says(client.call("other")) == "two:other"
            assert len(several.starts("one")) == 1
            assert client.whole("DELETE", "/mcp", client.headers()).status == 200
        wait_until(lambda: not any(alive(pid) for name in ("one", "two") for pid in several.starts(name)))
        with over_http(port) as client:
            assert says(client.call("other")) == "two:other"
            assert alive(several.starts("two")[-1])
            several.process.kill()
        several.process.wait()
        wait_until(lambda: not any(alive(pid) for name in ("one", "two") for pid in several.starts(name)))


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def test_26_many_changes_are_two_fetches_and_one_notice(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["change"]).add("two", tools=["other"])
    with several.stdio() as client:
        assert names(client) == ["change", "other"]
        client.call("change", b'{"add":["new"],"times":200}')
        client.message(lambda raw: CHANGED in raw)
        assert names(client) == ["change", "new", "other"]
        lists = sum(one["method"] == "tools/list" for one in several.heard("one"))
        assert 2 <= lists <= 3
        client.call("change", b'{"times":200}')
        wait_until(lambda: sum(one["method"] == "tools/list" for one in several.heard("one")) > lists)
        client.call("other")
        assert changes(client) == 1


def test_31_no_upstream_gets_a_foreign_variable(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.setenv("FOREIGN_TOKEN", "secret")  # type: ignore[attr-defined]
    several = Several(tmp_path).add("one", {"env": {"OWN": "${FOREIGN_TOKEN}"}}, tools=["env"])
    several.add("two", tools=["env"])
    with several.stdio() as client:
        assert client.call("env")["result"]["env"]["OWN"] == "secret"
        assert "secret" not in json.dumps(client.call("two__env"))


def test_23_a_lazy_one_starts_with_its_first_call_and_once_for_many(tmp_path: Path) -> None:
    several = Several(tmp_path, lists={"keep": str(tmp_path / "kept" / "lists.json")})
    several.add("one").add("lazy", {"lazy": True, "idle_stop": "500ms"}, tools=["slow", "quick"], delay=0.3)
    with several.stdio() as client:
        assert names(client) == ["echo", "slow", "quick"]
    assert len(several.starts("lazy")) == 1  # its lists were not known
    assert (tmp_path / "kept" / "lists.json").stat().st_mode & 0o777 == 0o600
    with several.stdio() as client:
        assert names(client) == ["echo", "slow", "quick"]
        client.call("echo")
        assert len(several.starts("lazy")) == 1
        for number in range(10):
            client.request(b"%d" % number, "tools/call", b'{"name":"quick","arguments":{}}')
        for number in range(10):
            assert says(json.loads(client.answer(b"%d" % number))) == "lazy:quick"
        assert len(several.starts("lazy")) == 2
        assert says(client.call("slow", b'{"seconds":1.5}')) == "lazy:slow"
        wait_until(lambda: not alive(several.starts("lazy")[1]))
        assert says(client.call("quick")) == "lazy:quick"
        assert len(several.starts("lazy")) == 3


def test_25_another_file_while_we_run(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one").add("two", tools=["second"])
    with several.stdio() as client:
        assert names(client) == ["echo", "second"]
        several.add("three", tools=["third"]).write()
        client.process.send_signal(signal.SIGHUP)
        client.message(lambda raw: CHANGED in raw)
        assert names(client) == ["echo", "second", "third"]
        assert says(client.call("third")) == "three:third"
        assert changes(client) == 1
        client.heard.clear()
        several.path.write_text("{")
        client.process.send_signal(signal.SIGHUP)
        several.said("is not right")
        assert names(client) == ["echo", "second", "third"]
        del several.servers["two"]
        several.add("three", tools=["changed"]).write()
        client.process.send_signal(signal.SIGHUP)
        client.message(lambda raw: CHANGED in raw)
        wait_until(lambda: names(client) == ["echo", "changed"])
        assert changes(client) == 1
        assert client.call("second")["error"]["code"] == -32601
        assert says(client.call("changed")) == "three:changed"
        assert says(client.call("echo")) == "one:echo"
    assert len(several.starts("one")) == 1


def test_25_over_http_and_its_status(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one").add("two", tools=["echo", "second"])
    with several.listening() as port, over_http(port) as client:
        assert says(client.call("echo")) == "one:echo"
        status = client.whole("GET", "/status").body.decode().splitlines()
        assert status[0].startswith(
            "one ready L stdio links=1 tools=1 hidden=0 renamed=0 left_out=0 restarts=0"
        )
        assert "tools=2 hidden=0 renamed=1" in status[1]
        assert client.whole("GET", "/status", {"X-Forwarded-For": "192.0.2.1"}).status == 404
        assert client.whole("GET", "/readyz").status == 200
        several.add("dead", exit=True).write()
        several.process.send_signal(signal.SIGHUP)
        pid = client.call("echo")["result"]["pid"]
        said = wait_until(lambda: [one for one in status_of(port)[1] if one.startswith("dead down")])
        assert "next_try=" in said[0]
        assert status_of(port)[0] == 3
        assert client.call("echo")["result"]["pid"] == pid
    assert status_of(port)[0] == 1


def status_of(port: int) -> tuple[int, list[str]]:
    done = subprocess.run(
        [*PENSTOCK, "status", f"http://127.0.0.1:{port}/mcp"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    return done.returncode, done.stdout.splitlines()


FAILING = """
echo $$ >> {work}/tries
while test -e {work}/hang; do sleep 0.05; done
test -e {work}/good || exit 7
exec "$@"
"""


def test_five_failures_in_a_row_open_the_breaker(tmp_path: Path) -> None:
    good, hang, tries = (tmp_path / name for name in ("good", "hang", "tries"))
    several = Several(tmp_path).add("one").add("bad", tools=["work"])
    entry = several.servers["bad"]
    words = ["-c", FAILING.format(work=tmp_path), "sh", entry["command"], *entry["args"]]
    several.add_entry("bad", {"command": "sh", "args": words})
    good.touch()
    with several.listening() as port, over_http(port) as client:
        assert says(client.call("work")) == "bad:work"
        good.unlink()
        os.kill(several.starts("bad")[-1], signal.SIGKILL)
        several.said("bad has failed 5 times in a row")
        assert "breaker=open" in line_of(port, "bad")
        before = len(tries.read_text().splitlines())
        hang.touch()
        wait_until(lambda: "breaker=half-open" in line_of(port, "bad"))
        for _ in range(50):  # the attempt hangs; nobody waits for it, and nobody else tries
            assert client.call("work")["error"]["message"] == "bad is not available"
        with over_http(port) as another:
            assert another.call("work")["error"]["message"] == "bad is not available"
            assert says(another.call("echo")) == "one:echo"
        assert len(tries.read_text().splitlines()) == before + 1
        good.touch()
        hang.unlink()
        wait_until(lambda: "result" in client.call("work"))
        assert line_of(port, "bad").startswith("bad ready")
        assert "breaker" not in line_of(port, "bad")


def test_one_loss_that_many_sessions_tell_of_is_one(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["work"]).add("two")
    with several.listening() as port, ExitStack() as opened:
        clients = [opened.enter_context(over_http(port, listens=False)) for _ in range(8)]
        pids = [client.call("work")["result"]["pid"] for client in clients]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: line_of(port, "one").startswith("one ready") and "links=0" in line_of(port, "one"))
        assert "in a row" not in several.errors.read_text()
        for client in clients:
            wait_until(lambda client=client: "result" in client.call("work"))


def line_of(port: int, name: str) -> str:
    with LegacyDoor(port, "legacy") as client:
        lines = client.whole("GET", "/status").body.decode().splitlines()
    return next(line for line in lines if line.startswith(f"{name} "))
