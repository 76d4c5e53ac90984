"""Several workers on one port: processes that are replaced when they die.

Every worker has a socket of its own on the port (SO_REUSEPORT), and the supervisor keeps them all open: what
waits in the queue of a worker that was killed waits for its successor. The supervisor has no loop and serves
nobody. When it is gone, its workers end by themselves.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import limits
from penstock.config.worker_place import WorkerPlace
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.model import ProxyConfig

log = logging.getLogger("penstock")

END_SECONDS = 6.0
_QUICK_SECONDS = 1.0  # a worker that dies sooner was not worth starting
_MOST_QUICK = 10


def worker_count(config: ProxyConfig) -> int:
    """How many workers serve. Raises ConfigError where that cannot be, or would make limits a multiple."""
    if config.workers == 1:
        return 1
    if sys.platform == "linux":
        count = config.workers or len(os.sched_getaffinity(0))
    else:
        raise ConfigError("workers needs Linux", "Leave it out, or run several instances behind a balancer")
    if count == 1:
        return 1
    if config.listen is None:
        raise ConfigError("workers needs listen", "Over stdio there is one client, and one process for it")
    _refuse_multiples(config)
    return count


def _refuse_multiples(config: ProxyConfig) -> None:
    from penstock.config.model import UrlUpstream

    observe = config.observe
    if observe is not None:
        kept = [one.file for one in (observe.record, observe.audit) if one is not None]
        if any(not file.endswith("/") for file in kept):
            raise ConfigError(
                "With workers, each process keeps a file of its own", "Name a folder: end it in /"
            )
        if observe.metrics is not None:
            raise ConfigError("metrics cannot be served by several workers", "Use instances, or one worker")
    rules = config.interceptor
    if rules is None or not rules.enabled:
        return
    from penstock.policy.rules.actions import RateLimit, SetState

    shared = frozenset() if config.shared is None else config.shared.use
    actions = [
        action for rule in (*rules.rules, *rules.transport_rules) if rule.enabled for action in rule.actions
    ]
    counts = any(isinstance(action, RateLimit) for action in actions) or any(
        getattr(custom.object, "counts_sessions", False)
        for custom in (*(guard for _, guard in rules.guards), *rules.generals)
    )
    if counts and "limits" not in shared and not config.divides_limits:
        raise ConfigError(
            "With workers, each process would count limits for itself",
            "Name shared, or say worker_limits: divide",
        )
    sets = any(isinstance(action, SetState) for action in actions)
    if sets and "state" not in shared and isinstance(config.upstream, UrlUpstream):
        raise ConfigError(
            "With workers, each process would have its own state of a session",
            "Name shared, or use one worker",
        )


class Supervisor:
    """Starts workers, replaces those that die, ends them all."""

    def __init__(self, listen: tuple[str, int], count: int, work: Callable[[WorkerPlace], int]) -> None:
        self._count = count
        self._work = work
        self._sockets = open_sockets(*listen, count)
        self._folder = tempfile.mkdtemp(prefix="penstock-")  # only we may look into it
        self._secret = os.urandom(32)
        self._leash, self._held = os.pipe()
        self._workers: dict[int, tuple[int, float]] = {}  # by process: number and start
        self._ending: signal.Signals | None = None
        self._quick = 0

    def run(self) -> int:
        """Serves until asked to end, or until a worker ends because it cannot go on; the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        code = 0
        try:
            for place in range(self._count):
                self._start(place)
            log.info("%d workers serve one port.", self._count)
            while self._workers:
                code = max(code, self._wait())
        finally:
            self._kill_all()
            shutil.rmtree(self._folder, ignore_errors=True)
        return code

    def _start(self, number: int) -> None:
        sockets = tuple(sock.fileno() for sock in self._sockets[number])
        pid = os.fork()
        if pid:
            self._workers[pid] = number, time.monotonic()
            return
        code = 1
        try:
            os.setpgid(0, 0)  # a key pressed in the terminal is for the supervisor, who tells us
            os.close(self._held)
            for number_of_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number_of_signal, signal.SIG_DFL)
            place = WorkerPlace(number, self._count, sockets, self._folder, self._secret, self._leash)
            code = self._work(place)
        except SystemExit as why:
            code = why.code if isinstance(why.code, int) else 1
        except BaseException:
            log.exception("A worker failed.")
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError, AttributeError):
                    pass
            os._exit(code)

    def _wait(self) -> int:
        """Waits for a worker to end; its exit code, if that is to be ours."""
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            self._workers.clear()
            return 0
        if pid not in self._workers:
            return 0
        number, began = self._workers.pop(pid)
        if self._ending is not None:
            return 0
        if os.WIFEXITED(status):
            # It ended by itself, so the others would too: its upstream is gone, or it could not start.
            code = os.WEXITSTATUS(status)
            self._end(signal.SIGTERM)
            return code
        self._quick = self._quick + 1 if time.monotonic() - began < _QUICK_SECONDS else 0
        log.warning(
            "Worker %d was killed by signal %d; another takes its place.", number, os.WTERMSIG(status)
        )
        if self._quick >= _MOST_QUICK:
            log.error("Workers die as soon as they are started.")
            self._end(signal.SIGTERM)
            return 1
        self._start(number)
        return 0

    def _on_signal(self, number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            self._tell(signal.SIGHUP)
        elif self._ending is None:
            self._end(signal.Signals(number))
        else:
            self._kill_all()

    def _end(self, number: signal.Signals) -> None:
        self._ending = number
        self._tell(signal.SIGTERM)
        signal.signal(signal.SIGALRM, lambda *_: self._kill_all())
        signal.setitimer(signal.ITIMER_REAL, END_SECONDS)

    def _tell(self, number: signal.Signals) -> None:
        for pid in tuple(self._workers):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def _kill_all(self) -> None:
        self._tell(signal.SIGKILL)


def open_sockets(host: str, port: int, count: int) -> list[list[socket.socket]]:
    """Sockets on the port for each worker, listening. Raises ConfigError."""
    found: list[list[socket.socket]] = []
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for _ in range(count):
            own: list[socket.socket] = []
            for family, kind, protocol, _, address in infos:
                if port == 0 and (found or own):
                    port = (own or found[0])[0].getsockname()[1]
                sock = socket.socket(family, kind, protocol)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if sys.platform == "linux":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.setblocking(False)
                sock.bind((address[0], port, *address[2:]))
                sock.listen(limits.LISTEN_BACKLOG)
                own.append(sock)
            found.append(own)
    except OSError as why:
        for sock in (one for own in found for one in own):
            sock.close()
        raise ConfigError(f"Cannot listen on {host}:{port}", os.strerror(why.errno or 0)) from None
    return found
