"""The command line: options in, exit code out."""

from __future__ import annotations

import argparse
import itertools
import os
import stat
import sys
from typing import Any, NoReturn

from msgspec import structs

from penstock import __version__, limits
from penstock import logs as say
from penstock.config.model import (
    NO_FILE,
    CommandUpstream,
    FileConfig,
    ProxyConfig,
    UrlUpstream,
    expand,
    make_command,
    make_environment,
    make_filter,
    make_headers,
    merge_filters,
    merge_headers,
    seconds,
)
from penstock.errors import ConfigError, PenstockError, UsageError
from penstock.platforms import refuse_unfit_system
from penstock.policy.tools.schema import MODES
from penstock.wire.http.url import parse_listen, parse_url

DEFAULT_LISTEN = ("127.0.0.1", 8808)
PROXY_USAGE = "penstock [OPTIONS] (--upstream URL | --config FILE | -- COMMAND [ARGS...])"
TOOLS_USAGE = "penstock tools [OPTIONS] (--upstream URL | --config FILE | -- COMMAND [ARGS...])"
CHECK_USAGE = "penstock check FILE"
RULES_USAGE = "penstock rules (test FILE | explain FILE [--from client|upstream] < MESSAGE)"


class _Help(argparse.HelpFormatter):
    """Asks for the width of the terminal without shutil, which brings three compressors along."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS", "")) or 80
        except ValueError:
            columns = os.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 80
        super().__init__(prog, width=columns - 2)


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Help, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message[:1].upper() + message[1:], f"Usage: {self.usage}; see --help")


def proxy_parser() -> argparse.ArgumentParser:
    """The parser of plain `penstock`."""
    parser = _Parser(
        prog="penstock",
        usage=PROXY_USAGE,
        description="Put it in front of an MCP server, a URL or a command to start: chosen tools vanish, "
        "every other byte passes untouched.",
        epilog="penstock tools: show which tools are allowed and denied, and what each costs. "
        "penstock check FILE: say what is wrong with a configuration, or what it will do. "
        "penstock rules test FILE, penstock rules explain FILE: try its rules. "
        "stdout is the protocol; everything said to people goes to stderr.",
        allow_abbrev=False,
    )
    _add_upstream_options(parser)
    add = parser.add_argument
    add(
        "--listen",
        metavar="[HOST:]PORT",
        help="serve HTTP: /mcp, /sse and /healthz; HOST defaults to loopback",
    )
    add(
        "--validate",
        choices=MODES,
        help="check what the upstream sends against the MCP schema: tell, or also withhold (needs mcp-types)",
    )
    add("--stdio", action="store_true", help="serve one client over stdin and stdout")
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="with --listen: another name in the Host header that is ours",
    )
    add(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="with --listen: let pages from ORIGIN use us (CORS), such as https://app.example",
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


def parsers() -> list[argparse.ArgumentParser]:
    """Every parser, for the documentation."""
    return [proxy_parser(), tools_parser(), check_parser(), rules_parser()]


def check_parser() -> argparse.ArgumentParser:
    """The parser of `penstock check`."""
    parser = _Parser(
        prog="penstock check",
        usage=CHECK_USAGE,
        description="Say whether a configuration file is right: every fault with its line and a hint, or, "
        "if it is, what it will do, in plain words.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="the configuration file")
    return parser


def rules_parser() -> argparse.ArgumentParser:
    """The parser of `penstock rules`."""
    parser = _Parser(
        prog="penstock rules",
        usage=RULES_USAGE,
        description="Try rules without an upstream: run the fixtures in the file or beside it, or say what "
        "the rules would do with the messages on stdin.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("verb", metavar="test|explain", choices=("test", "explain"), help="what to do with the rules")
    add("--from", choices=("client", "upstream"), dest="sender", help="who sent the messages on stdin")
    add("file", metavar="FILE", help="the configuration file")
    return parser


def _add_upstream_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("command", nargs="*", metavar="COMMAND", help="the upstream to spawn, with its arguments, after --")
    add("--config", metavar="FILE", help="read FILE (YAML, JSON or TOML); options on the command line win")
    add("--upstream", metavar="URL", help="an upstream that is running: Streamable HTTP or legacy SSE")
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
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help='send a header to the upstream URL, as in "Authorization: Bearer ${TOKEN}"; repeatable',
    )
    add(
        "--on-upstream-loss",
        choices=("exit", "reconnect"),
        help="what to do when the upstream URL goes away; default exit",
    )
    add("--connect-timeout", metavar="TIME", help="default 30s; a plain number is milliseconds")
    add("--tools-timeout", metavar="TIME", help="for the upstream's tool list; default 10s")
    add("--log-level", choices=say.LEVELS, help="what is said on stderr; default info")
    add("--log-format", choices=say.FORMATS, help="sentences or JSON lines on stderr")
    add("--version", action="version", version=f"penstock {__version__}")


def make_config(options: argparse.Namespace, file: FileConfig = NO_FILE) -> ProxyConfig:
    """The configuration that parsed options and a file describe together; the options win."""
    return ProxyConfig(
        upstream=_make_upstream(options, file),
        choice=merge_filters(make_filter(options.deny, options.allow, options.read_only), file.choice),
        connect_seconds=_seconds(
            options.connect_timeout, "--connect-timeout", file.connect_seconds, limits.CONNECT_SECONDS
        ),
        tools_seconds=_seconds(
            options.tools_timeout, "--tools-timeout", file.tools_seconds, limits.TOOLS_SECONDS
        ),
        log_level=options.log_level or file.log_level or "info",
        log_format=options.log_format or file.log_format or "text",
        interceptor=file.interceptor,
        path=file.path,
        digest=file.digest,
    )


def _seconds(text: str | None, option: str, from_file: float | None, default: float) -> float:
    if text is not None:
        return seconds(text, option)
    return default if from_file is None else from_file


def load_config(options: argparse.Namespace) -> FileConfig:
    """What the file of --config says, if one is named."""
    if options.config is None:
        return NO_FILE
    from penstock.config.file import load_file

    return load_file(options.config)


def reload_config(options: argparse.Namespace, data: bytes) -> ProxyConfig:
    """The configuration of the same command line, now that other bytes are in its file."""
    from penstock.config.file import parse_file

    file = parse_file(options.config, data)
    return choose_door(options, make_config(options, file), file)[0]


def choose_door(
    options: argparse.Namespace, config: ProxyConfig, file: FileConfig = NO_FILE
) -> tuple[ProxyConfig, str]:
    """Where clients connect, and why there, in words."""
    if options.stdio and options.listen is not None:
        raise UsageError("Give --stdio or --listen, not both")
    listen, why = None, "--stdio"
    if options.listen is not None:
        listen, why = parse_listen(options.listen), "--listen"
    elif not options.stdio and file.listen is not None:
        listen, why = file.listen, f"listen in {file.path}"
    elif not options.stdio and file.is_stdio:
        why = f"stdio in {file.path}"
    elif not options.stdio:
        if is_piped(0):
            why = "stdin is a pipe, so a client has spawned us; use --listen to serve HTTP"
        else:
            listen, why = DEFAULT_LISTEN, "stdin is no pipe; use --stdio to serve it all the same"
    return (
        structs.replace(
            config,
            listen=listen,
            validate=options.validate or file.validate,
            allowed_hosts=file.allowed_hosts + tuple(options.allow_host),
            allowed_origins=file.allowed_origins + tuple(options.allow_origin),
        ),
        why,
    )


def is_piped(fd: int) -> bool:
    """Whether a descriptor leads to a pipe or a socket, as it does when a client spawned us."""
    try:
        kind = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def _make_upstream(options: argparse.Namespace, file: FileConfig) -> CommandUpstream | UrlUpstream:
    ways = (bool(options.command), options.upstream_cmd is not None, options.upstream is not None)
    if sum(ways) > 1:
        raise UsageError("Give the upstream once: after --, with --upstream-cmd or with --upstream")
    if not any(ways) and file.upstream is None:
        if file.path is not None:
            raise ConfigError(
                f"No upstream: {file.path} names none", "Add upstream: to it, or give one on the command line"
            )
        raise UsageError("No upstream: say which server to put Penstock in front of", f"Usage: {PROXY_USAGE}")
    # An upstream on the command line takes the place of the file's whole; else the options add to that one.
    known = None if any(ways) else file.upstream
    if options.upstream is not None or isinstance(known, UrlUpstream):
        if options.env or options.cwd is not None:
            raise UsageError("--env and --cwd are for an upstream that is a command")
        if known is None:
            known = UrlUpstream(parse_url(expand(options.upstream, "--upstream")))
        assert isinstance(known, UrlUpstream)
        loss = options.on_upstream_loss
        return UrlUpstream(
            url=known.url,
            headers=merge_headers(make_headers(options.header), known.headers),
            reconnect=known.reconnect if loss is None else loss == "reconnect",
        )
    if options.header or options.on_upstream_loss == "reconnect":
        raise UsageError("--header and --on-upstream-loss are for an upstream that is a URL")
    if known is None:
        known = CommandUpstream(make_command(options.command, options.upstream_cmd))
    return CommandUpstream(
        command=known.command,
        env=known.env + make_environment(options.env),
        cwd=known.cwd if options.cwd is None else expand(options.cwd, "--cwd"),
    )


def main(argv: list[str] | None = None) -> int:
    """Runs Penstock; gives back the exit code."""
    _fill_missing_descriptors()
    words = sys.argv[1:] if argv is None else argv
    if words[:1] in (["check"], ["rules"]):
        return _file_command(words)
    is_tools = words[:1] == ["tools"]
    log_format = "json" if "--log-format=json" in words or _follows(words, "--log-format", "json") else "text"
    try:
        options = _parse(tools_parser() if is_tools else proxy_parser(), words[1:] if is_tools else words)
        file = load_config(options)
        config = make_config(options, file)
        say.set_up_log(config.log_level, config.log_format)
        refuse_unfit_system()
        from penstock import app

        if is_tools:
            return app.show_tools(config, options.format)
        config, why = choose_door(options, config, file)
        return app.serve(config, why, lambda data: reload_config(options, data))
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


def _file_command(words: list[str]) -> int:
    """`penstock check` and `penstock rules`, which need a file and no upstream."""
    parser = check_parser() if words[0] == "check" else rules_parser()
    try:
        options = parser.parse_args(words[1:])
        if words[0] == "check":
            from penstock.commands.check import check

            return check(options.file)
        from penstock.commands import rules as rules_command

        if options.verb == "test":
            return rules_command.run_tests(options.file)
        return rules_command.explain(options.file, options.sender)
    except PenstockError as error:
        say.say_error(error)
        return error.exit_code
    except BrokenPipeError:
        return 1


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
