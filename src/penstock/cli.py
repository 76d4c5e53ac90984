"""The command line: options in, exit code out."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from typing import NoReturn

from penstock import __version__, say
from penstock.config import (
    CommandUpstream,
    ProxyConfig,
    expand,
    make_command,
    make_environment,
    make_filter,
    seconds,
)
from penstock.errors import PenstockError, UsageError

PROXY_USAGE = "penstock [OPTIONS] -- COMMAND [ARGS...]"
TOOLS_USAGE = "penstock tools [OPTIONS] -- COMMAND [ARGS...]"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message[:1].upper() + message[1:], f"Usage: {self.usage}; see --help")


def proxy_parser() -> argparse.ArgumentParser:
    """The parser of plain `penstock`."""
    parser = _Parser(
        prog="penstock",
        usage=PROXY_USAGE,
        description="Put it in front of the command that starts an MCP server: chosen tools vanish, "
        "every other byte passes untouched.",
        epilog="penstock tools: show which tools are allowed and denied, and what each costs. "
        "stdout is the protocol; everything said to people goes to stderr.",
        allow_abbrev=False,
    )
    _add_upstream_options(parser)
    parser.add_argument(
        "--stdio", action="store_true", help="serve the client over stdin and stdout (the default)"
    )
    return parser


def tools_parser() -> argparse.ArgumentParser:
    """The parser of `penstock tools`."""
    parser = _Parser(
        prog="penstock tools",
        usage=TOOLS_USAGE,
        description="Show which of the upstream's tools are allowed and which are denied, by which pattern, "
        "and about how many tokens each costs a model.",
        allow_abbrev=False,
    )
    _add_upstream_options(parser)
    parser.add_argument(
        "--format", choices=("table", "json", "names"), default="table", help="how to print them"
    )
    return parser


def _add_upstream_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("command", nargs="*", metavar="COMMAND", help="the upstream to spawn, with its arguments, after --")
    add("--upstream-cmd", metavar="TEXT", help="the upstream to spawn, as one string")
    add(
        "--deny",
        action="append",
        default=[],
        metavar="P[,P...]",
        help="hide tools whose name matches the regular expression P anywhere; repeatable",
    )
    add(
        "--allow",
        action="append",
        default=[],
        metavar="P[,P...]",
        help="keep only matching tools; --deny wins",
    )
    add("--read-only", action="store_true", help="keep only tools annotated readOnlyHint: true")
    add(
        "--env",
        action="append",
        default=[],
        metavar="K=V",
        help="set a variable for the upstream; ${VAR} expands",
    )
    add("--cwd", metavar="DIR", help="start the upstream in DIR; ${VAR} expands")
    add(
        "--connect-timeout", default="30s", metavar="TIME", help="default 30s; a plain number is milliseconds"
    )
    add("--tools-timeout", default="10s", metavar="TIME", help="for the upstream's tool list; default 10s")
    add("--log-level", choices=say.LEVELS, default="info", help="what is said on stderr; default info")
    add("--log-format", choices=say.FORMATS, default="text", help="sentences or JSON lines on stderr")
    add("--version", action="version", version=f"penstock {__version__}")


def make_config(options: argparse.Namespace) -> ProxyConfig:
    """The configuration that parsed options describe."""
    if options.command and options.upstream_cmd is not None:
        raise UsageError("Give the upstream once: after -- or with --upstream-cmd")
    if not options.command and options.upstream_cmd is None:
        raise UsageError("No upstream: say which server to put Penstock in front of", f"Usage: {PROXY_USAGE}")
    return ProxyConfig(
        upstream=CommandUpstream(
            command=make_command(options.command, options.upstream_cmd),
            env=make_environment(options.env),
            cwd=None if options.cwd is None else expand(options.cwd, "--cwd"),
        ),
        choice=make_filter(options.deny, options.allow, options.read_only),
        connect_seconds=seconds(options.connect_timeout, "--connect-timeout"),
        tools_seconds=seconds(options.tools_timeout, "--tools-timeout"),
        log_level=options.log_level,
        log_format=options.log_format,
    )


def main(argv: list[str] | None = None) -> int:
    """Runs Penstock; gives back the exit code."""
    _fill_missing_descriptors()
    words = sys.argv[1:] if argv is None else argv
    is_tools = words[:1] == ["tools"]
    log_format = "json" if "--log-format=json" in words or _follows(words, "--log-format", "json") else "text"
    try:
        options = _parse(tools_parser() if is_tools else proxy_parser(), words[1:] if is_tools else words)
        config = make_config(options)
        say.set_up_log(config.log_level, config.log_format)
        from penstock import app

        if is_tools:
            return app.show_tools(config, options.format)
        return app.serve(config)
    except PenstockError as error:
        say.say_error(error, log_format)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _fill_missing_descriptors() -> None:
    # Somebody may have started us with stdin, stdout or stderr closed. The next pipe we open would take its
    # number, and what we say to people would go into the protocol.
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _follows(words: list[str], option: str, value: str) -> bool:
    return any(pair == (option, value) for pair in itertools.pairwise(words))


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parses options; from the first word that is none, or after --, everything is the upstream's command."""
    if "--" in words:
        border = words.index("--")
        options = parser.parse_args(words[:border])
        if options.command:
            raise UsageError(f"Unexpected argument before --: {options.command[0]}", f"Usage: {parser.usage}")
        options.command = words[border + 1 :]
        return options
    if words and not words[0].startswith("-"):
        # The bare form: no option of ours, just the command to wrap.
        options = parser.parse_args([])
        options.command = words
        return options
    return parser.parse_args(words)
