"""A rule's script: blocks what mentions `forbidden`, writes down how it was called."""

import json
import os
import sys

report = json.load(sys.stdin)
if len(sys.argv) > 1:
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps({"argv": sys.argv[2:], "report": report, "env": sorted(os.environ)}) + "\n")
blocked = "forbidden" in json.dumps(report.get("message"))
print(json.dumps({"decision": "block", "reason": "the script says no"} if blocked else {"decision": "allow"}))
