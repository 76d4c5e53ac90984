"""`penstock anomalies`: which recorded sessions are unusual, within a budget of false alarms."""

from __future__ import annotations

import argparse
import logging
import sys

import msgspec

from penstock.arguments import Parser
from penstock.commands.filtered import recordings_of
from penstock.commands.results import FOUND
from penstock.learn.alerts import Alarm, check_kinds, parse_budget
from penstock.learn.baseline_file import load_baseline
from penstock.learn.events import read_events
from penstock.wire.mcp.replies import one_line

USAGE = (
    "penstock anomalies RECORDING... --baseline FILE [--budget 1/500] [--watch KINDS] [--format table|json]"
)

log = logging.getLogger("penstock")


def parser() -> Parser:
    """The parser of `penstock anomalies`."""
    made = Parser(
        prog="penstock anomalies",
        usage=USAGE,
        description="Say which recorded sessions are unusual by a baseline, and why, in words that can be "
        "checked against the recording: `penstock why RECORDING NUMBER` shows the message. Exit 3 when "
        "there are alerts.",
    )
    add = made.add_argument
    add("files", nargs="+", metavar="RECORDING", help="recordings to look at, or folders of them")
    add("--baseline", metavar="FILE", required=True, help="what penstock baseline has written")
    add("--budget", default="1/500", help="usual sessions that may raise an alert; default 1/500")
    add("--watch", default="", metavar="KINDS", help="only these kinds, with commas between")
    made.add_format("sentences, or a JSON line for each alert")
    return made


def run(options: argparse.Namespace) -> int:
    """Says what is unusual; gives back the exit code."""
    watch = check_kinds([word for word in options.watch.replace(",", " ").split() if word])
    alarm = Alarm(load_baseline(options.baseline), parse_budget(options.budget), watch)
    for sentence in alarm.silent():
        log.warning("%s.", sentence)
    sessions = set()
    for event in read_events(recordings_of(options.files)):
        sessions.add(event.session)
        for alert in alarm.take(event):
            if options.format == "json":
                sys.stdout.write(msgspec.json.encode(alert).decode() + "\n")
            else:
                words = (
                    f"{alert.at}  {alert.session}  {alert.kind}  p {alert.p:g}  message {alert.seen_first}  "
                )
                sys.stdout.write(one_line(words + alert.why) + "\n")
    if options.format == "table":
        sys.stdout.write(
            f"{len(sessions):,} sessions: {alarm.alerts:,} alerts in {len(alarm.alerted):,} of them.\n"
        )
    return FOUND if alarm.alerts else 0
