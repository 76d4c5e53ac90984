"""The exporter child: reads records from its socket, makes spans of them with the official OpenTelemetry SDK.

A process of its own, so that nothing the SDK imports, locks or allocates shares a loop or an interpreter with
traffic. It ends when its socket does, after sending what it has. The first line on the socket says how.
"""

from __future__ import annotations

import logging
import socket
import sys
import time
from typing import Any

import msgspec
from msgspec import Struct, field

from penstock import __version__
from penstock.observe.masking import Masker
from penstock.observe.reader import maybe_line
from penstock.observe.settings import MaskSettings
from penstock.observe.spans import Span, SpanMaker, SpanSettings
from penstock.wire.mcp.replies import one_line

PIP_LINE = 'pip install "penstock[otel]"'
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_FLUSH_MILLISECONDS = 1000


class Orders(Struct):
    """What the proxy tells its exporter, in the first line. Never on a command line: it may hold secrets."""

    otlp: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    spans: SpanSettings = field(default_factory=SpanSettings)
    mask: MaskSettings = field(default_factory=MaskSettings)
    held: list[str] = field(default_factory=list)


class Exporter:
    """Gives spans to the SDK."""

    def __init__(self, orders: Orders) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        endpoint = None
        if orders.otlp:
            endpoint = orders.otlp.rstrip("/")
            endpoint = endpoint if endpoint.endswith("/v1/traces") else endpoint + "/v1/traces"
        own = Resource({"service.name": "penstock", "service.version": __version__})
        self._ids = _GivenIds()
        self._provider = TracerProvider(
            resource=own.merge(OTELResourceDetector().detect()),
            id_generator=self._ids,  # type: ignore[arg-type]
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=endpoint, headers=orders.headers or None)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("penstock", __version__)

    def export(self, span: Span) -> None:
        """Makes the span, begun and ended."""
        from opentelemetry import trace

        self._ids.next = (int(span.trace_id, 16), int(span.span_id, 16))
        context = None
        if span.parent_id:
            context = trace.set_span_in_context(
                trace.NonRecordingSpan(_context(span.trace_id, span.parent_id))
            )
        made = self._tracer.start_span(
            span.name,
            context=context,
            kind=trace.SpanKind.SERVER if span.is_server else trace.SpanKind.CLIENT,
            attributes=span.attributes,
            links=[trace.Link(_context(*link)) for link in span.links],
            start_time=round(span.start * 1e9),
        )
        if span.is_error:
            made.set_status(trace.StatusCode.ERROR)
        made.end(round(span.end * 1e9))

    def close(self) -> None:
        """Sends what is left."""
        self._provider.force_flush(_FLUSH_MILLISECONDS)
        self._provider.shutdown()


class _GivenIds:
    """Ids that were drawn in the proxy: the upstream may know them already."""

    next = (0, 0)

    def generate_trace_id(self) -> int:
        return self.next[0]

    def generate_span_id(self) -> int:
        return self.next[1]

    def is_trace_id_random(self) -> bool:
        return True


def _context(trace_id: str, span_id: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(TraceFlags.SAMPLED))


class _Complaints(logging.Handler):
    """What the SDK has to say about a collector that is down, once a minute and in one line."""

    _said = -60.0

    def emit(self, record: logging.LogRecord) -> None:
        """Says it, if it was not said just now."""
        now = time.monotonic()
        if record.levelno >= logging.WARNING and now - self._said >= 60:
            self._said = now
            text = one_line(record.getMessage()[:300])
            sys.stderr.write(f"penstock: warning: Traces are not delivered: {text}\n")
            sys.stderr.flush()


def main() -> int:
    """Runs until the socket ends."""
    import signal

    logging.getLogger().handlers[:] = [_Complaints()]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the proxy, which ends us by its end
    with socket.socket(fileno=int(sys.argv[1])) as source, source.makefile("rb") as lines:
        orders = msgspec.json.decode(lines.readline(), type=Orders)
        exporter = Exporter(orders)
        maker = SpanMaker(orders.spans, Masker(orders.mask, orders.held))
        for data in lines:
            line = maybe_line(data)
            if line is not None and not line.penstock:
                for span in maker.take(line):
                    exporter.export(span)
        exporter.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
