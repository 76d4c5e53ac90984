"""Scripts as real processes, also ones that mean no good."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from penstock import limits
from penstock.effects.script import Scripts
from penstock.errors import EffectFailed
from penstock.net.warden import Warden
from penstock.policy.rules.effect_contract import EffectVerdict, ScriptSpec

ENOUGH = 60.0  # seconds: no test waits for them
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'


def python(source: str, *words: str, timeout: float = ENOUGH, **options: object) -> ScriptSpec:
    return ScriptSpec((sys.executable, "-I", "-S", "-c", source, *words), timeout, **options)  # type: ignore[arg-type]


def shell(source: str, timeout: float = ENOUGH) -> ScriptSpec:
    return ScriptSpec(("/bin/sh", "-c", source), timeout)


def with_scripts(main: Callable[[Scripts], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        warden = Warden()
        scripts = Scripts(warden, **options)  # type: ignore[arg-type]
        try:
            await main(scripts)
        finally:
            await scripts.close()
            assert scripts.running_count == 0
            warden.dismiss()

    asyncio.run(run())


def decide(script: ScriptSpec, body: bytes = BODY, **options: object) -> EffectVerdict:
    verdicts = []

    async def main(scripts: Scripts) -> None:
        verdicts.append(await scripts.run(script, body))

    with_scripts(main, **options)
    return verdicts[0]


def why_not(script: ScriptSpec, body: bytes = BODY) -> str:
    with pytest.raises(EffectFailed) as caught:
        decide(script, body)
    return caught.value.detail


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - another process sees to it; the test's own time limit ends it
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def gone(pid: int) -> bool:
    """Whether a killed process is gone, given the moment that the kernel takes."""
    until = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_alive(pid)


def test_a_script_reads_the_message_and_decides():
    source = """
import json, sys
message = json.load(sys.stdin)
print(json.dumps({"decision": "block", "reason": message["method"], "set_params": {"a": 1}}))
"""
    assert decide(python(source)) == EffectVerdict("block", "tools/call", b'{"a": 1}')


def test_a_script_need_not_read_the_message():
    big = b'"' + b"x" * (4 * 1024 * 1024) + b'"'
    assert decide(shell("""echo '{"decision":"allow"}'"""), big).decision == "allow"


def test_a_big_message_arrives_whole():
    big = b'"' + b"x" * (4 * 1024 * 1024) + b'"'
    assert decide(shell("""printf '{"decision":"block","reason":"%d"}' $(wc -c)"""), big).reason == str(
        len(big)
    )


def test_words_are_not_read_by_a_shell():
    words = ["; echo pwned", "$(echo pwned)", "-x", "`id`", "*"]
    source = "import json, sys; print(json.dumps({'decision': 'block', 'reason': '|'.join(sys.argv[1:])}))"
    assert decide(python(source, *words)).reason == "|".join(words)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("echo nonsense", "no JSON object"),
        ("""echo '{"decision":"allow"}'; exit 3""", "exited with status 3"),
        ("""echo '{"decision":"allow"}'; kill -9 $$""", "ended by signal 9"),
        ("""echo '{"decision":"maybe"}'""", "neither"),
        ("""echo '{"decision":"allow"}'; echo '{"decision":"block"}'""", "no JSON object"),
    ],
)
def test_anything_but_a_verdict_is_a_failure(source, why):
    assert why in why_not(shell(source))


def test_a_script_that_says_nothing_is_a_side_effect_unless_a_verdict_is_required():
    assert decide(shell("exit 0")).decision == "allow"
    assert decide(shell("echo; exit 0")).decision == "allow"
    assert "empty" in why_not(msgspec.structs.replace(shell("exit 0"), needs_verdict=True))
    assert "exited with status 1" in why_not(shell("exit 1"))


def test_a_command_that_does_not_exist():
    assert "not found" in why_not(ScriptSpec(("/no/such/script",)))


def test_a_directory_that_does_not_exist():
    assert "Directory not found" in why_not(ScriptSpec(("/bin/sh", "-c", "exit"), cwd="/no/such/place"))


def test_a_script_that_hangs_is_killed_with_its_children(tmp_path):
    note = tmp_path / "pids"
    inner = f'trap "" TERM; sleep 1000 & echo $! $$ $PPID > {note}.new; mv {note}.new {note}; wait'
    hanging = f"sh -c '{inner}' & wait"

    async def main(scripts: Scripts) -> None:
        task = asyncio.create_task(scripts.run(shell(hanging, timeout=1_000), BODY))
        await until(note.exists)
        task.cancel()  # what the time limit does
        with pytest.raises(asyncio.CancelledError):
            await task
        assert scripts.running_count == 0

    with_scripts(main)
    pids = [int(word) for word in note.read_text().split()]
    assert len(pids) == 3
    assert all(map(gone, pids))


def test_the_time_limit_ends_a_script():
    assert "Not done after 50ms" in why_not(shell("sleep 1000", timeout=0.05))


def test_a_script_that_multiplies_is_killed_to_the_last(tmp_path):
    source = f"""
import os, time
for level in range(4):
    os.fork()
with open({str(tmp_path)!r} + "/" + str(os.getpid()), "w"):
    pass
time.sleep(1000)
"""

    async def main(scripts: Scripts) -> None:
        task = asyncio.create_task(scripts.run(python(source, timeout=1_000), BODY))
        await until(lambda: len(os.listdir(tmp_path)) == 16)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with_scripts(main)
    assert all(gone(int(name)) for name in os.listdir(tmp_path))


def test_what_a_script_leaves_behind_ends_with_it(tmp_path):
    note = tmp_path / "pid"
    leaving = f"""sleep 1000 & echo $! > {note}; echo '{{"decision":"allow"}}'"""
    assert decide(shell(leaving)).decision == "allow"  # though the sleeper holds stdout open
    assert gone(int(note.read_text()))


def test_scripts_are_reaped():
    pids = []

    async def main(scripts: Scripts) -> None:
        for _ in range(3):
            verdict = await scripts.run(shell("""echo '{"decision":"block","reason":"'$$'"}'"""), BODY)
            pids.append(int(verdict.reason or ""))
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)  # noqa: ASYNC240 - zombies would be

    with_scripts(main)
    assert len(pids) == 3


def test_closing_ends_what_runs(tmp_path):
    note = tmp_path / "pid"

    async def main(scripts: Scripts) -> None:
        script = shell(f"echo $$ > {note}.new; mv {note}.new {note}; sleep 1000", timeout=1_000)
        task = asyncio.create_task(scripts.run(script, BODY))
        await until(note.exists)
        await scripts.close()
        with pytest.raises(EffectFailed):
            await task
        with pytest.raises(EffectFailed):
            await scripts.run(script, BODY)

    with_scripts(main)
    assert gone(int(note.read_text()))


def test_endless_output_is_cut_off():
    why = why_not(python("import sys\nwhile True: sys.stdout.write('x' * 65536)", timeout=1_000))
    assert str(limits.VERDICT_BYTES) in why


def test_endless_words_on_stderr_neither_block_the_script_nor_fill_the_log(caplog):
    caplog.set_level(logging.INFO, "penstock")
    source = """
import sys
for _ in range(40): sys.stderr.write("y" * 65535 + "\\n")
print('{"decision":"allow"}')
"""
    assert decide(python(source)).decision == "allow"
    assert sum(len(record.getMessage()) for record in caplog.records) < limits.SCRIPT_LOG_BYTES + 1_000


def test_stderr_goes_to_the_log_without_control_characters(caplog):
    caplog.set_level(logging.INFO, "penstock")
    decide(shell(r"""printf 'careful \033[31m now\n' >&2; echo '{"decision":"allow"}'"""))
    assert [record.getMessage() for record in caplog.records] == [r"The script sh says: careful \x1b[31m now"]


def test_the_environment_is_a_short_list():
    environ = {"PATH": os.environ["PATH"], "AWS_SECRET_ACCESS_KEY": "s3cret", "LANG": "C"}
    source = (
        "import json, os; print(json.dumps({'decision': 'block', 'reason': ' '.join(sorted(os.environ))}))"
    )
    names = decide(python(source, env=(("MINE", "1"),)), environ=environ).reason
    assert set((names or "").split()) - {"LC_CTYPE"} == {
        "LANG",
        "MINE",
        "PATH",
    }  # Python adds LC_CTYPE itself


def test_no_more_than_agreed_run_at_once(tmp_path):
    async def main(scripts: Scripts) -> None:
        source = f"""echo > {tmp_path}/$$; cat {tmp_path}/fifo > /dev/null; echo '{{"decision":"allow"}}'"""
        os.mkfifo(tmp_path / "fifo")
        tasks = [asyncio.create_task(scripts.run(shell(source), BODY)) for _ in range(5)]
        await until(lambda: len(os.listdir(tmp_path)) == 3)
        for _ in range(10):
            await asyncio.sleep(0)
        assert scripts.running_count == 2
        with pytest.raises(EffectFailed, match="script sh"):
            await scripts.run(shell(source), BODY)  # neither running nor waiting: refused
        gate = os.open(tmp_path / "fifo", os.O_RDWR)
        while not all(task.done() for task in tasks):
            os.write(gate, b"x")
            os.close(gate)
            await asyncio.sleep(0.01)
            gate = os.open(tmp_path / "fifo", os.O_RDWR)
        os.close(gate)
        assert [task.result().decision for task in tasks] == ["allow"] * 5

    with_scripts(main, at_once=4, most_waiting=10)  # of which one sender gets half
