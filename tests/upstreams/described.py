"""An upstream that is whatever a JSON file says at the moment: tools, prompts, instructions, each as written.

`{N}` in the file becomes the number of this process, so that no two sessions are told the same.
"""

import json
import os
import re
import sys


def raw_lists(text: str) -> dict[str, str]:
    """The outermost members of the file, each as written."""
    decoder, found, at = json.JSONDecoder(), {}, text.index("{") + 1
    while True:
        at = re.compile(r"[\s,]*").match(text, at).end()
        if text[at] == "}":
            return found
        name, at = decoder.raw_decode(text, at)
        at = re.compile(r"\s*:\s*").match(text, at).end()
        _, end = decoder.raw_decode(text, at)
        found[name], at = text[at:end].replace("\n", " "), end


def main() -> None:
    path = sys.argv[1]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        with open(path, encoding="utf-8") as file:
            parts = raw_lists(file.read().replace("{N}", str(os.getpid())))
        method, params = message["method"], message.get("params") or {}
        name = json.dumps(params.get("name"))
        if method == "initialize":
            instructions = f',"instructions":{parts["instructions"]}' if "instructions" in parts else ""
            result = (
                '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},'
                f'"serverInfo":{{"name":"described","version":"1"}}{instructions}}}'
            )
        elif method in ("tools/list", "prompts/list"):
            what = method.partition("/")[0]
            result = f'{{"{what}":{parts.get(what, "[]")}}}'
        elif method == "tools/call":
            result = f'{{"content":[{{"type":"text","text":{name}}}]}}'
        elif method == "prompts/get":
            result = f'{{"description":{name},"messages":[]}}'
        else:
            result = "{}"
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{result}}}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main()
