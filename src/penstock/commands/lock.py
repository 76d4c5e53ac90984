"""`penstock lock`: writes down the definitions that somebody has read, and shows what has changed since."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from penstock.arguments import Parser, add_upstream_options
from penstock.commands.results import FOUND, json_text
from penstock.commands.selectors import has_terminal, is_agreed, remark
from penstock.config.lock_file import load_lock
from penstock.config.model import ProxyConfig
from penstock.errors import ConfigError, UsageError
from penstock.policy.tools.lock_diff import difference
from penstock.policy.tools.tool_lock import (
    Locked,
    ToolLock,
    definition_of,
    differences,
    digest_of,
    digest_of_value,
    lock_text,
)

if TYPE_CHECKING:
    from penstock.commands.upstream_offer import UpstreamOffer

USAGE = "penstock lock FILE [--check | --update [TOOL...]] [OPTIONS] (--upstream URL | -- COMMAND [ARGS...])"


def parser() -> Parser:
    """The parser of `penstock lock`."""
    made = Parser(
        prog="penstock lock",
        usage=USAGE,
        description="Write the upstream's tools, prompts and instructions into a lock file, to be kept with "
        "your code. penstock --lock FILE then lets only those pass.",
    )
    what = made.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say what differs; exit 3 if something does")
    what.add_argument("--update", nargs="*", metavar="TOOL", help="take over all, or these tools")
    made.add_argument("--yes", action="store_true", help="write without asking")
    made.add_argument(
        "--ignore-member",
        action="append",
        default=[],
        metavar="PATH",
        help="a member that differs from session to session and does not count, such as _meta.time",
    )
    made.add_format("with --check: for people or programs")
    add_upstream_options(made)
    return made


def run(options: argparse.Namespace) -> int:
    """Makes, checks or updates a lock; gives back the exit code."""
    from penstock import cli

    config = cli.prepare(options)[0]
    exists = os.path.exists(options.file)
    if options.check or options.update is not None:
        old = load_lock(options.file)
        ignored = tuple(dict.fromkeys((*old.ignored, *options.ignore_member)))
        new = _ask_twice(config, ignored, needs_both=not options.check)
        if options.check:
            return _check(old, new, options.format)
        return _update(options, old, new)
    if exists:
        raise UsageError(f"{options.file} is there already", "Use --check or --update")
    new = _ask_twice(config, tuple(options.ignore_member), needs_both=True)
    _write(options.file, new)
    remark(f"Locked {len(new.tools)} tools and {len(new.prompts)} prompts in {options.file}.")
    return 0


def _ask_twice(config: ProxyConfig, ignored: tuple[str, ...], needs_both: bool) -> ToolLock:
    """The upstream as a lock. Raises ConfigError when it says something else each time."""
    first = _ask(config, ignored)
    if needs_both:
        second = _ask(config, ignored)
        paths = sorted({path for name in first.tools for path in _unstable(first, second, name)})
        if paths:
            raise ConfigError(
                "The upstream describes its tools differently in every session",
                f"{', '.join(paths)}; if that does not matter: "
                + " ".join(f"--ignore-member {path}" for path in paths),
            )
    return first


def _ask(config: ProxyConfig, ignored: tuple[str, ...]) -> ToolLock:
    from penstock.app import run_with
    from penstock.wire.json.canonical import pairs

    async def ask() -> UpstreamOffer:
        from penstock.commands.upstream_offer import ask_upstream  # not before the loop is chosen

        return await ask_upstream(config)

    offer = run_with(config, ask)
    from penstock.commands.upstream_offer import upstream_words

    return ToolLock(
        tools={name: _locked(raw, ignored) for name, raw in offer.tools.items()},
        prompts={name: _locked(raw, ignored) for name, raw in offer.prompts.items()},
        order=tuple(offer.tools),
        upstream=upstream_words(config),
        server=pairs(offer.server),
        instructions=offer.instructions,
        ignored=ignored,
    )


def _locked(raw: bytes, ignored: tuple[str, ...]) -> Locked:
    return Locked(digest_of(raw, ignored), definition_of(raw, ignored))


def _unstable(first: ToolLock, second: ToolLock, name: str) -> set[str]:
    """The members of one tool that differ between two sessions."""
    if name not in second.tools:
        return set()
    one, other = first.tools[name].definition, second.tools[name].definition
    return _differing(one, other, "") if first.tools[name].digest != second.tools[name].digest else set()


def _differing(one: object, other: object, path: str) -> set[str]:
    from penstock.wire.json.canonical import Pairs, canonical

    if isinstance(one, Pairs) and isinstance(other, Pairs):
        left, right = dict(one), dict(other)
        return {
            found
            for name in left.keys() | right.keys()
            for found in _differing(left.get(name), right.get(name), f"{path}.{name}" if path else name)
        }
    return set() if canonical(one) == canonical(other) else {path}


def _told(old: ToolLock, new: ToolLock) -> list[str]:
    """Everything that differs, a text each."""
    from penstock.wire.json.canonical import canonical

    out = []
    for noun, before, after in (("tool", old.tools, new.tools), ("prompt", old.prompts, new.prompts)):
        found = {
            name: canonical(entry.definition).encode("utf-8", "surrogatepass")
            for name, entry in after.items()
        }
        out += differences(before, found, new.ignored, frozenset(), noun)
    if old.instructions != new.instructions:
        out.append(
            difference("The instructions have changed", old.instructions or "", new.instructions or "")
        )
    return out


def _check(old: ToolLock, new: ToolLock, form: str) -> int:
    told = _told(old, new)
    if form == "json":
        sys.stdout.write(json_text({"same": not told, "differences": told}))
    else:
        sys.stdout.write("".join(f"{text}\n" for text in told))
        if not told:
            remark("Nothing has changed.")
    return FOUND if told else 0


def _update(options: argparse.Namespace, old: ToolLock, new: ToolLock) -> int:
    if options.update:
        unknown = [name for name in options.update if name not in old.tools and name not in new.tools]
        if unknown:
            raise ConfigError(f"No tool is called {unknown[0]}, here or there")
        new = _only(options.update, old, new)
    told = _told(old, new)
    if not told and lock_text(old) == lock_text(new):
        remark("Nothing has changed.")
        return 0
    for text in told:
        sys.stdout.write(text + "\n")
    sys.stdout.flush()
    if not options.yes:
        if not has_terminal():
            raise ConfigError("Nothing was written: there is no terminal to ask at", "Say --yes")
        if not is_agreed("Write this?"):
            remark("Nothing was written.")
            return 1
    _write(options.file, new)
    remark(f"{options.file} is up to date.")
    return 0


def _only(names: list[str], old: ToolLock, new: ToolLock) -> ToolLock:
    """The old lock with some tools as they are now."""
    tools = {name: entry for name, entry in old.tools.items() if name not in names or name in new.tools}
    tools.update({name: new.tools[name] for name in names if name in new.tools})
    order = [name for name in old.order if name in tools]
    order += [name for name in new.order if name in tools and name not in order]
    return structs.replace(old, tools=tools, order=tuple(order))


def _write(name: str, lock: ToolLock) -> None:
    """Writes the file whole or not at all. Raises ConfigError."""
    for entry in (*lock.tools.values(), *lock.prompts.values()):
        assert digest_of_value(entry.definition) == entry.digest
    path = Path(os.path.realpath(name))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(lock_text(lock).encode("utf-8", "surrogatepass"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as why:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"Cannot write {name}", why.strerror or str(why)) from None
