"""The condition that asks the baseline whether something was ever there."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Struct

from penstock.policy.binder import READERS, Misread, Reader
from penstock.policy.faults import Fault, Place
from penstock.policy.learned.baseline import Baseline, Model
from penstock.policy.learned.features import LEAVES, places_in, shape_of
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import has_names_twice
from penstock.policy.rules.message_parts import method_of, params_of
from penstock.policy.rules.paths import parse_path
from penstock.policy.rules.tool_conditions import CALL
from penstock.policy.rules.value_tests import holds_at, is_text
from penstock.wire.mcp.message import Message

KINDS = ("tool", "place", "shape")
_NAME = parse_path("name")
_ARGUMENTS = parse_path("arguments")


class Novelty:
    """What is asked, and the baseline that is asked: whoever reads the configuration gives it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.baseline: Baseline | None = None

    def __str__(self) -> str:
        return self.kind


class IsNew(Struct, frozen=True):
    """Holds for a call with a tool, a place (host, mail domain, account, directory) or a shape of arguments
    that no session of the baseline has; `anomalies.baseline` names its file. Without it, all is new."""

    what: Annotated[Novelty, "novelty"]
    whole: ClassVar[str] = "what"

    def words(self) -> str:
        return f"its {self.what} is in no session of the baseline"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        if method_of(message, context) != CALL:
            return False
        baseline = self.what.baseline
        model = None if baseline is None else baseline.maybe_model(context.session.client_name)
        place = params_of(message, context)
        if place is None or model is None:
            return place is not None
        tokens = (place.sure(_ARGUMENTS) or []) if every else place.found(_ARGUMENTS).tokens

        def is_new(tool: str) -> bool:
            if self.what.kind == "tool":
                return not model.knows_tool(tool)
            found = [self._is_new_call(model, tool, token) for token in tokens or [b"null"]]
            return all(found) if every else any(found)

        return holds_at(place, _NAME, is_text(is_new, every), every)

    def _is_new_call(self, model: Model, tool: str, token: bytes) -> bool:
        try:
            arguments = msgspec.json.decode(token)
            if has_names_twice(token):
                return True  # who knows which of them the upstream takes
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return True
        if self.what.kind == "shape":
            return not model.knows_shape(tool, shape_of(arguments))
        if _count(arguments) > LEAVES:
            return True  # more than is looked at
        return any(not model.knows_place(tool, place) for place in places_in(arguments))


def _count(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _read(value: object, place: Place, faults: list[Fault]) -> Novelty:
    if not isinstance(value, str) or value not in KINDS:
        raise Misread(f"must be one of {', '.join(KINDS)}")
    return Novelty(value)


READERS["novelty"] = Reader(_read, {"enum": list(KINDS)})
