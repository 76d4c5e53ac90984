"""`penstock watch`: what this user's proxies do, live, or what recordings hold; in terminal or browser."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import stat
import sys
from typing import Any

from penstock.arguments import Parser
from penstock.commands.filtered import files_of
from penstock.commands.watch_browser import show_in_browser
from penstock.commands.watch_try import try_rules
from penstock.errors import ConfigError, UsageError
from penstock.observe.filter_words import compile_filter
from penstock.watch import bounds, runtime
from penstock.watch.hub import Hub, ask_desk
from penstock.watch.logins import User, read_users
from penstock.watch.plain_lines import HEAD, json_line, row_line
from penstock.watch.row import HubRow, MaskedRow
from penstock.watch.settings import is_loopback
from penstock.wire.http.url import parse_listen

log = logging.getLogger("penstock")

USAGE = (
    "penstock watch [NAME|FILE] [--web [[HOST:]PORT] | --lines] [--filter WORDS] [--baseline FILE] [OPTIONS]"
)


def parser() -> Parser:
    """The parser of `penstock watch`."""
    made = Parser(
        prog="penstock watch",
        usage=USAGE,
        description="Watch what your running proxies do (those with --dashboard), or what a recording holds: "
        "in this terminal, or in a browser. Messages can be held, changed and let go there, and calls "
        "approved. NAME is that of an upstream.",
    )
    add = made.add_argument
    add("name", nargs="?", metavar="NAME|FILE", help="only the proxies of this name, or a recording")
    add("--baseline", metavar="FILE", help="with recordings: show what is unusual by this baseline")
    add("--budget", default="1/500", help="usual sessions that may raise an alert; default 1/500")
    add("--config", metavar="FILE", help="whose variants are compared; default: that of the proxy")
    add("--web", nargs="?", const="", metavar="[HOST:]PORT", help="in a browser; default port 8818")
    add("--lines", action="store_true", help="plain lines, as they come; also when stdout is no terminal")
    made.add_format("with --lines: for people or programs")
    add("--filter", metavar="WORDS", default="", help="only these, such as 'tool:git_* ms>500'")
    add("--no-browser", action="store_true", help="with --web: open none, and say where it would be")
    add("--cert", metavar="FILE", help="with --web off loopback: the certificate, PEM")
    add("--key", metavar="FILE", help="with --web off loopback: its key, PEM")
    add("--users", metavar="FILE", help="with --web off loopback: who may look; a line is NAME ROLE SHA256")
    add("--tap", metavar="PATH", help=argparse.SUPPRESS)
    add("--child", action="store_true", help=argparse.SUPPRESS)
    return made


def run(options: argparse.Namespace) -> int:
    """Watches until it is ended."""
    compile_filter(options.filter)  # a fault is told before anything begins
    options.files = files_of(options.name) if _is_file(options.name) else []
    if options.baseline is not None:
        _check_baseline(options)
    if options.web is not None:
        return _web(options)
    for name in ("no_browser", "cert", "key", "users"):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} goes with --web", f"Usage: {USAGE}")
    if options.lines or not sys.stdout.isatty():
        return asyncio.run(_lines(options))
    from penstock.watch.terminal import show_terminal

    hub = _new_hub(options)
    return show_terminal(hub, lambda: _feed(hub, options), options.filter)


def _check_baseline(options: argparse.Namespace) -> None:
    from penstock.learn.alerts import parse_budget
    from penstock.learn.baseline_file import load_baseline

    if not options.files:
        raise UsageError(
            "--baseline is for recordings", "While traffic passes, the section anomalies does the same"
        )
    load_baseline(options.baseline)
    parse_budget(options.budget)


def _new_hub(options: argparse.Namespace, users: tuple[User, ...] = ()) -> Hub:
    hub = Hub(try_rules, users, "recording" if options.files else "live")
    studies = hub.studies
    studies.files, studies.budget = options.files, options.budget
    studies.baseline, studies.config = options.baseline or "", options.config or ""
    return hub


def _is_file(name: str | None) -> bool:
    if name is None:
        return False
    try:
        mode = os.stat(name).st_mode
        return stat.S_ISREG(mode) or (
            stat.S_ISDIR(mode) and os.sep in name
        )  # recordings/, not a proxy's name
    except OSError:
        if os.sep in name or name.endswith((".jsonl", ".gz", ".zst")):
            raise ConfigError(f"Cannot read the recording: {name}", "There is no such file") from None
        return False


async def _feed(hub: Hub, options: argparse.Namespace) -> None:
    """Fills the hub: from a recording once, from taps for ever."""
    if hub.studies.baseline:
        hub.studies.start("alerts")
    for path in options.files:
        await hub.read(path)
    if not options.files:
        await hub.follow(options.name or "", options.tap or "")


async def _lines(options: argparse.Namespace) -> int:
    """Prints rows as they come; a recording ends, taps do not."""
    hub = _new_hub(options)
    wanted = compile_filter(options.filter)
    out = sys.stdout
    if options.format == "table" and out.isatty():
        out.write(HEAD + "\n")

    def print_row(row: HubRow, is_new: bool) -> None:
        if is_new and wanted.matches(MaskedRow(row)):
            out.write((row_line(row) if options.format == "table" else json_line(row)) + "\n")
            out.flush()

    hub.store.told.append(print_row)
    try:
        if not options.files:
            log.info("Watching." if runtime.taps() else "Watching. Nothing runs with --dashboard yet.")
        await _feed(hub, options)
    finally:
        await hub.close()
    return 0


# --- in the browser ---------------------------------------------------------------------------------------


def _web(options: argparse.Namespace) -> int:
    words = options.web
    host, port = parse_listen(words) if words else ("127.0.0.1", bounds.HUB_PORT)
    secured = [options.cert, options.key, options.users]
    if not is_loopback(host) and not all(secured):
        raise ConfigError(
            f"{host} is open to other machines",
            "Give --cert, --key and --users, or serve this machine only: --web PORT",
        )
    if (options.cert is None) is not (options.key is None):
        raise UsageError("--cert and --key go together")
    if not options.child and not options.files and is_loopback(host) and not options.cert:
        found = ask_desk(runtime.hub_path(port), sys.stderr.isatty())
        if found is not None:
            show_in_browser(found, opens=not options.no_browser)
            return 0
    return asyncio.run(_serve(options, host, port))


def _tls(options: argparse.Namespace, host: str) -> tuple[Any, tuple[str, ...]]:
    """The context to serve with, and the names by which the page may be asked for."""
    if options.cert is None:
        return None, ()
    from penstock.auth.server_tls import server_tls
    from penstock.net.certificate_names import certificate_names

    context = server_tls(options.cert, options.key, None, False)
    names = certificate_names(options.cert, context)
    if not _is_wild(host):
        return context, (host, *names)
    if not names:
        raise ConfigError(
            f"The certificate {options.cert} names no host",
            "Give the name by which the page is asked for: --web NAME:PORT",
        )
    return context, names


async def _serve(options: argparse.Namespace, host: str, port: int) -> int:
    users = read_users(options.users) if options.users else ()
    hub = _new_hub(options, users)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    if options.child:
        loop.add_reader(0, lambda: ended.set() if not os.read(0, 4096) else None)  # it ends with who began it
    tls, names = _tls(options, host)
    url = await hub.serve(host, port, tls, names)
    feeding = loop.create_task(_feed(hub, options))
    feeding.add_done_callback(
        lambda done: ended.set() if not done.cancelled() and done.exception() is not None else None
    )
    if options.child and not sys.stderr.isatty():
        log.info("Live view: penstock watch --web %s", url.rstrip("/").rpartition("/")[2])
    elif users:
        log.info("Live view: %s", url)
    else:
        is_tty = sys.stderr.isatty()
        code = hub.logins.new_code(bounds.CODE_TTY_SECONDS if is_tty else bounds.CODE_SECONDS)
        show_in_browser({"url": url, "code": code}, opens=not options.no_browser)
    await ended.wait()
    if feeding.done() and feeding.exception() is not None:
        raise feeding.exception()  # type: ignore[misc]
    feeding.cancel()
    await hub.close()
    return 0


def _is_wild(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")  # noqa: S104  # it is asked about, not bound
