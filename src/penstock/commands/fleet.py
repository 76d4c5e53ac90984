"""`penstock fleet`: the instances that share one Redis, and whether they are alike."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from typing import TYPE_CHECKING

import msgspec

from penstock.arguments import Parser
from penstock.commands.results import FOUND, columns, json_text
from penstock.config.file import load_file
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.shared import SharedSettings
    from penstock.fleet.members import Member

log = logging.getLogger("penstock")

USAGE = "penstock fleet --config FILE [--format table|json] [--check]"


def parser() -> Parser:
    """The parser of `penstock fleet`."""
    made = Parser(
        prog="penstock fleet",
        usage=USAGE,
        description="Show the instances that share what FILE says: tag, version, rules, sessions, how long "
        "Redis takes to answer, and when each was last heard of.",
    )
    add = made.add_argument
    add("--config", metavar="FILE", required=True, help="a configuration with a shared section")
    made.add_format("how to print them")
    add(
        "--check",
        action="store_true",
        help="exit with 3 if their rules or versions differ, or one was not heard of for 6 s",
    )
    return made


def run(options: argparse.Namespace) -> int:
    """Does what was asked for; gives back the exit code."""
    settings = load_file(options.config).shared
    if settings is None:
        raise ConfigError(f"{options.config} shares nothing", "It has no section called shared")
    members, now = asyncio.run(_ask(settings))
    if options.format == "json":
        rows = [{**msgspec.to_builtins(one), "age": round(now - one.beat, 1)} for one in members]
        sys.stdout.write(json_text(rows))
    else:
        _print(members, now)
    return _judge(members, now) if options.check else 0


async def _ask(settings: SharedSettings) -> tuple[list[Member], float]:
    from penstock.fleet.members import Member, Members
    from penstock.open_fleet import open_link
    from penstock.state.redis_store import RedisStore
    from penstock.state.seals import Seals
    from penstock.state.store import StoreDown

    link = open_link(settings)
    seals = Seals(settings.secret, settings.old_secret, settings.namespace)
    store = RedisStore(link, max(settings.timeout, 1.0), seals.name("probe", "fleet"))
    try:
        await link.connect()
        found = await Members(store, seals, lambda: Member("")).all()
        return found, await store.clock()
    except StoreDown as why:
        raise ConfigError(f"Cannot use Redis at {settings.address.shown}", str(why)) from None
    finally:
        await store.close()


def _print(members: list[Member], now: float) -> None:
    rows = [("TAG", "ADDRESS", "VERSION", "RULES", "SESSIONS", "REDIS", "HEARD OF")]
    for one in members:
        latency, age = f"{one.latency * 1000:.1f} ms", f"{max(0.0, now - one.beat):.1f} s ago"
        facts = one.tag, one.address or "-", one.version, one.rules or "-", str(one.sessions)
        rows.append((*facts, latency, age))
    sys.stdout.write("".join(f"{line}\n" for line in columns(rows)))


def _judge(members: list[Member], now: float) -> int:
    from penstock.fleet.members import LATE_SECONDS

    late = [one.tag for one in members if now - one.beat > LATE_SECONDS]
    code = 0
    if len({one.rules for one in members}) > 1 or len({one.version for one in members}) > 1:
        log.warning("The instances differ in their rules or versions.")
        code = FOUND
    if late:
        log.warning("Not heard of for %g s: %s.", LATE_SECONDS, ", ".join(late))
        code = FOUND
    return code
