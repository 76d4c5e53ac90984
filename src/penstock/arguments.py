"""The options of `penstock` and of `penstock tools`, in groups, and the parser for every command."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, NoReturn

from penstock import __version__
from penstock import logs as say
from penstock.errors import UsageError
from penstock.policy.tools.schema import MODES
from penstock.policy.tools.tool_filter import ORDERS

PROXY_USAGE = "penstock [OPTIONS] (--upstream URL | --config FILE | -- COMMAND [ARGS...])"
TOOLS_USAGE = "penstock tools [OPTIONS] (--upstream URL | --config FILE | -- COMMAND [ARGS...])"

_EXAMPLES = """\
examples:
  penstock --deny '^(write|delete)_' -- npx -y some-server ~/work
      hide what writes or deletes, for a client that starts this instead of the server
  penstock --listen 8808 --read-only --upstream https://mcp.example.com/mcp
      serve HTTP to several clients, in front of a server that is running
  penstock tools --upstream http://localhost:3000/mcp
      see which tools there are, and what each costs

stdout is the protocol; everything said to people goes to stderr."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Asks for the width of the terminal without shutil, which brings three compressors along."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS", "")) or 80
        except ValueError:
            columns = os.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 80
        super().__init__(prog, width=columns - 2, max_help_position=26)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wraps paragraphs, but not lists."""
        return "\n\n".join(
            part if "\n" in part else argparse.HelpFormatter._fill_text(self, part, width, indent)
            for part in text.split("\n\n")
        )


class Parser(argparse.ArgumentParser):
    """A parser whose faults are UsageErrors."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Help, allow_abbrev=False, **options)
        self.set_defaults(usage=self.usage)  # for what is found wrong only later

    def add_format(self, help: str, *others: str) -> None:
        """The option that every verb has which prints a result: `table` for people, `json` for programs."""
        choices = ("table", "json", *others)
        self.add_argument("--format", choices=choices, type=_form, default="table", help=help)

    def error(self, message: str) -> NoReturn:
        """Raises what was wrong as a UsageError."""
        hint = self._maybe_hint(message)
        detail = f"Usage: {self.usage}; see --help" if hint is None else f"Did you mean {hint}? See --help"
        raise UsageError(message[:1].upper() + message[1:], detail)

    def _maybe_hint(self, message: str) -> str | None:
        """The option that is most like one that nobody knows."""
        before, _, word = message.partition(": ")
        if before != "unrecognized arguments" or not word.startswith("--"):
            return None
        import difflib  # only for those who mistype

        known = [name for action in self._actions for name in action.option_strings]
        return next(iter(difflib.get_close_matches(word.split()[0].partition("=")[0], known, 1, 0.6)), None)


def whole_number(text: str) -> int:
    """The type of options that count something."""
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"it must be a whole number, not {text!r}")
    return int(text)


def _form(word: str) -> str:
    """`text` says the same as `table`, where sentences are printed."""
    return "table" if word == "text" else word


def proxy_parser() -> Parser:
    """The parser of plain `penstock`."""
    parser = Parser(
        prog="penstock",
        usage=PROXY_USAGE,
        description="Put it in front of an MCP server, a URL or a command to start: chosen tools vanish, "
        "every other byte passes untouched.",
        epilog=_EXAMPLES,
    )
    add_upstream_options(parser)
    add = parser.add_argument_group("where clients connect").add_argument
    add(
        "--listen",
        metavar="[HOST:]PORT",
        help="serve HTTP: /mcp, /sse, /healthz and /readyz; HOST defaults to loopback",
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
    add(
        "--session-idle",
        metavar="TIME",
        help="with --listen: end a session that nobody uses for so long; default 30m",
    )
    add = parser.add_argument_group("what is kept and counted").add_argument
    add("--record", metavar="PATH", help="keep every message, byte for byte; see penstock show")
    add("--audit", metavar="PATH", help="keep who asked for what, chained and masked; see penstock audit")
    add("--metrics", metavar="[HOST:]PORT", help="serve figures for Prometheus at /metrics")
    add(
        "--otel",
        nargs="?",
        const="",
        metavar="URL",
        help="send traces to an OpenTelemetry collector; without URL where OTEL_* variables say",
    )
    add(
        "--dashboard",
        metavar="auto[:NAME]|[HOST:]PORT",
        help="the live view: auto for penstock watch, there called NAME; PORT also for the browser there; "
        "loopback only",
    )
    add = parser.add_argument_group("what passes").add_argument
    add(
        "--validate",
        choices=MODES,
        help="check what the upstream sends against the MCP schema: tell, or withhold too (needs mcp-types); "
        "off: what nobody looks at passes as it comes",
    )
    add(
        "--allow-faults",
        action="store_true",
        help="let rules make things go wrong on purpose (the fault action); refused without this",
    )
    add(
        "--refresh-tools",
        action="store_true",
        help="fetch and filter the tool list again when the upstream says that it changed",
    )
    add(
        "--era",
        choices=("auto", "bridge", "legacy", "modern", "same"),
        help="translate for a client of one era over an upstream that speaks only the other; auto lets "
        "clients that know both fall back by themselves, legacy and modern say what the upstream speaks, "
        "same never translates",
    )
    add(
        "--input-timeout",
        metavar="TIME",
        help="how long a translated question in the middle of a call waits for its answer; default 10m",
    )
    add("--max-message", metavar="SIZE", help="the largest message, such as 50MB; default 10MiB")
    add(
        "--call-timeout",
        metavar="TIME",
        help="answer a request with an error, and cancel it, after so long; default never",
    )
    return parser


def tools_parser() -> Parser:
    """The parser of `penstock tools`."""
    parser = Parser(
        prog="penstock tools",
        usage=TOOLS_USAGE,
        description="Show which of the upstream's tools are allowed and which are denied, by which pattern, "
        "and about how many tokens each costs a model.",
    )
    add_upstream_options(parser)
    parser.add_format("how to print them", "names")
    parser.add_argument(
        "--tokenizer",
        choices=("estimate", "o200k"),
        default="estimate",
        help="estimate tokens, or count those of the o200k vocabulary (needs tiktoken)",
    )
    return parser


def add_upstream_options(parser: argparse.ArgumentParser) -> None:
    _add_upstream(parser.add_argument_group("the upstream"))
    _add_filter(parser.add_argument_group("which tools"))
    _add_times(parser.add_argument_group("how long to wait"))
    _add_rest(parser)


def _add_upstream(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("command", nargs="*", metavar="COMMAND", help="the upstream to spawn, with its arguments, after --")
    add("--upstream", metavar="URL", help="an upstream that is running: Streamable HTTP or legacy SSE")
    add("--upstream-cmd", metavar="TEXT", help="the upstream to spawn, as one string")
    add("--config", metavar="FILE", help="read FILE (YAML, JSON or TOML); options on the command line win")
    add("--server", metavar="NAME", help="with --config: only the server called NAME, as it is")
    add("--only", metavar="A[,B...]", help="with --config: only these of its servers")
    add("--profile", metavar="NAME", help="with --config: serve what its profile NAME leaves, to everybody")
    add(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help='send a header to the upstream URL, as in "Authorization: Bearer ${TOKEN}"; repeatable',
    )
    add(
        "--header-from",
        action="append",
        default=[],
        metavar="NAME=VAR",
        help="send a header whose value is in the variable VAR, so that it is in no list of processes",
    )
    add(
        "--env",
        action="append",
        default=[],
        metavar="K=V",
        help="set a variable for the upstream; ${VAR} expands",
    )
    add("--cwd", metavar="DIR", help="start the upstream in DIR; ${VAR} expands")
    add(
        "--on-upstream-loss",
        choices=("exit", "reconnect"),
        help="when the upstream goes away, or is not there at the start: end, or look for it again "
        "(a command is started again); default exit",
    )


def _add_filter(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
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
    add("--lock", metavar="FILE", help="only what is as penstock lock wrote it down passes")
    add("--lock-strict", action="store_true", help="with --lock: any difference is an error")
    add("--order", choices=ORDERS, help="of the list; default the lock's, or else the upstream's")
    add("--max-tokens", metavar="N", help="it is an error when the kept tools cost more tokens than N")
    add("--warn-tokens", metavar="N", help="warn when the kept tools cost more tokens than N")
    add(
        "--keep",
        action="append",
        default=[],
        metavar="P[,P...]",
        help="with --max-tokens: tools that are not suggested to be hidden",
    )


def _add_times(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--connect-timeout", metavar="TIME", help="for a URL to answer; default 30s, a number is milliseconds"
    )
    add("--start-timeout", metavar="TIME", help="for a command to start and answer; default 120s")
    add("--tools-timeout", metavar="TIME", help="for the tool list, from the first answer; default 10s")


def _add_rest(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is said on stderr").add_argument
    add("--log-level", choices=say.LEVELS, help="from which level up; default info")
    add("--log-format", choices=say.FORMATS, help="sentences or JSON lines")
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
