"""Messages that wait for a person, over every pair of transports and both eras (14 to 18, 20, 27)."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate import SAMPLE, Gate
from live import Hub, until
from pairs import CELLS
from watched import Watched

CALL = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"write_file","arguments":%b}}'


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub() as found:
        yield found


@pytest.fixture
def clean(hub: Hub) -> Iterator[Hub]:
    hub.since = time.time()
    yield hub
    for one in hub.get("rules")["breakpoints"]:
        hub.call("DELETE", f"breakpoints/{one['id']}")


def proxy(work: Path, *options: str) -> Gate:
    gate = Gate(work, "--dashboard", "auto", *options, command=["python3", str(SAMPLE)])
    gate.handshake()
    return gate


@pytest.mark.parametrize(("client", "upstream", "era"), CELLS)
def test_14_an_edit_reaches_the_upstream_and_no_other_byte_changes(
    clean: Hub, tmp_path: Path, client: str, upstream: str, era: str
) -> None:
    with Watched(tmp_path, client, upstream, "--dashboard", "auto") as watched:
        door = watched.connect(era)
        clean.joined()
        clean.breaks('method:tools/call from:client arg.text:"before me"')
        token = door.new_id()
        arguments = b'{"text" : "before me", "n":1.50}'
        door.request(token, "tools/call", b'{"name":"echo","arguments":%b}' % arguments)
        held = clean.held()[0]
        assert not any(b"before me" in line for line in watched.upstream.reached())
        assert held["value"].count("before me") == 1
        status, said = clean.decide(
            held, "edit", part="params", value=held["value"].replace("before me", "after you")
        )
        assert status == 200, said
        answer = door.answer(token)
        assert b"after you" in answer or b"error" not in answer
        reached = [line for line in watched.upstream.reached() if b"after you" in line]
        assert len(reached) == 1
        assert arguments.replace(b"before me", b"after you") in reached[0]
        assert clean.get("held")["held"] == []
        clean.call("DELETE", "breakpoints/t")
        watched.end()


class Rules:
    """A file of rules."""

    def __init__(self, work: Path, text: str) -> None:
        self.path = work / "rules.yaml"
        self.path.write_text(text)

    @property
    def words(self) -> list[str]:
        return ["--config", str(self.path)]

    def change(self) -> None:
        """Other rules, of the same kind."""
        self.path.write_text(self.path.read_text().replace("30s", "31s"))


ASK = """
interceptor:
  chain: {default_action: {log: %s}}
  rules:
    - id: ask
      conditions: [{tool: write_file}]
      actions: [{approve: {timeout: 30s, note: "writes"}}]
"""


def test_17_one_approval_is_one_call_of_the_very_bytes(clean: Hub, tmp_path: Path) -> None:
    with proxy(tmp_path, *Rules(tmp_path, ASK % "allow").words) as gate:
        gate.say(CALL % (b"71", b'{"path":"a"}'))
        held = clean.held()[0]
        assert held["kind"] == "approve"
        assert held["note"] == "writes"
        assert clean.decide({**held, "sha": "0" * 64}, "release")[0] == 409
        assert clean.decide(held, "release")[0] == 200
        assert b'"result"' in gate.answer(b"71")
        assert clean.decide(held, "release")[0] == 409
        gate.say(CALL % (b"72", b'{"path":"b"}'))
        held = clean.held()[0]
        assert clean.decide(held, "deny", text="no \u202e\x1b[31m way")[0] == 200
        answer = json.loads(gate.answer(b"72"))
        assert answer["error"]["code"] == -32001
        assert answer["error"]["message"] == "no ??[31m way"


def test_17_an_edit_starts_over_at_the_gate(clean: Hub, tmp_path: Path) -> None:
    rules = Rules(tmp_path, ASK % "allow")
    with proxy(tmp_path, "--deny", "^delete_", *rules.words) as gate:
        gate.say(CALL % (b"71", b'{"path":"a"}'))
        held = clean.held()[0]
        value = held["value"].replace("write_file", "delete_file")
        assert clean.decide(held, "edit", part="params", value=value)[0] == 200
        answer = json.loads(gate.answer(b"71"))
        assert answer["error"]["message"] == "Tool not found: delete_file"
        gate.say(CALL % (b"72", b'{"path":"a"}'))
        held = clean.held()[0]
        assert clean.decide(held, "edit", part="params", value=held["value"].replace('"a"', '"b"'))[0] == 200
        again = until(lambda: [one for one in clean.get("held")["held"] if one["id"] != held["id"]])[0]
        assert '"b"' in again["value"]
        assert clean.decide(again, "release")[0] == 200
        assert b'\\"b\\"' in gate.answer(b"72")


NO_PARAMS = ["{", '{"name":"x"},"id":9', "[1", "null", '{"name":"a","name":"b"}', '{"a":1}\n,"method":"ping"']


@pytest.mark.parametrize("value", NO_PARAMS)
def test_17_an_edit_that_is_no_such_message_is_refused(clean: Hub, tmp_path: Path, value: str) -> None:
    with proxy(tmp_path, *Rules(tmp_path, ASK % "allow").words) as gate:
        gate.say(CALL % (b"71", b'{"path":"a"}'))
        held = clean.held()[0]
        status, said = clean.decide(held, "edit", part="params", value=value)
        if value == "null" and status == 200:  # params may be null: then it is no call that the gate knows
            assert b'"error"' in gate.answer(b"71")
            return
        assert status == 422, said
        assert clean.decide(held, "edit", part="id", value="9")[0] == 422
        assert clean.decide(held, "deny")[0] == 200
        assert b"-32001" in gate.answer(b"71")


def test_18_a_block_beats_approve_and_a_reload_voids_what_waits(clean: Hub, tmp_path: Path) -> None:
    hit = "conditions: [{param_equals: {field: arguments.path, value: x}}]"
    text = ASK % "allow" + f"    - {{id: no, priority: -5, {hit}"
    rules = Rules(tmp_path, text + ", actions: [{block: never}]}\n")
    with proxy(tmp_path, *rules.words) as gate:
        gate.say(CALL % (b"71", b'{"path":"x"}'))
        assert b"never" in gate.answer(b"71")
        gate.say(CALL % (b"72", b'{"path":"a"}'))
        held = clean.held()[0]
        rules.change()
        os.kill(gate.process.pid, signal.SIGHUP)
        assert b"the rules have changed" in gate.answer(b"72")
        assert clean.decide(held, "release")[0] == 409


@pytest.mark.parametrize("default", ["allow", "block"])
def test_15_what_nobody_decides_about_is_blocked_or_goes_by_default(
    clean: Hub, tmp_path: Path, default: str
) -> None:
    """A reload ends the waiting as a time-out does, without the wait."""
    rules = Rules(tmp_path, ASK % default)
    with proxy(tmp_path, *rules.words) as gate:
        clean.joined()
        clean.breaks("method:tools/call,ping from:client")
        gate.say(CALL.replace(b"write_file", b"echo") % (b"71", b'{"text":"a"}'))
        gate.say(b'{"jsonrpc":"2.0","id":72,"method":"ping"}')
        clean.held(2)
        rules.change()
        os.kill(gate.process.pid, signal.SIGHUP)
        assert b"-32001" in gate.answer(b"71")
        answer = gate.answer(b"72")
        assert (b'"result"' in answer) is (default == "allow"), answer


def test_15_a_call_that_nobody_approves_in_time_is_blocked(clean: Hub, tmp_path: Path) -> None:
    with proxy(tmp_path, *Rules(tmp_path, (ASK % "allow").replace("30s", "1s")).words) as gate:
        gate.say(CALL % (b"71", b'{"path":"a"}'))
        held = clean.held()[0]
        answer = json.loads(gate.answer(b"71"))
        assert answer["error"]["code"] == -32001
        assert answer["error"]["message"] == "Blocked: nobody has released it"
        assert clean.decide(held, "release")[0] == 409


def test_16_the_65th_is_blocked_at_once_and_others_flow(clean: Hub, tmp_path: Path) -> None:
    with Watched(tmp_path, "streamable", "stdio", "--dashboard", "auto", deny="") as watched:
        doors = [watched.connect("legacy") for _ in range(5)]
        clean.joined()
        clean.breaks("method:tools/call from:client")
        for door in doors[:4]:
            for _ in range(16):
                door.request(door.new_id(), "tools/call", b'{"name":"echo","arguments":{"text":"a"}}')
        assert len(clean.held(64)) == 64
        last = doors[4]
        token = last.new_id()
        last.request(token, "tools/call", b'{"name":"echo","arguments":{"text":"a"}}')
        assert b"too many messages wait" in last.answer(token)
        token = last.new_id()
        last.request(token, "ping")
        assert b'"result"' in last.answer(token)
        assert len(clean.get("held")["held"]) == 64


def test_16_the_17th_of_a_session_is_blocked_at_once_and_others_flow(clean: Hub, tmp_path: Path) -> None:
    with proxy(tmp_path) as gate:
        clean.joined()
        clean.breaks("method:tools/call from:client")
        for number in range(17):
            gate.say(CALL % (b"%d" % (700 + number), b'{"path":"a"}'))
        assert b"too many messages wait" in gate.answer(b"716")
        gate.say(b'{"jsonrpc":"2.0","id":800,"method":"ping"}')
        assert b'"result"' in gate.answer(b"800")
        assert len(clean.held(16)) == 16
        began = time.monotonic()
        os.kill(gate.process.pid, signal.SIGTERM)  # 27: all of them are answered, and soon
        for number in range(16):
            assert b"-32001" in gate.answer(b"%d" % (700 + number))
        assert gate.process.wait(20) == 0
        assert time.monotonic() - began < 15


def test_27_a_signal_with_ten_held_answers_all_and_leaves_no_orphan(clean: Hub, tmp_path: Path) -> None:
    with proxy(tmp_path) as gate:
        clean.joined()
        clean.breaks("method:tools/call from:client")
        for number in range(10):
            gate.say(CALL % (b"%d" % (700 + number), b'{"path":"a"}'))
        assert len(clean.held(10)) == 10
        pid = gate.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert len(children) >= 1
        began = time.monotonic()
        os.kill(pid, signal.SIGTERM)
        for number in range(10):
            assert b"-32001" in gate.answer(b"%d" % (700 + number))
        assert gate.process.wait(20) == 0
        took = time.monotonic() - began
        until(lambda: not [child for child in children if is_running(child)])
        until(lambda: clean.get("held")["held"] == [])
        warnings.warn(f"for the record: over after {took:.1f} s", stacklevel=1)


def is_running(pid: str) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_is_cancelled_is_withdrawn(clean: Hub, tmp_path: Path) -> None:
    with proxy(tmp_path) as gate:
        clean.joined()
        clean.breaks("method:tools/call from:client")
        gate.say(CALL % (b"71", b'{"path":"a"}'))
        held = clean.held()[0]
        gate.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":71}}')
        until(lambda: clean.get("held")["held"] == [])
        status, said = clean.decide(held, "release")
        assert status == 409
        assert "withdrawn" in said["error"]["message"]
        assert "tools/call" not in [row["method"] for row in clean.rows("from:upstream") if row["ms"]][-1:]


def test_a_held_answer_can_be_changed_and_is_judged_again(clean: Hub, tmp_path: Path) -> None:
    with proxy(tmp_path) as gate:
        clean.joined()
        clean.breaks("from:upstream kind:response method:tools/call")
        gate.say(CALL % (b"71", b'{"path":"a"}'))
        held = clean.held()[0]
        assert held["part"] == "result"
        value = held["value"].replace("write_file was", "nothing was")
        assert clean.decide(held, "edit", part="result", value=value)[0] == 200
        assert b"nothing was called" in gate.answer(b"71")


def test_a_breakpoint_refuses_what_is_known_only_later(clean: Hub, tmp_path: Path) -> None:
    with proxy(tmp_path):
        clean.joined()
        for words in ("ms>500", "status:error", "verdict:block", "result.a:b", "tool:["[:5] + '"'):
            assert clean.call("PUT", "breakpoints/x", {"filter": words})[0] == 422, words


def test_20_a_replay_has_a_link_of_its_own_and_goes_through_the_rules(clean: Hub, tmp_path: Path) -> None:
    text = "interceptor: {rules: [{id: no, conditions: [{tool: echo}], actions: [{block: never}]}]}\n"
    with proxy(tmp_path, *Rules(tmp_path, text).words) as gate:
        name = f"at:{clean.joined()['name']}"
        gate.say(CALL % (b"71", b'{"path":"replayed"}'))
        gate.answer(b"71")
        gate.say(CALL.replace(b"write_file", b"echo") % (b"72", b'{"text":"a"}'))
        gate.answer(b"72")
        row = clean.rows(f'{name} from:client arg.path:"replayed"')[-1]
        heard = len(gate.heard)
        assert clean.call("POST", f"exchanges/{row['seq']}/replay", {})[0] == 409
        status, found = clean.call("POST", f"exchanges/{row['seq']}/replay", {"confirmed": True})
        assert status == 200, found
        assert "replayed" in found["text"]
        blocked = clean.rows(f"{name} from:client tool:echo")[-1]
        status, found = clean.call("POST", f"exchanges/{blocked['seq']}/replay", {"confirmed": True})
        assert status == 200
        assert "never" in found["text"]
        gate.say(b'{"jsonrpc":"2.0","id":73,"method":"ping"}')
        gate.answer(b"73")
        assert len(gate.heard) == heard + 1
