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
from penstock.commands.watch_browser import show_in_browser
from penstock.commands.watch_try import try_rules
from penstock.errors import ConfigError, UsageError
from penstock.observe.filter_words import compile_filter
from penstock.watch import bounds, runtime
from penstock.watch.hub import Hub, ask_desk
from penstock.watch.logins import read_users
from penstock.watch.plain_lines import HEAD, json_line, row_line
from penstock.watch.row import HubRow, MaskedRow
from penstock.watch.settings import is_loopback
from penstock.wire.http.url import parse_listen

log = logging.getLogger("penstock")

USAGE = "penstock watch [NAME|FILE] [--web [[HOST:]PORT]] [--lines] [--filter WORDS]"


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
    add("--web", nargs="?", const="", metavar="[HOST:]PORT", help="in a browser; default port 8818")
    add("--lines", action="store_true", help="plain lines, as they come; also when stdout is no terminal")
    add("--format", choices=("table", "json"), default="table", help="with --lines: for people or programs")
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
    if options.web is not None:
        return _web(options)
    if options.lines or not sys.stdout.isatty():
        return asyncio.run(_lines(options))
    from penstock.watch.terminal import show_terminal

    hub = Hub(try_rules, source=_source(options))
    return show_terminal(hub, lambda: _feed(hub, options), options.filter)


def _source(options: argparse.Namespace) -> str:
    return "recording" if _is_file(options.name) else "live"


def _is_file(name: str | None) -> bool:
    if name is None:
        return False
    try:
        return stat.S_ISREG(os.stat(name).st_mode)
    except OSError:
        if os.sep in name or name.endswith((".jsonl", ".gz", ".zst")):
            raise ConfigError(f"Cannot read the recording: {name}", "There is no such file") from None
        return False


async def _feed(hub: Hub, options: argparse.Namespace) -> None:
    """Fills the hub: from a recording once, from taps for ever."""
    if _is_file(options.name):
        await hub.read(options.name)
    else:
        await hub.follow(options.name or "", options.tap or "")


async def _lines(options: argparse.Namespace) -> int:
    """Prints rows as they come; a recording ends, taps do not."""
    hub = Hub(try_rules)
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
        if not _is_file(options.name):
            log.info("Watching. %s", "Nothing runs with --dashboard yet." if not runtime.taps() else "")
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
    if not options.child and not _is_file(options.name) and is_loopback(host) and not options.cert:
        found = ask_desk(runtime.hub_path(port), sys.stderr.isatty())
        if found is not None:
            show_in_browser(found, opens=not options.no_browser)
            return 0
    return asyncio.run(_serve(options, host, port))


def _tls(options: argparse.Namespace) -> Any:
    if options.cert is None:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.cert, options.key)
    except (OSError, ssl.SSLError) as why:
        raise ConfigError(f"Cannot use the certificate {options.cert}", str(why)) from None
    return context


async def _serve(options: argparse.Namespace, host: str, port: int) -> int:
    users = read_users(options.users) if options.users else ()
    hub = Hub(try_rules, users, _source(options))
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    if options.child:
        loop.add_reader(0, lambda: ended.set() if not os.read(0, 4096) else None)  # it ends with who began it
    names = (host,) if options.cert and not _is_wild(host) else ()
    url = await hub.serve(host, port, _tls(options), names)
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
