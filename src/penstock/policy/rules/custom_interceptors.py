"""Interceptors written in Python, ours and the user's: made from their configuration, ready to be asked."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from penstock.policy.binder import READERS, Misread, Reader, Texts, read_struct, shown
from penstock.policy.faults import Fault, Place, did_you_mean
from penstock.policy.rules.exchange import Direction
from penstock.policy.rules.plugins import load
from penstock.policy.rules.rule_run import RuleRun

_BOTH: tuple[Direction, ...] = ("client", "upstream")


class GeneralSpec(Struct, frozen=True):
    """A class and its configuration, as people write them."""

    class_: str
    config: dict[str, Any] = {}
    methods: Texts | None = None
    direction: Literal["client", "upstream", "both"] | None = None


class Custom(Struct, frozen=True):
    """One interceptor, made. `id` names it where a rule's id would stand."""

    id: str
    class_name: str
    object: Any
    senders: tuple[Direction, ...]
    methods: frozenset[str] | None
    waits: bool
    is_threaded: bool = False  # the user's own, and no coroutine function: it runs where it stalls nobody

    async def asked(self, scene: RuleRun) -> Any:
        """What it says about the message."""
        review, message, context, effects = self.object.review, scene.message, scene.context, scene.effects
        if self.is_threaded:
            said = await effects.in_thread(
                review, message, context, effects.for_threads(), sender=scene.sender
            )
        else:
            said = review(message, context, effects)
        return await said if hasattr(said, "__await__") else said

    def words(self) -> str:
        """What it does, for people."""
        own = getattr(self.object, "words", None)
        return own() if callable(own) else f"ask {self.class_name}"

    def wants(self, method: str | None, direction: Direction) -> bool:
        """Whether it wants to see messages of this kind."""
        return direction in self.senders and (self.methods is None or method in self.methods)


def make_custom(
    spec: GeneralSpec,
    id: str,
    built_in: dict[str, type[Any]],
    place: Place,
    faults: list[Fault],
    resolve: Any,
) -> Custom | None:
    """The interceptor that `spec` describes; None, with the faults noted, when it cannot be made."""
    try:
        cls = _class(spec.class_, built_in)
    except Misread as why:
        faults.append(why.at((*place, "class")))
        return None
    config: Any = spec.config
    if cls in built_in.values():
        config = read_struct(cls.Config, spec.config, (*place, "config"), faults)
        if config is None:
            return None
    try:
        made = cls(config, resolve) if cls in built_in.values() else cls(config)
    except Misread as why:
        faults.append(why.at((*place, "config")))
        return None
    except Exception as why:  # the class is the user's: anything may go wrong in it
        faults.append(
            Fault((*place, "config"), f"{spec.class_} does not take it: {type(why).__name__}: {why}")
        )
        return None
    review = getattr(made, "review", None)
    if not callable(review):
        faults.append(Fault((*place, "class"), f"{spec.class_} has no method called review"))
        return None
    senders = getattr(made, "senders", _BOTH)
    if spec.direction is not None:
        senders = _BOTH if spec.direction == "both" else (spec.direction,)
    methods = None if spec.methods is None else frozenset(spec.methods)

    import inspect  # only where a class is named

    is_coroutine = inspect.iscoroutinefunction(review)
    is_threaded = not is_coroutine and cls not in built_in.values()
    waits = is_coroutine or is_threaded
    return Custom(id, spec.class_, made, tuple(senders), methods, waits, is_threaded)


def _class(name: str, built_in: dict[str, type[Any]]) -> type[Any]:
    if name in built_in:
        return built_in[name]
    if "." not in name and ":" not in name:
        known = f"known: {', '.join(built_in)}; or an import path such as package.module:Class"
        raise Misread(f'unknown class "{name}"', did_you_mean(name, built_in) or known)
    found = load(name)
    if not isinstance(found, type):
        raise Misread(f'"{name}" is not a class')
    return found


def _read_mapping(value: object, place: Place, faults: list[Fault]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misread(f"must be a mapping, not {shown(value)}")
    return value


READERS[dict[str, Any]] = Reader(_read_mapping, {"type": "object"})
