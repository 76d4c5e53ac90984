"""`penstock audit`: asking an audit, and finding out whether somebody has touched it."""

from __future__ import annotations

import argparse
import re
import sys

from penstock.arguments import Parser
from penstock.commands.filtered import split_files
from penstock.commands.results import FOUND, json_text, say
from penstock.errors import UsageError
from penstock.observe.audit_chain import Head, read_key
from penstock.observe.audit_reader import ChainCheck, audit_rows, head_of
from penstock.observe.filter_words import compile_filter

USAGE = (
    "penstock audit (query FILE... [WORDS...] | verify FILE... [--key-file FILE] [--expect SEQ:HASH] "
    "| head FILE) [--format table|json]"
)
_HEAD = re.compile(r"([0-9]+):([0-9a-f]{64})")


def parser() -> Parser:
    """The parser of `penstock audit`."""
    made = Parser(
        prog="penstock audit",
        usage=USAGE,
        description="query: the entries that a filter finds, as JSON lines. verify: whether the chain of "
        "entries holds, over rotated files too; exit 3 and the first fault if not. head: where the chain "
        "stands, for --expect another day.",
    )
    add = made.add_argument
    add("verb", choices=("query", "verify", "head"), metavar="query|verify|head", help="what to do")
    add("words", nargs="+", metavar="FILE|WORDS", help="files, then for query the words of a filter")
    add("--key-file", metavar="FILE", help="the key, where the audit was made with one")
    add(
        "--expect",
        action="append",
        default=[],
        metavar="SEQ:HASH",
        help="a checkpoint that was kept elsewhere: the chain must have it; repeatable",
    )
    made.add_format("verify and head: for people or programs")
    return made


def run(options: argparse.Namespace) -> int:
    """Does what was asked for; gives back the exit code."""
    if options.verb == "query":
        return _query(options.words)
    if options.verb == "head":
        if len(options.words) != 1:
            raise UsageError("Name one file", f"Usage: {USAGE}")
        head = head_of(options.words[0])
        is_json = options.format == "json"
        sys.stdout.write(json_text({"seq": head.seq, "hash": head.hash}) if is_json else f"{head}\n")
        return 0
    return _verify(options)


def _query(words: list[str]) -> int:
    files, terms = split_files(words)
    wanted = compile_filter(" ".join(terms))
    for path in files:
        for row in audit_rows(path):
            if wanted.matches(row):
                sys.stdout.buffer.write(row.raw if row.raw.endswith(b"\n") else row.raw + b"\n")
    sys.stdout.buffer.flush()
    return 0


def _verify(options: argparse.Namespace) -> int:
    key = read_key(options.key_file) if options.key_file else b""
    found = ChainCheck(key, [_expected(text) for text in options.expect]).check(options.words)
    if options.format == "json":
        told = {"intact": found.fault is None, "fault": found.fault, "entries": found.entries}
        sys.stdout.write(json_text(told | {"head": str(found.head)}))
    elif found.fault is not None:
        say(f"NOT intact: {found.fault}")
    else:
        say(f"intact: {found.entries:,} entries, head {found.head}")
    return 0 if found.fault is None else FOUND


def _expected(text: str) -> Head:
    match = _HEAD.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(
            f"This is no checkpoint: {text}", "It looks like 912:41ab... as `audit head` prints it"
        )
    return Head(int(match[1]), match[2])
