"""`penstock baseline`: what is usual in recordings, kept as digests and counts."""

from __future__ import annotations

import argparse
import sys

import msgspec

from penstock.arguments import Parser
from penstock.commands.filtered import recordings_of
from penstock.errors import ConfigError
from penstock.learn.baseline_file import build_baseline, encode_baseline, write_baseline
from penstock.learn.learner import Lock
from penstock.wire.mcp.replies import one_line

USAGE = "penstock baseline RECORDING... --out FILE [--group-by client_name] [--alerts FILE]"


def parser() -> Parser:
    """The parser of `penstock baseline`."""
    made = Parser(
        prog="penstock baseline",
        usage=USAGE,
        description="Learn what is usual from recordings: which tools, places, shapes, sizes, rates, errors, "
        "orders and hours. The file holds digests and counts, and nothing that was said. Sessions in "
        "which something was refused are left out, and so are those that an alert names.",
    )
    add = made.add_argument
    add("files", nargs="+", metavar="RECORDING", help="recordings to learn from, or folders of them")
    add("--out", metavar="FILE", required=True, help="the baseline; it is written anew")
    add("--group-by", choices=("client_name",), default="", help="learn for each of these on its own")
    add("--alerts", metavar="FILE", help="alerts of before: their sessions are not learned from")
    return made


def run(options: argparse.Namespace) -> int:
    """Writes the baseline; gives back the exit code."""
    alerted = frozenset() if options.alerts is None else _alerted(options.alerts)
    built = build_baseline(recordings_of(options.files), options.group_by, alerted)
    baseline = built.baseline
    if built.sessions == built.left_out:
        raise ConfigError(
            "There is no session to learn from",
            f"{built.sessions:,} sessions with calls were found, and {built.left_out:,} of them left out: "
            "something was refused in them, or they raised an alert",
        )
    with Lock(options.out):
        write_baseline(options.out, baseline)
    size = len(encode_baseline(baseline))
    calls = sum(model.calls for model in baseline.groups.values())
    lines = [
        f"{built.sessions:,} sessions, {built.left_out:,} of them left out (something was refused, or they "
        f"raised an alert). Tables from {calls:,} calls; {size:,} bytes in {options.out}."
    ]
    for name, model in baseline.groups.items():
        group = f"{name}: " if name else ""
        scored = len(next(iter(model.calibration.values()), []))
        lines.append(
            f"{group}{model.sessions:,} sessions make the tables ({len(model.tools):,} tools, "
            f"{len(model.places):,} places, {len(model.shapes):,} shapes), {scored:,} calibrate."
        )
        for kind in sorted(model.full):
            lines.append(f"{group}{kind}: the table is full; this kind will be silent.")
    sys.stdout.write("".join(f"{one_line(line)}\n" for line in lines))
    return 0


class _Alert(msgspec.Struct):
    session: str = ""


def _alerted(path: str) -> frozenset[str]:
    try:
        with open(path, "rb") as file:
            return frozenset(msgspec.json.decode(line, type=_Alert).session for line in file if line.strip())
    except OSError as why:
        raise ConfigError(f"Cannot read the alerts: {path}", str(why.strerror or why)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError(f"These are no alerts: {path}", "Each line must be a JSON object") from None
