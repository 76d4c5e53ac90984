"""The baseline: what was usual in recorded sessions. Digests and counts, nothing that was said.

`is_new` asks it whether a tool, a place or a shape was ever there; anomalies are scored against it.
"""

from __future__ import annotations

from msgspec import Struct, field

from penstock.policy.learned.features import PlaceSeen, digest64

FORMAT = 1
KINDS = ("tool", "place", "shape", "size", "rate", "errors", "sequence", "hour", "spread")
TABLE = 50_000
"""So many digests a table holds. One that is full no longer tells what is new, and goes silent."""
BUCKETS = 32


class Model(Struct):
    """What was usual in one group of sessions."""

    sessions: int = 0  # which the tables were made from
    calls: int = 0
    tools: dict[int, int] = field(default_factory=dict)  # calls, by tool
    places: set[int] = field(default_factory=set)  # by tool, path, kind and place
    place_counts: dict[int, int] = field(default_factory=dict)  # different places, by tool, path and kind
    shapes: set[int] = field(default_factory=set)
    sizes: dict[int, list[int]] = field(default_factory=dict)  # log buckets of the arguments' bytes, by tool
    pairs: dict[int, int] = field(default_factory=dict)  # one tool after another
    hours: list[int] = field(default_factory=lambda: [0] * 24)  # calls, by hour of the day (UTC)
    full: set[str] = field(default_factory=set)  # kinds whose table has no more room
    calibration: dict[str, list[float]] = field(default_factory=dict)  # scores of the other sessions, by kind

    others: set[int] = field(default_factory=set)  # tools, places and shapes of the calibrating sessions

    def knows_tool(self, tool: str) -> bool:
        """Whether any session of the baseline called it."""
        key = digest64(tool)
        return key in self.tools or key in self.others

    def knows_shape(self, tool: str, shape: str) -> bool:
        """Whether any session called the tool with arguments of this shape."""
        key = digest64(tool, shape)
        return key in self.shapes or key in self.others

    def knows_place(self, tool: str, place: PlaceSeen) -> bool:
        """Whether any session called the tool with this place there."""
        key = place_digest(tool, place)
        return key in self.places or key in self.others

    def is_new_tool(self, tool: str) -> bool:
        """Whether no session called it."""
        return "tool" not in self.full and digest64(tool) not in self.tools

    def is_new_shape(self, tool: str, shape: str) -> bool:
        """Whether no session called the tool with arguments of this shape."""
        return "shape" not in self.full and digest64(tool, shape) not in self.shapes

    def is_new_place(self, tool: str, place: PlaceSeen) -> bool:
        """Whether no session called the tool with this place there."""
        return "place" not in self.full and place_digest(tool, place) not in self.places


def place_digest(tool: str, place: PlaceSeen) -> int:
    """What stands for a place in a table."""
    return digest64(tool, place.path, place.kind, place.text)


class Baseline(Struct):
    """Everything in a baseline's file."""

    penstock: str = ""  # what the file is
    v: int = FORMAT
    since: float = 0.0  # the first message
    until: float = 0.0  # the last
    group_by: str = ""  # or client_name
    groups: dict[str, Model] = field(default_factory=dict)

    def maybe_model(self, client_name: str | None) -> Model | None:
        """The model that a session of this client is compared with."""
        return self.groups.get((client_name or "") if self.group_by else "")
