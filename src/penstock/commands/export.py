"""`penstock export`: a recording in the format of other tools."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from penstock import __version__
from penstock.arguments import Parser
from penstock.observe.masking import Masker
from penstock.observe.new_file import new_file
from penstock.observe.progress import Progress, size_of
from penstock.observe.reader import RecordingReader
from penstock.observe.rows import MessageRow, Rows
from penstock.observe.spans import Span, SpanMaker, SpanSettings

USAGE = "penstock export FILE --to har|otlp OUT"
_SERVER, _CLIENT, _ERROR = 2, 3, 2


def parser() -> Parser:
    """The parser of `penstock export`."""
    made = Parser(
        prog="penstock export",
        usage=USAGE,
        description="Write a recording as an HTTP archive (HAR 1.2, one entry for each request), or its "
        "spans as OTLP JSON. Secrets in spans are masked; in a HAR they are as recorded: mask it first.",
    )
    add = made.add_argument
    add("file", metavar="FILE", help="the recording")
    add("out", metavar="OUT", help="the file to write; it must not be there yet")
    add("--to", choices=("har", "otlp"), required=True, help="the format")
    return made


def run(options: argparse.Namespace) -> int:
    """Writes the file; gives back the exit code."""
    progress = Progress("messages", size_of([options.file]))
    reader = RecordingReader(options.file, progress.add)
    with new_file(options.out) as out:
        (_write_har if options.to == "har" else _write_otlp)(reader, out)
    progress.end()
    return 0


def _write_list(out: IO[bytes], before: bytes, entries: Iterator[Any], after: bytes) -> None:
    out.write(before)
    for place, entry in enumerate(entries):
        out.write((b",\n" if place else b"") + msgspec.json.encode(entry))
    out.write(after)


# --- HAR ----------------------------------------------------------------------------------------------------


def _write_har(reader: RecordingReader, out: IO[bytes]) -> None:
    head = {"version": "1.2", "creator": {"name": "penstock", "version": __version__}}
    _write_list(
        out, b'{"log":' + msgspec.json.encode(head)[:-1] + b',"entries":[', _entries(reader), b"]}}\n"
    )


def _entries(reader: RecordingReader) -> Iterator[dict[str, Any]]:
    waiting: dict[int, MessageRow] = {}
    for row in Rows().all(reader):
        if row.line.kind == "request":
            waiting[row.line.i] = row
        elif row.line.kind == "response" and row.line.re in waiting:
            yield _entry(waiting.pop(row.line.re), row)


def _entry(asked: MessageRow, answer: MessageRow) -> dict[str, Any]:
    text, ms = answer.text(), answer.ms or 0.0
    status = answer.line.status or 200
    return {
        "startedDateTime": datetime.fromtimestamp(asked.time, UTC).isoformat(timespec="microseconds"),
        "time": ms,
        "request": {
            "method": "POST",
            "url": f"http://penstock.invalid/{asked.line.s}/{asked.method}",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": [{"name": "Content-Type", "value": "application/json"}],
            "queryString": [],
            "postData": {"mimeType": "application/json", "text": asked.text()},
            "headersSize": -1,
            "bodySize": len(asked.line.raw),
        },
        "response": {
            "status": status,
            "statusText": "",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": [{"name": "Content-Type", "value": "application/json"}],
            "content": {"size": len(answer.line.raw), "mimeType": "application/json", "text": text},
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": len(answer.line.raw),
        },
        "cache": {},
        "timings": {"send": 0, "wait": ms, "receive": 0},
        "comment": f"{asked.line.verdict} {asked.line.by}".strip(),
    }


# --- OTLP ---------------------------------------------------------------------------------------------------


def _write_otlp(reader: RecordingReader, out: IO[bytes]) -> None:
    resource = {
        "attributes": [_attribute("service.name", "penstock"), _attribute("service.version", __version__)]
    }
    before = (
        b'{"resourceSpans":[{"resource":'
        + msgspec.json.encode(resource)
        + b',"scopeSpans":[{"scope":{"name":"penstock"},"spans":['
    )
    maker = SpanMaker(SpanSettings(), Masker())
    spans = (_otlp(span) for line in reader for span in maker.take(line))
    _write_list(out, before, spans, b"]}]}]}\n")


def _otlp(span: Span) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _SERVER if span.is_server else _CLIENT,
        "startTimeUnixNano": str(round(span.start * 1e9)),
        "endTimeUnixNano": str(round(span.end * 1e9)),
        "attributes": [_attribute(name, value) for name, value in span.attributes.items()],
        "status": {"code": _ERROR} if span.is_error else {},
    }
    if span.parent_id:
        made["parentSpanId"] = span.parent_id
    if span.links:
        made["links"] = [{"traceId": trace, "spanId": inner} for trace, inner in span.links]
    return made


def _attribute(name: str, value: str | int) -> dict[str, Any]:
    return {
        "key": name,
        "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
    }
