"""The command line: options in, exit code out."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import stat
import sys
from typing import TYPE_CHECKING

from msgspec import structs

from penstock import limits
from penstock import logs as say
from penstock.arguments import proxy_parser
from penstock.commands.verbs import VERBS, listing, load
from penstock.config.model import (
    NO_FILE,
    CommandUpstream,
    FileConfig,
    ListTerms,
    ProxyConfig,
    SeveralUpstreams,
    UrlUpstream,
    compile_all,
    count,
    expand,
    make_command,
    make_environment,
    make_filter,
    make_headers,
    make_headers_from,
    merge_filters,
    merge_headers,
    message_size,
    patterns_in,
    seconds,
    with_terms,
)
from penstock.errors import CannotStart, ConfigError, PenstockError, UsageError
from penstock.platforms import refuse_unfit_system
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.wire.http.url import parse_listen, parse_url

if TYPE_CHECKING:
    from penstock.observe.settings import ObserveSettings
    from penstock.watch.settings import DashboardSettings

DEFAULT_LISTEN = ("127.0.0.1", 8808)


def make_config(options: argparse.Namespace, file: FileConfig = NO_FILE) -> ProxyConfig:
    """The configuration that parsed options and a file describe together; the options win."""
    config = _make_whole(options, file)
    if options.profile is None:
        return config
    from penstock.config.profile_view import only_profile

    return only_profile(config, options.profile)


def _make_whole(options: argparse.Namespace, file: FileConfig) -> ProxyConfig:
    _refuse_faults(options, file)
    return ProxyConfig(
        upstream=_make_upstream(options, file),
        choice=merge_filters(_make_choice(options), file.choice),
        connect_seconds=_seconds(
            options.connect_timeout, "--connect-timeout", file.connect_seconds, limits.CONNECT_SECONDS
        ),
        start_seconds=_seconds(
            options.start_timeout, "--start-timeout", file.start_seconds, limits.START_SECONDS
        ),
        tools_seconds=_seconds(
            options.tools_timeout, "--tools-timeout", file.tools_seconds, limits.TOOLS_SECONDS
        ),
        log_level=options.log_level or file.log_level or "info",
        log_format=options.log_format or file.log_format or "text",
        interceptor=file.interceptor,
        path=file.path,
        digest=file.digest,
        observe=_observe(options, file),
        access=file.access,
        anomalies=file.anomalies,
        dashboard=_dashboard(options, file),
        variants=file.variants,
    )


def _refuse_faults(options: argparse.Namespace, file: FileConfig) -> None:
    """Rules that make things go wrong on purpose are for trying out, and never there by mistake."""
    if file.interceptor is None or getattr(options, "allow_faults", False):
        return
    files = [file, *(one.config for one in (file.variants.sets if file.variants is not None else ()))]
    for one in files:
        rules = one.interceptor.rules + one.interceptor.transport_rules if one and one.interceptor else ()
        for rule in rules:
            if rule.enabled and any(getattr(action, "name", "") == "fault" for action in rule.actions):
                raise ConfigError(
                    f"The rule {rule.id} makes things go wrong on purpose",
                    "Its action is fault. If that is what you want, say --allow-faults",
                )


def _dashboard(options: argparse.Namespace, file: FileConfig) -> DashboardSettings | None:
    """The live view, where it is asked for; nothing of it is loaded where it is not."""
    words = getattr(options, "dashboard", None) or file.dashboard
    if words is not None:
        from penstock.watch.settings import dashboard_settings

        return dashboard_settings(words)
    if hasattr(options, "dashboard") and file.interceptor is not None:
        from penstock.config.approvals import refuse_unasked_approval

        refuse_unasked_approval(file.interceptor)
    return None


def _observe(options: argparse.Namespace, file: FileConfig) -> ObserveSettings | None:
    """What is kept, counted and traced; nothing of it is loaded where nothing is asked for."""
    words = [getattr(options, name, None) for name in ("record", "audit", "metrics", "otel")]
    if not file.observe and not any(word is not None for word in words):
        return None
    from penstock.observe.settings import make_settings

    asked = options if hasattr(options, "record") else None
    return make_settings(asked, dict(file.observe))


def _make_choice(options: argparse.Namespace) -> ToolFilter:
    choice = make_filter(options.deny, options.allow, options.read_only)
    terms = ListTerms(
        lock=options.lock,
        is_strict=options.lock_strict,
        order=options.order,
        max_tokens=None if options.max_tokens is None else count(options.max_tokens, "--max-tokens"),
        warn_tokens=None if options.warn_tokens is None else count(options.warn_tokens, "--warn-tokens"),
        keep=compile_all(options.keep, "keep list"),
    )
    if options.lock_strict and options.lock is None:
        raise UsageError("--lock-strict needs --lock")
    return choice if terms == ListTerms() else with_terms(choice, terms)


def _seconds(text: str | None, option: str, from_file: float | None, default: float) -> float:
    if text is not None:
        return seconds(text, option)
    return default if from_file is None else from_file


def _maybe_seconds(text: str | None, option: str, from_file: float | None) -> float | None:
    return from_file if text is None else seconds(text, option)


def _message_bytes(options: argparse.Namespace, file: FileConfig) -> int:
    if options.max_message is not None:
        return message_size(options.max_message, "--max-message")
    return limits.MESSAGE_BYTES if file.message_bytes is None else file.message_bytes


def load_config(options: argparse.Namespace) -> FileConfig:
    """What the file of --config says, if one is named."""
    if options.config is None:
        if _picked(options) is not None:
            raise UsageError("--server and --only need --config")
        return NO_FILE
    from penstock.config.file import load_file

    return load_file(options.config, picked=_picked(options))


def _picked(options: argparse.Namespace) -> tuple[str, ...] | None:
    """The servers of the file that were named on the command line; None when none were."""
    server, only = getattr(options, "server", None), getattr(options, "only", None)
    if server is not None and only is not None:
        raise UsageError("Give --server or --only, not both")
    if only is not None:
        names = tuple(name for name in (word.strip() for word in only.split(",")) if name)
        if not names:
            raise UsageError("--only names no server")
        return names
    return None if server is None else (server,)


def reload_config(options: argparse.Namespace, data: bytes, was_piped: bool) -> ProxyConfig:
    """The configuration of the same command line, now that other bytes are in its file.

    `was_piped` says what stdin was at the start: once a client is served over it, it is that no more.
    """
    from penstock.config.file import parse_file

    file = parse_file(options.config, data, picked=_picked(options))
    return choose_door(options, make_config(options, file), file, was_piped)[0]


def choose_door(
    options: argparse.Namespace,
    config: ProxyConfig,
    file: FileConfig = NO_FILE,
    was_piped: bool | None = None,
) -> tuple[ProxyConfig, str]:
    """Where clients connect, and why there, in words. `was_piped`: what stdin was, if it is that no more."""
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
        if is_piped(0) if was_piped is None else was_piped:
            why = "stdin is a pipe, so a client has spawned us; use --listen to serve HTTP"
        else:
            listen, why = DEFAULT_LISTEN, "stdin is no pipe; use --stdio to serve it all the same"
    return (
        structs.replace(
            config,
            listen=listen,
            call_seconds=_maybe_seconds(options.call_timeout, "--call-timeout", file.call_seconds),
            session_idle_seconds=_seconds(
                options.session_idle, "--session-idle", file.session_idle_seconds, limits.SESSION_IDLE_SECONDS
            ),
            message_bytes=_message_bytes(options, file),
            refreshes_tools=options.refresh_tools or file.refreshes_tools,
            era=options.era or file.era or "auto",
            batch=file.batch or "inspect",
            on_crash=file.on_crash or "answer",
            input_seconds=_seconds(
                options.input_timeout, "--input-timeout", file.input_seconds, limits.INPUT_SECONDS
            ),
            validate=options.validate or file.validate,
            allowed_hosts=file.allowed_hosts + tuple(options.allow_host),
            allowed_origins=file.allowed_origins + tuple(options.allow_origin),
            workers=file.workers,
            divides_limits=file.divides_limits,
            shared=file.shared,
            peer=file.peer,
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


def _make_upstream(
    options: argparse.Namespace, file: FileConfig
) -> CommandUpstream | UrlUpstream | SeveralUpstreams:
    found = _make_one_upstream(options, file)
    if file.several is None or isinstance(found, SeveralUpstreams):
        return found
    from penstock.config.members import as_one_of_several

    return as_one_of_several(found, file.several)


def _make_one_upstream(
    options: argparse.Namespace, file: FileConfig
) -> CommandUpstream | UrlUpstream | SeveralUpstreams:
    ways = (bool(options.command), options.upstream_cmd is not None, options.upstream is not None)
    if sum(ways) > 1:
        raise UsageError("Give the upstream once: after --, with --upstream-cmd or with --upstream")
    if not any(ways) and file.upstream is None:
        if file.path is not None:
            raise ConfigError(
                f"No upstream: {file.path} names none", "Add upstream: to it, or give one on the command line"
            )
        raise UsageError(
            "No upstream: say which server to put Penstock in front of", f"Usage: {options.usage}"
        )
    # An upstream on the command line takes the place of the file's whole; else the options add to that one.
    known = None if any(ways) else file.upstream
    loss = options.on_upstream_loss
    if isinstance(known, SeveralUpstreams):
        if options.env or options.cwd or options.header or options.header_from or loss is not None:
            raise UsageError("--env, --cwd, --header and --on-upstream-loss are for one upstream")
        return known
    if options.upstream is not None or isinstance(known, UrlUpstream):
        if options.env or options.cwd is not None:
            raise UsageError("--env and --cwd are for an upstream that is a command")
        if known is None:
            known = UrlUpstream(parse_url(expand(options.upstream, "--upstream")))
        assert isinstance(known, UrlUpstream)
        return structs.replace(
            known,
            headers=merge_headers(
                make_headers(options.header) + make_headers_from(options.header_from), known.headers
            ),
            reconnect=known.reconnect if loss is None else loss == "reconnect",
        )
    if options.header or options.header_from:
        raise UsageError("--header is for an upstream that is a URL")
    if known is None:
        known = CommandUpstream(make_command(options.command, options.upstream_cmd))
    return CommandUpstream(
        command=known.command,
        env=known.env + make_environment(options.env),
        cwd=known.cwd if options.cwd is None else expand(options.cwd, "--cwd"),
        reconnect=known.reconnect if loss is None else loss == "reconnect",
    )


def main(argv: list[str] | None = None) -> int:
    """Runs Penstock; gives back the exit code."""
    _fill_missing_descriptors()
    words = sys.argv[1:] if argv is None else argv
    log_format = "json" if "--log-format=json" in words or _follows(words, "--log-format", "json") else "text"
    try:
        if words[:1] == ["help"]:
            return _printed(_help(words[1:]))
        if words and words[0] in VERBS:
            return _printed(_run_verb(words[0], words[1:]))
        if words[:1] in (["--help"], ["-h"]):
            return _printed(_help([]))
        options = parse_words(proxy_parser(), words)
        config, file = prepare(options)
        was_piped = is_piped(0)
        config, why = choose_door(options, config, file, was_piped)
        limits.allow_messages(config.message_bytes)
        from penstock import app

        return app.serve(config, why, lambda data: reload_config(options, data, was_piped))
    except PenstockError as error:
        _hint_at_verb(error, words)
        say.say_error(error, log_format)
        return error.exit_code
    except BrokenPipeError:
        # Nobody reads what a command prints. The interpreter would try once more at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130


def _printed(code: int) -> int:
    """The exit code of a command, now that what it printed has left us."""
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _run_verb(name: str, words: list[str]) -> int:
    command = load(name)
    parser = command.parser()
    say.set_up_log("info", "text")
    if VERBS[name].takes_file and not {"-h", "--help"} & set(words[:1]):
        if not words or words[0].startswith("-"):
            raise UsageError("No file is named", f"Usage: {parser.usage}")
        options = parse_words(parser, words[1:])
        options.file, options.words = words[0], words[1:]
        return command.run(options)
    if VERBS[name].takes_filter:
        from penstock.commands.filtered import parse_with_filter

        return command.run(parse_with_filter(parser, words))
    if VERBS[name].takes_command:
        return command.run(parse_words(parser, words, is_bare=not VERBS[name].takes_words))
    return command.run(parser.parse_args(words))


def prepare(options: argparse.Namespace) -> tuple[ProxyConfig, FileConfig]:
    """What options and file ask for together; from here on everything is said as they say."""
    file = load_config(options)
    config = make_config(options, file)
    say.set_up_log(config.log_level, config.log_format)
    refuse_unfit_system()
    if any(not patterns_in(text, is_needed=False) for text in options.deny):
        logging.getLogger("penstock").warning("--deny is empty, so it hides nothing.")
    return config, file


def _help(words: list[str]) -> int:
    """`penstock help` and `penstock help VERB`."""
    if not words:
        parser: argparse.ArgumentParser = proxy_parser()
        parser.description = f"{parser.description}\n\n{listing()}"
    elif len(words) == 1 and words[0] in VERBS:
        parser = load(words[0]).parser()
    else:
        known = ", ".join(VERBS)
        raise UsageError(f"No command is called {' '.join(words)}", f"The commands are {known}")
    parser.print_help()
    return 0


def _hint_at_verb(error: PenstockError, words: list[str]) -> None:
    """Says which command was meant, where a mistyped one was taken for an upstream to spawn."""
    if isinstance(error, CannotStart) and words[:1] and not words[0].startswith("-"):
        import difflib  # only for those who mistype

        near = difflib.get_close_matches(words[0], VERBS, 1, 0.6)
        error.cause = f"Did you mean penstock {near[0]}?" if near else error.cause


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


def parse_words(
    parser: argparse.ArgumentParser, words: list[str], is_bare: bool = True
) -> argparse.Namespace:
    """Parses options; from the first word that is none, or after --, everything is the upstream's command.

    Without `is_bare` the words before -- are the verb's own.
    """
    if "--" in words:
        border = words.index("--")
        options = parser.parse_args(words[:border])
        if options.command:
            raise UsageError(f"Unexpected argument before --: {options.command[0]}", f"Usage: {parser.usage}")
        options.command = words[border + 1 :]
        return options
    if is_bare and words and not words[0].startswith("-"):
        # The bare form: no option of ours, just the command to wrap.
        options = parser.parse_args([])
        options.command = words
        return options
    return parser.parse_args(words)
