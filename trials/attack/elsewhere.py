"""Rows of the threat catalogue that are not in the tables, and where each is proven. Kept by hand."""

from __future__ import annotations

ELSEWHERE = [
    (
        "34, 41, 47 (answers and cancels under way)",
        "`tests/e2e/test_threats_stdio.py`, `tests/transports/test_contract.py`",
    ),
    (
        "39, 40, 51, 55, 56 (in more ways than here)",
        "`tests/e2e/test_threats_stdio.py`",
    ),
    (
        "60, 137, 147 (the upstream dies or breaks off)",
        "`tests/e2e/test_lifecycle.py`, `tests/transports/test_failing_http_upstream.py`, `tests/e2e/test_threats_http.py`",
    ),
    ("61 (prints on stdout)", "`tests/e2e/test_lifecycle.py`"),
    ("83 (another principal's session)", "`tests/transports/test_sessions.py`"),
    (
        "84, 86, 144 (slow, many, no files left)",
        "`tests/e2e/test_threats_http.py`, `trials/soak`, `trials/faults`",
    ),
    (
        "96, 98, 103 (odd names, references in schemas; several upstreams)",
        "`tests/e2e/test_threats_stdio.py`, `tests/e2e/test_threats_http.py`, `tests/e2e/several`",
    ),
    (
        "97 (tools that changed while the upstream was away)",
        "`tests/unit/policy/test_drift.py`, `tests/transports/test_sessions.py`",
    ),
    (
        "100, 143 (late lists, missing commands, refused connections)",
        "`tests/e2e/test_lifecycle.py`, `tests/transports/test_failing_http_upstream.py`",
    ),
    (
        "102 (tools offered to the client's own model)",
        "`tests/e2e/test_threats_stdio.py`, `tests/e2e/test_threats_http.py`",
    ),
    ("105-110 (patterns)", "`tests/unit/policy/test_patterns.py`, `tests/unit/policy/test_pattern_tree.py`"),
    ("111-113 (resource URIs)", "`tests/unit/policy/rules/test_rule_guards.py`"),
    (
        "114, 115 (webhooks, scripts, templates)",
        "`tests/unit/effects/test_addresses.py`, `tests/unit/effects/test_webhook.py`, `tests/unit/effects/test_script.py`, `tests/unit/policy/rules/test_rule_templates.py`",
    ),
    (
        "116 (arguments that a rule reads twice)",
        "`tests/properties/test_rules_hold.py`, `tests/unit/policy/rules/test_rule_conditions.py`",
    ),
    (
        "118, 119 (keys and caches)",
        "`tests/unit/effects/test_rate_limit.py`, `tests/unit/effects/test_cache.py`",
    ),
    (
        "120, 156 (reload; rules that fail)",
        "`tests/unit/test_reload.py`, `tests/unit/policy/rules/test_rule_chain.py`, `tests/e2e/rules`",
    ),
    ("133-136, 138-142 (processes, signals, pipes)", "`tests/e2e/test_lifecycle.py`"),
    ("145, 146 (credentials, calls never answered)", "`tests/e2e/test_threats_http.py`"),
    ("157 (internal errors)", "`tests/unit/relay/test_relay_faults.py`"),
    ("158 (several instances)", "`tests/e2e/test_lifecycle.py`"),
    ("122-131 (audit, recording, dashboard)", "`tests/unit/observe`, `tests/e2e/seeing`, `tests/e2e/watch`"),
    ("149-155 (Redis)", "`tests/e2e/fleet`, `trials/fleet`"),
    (
        "203, 213, 214, 215 (what `Connection` takes away, nearly JSON, pages)",
        "rows 62, 91 and 90 above, `tests/transports/test_separation.py`, `tests/e2e/test_pages.py`, `tests/e2e/test_browser.py`",
    ),
    ("216 (smaller things)", "`tests/unit/test_url_options.py`, `tests/unit/wire/test_ids.py`"),
    ("132 (a proxy before itself)", "`tests/e2e/test_threats_http.py`"),
    ("147, 148 (faults of the network; second faults while stopping)", "`trials/faults`"),
]
