"""Counters and histograms, and their text for Prometheus.

Counting is a dictionary and an addition for each message; everything else is done when somebody asks. Labels
come from what is bounded: tools of the catalog, methods that MCP knows, words of ours; the rest is (other).
"""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable

from penstock import __version__
from penstock.errors import ProtocolError
from penstock.observe import bounds
from penstock.observe.record import Record
from penstock.policy.tools.catalog import build_catalog
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.upstream_tools import BadToolList
from penstock.wire.mcp.message import Message, read_upstream_message
from penstock.wire.mcp.methods import KNOWN

OTHER = "(other)"
OPERATION_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Of the OpenTelemetry conventions for MCP."""
GATE_BUCKETS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
Labels = tuple[str, ...]

_KNOWN_SESSIONS = 10_000
_SESSION_SECONDS = 1800.0


class Counter:
    """Numbers under labels; after so many series, the rest counts under (other)."""

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...], free: int = -1) -> None:
        """`free` is the place of the label that others choose the values of."""
        self.name, self.meaning, self.labels, self._free = name, meaning, labels, free
        self.values: dict[Labels, float] = {}

    def add(self, key: Labels, amount: float = 1) -> None:
        """Adds to one series."""
        try:
            self.values[key] += amount
        except KeyError:
            key = self._room_for(key)
            self.values[key] = self.values.get(key, 0) + amount

    def _room_for(self, key: Labels) -> Labels:
        if len(self.values) < bounds.METRIC_SERIES - 1 or self._free < 0:
            return key
        return (*key[: self._free], OTHER, *key[self._free + 1 :])


class Histogram:
    """How long things took, under labels."""

    def __init__(
        self, name: str, meaning: str, labels: tuple[str, ...], buckets: tuple[float, ...], free: int = -1
    ) -> None:
        self.name, self.meaning, self.labels, self.buckets = name, meaning, labels, buckets
        self._free = free
        self.values: dict[Labels, list[float]] = {}  # a count for each bucket and the rest, and the sum

    def add(self, key: Labels, seconds: float) -> None:
        """Takes one duration into account."""
        row = self.values.get(key)
        if row is None:
            if len(self.values) >= bounds.METRIC_SERIES - 1 and self._free >= 0:
                key = (*key[: self._free], OTHER, *key[self._free + 1 :])
            row = self.values.setdefault(key, [0.0] * (len(self.buckets) + 2))
        row[bisect_left(self.buckets, seconds)] += 1
        row[-1] += seconds


class Metrics:
    """Everything that is counted, and the text of it."""

    def __init__(self, choice: ToolFilter | None = None) -> None:
        """`choice` says which of the upstream's tools clients see."""
        self._choice = choice or ToolFilter()
        operation = "How long an operation took, as the client of Penstock saw it."
        self.served = Histogram(
            "mcp_server_operation_duration_seconds",
            operation,
            ("mcp_method_name", "gen_ai_tool_name", "error_type"),
            OPERATION_BUCKETS,
            1,
        )
        self.asked = Histogram(
            "mcp_client_operation_duration_seconds",
            "How long the upstream took for an operation.",
            ("mcp_method_name", "gen_ai_tool_name", "error_type"),
            OPERATION_BUCKETS,
            1,
        )
        self.gate = Histogram(
            "penstock_gate_seconds", "How long a message was inside Penstock.", ("from",), GATE_BUCKETS
        )
        self.messages = Counter("penstock_messages", "Messages.", ("from", "kind", "verdict"))
        self.bytes = Counter("penstock_message_bytes", "Bytes of messages.", ("from",))
        self.methods = Counter("penstock_methods", "Requests and notifications.", ("method",), 0)
        self.rules = Counter("penstock_rule_hits", "Messages that a rule applied to.", ("rule",), 0)
        self.variants = Counter(
            "penstock_variant_messages", "Messages by the rule set of their session.", ("set", "verdict")
        )
        self.variant_answers = Counter(
            "penstock_variant_answers", "Answers of the upstream by rule set.", ("set", "error_type")
        )
        self._tools: dict[
            str, bool
        ] = {}  # of the upstream, and whether clients see it: only these are labels
        self._is_up = 0
        self.counters: list[tuple[str, str, Callable[[], Iterable[tuple[dict[str, str], float]]]]] = []
        self.pending = 0
        self._sessions: dict[str, float] = {}  # when each was heard last
        self._started = time.time()

    def saw(self, record: Record) -> None:
        """Counts one message."""
        kind = record.kind
        self._note_session(record)
        self.messages.add((record.sender, kind, record.verdict))
        self.bytes.add((record.sender,), len(record.raw))
        if record.micros and record.sender != "penstock":
            self.gate.add((record.sender,), record.micros / 1e6)
        if record.why is not None:
            for rule in dict.fromkeys((record.why.rule, *record.why.rules)):
                if rule:
                    self.rules.add((rule,))
        if record.session.variant:
            self._count_variant(record)
        if kind == "response":
            self._answered(record)
        elif record.method is not None:
            self.methods.add((record.method if record.method in KNOWN else self._rare(record.method),))
            if kind == "request" and record.sender == "client":
                self.pending += 1

    def _count_variant(self, record: Record) -> None:
        name = record.session.variant
        if record.sender != "penstock":
            self.variants.add((name, record.verdict))
        if record.kind == "response" and record.sender == "upstream":
            self.variant_answers.add((name, error_type(record)))

    def _rare(self, method: str) -> str:
        """Methods that MCP does not know are labels while there is room, and of a sane form."""
        return method if len(method) <= 64 and method.isascii() and method.isprintable() else OTHER

    def _answered(self, record: Record) -> None:
        asked = record.request
        if record.sender == "upstream":
            self._is_up = 1
            if record.method == "tools/list":
                self._learn(record)
        elif asked is not None and asked.verdict in ("pass", "change"):
            self._is_up = 0  # it went upstream, and we had to answer it ourselves
        if asked is None or asked.sender != "client":
            return
        self.pending = max(0, self.pending - 1)
        took = max(0.0, record.received - asked.received)
        method = asked.method if asked.method in KNOWN else OTHER
        tool = asked.tool if asked.tool in self._tools else (OTHER if asked.tool else "")
        if method != "tools/call":
            tool = ""
        key = (method or OTHER, tool or "", error_type(record))
        self.served.add(key, took)
        if record.sender == "upstream":
            self.asked.add(key, took)

    def _note_session(self, record: Record) -> None:
        sessions = self._sessions
        if record.session_id not in sessions and len(sessions) >= _KNOWN_SESSIONS:
            sessions.pop(next(iter(sessions)))
        sessions[record.session_id] = record.received

    def _learn(self, record: Record) -> None:
        """Takes the upstream's tools from a page of its list."""
        try:
            message = read_upstream_message(record.raw)
            if isinstance(message, Message) and "result" in message.envelope:
                catalog = build_catalog([bytes(message.envelope["result"])], self._choice)
                self._tools.update({tool.name: False for tool in catalog.denied})
                self._tools.update({tool.name: True for tool in catalog.allowed})
        except (ProtocolError, BadToolList):
            pass

    def _gauges(self) -> list[tuple[str, str, list[tuple[dict[str, str], float]]]]:
        now = time.time()
        heard = sum(now - last < _SESSION_SECONDS for last in self._sessions.values())
        shown = sum(self._tools.values())
        tools: list[tuple[dict[str, str], float]] = [
            ({"state": "allowed"}, shown),
            ({"state": "denied"}, len(self._tools) - shown),
        ]
        pending = "Requests of clients without an answer."
        return [
            ("penstock_sessions", "Sessions that spoke in the last half hour.", [({}, heard)]),
            ("penstock_pending_requests", pending, [({}, self.pending)]),
            ("penstock_upstream_up", "Whether the upstream answered last time.", [({}, self._is_up)]),
            ("penstock_tools", "Tools of the upstream.", tools),
        ]

    # --- text ---------------------------------------------------------------------------------------------

    def text(self, is_open_metrics: bool = False) -> bytes:
        """Everything, as Prometheus reads it: format 0.0.4, or OpenMetrics 1.0."""
        out: list[str] = []
        some = [one for one in (self.variants, self.variant_answers) if one.values]
        for counter in (self.messages, self.bytes, self.methods, self.rules, *some):
            series = [
                (dict(zip(counter.labels, key, strict=True)), value)
                for key, value in list(counter.values.items())
            ]
            _family(out, counter.name, "counter", counter.meaning, series, is_open_metrics)
        for histogram in (self.served, self.asked, self.gate):
            _histogram(out, histogram)
        for name, meaning, read in self.counters:
            _family(out, name, "counter", meaning, read(), is_open_metrics)
        for name, meaning, rows in self._gauges():
            _family(out, name, "gauge", meaning, rows)
        _family(
            out, "penstock_build", "info", "This Penstock.", [({"version": __version__}, 1)], is_open_metrics
        )
        _process(out, self._started, is_open_metrics)
        if is_open_metrics:
            out.append("# EOF")
        return ("\n".join(out) + "\n").encode("utf-8", "replace")


def error_type(record: Record) -> str:
    """What went wrong, by a response: its code, `tool_error`, or nothing."""
    raw = record.raw
    if b'"error"' not in raw and b'"isError"' not in raw:
        return ""
    from penstock.observe.auditor import outcome_of  # answers that look wrong are few
    from penstock.wire.mcp.replies import error_code

    outcome = outcome_of(record)
    if outcome == "tool_error":
        return "tool_error"
    return str(error_code(raw)) if outcome in ("error", "cancelled") else ""


def _family(
    out: list[str],
    name: str,
    kind: str,
    meaning: str,
    rows: Iterable[tuple[dict[str, str], float]],
    is_open: bool = False,
) -> None:
    ending = {"counter": "_total", "info": "_info"}.get(kind, "")
    shown = name if is_open else name + ending
    out.append(f"# HELP {shown} {meaning}")
    out.append(f"# TYPE {shown} {kind if is_open or kind != 'info' else 'gauge'}")
    out += [f"{name}{ending}{_labels(labels)} {_number(value)}" for labels, value in rows]


def _histogram(out: list[str], histogram: Histogram) -> None:
    name = histogram.name
    out.append(f"# HELP {name} {histogram.meaning}")
    out.append(f"# TYPE {name} histogram")
    for key, row in list(histogram.values.items()):
        labels = dict(zip(histogram.labels, key, strict=True))
        count = 0.0
        for bucket, more in zip((*histogram.buckets, float("inf")), row, strict=False):
            count += more
            bound = "+Inf" if bucket == float("inf") else _number(bucket)
            out.append(f"{name}_bucket{_labels({**labels, 'le': bound})} {_number(count)}")
        out.append(f"{name}_sum{_labels(labels)} {row[-1]!r}")
        out.append(f"{name}_count{_labels(labels)} {_number(count)}")


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _process(out: list[str], started: float, is_open: bool) -> None:
    """What Prometheus wants to know of every process, where the system tells."""
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = usage.ru_utime + usage.ru_stime
    _family(out, "process_cpu_seconds", "counter", "User and system CPU time.", [({}, seconds)], is_open)
    _family(out, "process_start_time_seconds", "gauge", "When the process began.", [({}, started)])
    if sys.platform == "linux":
        try:
            with open("/proc/self/statm") as file:
                resident = int(file.read().split()[1]) * resource.getpagesize()
            files = len(os.listdir("/proc/self/fd"))
        except (OSError, ValueError, IndexError):
            return
        _family(out, "process_resident_memory_bytes", "gauge", "Resident memory.", [({}, resident)])
        _family(out, "process_open_fds", "gauge", "Open file descriptors.", [({}, files)])
