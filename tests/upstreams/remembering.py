"""A server of the newer era over a pipe that knows only what it gave out itself. Standard library only.

    python -S remembering.py [--counts]

A call of `ask` is answered with a question and a state, and with the pid when the state comes back; a call of
`slow` with a task, and `tasks/get` with the pid. What another process gave out is unknown here. With --counts
ids are 1, 2, 3, as a careless server makes them.
"""

import itertools
import json
import os
import sys
import uuid

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "slow")]
QUESTION = {"q": {"method": "elicitation/create", "params": {"message": "who?"}}}
UNKNOWN = {"error": {"code": -32602, "message": "never heard of it"}}

numbers = itertools.count(1)
given: dict[str, object] = {}


def give(params: dict) -> str:
    name = str(next(numbers)) if "--counts" in sys.argv else uuid.uuid4().hex
    given[name] = params.get("arguments")
    return name


def known(name: object) -> dict:
    if name not in given:
        return UNKNOWN
    return {"result": {"resultType": "complete", "pid": os.getpid(), "of": given[name]}}


def answer(method: str, params: dict) -> dict:
    if method == "server/discover":
        offers = {"resultType": "complete", "supportedVersions": ["2026-07-28"]}
        return {"result": {**offers, "capabilities": {"tools": {}}}}
    if method == "tools/list":
        return {"result": {"resultType": "complete", "tools": TOOLS}}
    if method == "tools/call" and "requestState" in params:
        return known(params["requestState"])
    if method == "tools/call" and params["name"] == "slow":
        task = {"resultType": "task", "taskId": give(params), "status": "working", "pid": os.getpid()}
        return {"result": task}
    if method == "tools/call":
        asked = {"resultType": "input_required", "inputRequests": QUESTION, "requestState": give(params)}
        return {"result": {**asked, "_meta": {"pid": os.getpid()}}}
    if method.startswith("tasks/"):
        return known(params.get("taskId"))
    return {"error": {"code": -32601, "message": "Method not found"}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message and "method" in message:
        reply = {
            "jsonrpc": "2.0",
            "id": message["id"],
            **answer(message["method"], message.get("params", {})),
        }
        os.write(1, json.dumps(reply).encode() + b"\n")
