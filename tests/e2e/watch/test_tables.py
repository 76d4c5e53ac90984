"""What the pages with tables are made of, where two clients have the same server behind Penstock."""

from __future__ import annotations

from pathlib import Path

from gate import SAMPLE, Gate
from live import Hub, until

RULES = """
interceptor:
  rules:
    - id: no-passwords
      name: Nobody reads passwords
      conditions: [{param_matches: {field: arguments.path, pattern: passwd}}]
      actions: [{block: no}]
"""


def test_two_proxies_of_one_name_are_one_row_and_rules_are_called_by_their_ids(tmp_path: Path) -> None:
    config = tmp_path / "rules.yaml"
    config.write_text(RULES)
    with Hub() as hub:
        gates = []
        for number in range(2):
            work = tmp_path / str(number)
            work.mkdir()
            words = ["--dashboard", "auto", "--config", str(config)]
            gates.append(Gate(work, *words, command=["python3", str(SAMPLE)]))
        try:
            for gate in gates:
                gate.handshake()
                gate.ask("tools/list")
                gate.ask("tools/call", b'{"name":"read_file","arguments":{"path":"/etc/passwd"}}')
            until(lambda: sum(one["connected"] for one in hub.get("instances")["instances"]) == 2, hub.said)
            until(
                lambda: any(one["calls"] == 2 for one in hub.get("rules")["rules"] if "calls" in one),
                hub.said,
            )
            rules = [one for one in hub.get("rules")["rules"] if not one.get("own")]
            assert [(one["name"], one["title"]) for one in rules] == [
                ("no-passwords", "Nobody reads passwords")
            ]
            names = [one["name"] for one in hub.get("tools")["tools"]]
            assert names.count("read_file") == 1
        finally:
            for gate in gates:
                gate.__exit__(None, None, None)
