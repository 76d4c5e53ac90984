"""`penstock replay`: a recording in the place of an upstream, on every transport."""

from __future__ import annotations

import argparse

from penstock import cli
from penstock import logs as say
from penstock.arguments import Parser, proxy_parser
from penstock.commands.results import FOUND
from penstock.config.model import NO_FILE, ProxyConfig, ReplayUpstream
from penstock.observe.replay import MATCHES, ReplayBook
from penstock.policy.tools.tool_filter import ToolFilter

USAGE = (
    "penstock replay FILE [--listen [HOST:]PORT | --stdio] [--match HOW] [--once] [--pace fast|real] "
    "[--log-level LEVEL]"
)


def parser() -> Parser:
    """The parser of `penstock replay`."""
    made = Parser(
        prog="penstock replay",
        usage=USAGE,
        description="Answer as the upstream of a recording did: a mock server for tests. Nothing is "
        "forwarded. A request that was not recorded gets an error, and the exit code is 3.",
    )
    add = made.add_argument
    add("file", metavar="FILE", help="the recording")
    add("--listen", metavar="[HOST:]PORT", help="serve HTTP: /mcp and /sse")
    add("--stdio", action="store_true", help="serve one client over stdin and stdout")
    add(
        "--match",
        choices=MATCHES,
        default="params",
        help="by method and params, or by method in order, or both",
    )
    add("--once", action="store_true", help="give each recorded answer once, then an error")
    add(
        "--pace",
        choices=("fast", "real"),
        default="fast",
        help="answer at once, or as slowly as was recorded",
    )
    add("--log-level", choices=say.LEVELS, default="info", help="what is said on stderr")
    return made


def run(options: argparse.Namespace) -> int:
    """Does what was asked for; gives back the exit code."""
    say.set_up_log(options.log_level, "text")
    book = ReplayBook(options.file)
    upstream = ReplayUpstream(options.file, book, options.match, options.once, options.pace == "real")
    door = cli.parse_words(proxy_parser(), ["--", "replay"])
    door.listen, door.stdio = options.listen, options.stdio
    config, why = cli.choose_door(door, ProxyConfig(upstream, ToolFilter()), NO_FILE)
    from penstock import app

    code = app.serve(config, why, lambda data: config)
    return FOUND if code == 0 and book.misses else code
