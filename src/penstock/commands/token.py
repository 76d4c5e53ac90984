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

log = logging.getLogger("penstock")

USAGE = "penstock token new ID [--profile NAME]"
_ID = re.compile(r"[!-~]{1,64}").fullmatch
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch


def parser() -> Parser:
    """The parser of `penstock token`."""
    made = Parser(
        prog="penstock token",
        usage=USAGE,
        description="Make a bearer token of 256 random bits. stdout has the token, once: give it to the "
        "client, which sends it as Authorization: Bearer TOKEN. stderr has the row for auth.tokens in the "
        "configuration, which holds only its SHA-256.",
    )
    add = made.add_argument
    add("action", choices=("new",), help="what to do")
    add("id", metavar="ID", help="what its bearer is called in logs and by penstock check")
    add("--profile", metavar="NAME", help="the one profile that it opens")
    return made


def run(options: argparse.Namespace) -> int:
    """Does what was asked for; gives back the exit code."""
    if not _ID(options.id):
        raise UsageError(f"No token can be called {options.id!r}", "At most 64 plain characters, no blanks")
    if options.profile is not None and not _NAME(options.profile):
        raise UsageError(f"No profile can be called {options.profile!r}", "Letters, digits, _ and -")
    token = "pst_" + secrets.token_urlsafe(32)
    digest = hashlib.sha256(token.encode()).hexdigest()
    profile = f", profile: {options.profile}" if options.profile is not None else ""
    row = f"{{id: {json.dumps(options.id)}, sha256: {digest}{profile}}}"
    sys.stderr.write(f"The row for auth.tokens; the token itself is kept nowhere:\n  - {row}\n")
    sys.stderr.flush()
    sys.stdout.write(token + "\n")
    sys.stdout.flush()
    return 0
