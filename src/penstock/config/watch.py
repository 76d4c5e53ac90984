"""Noticing that the configuration file has changed, and swapping the rules when the new ones are good.

The file is looked at once a second, by what the system says of it (so that a file put in its place, or a
symbolic link led elsewhere, is noticed too), and read once two looks in a row agree, so that a file that is
just being written is left alone. SIGHUP reads it at once. Whatever is wrong with it changes nothing.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Callable

from msgspec import structs

from penstock import limits
from penstock.config.file import digest_of
from penstock.config.model import ProxyConfig, SeveralUpstreams
from penstock.errors import ConfigError, PenstockError
from penstock.policy.tools.tool_filter import ToolFilter

log = logging.getLogger("penstock")

Look = tuple[int, ...] | None
"""What the system says of a file; None: it is not there."""

Load = Callable[[bytes], ProxyConfig]
"""The configuration that the file's bytes and the flags make together. Raises PenstockError."""


class ConfigWatch:
    """Watches one file. `on_rules` gets each new good configuration whose rules are others."""

    def __init__(
        self,
        path: str,
        current: ProxyConfig,
        load: Load,
        on_rules: Callable[[ProxyConfig], None],
        on_error: Callable[[PenstockError], None],
        every: float = limits.CONFIG_LOOK_SECONDS,
        on_upstreams: Callable[[ProxyConfig], None] | None = None,
    ) -> None:
        """`on_upstreams` gets each new good configuration, where its upstreams can change while we run."""
        self._path = path
        self._started = current  # what needs a restart stays as it was at the start
        self._current = current
        self._load = load
        self._on_rules = on_rules
        self._on_error = on_error
        self._on_upstreams = on_upstreams
        self._every = every
        self.on_file: list[Callable[[ProxyConfig], None]] = []  # who hears of each good new file
        self._timer: asyncio.TimerHandle | None = None
        self._seen: Look = None  # at the last look
        self._done: Look = ()  # when it was last read; not yet by us, so that no change since then is missed
        self._digest = current.digest  # of what was last read

    def start(self) -> None:
        """Begins to look, in the running loop."""
        self._timer = asyncio.get_running_loop().call_later(self._every, self._tick)

    def stop(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self.start()
        self.look()

    def look(self) -> None:
        """One look: reads the file if it has changed and has been at rest since the last look."""
        now = look_at(self._path)
        is_at_rest, self._seen = now == self._seen, now
        if is_at_rest and now != self._done:
            if now is None:
                self._done = now
                log.warning("%s is gone; the rules stay as they are.", self._path)
            else:
                self._read(is_asked=False)

    def reload(self) -> None:
        """Reads the file now, because somebody asked: for SIGHUP."""
        self._seen = look_at(self._path)
        self._read(is_asked=True)

    def _read(self, is_asked: bool) -> None:
        try:
            data = read_at_rest(self._path)
        except OSError as why:
            self._done = self._seen
            log.warning("Cannot read %s (%s); the rules stay as they are.", self._path, why.strerror)
            return
        digest = digest_of(data)
        if not is_asked and look_at(self._path) != self._seen:
            return  # it moved while we read; the next looks will tell
        self._done = self._seen
        if digest == self._digest and not is_asked:
            return  # touched, or written again as it was
        self._digest = digest
        try:
            config = self._load(data)
        except Exception as why:  # a file may name Python code, which may raise anything
            if not isinstance(why, PenstockError):
                why = ConfigError("Cannot load the configuration", f"{type(why).__name__}: {why}")
            self._on_error(why)
            log.warning("%s has changed and is not right; the rules stay as they are.", self._path)
            return
        for hear in self.on_file:
            hear(config)
        self._take(config)

    def _take(self, config: ProxyConfig) -> None:
        if self._on_upstreams is not None and isinstance(config.upstream, SeveralUpstreams):
            self._on_upstreams(config)
            self._started = structs.replace(self._started, upstream=config.upstream)
        for name in restart_needed(self._started, config):
            log.warning("%s: a change of %s needs a restart.", self._path, name)
        if _rule_set(config) == _rule_set(self._current):
            log.info("%s: the rules are the same.", self._path)
            return
        # Only the rules: whoever takes the configuration shall not find half of a restart in it.
        self._current = structs.replace(self._started, interceptor=config.interceptor, digest=config.digest)
        self._on_rules(self._current)
        log.info("%s: the new rules are in force.", self._path)


def look_at(path: str) -> Look:
    """What the system says of a file, or of what a symbolic link leads to."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    # The last changes with every change, also where somebody sets the time of writing, or the rights.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_at_rest(path: str) -> bytes:
    """The bytes of a file. Raises OSError, also for a pipe: whoever reads one waits for who writes it."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "It is no regular file")
        return file.read(limits.CONFIG_BYTES + 1)


_NAMES = {
    "upstream": "the upstream",
    "connect_seconds": "timeouts.connect",
    "tools_seconds": "timeouts.tools",
    "validate": "validate",
    "log_level": "log.level",
    "log_format": "log.format",
    "listen": "listen",
    "allowed_hosts": "allow_hosts",
    "allowed_origins": "allow_origins",
    "workers": "workers",
    "shared": "shared",
    "peer": "peer",
    "observe": "record, audit, metrics, telemetry or mask",
    "anomalies": "anomalies",
    "variants": "variants",
}


def restart_needed(old: ProxyConfig, new: ProxyConfig) -> list[str]:
    """What is another in `new` beside the rules, as the file calls it."""
    out = [name for field, name in _NAMES.items() if getattr(old, field) != getattr(new, field)]
    if sources_of(old.choice) != sources_of(new.choice):
        out.append("tools")
    return out


def _rule_set(config: ProxyConfig) -> bytes | None:
    return None if config.interceptor is None else config.interceptor.rule_set


def sources_of(choice: ToolFilter) -> tuple[object, ...]:
    """What tells one choice of tools from another."""
    return tuple(p.source for p in choice.deny), tuple(p.source for p in choice.allow), choice.read_only
