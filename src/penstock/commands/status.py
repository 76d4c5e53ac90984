"""`penstock status [URL]`: how the upstreams of a Penstock that runs are."""

from __future__ import annotations

import argparse
import re
import sys

from penstock.arguments import Parser
from penstock.commands.results import FOUND, json_text, say
from penstock.config.model import make_headers
from penstock.errors import PenstockError
from penstock.wire.http.url import parse_url

_DEFAULT = "http://127.0.0.1:8808"
_WELL = ("ready", "idle")
# The error is the last, and may hold anything.
_FACT = re.compile(r' (\w+)=(?:"(.*)"$|(\S+))')
SOME, NONE = FOUND, 4


def parser() -> Parser:
    """The parser of `penstock status`."""
    found = Parser(
        prog="penstock status",
        usage="penstock status [URL] [--header NAME:VALUE] [--format table|json]",
        description="Show how each upstream of a Penstock with several of them is. The exit code is 0 when "
        "all are ready or at rest, 3 when some are not, 4 when none is, 1 when nobody is there.",
    )
    found.add_format("a line each, or JSON")
    found.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help='send a header, as in "Authorization: Bearer ${TOKEN}" from another machine; repeatable',
    )
    found.add_argument("url", nargs="?", default=_DEFAULT, metavar="URL", help=f"default {_DEFAULT}")
    return found


def run(options: argparse.Namespace) -> int:
    """Asks, and prints what is answered."""
    import urllib.error
    import urllib.request

    class Stay(urllib.request.HTTPRedirectHandler):
        """Goes nowhere else: what was sent here would be sent there."""

        def redirect_request(self, *where: object) -> None:
            return None

    url = str(options.url)
    parse_url(url)  # a fault in it is told in the words that every command has for it
    base = url.partition("?")[0].rstrip("/").removesuffix("/mcp").removesuffix("/status")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay())
    opener.addheaders = [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in make_headers(options.header)
    ]
    try:
        with opener.open(f"{base}/status", timeout=10) as answer:
            text = answer.read(1 << 20).decode("utf-8", "replace")
    except urllib.error.HTTPError as refusal:
        refusal.close()
        detail = (
            "It serves one upstream, or is no Penstock"
            if refusal.code == 404
            else f"It answers {refusal.code}"
        )
        raise PenstockError(f"No status from Penstock at {base}", detail) from None
    except (urllib.error.URLError, OSError, ValueError) as why:
        reason = getattr(why, "reason", why)
        raise PenstockError(
            f"Cannot reach Penstock at {base}", str(getattr(reason, "strerror", None) or reason)
        ) from None
    lines = text.splitlines()
    rows = [as_row(line) for line in lines if " " in line]
    if options.format == "json":
        sys.stdout.write(json_text(rows))
    else:
        for line in lines:
            say(line)
    sys.stdout.flush()
    return exit_code([row["state"] for row in rows])


def as_row(line: str) -> dict[str, str]:
    """What one line says: four words, then names with their values."""
    row = dict(zip(("name", "state", "era", "transport"), line.split(" "), strict=False))
    return row | {name: text or word for name, text, word in _FACT.findall(line)}


def exit_code(states: list[str]) -> int:
    """What the states come to."""
    well = sum(state in _WELL for state in states)
    if well == len(states):
        return 0
    return SOME if well else NONE
