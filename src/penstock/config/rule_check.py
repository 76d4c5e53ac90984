"""Rules that are written as they should be and yet cannot do what they say: for `penstock check`.

A run does not refuse these: a script may be put in its place later, a vendor may have a method of that name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from penstock.config.check import Findings
from penstock.config.formats.document import Path
from penstock.config.keys import INTERCEPTOR
from penstock.effects.addresses import is_public
from penstock.errors import ConfigError
from penstock.policy.faults import did_you_mean, spoken_place
from penstock.policy.rules.conditions import All, MethodEquals, MethodIn, flattened
from penstock.policy.rules.dead_rules import maybe_why_dead
from penstock.policy.rules.effect_actions import Fork, RunScript, Webhook
from penstock.policy.rules.flow_conditions import CopiedFrom
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.rules.path_conditions import PathOutside
from penstock.policy.rules.rules import Rule, methods_named
from penstock.policy.rules.tool_conditions import CALL
from penstock.wire.http.url import parse_url
from penstock.wire.mcp.methods import KNOWN

_SCRIPT_ENDINGS = (".py", ".sh", ".js", ".mjs", ".rb", ".pl")


def check_rules(config: InterceptorConfig, findings: Findings) -> None:
    """Notes what is wrong with rules that are well-formed; they stand in the order of the file."""
    _check_methods(config, findings)
    for section, rules in (("rules", config.rules), ("transport_rules", config.transport_rules)):
        for index, rule in enumerate(rules):
            path = (INTERCEPTOR, section, index)
            _check_rule(rule, rules, config.chain.fail_fast, path, findings)


def _check_rule(
    rule: Rule, rules: tuple[Rule, ...], is_fail_fast: bool, path: Path, findings: Findings
) -> None:
    where = spoken_place(path)
    for method in _methods(rule):
        hint = _maybe_method(method)
        if hint is not None:
            findings.add((*path, "conditions"), f'{where}: MCP has no method "{method}"', hint)
    for fault, hint in _field_faults(rule):
        findings.add((*path, "conditions"), f"{where}: {fault}", hint)
    why = maybe_why_dead(rule, rules, is_fail_fast) if rule.enabled else None
    if why is not None:
        findings.add(path, f'{where}: the rule "{rule.id}" can never fire', why)
    for number, action in enumerate(rule.actions):
        for fault, hint in _action_faults(action):
            findings.add((*path, "actions", number), f"{where}.actions[{number}]: {fault}", hint)


def _check_methods(config: InterceptorConfig, findings: Findings) -> None:
    """The methods that stand elsewhere than in rules."""
    for section, names in (
        ("method_interceptors", [name for name, _ in config.guards]),
        ("classes", [name for name, _ in config.classes.own if not name.endswith("*")]),
    ):
        for name in names:
            hint = _maybe_method(name)
            if hint is not None:
                place = (INTERCEPTOR, section, name)
                findings.add(place, f'{INTERCEPTOR}.{section}: MCP has no method "{name}"', hint)


_PARAMS_OF_CALLS = frozenset("name arguments _meta task inputResponses requestState * **".split())


def _field_faults(rule: Rule) -> Iterator[tuple[str, str]]:
    """Paths that begin where nothing is: some write them from the top of the message, or of the arguments."""
    methods = methods_named(All(rule.conditions))
    if methods is not None and methods.isdisjoint(KNOWN):
        return  # a vendor's params may be called anything
    for part in flattened(rule.conditions):
        fields = part.fields if isinstance(part, PathOutside) else [getattr(part, "field", None)]
        is_of_result = type(part).__name__.startswith("Result")
        if isinstance(part, CopiedFrom):
            fields = part.field
        for field in (one for one in fields if one is not None):
            first, source = field.steps[0], str(field)
            if is_of_result and first == "result":
                yield f'"{source}" begins in the result already', "leave out result"
            elif not is_of_result and first == "params":
                yield f'"{source}" begins in params already', f"leave out params: {source[7:]}"
            elif not is_of_result and methods == frozenset({CALL}) and first not in _PARAMS_OF_CALLS:
                yield f'the params of {CALL} have no "{first}"', f'did you mean "arguments.{source}"?'


def _methods(rule: Rule) -> Iterator[str]:
    for part in flattened(rule.conditions):
        if isinstance(part, MethodEquals):
            yield part.name
        elif isinstance(part, MethodIn):
            yield from part.names


def _maybe_method(method: str) -> str | None:
    """The method of MCP that was probably meant; none where it is one, or a vendor's."""
    if method in KNOWN:
        return None
    import difflib  # only for those who check

    near = difflib.get_close_matches(method, sorted(KNOWN), n=1, cutoff=0.8)
    return did_you_mean(near[0], near) if near else None


def _action_faults(action: object) -> Iterator[tuple[str, str]]:
    if isinstance(action, RunScript):
        yield from _command_faults(action.argv, action.cwd)
    elif isinstance(action, Fork) and action.command is not None:
        yield from _command_faults(action.command, None)
    if isinstance(action, Webhook | Fork) and action.url is not None and not action.allow_private:
        host = _host(action.url)
        if host == "localhost" or host.endswith(".localhost") or _is_private_address(host):
            yield f"{host} is on this machine or in a private network", "say allow_private: true"


def _command_faults(argv: tuple[str, ...], cwd: str | None) -> Iterator[tuple[str, str]]:
    import shutil  # only for those who check

    program = argv[0]
    if cwd is not None and not os.path.isdir(cwd):
        yield f'there is no directory "{cwd}"', "see cwd"
        return
    start = os.path.join(cwd or "", program) if os.sep in program else program
    if shutil.which(start) is None:
        is_there = os.path.exists(start)
        if is_there:
            yield f'"{program}" cannot be run', "is it executable?"
        else:
            yield f'there is no program "{program}"', "give its whole path, or put it in PATH"
        return
    for word in argv[1:2]:  # python3 check.py: the script itself
        if word.endswith(_SCRIPT_ENDINGS) and not os.path.exists(os.path.join(cwd or "", word)):
            yield f'there is no script "{word}"', "give its whole path"


def _host(url: str) -> str:
    try:
        return parse_url(url).host.strip("[]").lower()
    except ConfigError:
        return ""


def _is_private_address(host: str) -> bool:
    """Whether the host is an address, and none of the internet's. What a name leads to is judged in a run."""
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return False
    return not is_public(host)
