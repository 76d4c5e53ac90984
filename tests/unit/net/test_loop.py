"""How much of asyncio is loaded, and that the rest is there for whoever asks."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plain_run_loads_parts_of_asyncio_only() -> None:
    script = """
import sys
from penstock.net import loop
async def main():
    import asyncio
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await asyncio.wait_for(asyncio.sleep(0), 1)
    return 3
assert loop.run(main, "parts") == 3
for heavy in ("asyncio.base_events", "asyncio.streams", "asyncio.subprocess", "ssl", "ast"):
    assert heavy not in sys.modules, heavy
"""
    run(script)


def test_the_rest_of_asyncio_is_there_for_whoever_asks() -> None:
    script = """
import sys
from penstock.net import loop
async def main():
    import asyncio, inspect
    task, future = asyncio.Task, asyncio.Future
    assert asyncio.Queue and asyncio.StreamReader and asyncio.create_subprocess_exec
    assert (asyncio.Task, asyncio.Future) == (task, future)
    assert inspect.iscoroutinefunction(main)
    from asyncio import subprocess, run
    await asyncio.sleep(0)
    return 0
assert loop.run(main, "parts") == 0
assert "ssl" not in sys.modules
import ssl
"""
    run(script)


@pytest.mark.parametrize("extent", ["parts", "whole", "tls"])
def test_every_extent_gives_the_code_back_and_ends_what_is_left(extent: str) -> None:
    script = f"""
from penstock.net import loop
loop.import_asyncio({extent!r})
import asyncio
async def left():
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        print("ended", flush=True)
async def main():
    main.task = asyncio.create_task(left())
    await asyncio.sleep(0)
    return 5
raise SystemExit(loop.run(main, {extent!r}) - 5)
"""
    assert run(script) == "ended\n"


def test_a_signal_while_asyncio_closes_its_loop_is_not_told_of() -> None:
    script = """
import asyncio, os, signal, sys
from penstock.net import loop
async def main():
    running = asyncio.get_running_loop()
    running.add_signal_handler(signal.SIGTERM, lambda: None)
    close = running._close_self_pipe
    def close_in_a_storm():
        close()
        os.kill(os.getpid(), signal.SIGTERM)  # where the loop is closed and its handlers are still there
        print("came", file=sys.stderr)
    running._close_self_pipe = close_in_a_storm
    return 0
raise SystemExit(loop.run(main, "whole"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "came\n")
