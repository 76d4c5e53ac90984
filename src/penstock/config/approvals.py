"""Rules that want a person to be asked, and whether there is a place where one could be."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.config.check import Findings
from penstock.config.keys import INTERCEPTOR
from penstock.errors import ConfigError
from penstock.policy.faults import spoken_place
from penstock.policy.rules.actions import Approve
from penstock.policy.rules.interceptor_config import InterceptorConfig

_HINT = "Add dashboard: {listen: auto}, or give --dashboard auto"


def _asking(config: InterceptorConfig) -> Iterator[tuple[str, int, int, str]]:
    for section, rules in (("rules", config.rules), ("transport_rules", config.transport_rules)):
        for index, rule in enumerate(rules):
            for number, action in enumerate(rule.actions):
                if isinstance(action, Approve):
                    yield section, index, number, rule.id


def check_approvals(config: InterceptorConfig, findings: Findings) -> None:
    """Notes rules that would ask where nobody could answer."""
    for section, index, number, _ in _asking(config):
        path = (INTERCEPTOR, section, index, "actions", number)
        findings.add(path, f"{spoken_place(path)}: approve needs a dashboard, and this file has none", _HINT)


def refuse_unasked_approval(config: InterceptorConfig) -> None:
    """Raises ConfigError where a rule would ask a person and there is no dashboard."""
    for _, _, _, rule in _asking(config):
        raise ConfigError(f'The rule "{rule}" wants a person to approve, and there is no dashboard', _HINT)
