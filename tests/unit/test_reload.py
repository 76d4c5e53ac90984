"""A changed file changes the rules when it is good and at rest, and nothing otherwise."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.file import digest_of, parse_file
from penstock.config.model import CommandUpstream, ProxyConfig, make_filter
from penstock.config.watch import ConfigWatch, restart_needed
from penstock.errors import ConfigError, PenstockError
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.tools.tool_filter import ToolFilter


def load(data: bytes) -> ProxyConfig:
    """Stands for reading a file: its text is the rules; `bad` is no good."""
    if b"bad" in data:
        raise ConfigError("bad rules", "on line 7")
    if b"crash" in data:
        raise ZeroDivisionError("by a class of the user's")
    upstream = CommandUpstream(("other",) if b"other" in data else ("x",))
    rules = InterceptorConfig(rule_set=data)
    return ProxyConfig(upstream, ToolFilter(), interceptor=rules, digest=digest_of(data))


def text_of(config: ProxyConfig) -> str:
    assert config.interceptor is not None
    return config.interceptor.rule_set.decode()


class Watched:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(b"first")
        self.rules: list[object] = []
        self.errors: list[PenstockError] = []
        self.watch = ConfigWatch(
            str(path),
            load(b"first"),
            load,
            lambda config: self.rules.append(text_of(config)),
            self.errors.append,
            every=0.01,
        )
        self.look(2)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.watch.look()

    def write(self, text: str) -> None:
        self.path.write_text(text)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    log = logging.getLogger("penstock")
    before = log.propagate
    log.propagate = True
    yield Watched(tmp_path / "rules.yaml")
    log.propagate = before


def test_a_file_that_stays_as_it_is_changes_nothing(watched: Watched) -> None:
    watched.look(5)
    assert watched.rules == watched.errors == []


def test_a_change_counts_when_two_looks_agree(watched: Watched) -> None:
    watched.write("second")
    watched.look()
    assert watched.rules == []
    watched.look()
    assert watched.rules == ["second"]
    watched.look(3)
    assert watched.rules == ["second"]


def test_a_file_that_is_being_written_is_left_alone(watched: Watched) -> None:
    for length in range(1, 9):
        watched.write("longer rules"[:length])
        watched.look()
    assert watched.rules == []
    watched.write("longer rules")
    watched.look(2)
    assert watched.rules == ["longer rules"]


def test_a_file_put_in_its_place_is_noticed(watched: Watched, tmp_path: Path) -> None:
    other = tmp_path / "new"
    other.write_text("third")  # of the same length, and soon
    os.utime(other, ns=(watched.path.stat().st_atime_ns, watched.path.stat().st_mtime_ns))
    other.replace(watched.path)
    watched.look(2)
    assert watched.rules == ["third"]


def test_a_symbolic_link_led_elsewhere_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("first")
    (tmp_path / "two").write_text("other rules")
    link = tmp_path / "link.yaml"
    link.symlink_to("one")
    watched = Watched(link)
    fresh = tmp_path / "fresh"
    fresh.symlink_to("two")
    fresh.replace(link)
    watched.look(2)
    assert watched.rules == ["other rules"]


def test_a_bad_file_changes_nothing_and_says_why(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.write("bad")
    watched.look(5)
    assert watched.rules == []
    assert [str(error) for error in watched.errors] == ["bad rules\non line 7"]
    assert "the rules stay as they are" in caplog.text
    watched.write("good again")
    watched.look(2)
    assert watched.rules == ["good again"]


def test_code_that_a_file_names_and_that_fails_changes_nothing(watched: Watched) -> None:
    watched.write("crash")
    watched.look(2)
    assert watched.rules == []
    assert [error.detail for error in watched.errors] == ["ZeroDivisionError: by a class of the user's"]


def test_a_file_that_is_gone_changes_nothing_and_may_come_back(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.path.unlink()
    watched.look(5)
    assert caplog.text.count("is gone") == 1
    assert watched.rules == watched.errors == []
    watched.write("back")
    watched.look(2)
    assert watched.rules == ["back"]


def test_a_file_that_is_only_touched_is_not_loaded(watched: Watched) -> None:
    watched.write("bad")
    watched.look(2)
    for second in range(3):
        os.utime(watched.path, (second, second))
        watched.look(2)
    assert len(watched.errors) == 1


def test_a_change_before_the_first_look_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text("second")
    rules: list[object] = []
    watch = ConfigWatch(
        str(path), load(b"first"), load, lambda config: rules.append(text_of(config)), pytest.fail
    )
    watch.look()
    watch.look()
    assert rules == ["second"]


def test_a_hangup_reads_the_file_at_once(watched: Watched) -> None:
    watched.write("asked")
    watched.watch.reload()
    assert watched.rules == ["asked"]
    watched.look(3)
    assert watched.rules == ["asked"]
    watched.write("bad")
    watched.watch.reload()
    watched.watch.reload()
    assert len(watched.errors) == 2
    assert watched.rules == ["asked"]


def test_a_change_beside_the_rules_needs_a_restart(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.write("other upstream")
    watched.look(2)
    assert "a change of the upstream needs a restart" in caplog.text
    assert watched.rules == ["other upstream"]


def test_whoever_takes_new_rules_gets_the_old_upstream(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text("other")
    taken: list[ProxyConfig] = []
    watch = ConfigWatch(str(path), load(b"first"), load, taken.append, pytest.fail)
    watch.reload()
    assert taken[0].upstream == CommandUpstream(("x",))


def test_what_needs_a_restart_is_named() -> None:
    old = ProxyConfig(CommandUpstream(("a",)), make_filter(["x"], [], False))
    same = ProxyConfig(CommandUpstream(("a",)), make_filter(["x"], [], False))
    assert restart_needed(old, same) == []
    new = ProxyConfig(
        CommandUpstream(("b",)),
        make_filter(["y"], [], False),
        tools_seconds=1.0,
        listen=("h", 1),
        log_level="error",
    )
    assert restart_needed(old, new) == ["the upstream", "timeouts.tools", "log.level", "listen", "tools"]


def test_the_loop_does_the_looking(watched: Watched) -> None:
    async def scene() -> None:
        watched.watch.start()
        watched.write("from the loop")
        for _ in range(1000):
            if watched.rules:
                break
            await asyncio.sleep(0.01)
        watched.watch.stop()
        watched.write("after the end")
        await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(scene(), 20))
    assert watched.rules == ["from the loop"]


def test_what_is_wrong_with_a_real_file_is_all_told(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("tols: 1\nlisten: x\n")
    errors: list[PenstockError] = []

    def load_real(data: bytes) -> ProxyConfig:
        parse_file(str(path), data)
        raise AssertionError

    ConfigWatch(str(path), load(b"first"), load_real, pytest.fail, errors.append).reload()
    assert f"{path}:1: " in str(errors[0])
    assert f"{path}:2: " in str(errors[0])


def test_a_pipe_in_the_place_of_the_file_holds_nobody_up(watched: Watched) -> None:
    watched.path.unlink()
    os.mkfifo(watched.path)
    watched.look(3)
    watched.watch.reload()
    watched.path.unlink()
    watched.write("second")
    watched.look(2)
    assert watched.rules == ["second"]


def test_a_change_is_seen_whatever_time_the_file_claims(watched: Watched) -> None:
    before = watched.path.stat()
    watched.write("other"[: before.st_size])
    os.utime(watched.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    watched.look(2)
    assert watched.rules == ["other"]
