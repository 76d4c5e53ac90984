"""What rules count is told when the proxy ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gate import SAMPLE

RULES = """
interceptor:
  rules:
    - {id: count, conditions: [{method_equals: ping}], actions: [{metric: {name: pings, value: 2}}]}
"""


def test_what_was_counted_is_said_at_the_end(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    words = [
        sys.executable,
        "-m",
        "penstock",
        "--config",
        str(rules),
        "--stdio",
        "--",
        sys.executable,
        str(SAMPLE),
    ]
    lines = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number for number in range(3))
    result = subprocess.run(words, input=lines, capture_output=True, timeout=60, check=True)
    assert result.stdout.count(b"\n") == 3
    assert b"Metric pings: 3 times, 6 in all." in result.stderr
