"""`penstock token new ID`: a bearer token, shown once, and the row that lets it in."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import re
import secrets
import sys

from penstock.arguments import Parser
from penstock.errors import UsageError
from penstock.watch.logins import ROLES, is_user_name

log = logging.getLogger("penstock")

USAGE = "penstock token new ID [--profile NAME | --role ROLE]"
_ID = re.compile(r"[!-~]{1,64}").fullmatch
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch


def parser() -> Parser:
    """The parser of `penstock token`."""
    made = Parser(
        prog="penstock token",
        usage=USAGE,
        description="Make a bearer token of 256 random bits. stdout has the token, once: give it to the "
        "client, which sends it as Authorization: Bearer TOKEN. stderr has the row for auth.tokens in the "
        "configuration, which holds only its SHA-256. With --role it is the line for the users of penstock "
        "watch --web instead.",
    )
    add = made.add_argument
    add("action", choices=("new",), metavar="new", help="what to do")
    add("id", metavar="ID", help="what its bearer is called in logs and by penstock check")
    add("--profile", metavar="NAME", help="the one profile that it opens")
    add("--role", choices=ROLES, help="for the live view: a line for penstock watch --web --users FILE")
    return made


def run(options: argparse.Namespace) -> int:
    """Does what was asked for; gives back the exit code."""
    if not _ID(options.id):
        raise UsageError(f"No token can be called {options.id!r}", "At most 64 plain characters, no blanks")
    if options.profile is not None and not _NAME(options.profile):
        raise UsageError(f"No profile can be called {options.profile!r}", "Letters, digits, _ and -")
    if options.role is not None and options.profile is not None:
        raise UsageError(
            "--profile and --role do not go together", "One is for callers, one for the live view"
        )
    if options.role is not None and not is_user_name(options.id):
        raise UsageError(f"No user can be called {options.id!r}", "Letters, digits and _ . @ -")
    token = "pst_" + secrets.token_urlsafe(32)
    digest = hashlib.sha256(token.encode()).hexdigest()
    profile = f", profile: {options.profile}" if options.profile is not None else ""
    if options.role is not None:
        return _show(token, "The line for the file of users", f"{options.id} {options.role} {digest}")
    row = f"{{id: {json.dumps(options.id)}, sha256: {digest}{profile}}}"
    return _show(token, "The row for auth.tokens", f"  - {row}")


def _show(token: str, what: str, row: str) -> int:
    sys.stderr.write(f"{what}; the token itself is kept nowhere:\n{row}\n")
    sys.stderr.flush()
    sys.stdout.write(token + "\n")
    sys.stdout.flush()
    return 0
