"""The `interceptor:` section of a configuration file: read, checked, described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.policy.binder import (
    READERS,
    Misread,
    Reader,
    Seconds,
    read_fields,
    read_struct,
    reader_of,
    shown,
    struct_schema,
)
from penstock.policy.durations import spoken_duration
from penstock.policy.faults import Fault, Place
from penstock.policy.learned.baseline import Baseline
from penstock.policy.rules.actions import (
    ACTIONS,
    InjectError,
    RemoveParam,
    SetParam,
    SetResult,
    Transform,
)
from penstock.policy.rules.conditions import CONDITIONS, flattened
from penstock.policy.rules.custom_interceptors import Custom, GeneralSpec, make_custom
from penstock.policy.rules.effect_actions import Delay, Fork, RunScript, Shadow, Webhook
from penstock.policy.rules.method_classes import VITAL, MethodClass, MethodClasses
from penstock.policy.rules.method_guards import BUILT_IN
from penstock.policy.rules.novelty_condition import IsNew
from penstock.policy.rules.path_conditions import PathOutside
from penstock.policy.rules.resource_uris import Resolver
from penstock.policy.rules.rule_entries import says
from penstock.policy.rules.rules import Rule, RuleSet
from penstock.policy.rules.templates import digest
from penstock.policy.rules.text_actions import Replace, Truncate

__all__ = ["Chain", "Fault", "InterceptorConfig", "build", "describe", "json_schema"]


class Defaults(Struct, frozen=True):
    """What becomes of a request that no rule speaks about, or whose rule failed, by its class."""

    review: Literal["allow", "block"] = "allow"
    log: Literal["allow", "block"] = "allow"

    def blocks(self, kind: str) -> bool:
        """Whether messages of this class are blocked."""
        return (self.review if kind == "review" else self.log) == "block"


class Chain(Struct, frozen=True):
    """How rules and interceptors run together."""

    fail_fast: bool = True  # stop at the first block
    parallel: bool = False  # ask webhooks, scripts and general interceptors side by side
    timeout: Seconds = 5.0  # for all of them together, one message
    default_action: Defaults = Defaults()
    block_code: int = -32001
    parallel_execution: bool = False  # another spelling of `parallel`

    @property
    def is_parallel(self) -> bool:
        """Whether what does not depend on each other runs side by side."""
        return self.parallel or self.parallel_execution


class InterceptorConfig(Struct, frozen=True):
    """Everything the interceptor needs."""

    enabled: bool = True
    mode: Literal["mcp", "transport"] = "mcp"
    chain: Chain = Chain()
    rules: tuple[Rule, ...] = ()
    transport_rules: tuple[Rule, ...] = ()  # which see frames only, and come first
    guards: tuple[tuple[str, Custom], ...] = ()  # method interceptors, by method
    generals: tuple[Custom, ...] = ()
    classes: MethodClasses = MethodClasses()
    rule_set: bytes = b""  # tells this configuration from any other


class _Section(Struct, frozen=True):
    """The section as people write it."""

    enabled: bool = True
    mode: Literal["mcp", "transport"] = "mcp"
    chain: Chain = Chain()
    rules: Annotated[tuple[Any, ...], "rules"] = ()
    transport_rules: Annotated[tuple[Any, ...], "rules"] = ()
    method_interceptors: Annotated[tuple[Any, ...], "method_interceptors"] = ()
    interceptors: Annotated[tuple[Any, ...], "interceptors"] = ()
    classes: Annotated[tuple[Any, ...], "classes"] = ()
    shadow: Shadow | None = None  # where forks go that do not say


def build(
    tree: object, resolve: Resolver | None = None, baseline: Baseline | None = None
) -> tuple[InterceptorConfig | None, list[Fault]]:
    """The configuration in `tree`, plain data out of a file; None, and all faults, when there are any.

    `resolve` (os.path.realpath) lets ResourceAccessInterceptor and path_outside follow symbolic links;
    `baseline` is what is_new asks.
    """
    faults: list[Fault] = []
    fields = read_fields(_Section, {} if tree is None else tree, (), faults)
    if fields is None:
        return None, faults
    # What could be read is looked at further, so that everything is told at once.
    section = _Section(**{name: value for name, value in fields.items() if value is not None})
    guards: list[tuple[str, Custom]] = []
    generals: list[Custom] = []
    for method, spec in section.method_interceptors:
        place: Place = ("method_interceptors", method)
        made = make_custom(spec, f"method_interceptors.{method}", BUILT_IN, place, faults, resolve)
        guards += [(method, made)] if made else []
    classes = [spec.class_ for spec in section.interceptors]
    for index, spec in enumerate(section.interceptors):
        id = spec.class_ if classes.count(spec.class_) == 1 else f"{spec.class_} (interceptors[{index}])"
        made = make_custom(spec, id, {}, ("interceptors", index), faults, None)
        generals += [made] if made else []
    is_timed = fields.get("chain", section.chain) is not None
    _check_together(section, faults, section.chain.timeout if is_timed else None)
    if faults:
        return None, faults
    rules = tuple(_placed(rule, section.shadow) for _, rule in section.rules)
    for part in flattened(part for rule in rules for part in rule.conditions):
        if isinstance(part, PathOutside):
            part.roots.resolve = resolve
        elif isinstance(part, IsNew):
            part.what.baseline = baseline
    return (
        InterceptorConfig(
            section.enabled,
            section.mode,
            section.chain,
            rules,
            tuple(_placed(rule, section.shadow) for _, rule in section.transport_rules),
            tuple(guards),
            tuple(generals),
            MethodClasses(section.classes),
            digest([msgspec.json.encode(tree, order="deterministic")]),
        ),
        [],
    )


def _check_together(section: _Section, faults: list[Fault], longest: float | None) -> None:
    """What only shows when rules and chain are looked at together; `longest`: the chain's time, if known."""
    seen: dict[str, str] = {}
    for name, rules in (("rules", section.rules), ("transport_rules", section.transport_rules)):
        for index, rule in rules:
            place: Place = (name, index)
            if rule.id in seen:
                faults.append(Fault((*place, "id"), f'the id "{rule.id}" is taken', f"see {seen[rule.id]}"))
            seen.setdefault(rule.id, f"{name}[{index}]")
            for number, action in enumerate(rule.actions):
                if longest is not None and _takes_longer(action, longest):
                    why = f"waits longer than the chain may take ({spoken_duration(longest)})"
                    faults.append(Fault((*place, "actions", number), why, "see chain.timeout"))
                if isinstance(action, Fork) and not action.is_placed and section.shadow is None:
                    why = 'needs "url" or "command", or a "shadow" beside the rules'
                    faults.append(Fault((*place, "actions", number), why))
            if section.mode == "transport" or name == "transport_rules":
                _check_frames_only(rule, place, faults)
    if section.mode == "transport" and section.method_interceptors:
        faults.append(
            Fault(("method_interceptors",), "need mode: mcp; the method is not known in mode: transport")
        )


def _placed(rule: Rule, shadow: Shadow | None) -> Rule:
    """The rule, with a place for every copy that it makes."""
    if shadow is None or all(not isinstance(one, Fork) or one.is_placed for one in rule.actions):
        return rule
    actions = (one.to(shadow) if isinstance(one, Fork) and not one.is_placed else one for one in rule.actions)
    return msgspec.structs.replace(rule, actions=tuple(actions))


def _check_frames_only(rule: Rule, place: Place, faults: list[Fault]) -> None:
    """A rule about frames neither asks what a message means nor changes it."""
    for number, action in enumerate(rule.actions):
        if isinstance(action, _NEEDS_MESSAGE):
            why = "needs mode: mcp; frames are not read in mode: transport"
            faults.append(Fault((*place, "actions", number), why))
    for part in flattened(rule.conditions):
        if type(part) in _MESSAGE_CONDITIONS:
            why = f"{_NAMES[type(part)]} needs mode: mcp; frames are not read in mode: transport"
            faults.append(Fault((*place, "conditions"), why))


def _takes_longer(action: Any, longest: float) -> bool:
    """Whether a rule asks for more time than there is. A time that nobody chose just ends with the chain."""
    if isinstance(action, Delay):
        return bool(action.time >= longest)
    if isinstance(action, RunScript) or (isinstance(action, Webhook) and action.wait):
        return action.timeout > longest and action.timeout != limits.ACTION_SECONDS
    return False


_NEEDS_MESSAGE = (SetParam, RemoveParam, Replace, Truncate, SetResult, Transform, InjectError)
_NAMES = {cls: name for name, cls in CONDITIONS.items()}
_MESSAGE_CONDITIONS = frozenset(
    cls
    for name, cls in CONDITIONS.items()
    if name.startswith(
        ("method_", "tool", "param_", "path_", "result_", "error_", "is_new", "after", "copied_")
    )
)


def describe(config: InterceptorConfig) -> list[str]:
    """What the configuration does, in plain words, rule by rule in the order in which they run."""
    if not config.enabled:
        return ["The interceptor is switched off: everything passes."]
    chain = config.chain
    lines = []
    if config.mode == "transport":
        lines.append("Rules see raw frames (mode: transport): methods are not known.")
    for method, guard in config.guards:
        lines.append(f"First, for {method}: {guard.words()}.")
    rules = RuleSet(config.rules).rules
    frames = RuleSet(config.transport_rules).rules
    for number, rule in enumerate(frames + rules, 1):
        lines.append(f"{number}. {'(frames) ' if number <= len(frames) else ''}{_described(rule)}")
    for rule in config.rules:
        if not rule.enabled:
            lines.append(f"-. {rule.id}: switched off")
    for custom in config.generals:
        lines.append(f"Last: {custom.words()}.")
    if not (rules or frames or config.guards or config.generals):
        lines.append("There are no rules: everything passes.")
        return lines
    heard = "the first block ends it" if chain.fail_fast else "all are heard, and any block wins"
    side = ", those that wait side by side" if chain.is_parallel else ""
    lines.append(f"In this order{side}; {heard}. All within {spoken_duration(chain.timeout)} a message.")
    lines.append(
        f"If a rule fails or takes too long: block what is reviewed, {chain.default_action.log} the rest."
    )
    blocked = [kind for kind in ("review", "log") if chain.default_action.blocks(kind)]
    if blocked:
        what = "A request" if len(blocked) == 2 else f"A request of the class {blocked[0]}"
        lines.append(f"{what} that no rule speaks about is blocked, but for {', '.join(sorted(VITAL))}.")
    return lines


def _described(rule: Rule) -> str:
    senders = " and ".join(f"the {sender}" for sender in rule.senders)
    when = " and ".join(map(says, rule.conditions)) or "always"
    then = "; ".join(map(says, rule.actions))
    name = f" ({rule.name})" if rule.name else ""
    opaque = "; to its sender it looks as if there were no such thing" if rule.opaque else ""
    return f"{rule.id}{name}, priority {rule.priority}, from {senders}: when {when}, {then}{opaque}"


def json_schema() -> dict[str, object]:
    """The JSON Schema of the section, made from the same tables as the reader."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The interceptor section of a Penstock configuration",
        **struct_schema(_Section),
        "$defs": {
            "condition": _one_of(CONDITIONS),
            "action": _one_of(ACTIONS, bare=("allow",)),
            "rule": struct_schema(Rule),
        },
    }


def _one_of(table: dict[str, type[Any]], bare: tuple[str, ...] = ()) -> dict[str, Any]:
    entry = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {
            name: {"description": (cls.__doc__ or "").split("\n")[0], **struct_schema(cls)}
            for name, cls in table.items()
        },
    }
    return {"anyOf": [{"enum": list(bare)}, entry]} if bare else entry


def _read_rules(value: object, place: Place, faults: list[Fault]) -> tuple[tuple[int, Rule], ...]:
    """The rules that can be read, each with its place in the list."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise Misread(f"must be a list of rules, not {shown(value)}")
    found = ((index, read_struct(Rule, entry, (*place, index), faults)) for index, entry in enumerate(value))
    return tuple((index, rule) for index, rule in found if rule is not None)


def _read_guards(value: object, place: Place, faults: list[Fault]) -> tuple[tuple[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise Misread(f"must be a mapping of methods, not {shown(value)}")
    found = (
        (str(name), read_struct(GeneralSpec, entry, (*place, name), faults)) for name, entry in value.items()
    )
    return tuple((name, spec) for name, spec in found if spec is not None)


def _read_generals(value: object, place: Place, faults: list[Fault]) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise Misread(f"must be a list, not {shown(value)}")
    found = (read_struct(GeneralSpec, entry, (*place, index), faults) for index, entry in enumerate(value))
    return tuple(spec for spec in found if spec is not None)


def _read_classes(value: object, place: Place, faults: list[Fault]) -> tuple[tuple[str, MethodClass], ...]:
    if not isinstance(value, Mapping):
        raise Misread(f"must be a mapping of methods to pass, log or review, not {shown(value)}")
    read = reader_of(MethodClass).read
    out = []
    for name, word in value.items():
        try:
            out.append((str(name), read(word, place, faults)))
        except Misread as why:
            faults.append(Fault((*place, str(name)), why.message, why.hint))
    # The most exact name first, so that tools/call wins over tools/*.
    return tuple(sorted(out, key=lambda pair: (pair[0].endswith("*"), -len(pair[0]))))


def _read_defaults(value: object, place: Place, faults: list[Fault]) -> Defaults:
    if isinstance(value, Mapping):
        found = read_struct(Defaults, value, place, faults)
        return found if isinstance(found, Defaults) else Defaults()
    word = reader_of(Literal["allow", "block"]).read(value, place, faults)
    return Defaults(word, word)


READERS[Shadow] = Reader(
    lambda value, place, faults: read_struct(Shadow, value, place, faults), struct_schema(Shadow)
)
READERS[Defaults] = Reader(_read_defaults, {"anyOf": [{"enum": ["allow", "block"]}, struct_schema(Defaults)]})
_GENERAL = struct_schema(GeneralSpec)
READERS[Chain] = Reader(
    lambda value, place, faults: read_struct(Chain, value, place, faults), struct_schema(Chain)
)
READERS["rules"] = Reader(_read_rules, {"type": "array", "items": {"$ref": "#/$defs/rule"}})
READERS["method_interceptors"] = Reader(_read_guards, {"type": "object", "additionalProperties": _GENERAL})
READERS["interceptors"] = Reader(_read_generals, {"type": "array", "items": _GENERAL})
READERS["classes"] = Reader(
    _read_classes, {"type": "object", "additionalProperties": {"enum": ["pass", "log", "review"]}}
)
