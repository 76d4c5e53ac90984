"""One of several upstreams over stdio, as a JSON text says it shall be. It writes down every line it gets.

    python -S member.py SPEC

What a tool does is in its name: `ask_sampling`, `ask_elicitation` and `ask_roots` ask the client, always
under the id 1; `progress` reports twice and once more when it is over; `hang` never answers; `die` ends the
process; `task` begins a task; `link` links to the resource in its arguments; `change` changes the list of
tools and says so many times; `say` writes the lines in its arguments; `env` gives the environment. All others
answer with the name of this upstream, the tool and the process. Standard library only.
"""

import json
import os
import sys
import time

SPEC = json.loads(sys.argv[1])
NAME = SPEC["name"]
ERA = SPEC.get("era", "legacy")  # legacy, modern, dual
RECORD = open(SPEC["record"], "ab", buffering=0) if "record" in SPEC else None  # noqa: SIM115
MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def described(tool):
    return tool if tool.startswith("{") else json.dumps({"name": tool, "inputSchema": {"type": "object"}})


tools = [described(tool) for tool in SPEC.get("tools", ["echo"])]
waiting = {}
listens = []
is_modern = False


def write(raw):
    sys.stdout.buffer.write(raw if isinstance(raw, bytes) else raw.encode())
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def say(message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def reply(id_, result):
    if is_modern:
        result = {"resultType": "complete", **result}
    say({"id": id_, "result": result})


def refuse(id_, code, text):
    say({"id": id_, "error": {"code": code, "message": text}})


def capabilities():
    found = {"tools": {"listChanged": True}, "logging": {}, "completions": {}}
    if "prompts" in SPEC:
        found["prompts"] = {}
    if "resources" in SPEC or "templates" in SPEC:
        found["resources"] = {"subscribe": True}
    if SPEC.get("tasks"):
        found["tasks"] = {"list": {}, "cancel": {}}
    return {**found, **SPEC.get("capabilities", {})}


def answer_text(tool):
    return {
        "content": [{"type": "text", "text": f"{NAME}:{tool}"}],
        "member": NAME,
        "tool": tool,
        "pid": os.getpid(),
    }


def progress(meta, done):
    params = {"progressToken": meta.get("progressToken"), "progress": done}
    say({"method": "notifications/progress", "params": params})


def call(id_, params):
    tool, arguments = params["name"], params.get("arguments") or {}
    meta = params.get("_meta") or {}
    kind = tool.split("_")[0]
    if tool.startswith("ask_") and not is_modern:
        what = tool[4:]
        method = {
            "sampling": "sampling/createMessage",
            "elicitation": "elicitation/create",
            "roots": "roots/list",
        }[what]
        waiting[1] = lambda message: reply(
            id_, {**answer_text(tool), "answer": message.get("result", message.get("error"))}
        )
        say({"id": 1, "method": method, "params": {"message": f"from {NAME}", "_meta": {"progressToken": 1}}})
    elif tool.startswith("ask_"):
        if "inputResponses" in params:
            reply(
                id_,
                {
                    **answer_text(tool),
                    "answer": params["inputResponses"],
                    "state": params.get("requestState"),
                },
            )
        else:
            question = {
                "method": "elicitation/create",
                "params": {
                    "message": f"from {NAME}",
                    "requestedSchema": {"type": "object", "properties": {}},
                },
            }
            say(
                {
                    "id": id_,
                    "result": {
                        "resultType": "input_required",
                        "inputRequests": {"who": question},
                        "requestState": f"state of {NAME}",
                    },
                }
            )
    elif kind == "progress":
        for done in (1, 2):
            say(
                {
                    "method": "notifications/progress",
                    "params": {"progressToken": meta.get("progressToken"), "progress": done},
                }
            )
        reply(id_, answer_text(tool))
        say(
            {
                "method": "notifications/progress",
                "params": {"progressToken": meta.get("progressToken"), "progress": 3},
            }
        )
    elif kind == "hang":
        pass
    elif kind == "die":
        os._exit(3)
    elif kind == "slow":
        time.sleep(arguments.get("seconds", 1))
        reply(id_, answer_text(tool))
    elif kind == "task":
        reply(id_, {"task": {"taskId": "t1", "status": "working"}})
    elif kind == "link":
        reply(id_, {"content": [{"type": "resource_link", "uri": arguments["uri"], "name": "x"}]})
    elif kind == "env":
        reply(id_, {**answer_text(tool), "env": dict(os.environ)})
    elif kind == "change":
        for name in arguments.get("add", []):
            tools.append(described(name))
        for _ in range(arguments.get("times", 1)):
            notify("notifications/tools/list_changed", "toolsListChanged")
        reply(id_, answer_text(tool))
    elif kind == "say":
        for line in arguments["lines"]:
            write(line.replace("ID", json.dumps(id_)))
        reply(id_, answer_text(tool))
    else:
        reply(id_, answer_text(tool))


def notify(method, wanted):
    if not is_modern:
        say({"method": method})
        return
    for id_, filters in listens:
        if filters.get(wanted):
            say({"method": method, "params": {"_meta": {SUBSCRIPTION: id_}}})


def page(name, entries, params):
    size = SPEC.get("page", 0)
    if SPEC.get("endless") == name:
        return {name: [], "nextCursor": str(int(params.get("cursor") or 0) + 1)}
    raw = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    if not size:
        return name, raw, None
    cursors = ["", "two", "three", "four"]
    at = cursors.index(params["cursor"]) + 1 if "cursor" in params else 0
    rest = raw[at * size : (at + 1) * size]
    return name, rest, cursors[at] if (at + 1) * size < len(raw) else None


def send_page(id_, found):
    if isinstance(found, dict):
        reply(id_, found)
        return
    name, raw, cursor = found
    extra = "" if cursor is None else f', "nextCursor": {json.dumps(cursor)}'
    if is_modern:
        ttl, scope = SPEC.get("cache", [5000, "public"])
        extra += f', "resultType": "complete", "ttlMs": {ttl}, "cacheScope": "{scope}"'
    result = f'{{"{name}": [{", ".join(raw)}]{extra}}}'
    write(f'{{"jsonrpc": "2.0", "id": {json.dumps(id_)}, "result": {result}}}')


def handle(message):
    global is_modern
    method, id_, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        waiting.pop(id_, lambda message: None)(message)
        return
    modern_version = (params.get("_meta") or {}).get(VERSION) if isinstance(params, dict) else None
    if method in SPEC.get("silent", []):
        return
    if method == "initialize":
        if ERA == "modern":
            refuse(id_, -32022, "Unsupported protocol version")
            return
        result = {
            "protocolVersion": SPEC.get("version", params["protocolVersion"]),
            "capabilities": capabilities(),
            "serverInfo": {"name": NAME, "version": "1"},
        }
        if "instructions" in SPEC:
            result["instructions"] = SPEC["instructions"]
        reply(id_, result)
    elif method == "server/discover":
        if ERA == "legacy":
            refuse(id_, -32601, "Method not found")
            return
        is_modern = True
        result = {
            "supportedVersions": [MODERN],
            "capabilities": capabilities(),
            "ttlMs": 1000,
            "cacheScope": "private",
        }
        if "instructions" in SPEC:
            result["instructions"] = SPEC["instructions"]
        reply(id_, result)
    elif id_ is None:
        pass
    elif modern_version is not None and ERA == "legacy":
        refuse(id_, -32600, "Not initialized")
    elif method == "tools/list":
        send_page(id_, page("tools", tools, params))
    elif method == "tools/call":
        call(id_, params)
    elif method == "prompts/list":
        send_page(id_, page("prompts", SPEC.get("prompts", []), params))
    elif method == "prompts/get":
        reply(id_, {"messages": [], "description": f"{NAME}:{params['name']}"})
    elif method == "resources/list":
        send_page(id_, page("resources", SPEC.get("resources", []), params))
    elif method == "resources/templates/list":
        send_page(id_, page("resourceTemplates", SPEC.get("templates", []), params))
    elif method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        reply(id_, {"contents": [{"uri": params["uri"], "text": NAME}]})
        if method == "resources/subscribe":
            say({"method": "notifications/resources/updated", "params": {"uri": params["uri"]}})
    elif method == "completion/complete":
        reply(id_, {"completion": {"values": [NAME, json.dumps(params["ref"], sort_keys=True)]}})
    elif method in ("tasks/get", "tasks/result", "tasks/update", "tasks/cancel"):
        if params["taskId"] == "t1":
            reply(id_, {"taskId": "t1", "status": "completed", "member": NAME})
        else:
            refuse(id_, -32602, "no such task")
    elif method == "tasks/list":
        reply(id_, {"tasks": [{"taskId": "t1", "status": "working"}]})
    elif method == "subscriptions/listen":
        filters = params.get("notifications") or {}
        listens.append((id_, filters))
        say(
            {
                "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": filters, "_meta": {SUBSCRIPTION: id_}},
            }
        )
    elif method in ("ping", "logging/setLevel"):
        reply(id_, {})
    elif method.startswith("vendor/"):
        reply(id_, {"vendor": NAME})
    else:
        refuse(id_, -32601, "Method not found")


if SPEC.get("garbage"):
    write("this is no protocol")
time.sleep(SPEC.get("delay", 0))
while "until" in SPEC and not os.path.exists(SPEC["until"]):
    time.sleep(0.02)
if SPEC.get("exit") or ("fails_if" in SPEC and os.path.exists(SPEC["fails_if"])):
    sys.exit(4)
if RECORD is not None:
    RECORD.write(b"# %d\n" % os.getpid())
for line in sys.stdin.buffer:
    if RECORD is not None:
        RECORD.write(line)
    handle(json.loads(line))
