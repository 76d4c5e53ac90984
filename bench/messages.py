"""What is asked and what has to come back: the bytes that the upstream and the load client agree on.

Imported by the upstream too, whose start is part of some measurements: nothing heavy is loaded here.
"""

from __future__ import annotations

PREFIX = b'{"jsonrpc":"2.0","id":'
FIRST_ID = 1_000_000  # seven digits in every id, so that all requests of one kind are of one length
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
STEPS = 10  # progress notifications before the answer of the tool `stream`
DENY = "^admin_"
TEXT = "measured, cut and weighed"

META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{}}'
)
INITIALIZE = (
    PREFIX + b'1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def tool_names(count: int) -> list[str]:
    """`count` names: a tenth are for --deny, four do something, the rest make up the number."""
    special = ["short", "sized", "event", "stream"]
    denied = [f"admin_{number:05d}" for number in range(count // 10)]
    filler = [f"tool_{number:05d}" for number in range(count - len(denied) - len(special))]
    return special + denied + filler


def tool(name: str) -> bytes:
    """One entry of tools/list, about 670 bytes: what published servers say of one tool."""
    prose = f"Does what {name} does, with the care that it needs, and tells what came of it. " * 3
    text = (
        f'{{"name":"{name}","title":"The tool {name}","description":"{prose.strip()}",'
        '"inputSchema":{"type":"object","properties":{'
        '"path":{"type":"string","description":"Where to look, absolute or below the root"},'
        '"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"How many at the most"},'
        '"bytes":{"type":"integer","description":"How long the answer shall be"}},"required":[]},'
        '"annotations":{"readOnlyHint":true,"openWorldHint":false}}'
    )
    return text.encode()


def listing(count: int) -> bytes:
    """The tools of a list, comma between them."""
    return b",".join(tool(name) for name in tool_names(count))


def text_result(text: bytes, is_modern: bool = False) -> bytes:
    kind = b'"resultType":"complete",' if is_modern else b""
    return b'{%b"content":[{"type":"text","text":"%b"}],"isError":false}' % (kind, text)


def rows(size: int) -> bytes:
    """A JSON array of records, about `size` bytes: what a tool that asks a database gives back."""
    row = b'{"id":%d,"name":"item %d","tags":["red","green"],"stock":{"shelf":"A7","count":%d},"note":"%b"}'
    note = TEXT.encode()
    count = max(1, size // (len(row) + len(note) + 8))
    return b"[%b]" % b",".join(row % (number, number, number % 50, note) for number in range(count))


def large_result(kind: str, size: int) -> bytes:
    """A result of about `size` bytes of one kind."""
    if kind == "json":  # as text, so with every quote escaped
        return text_result(rows(size * 3 // 4).replace(b'"', b'\\"'))
    if kind == "structured":
        return b'{"content":[{"type":"text","text":"rows"}],"structuredContent":{"rows":%b}}' % rows(size)
    if kind == "words":
        words = "Größe, Maß und 重さ, cut and weighed. ".encode()
        return text_result(words * (size // len(words)))
    if kind == "base64":
        data = b"iVBORw0KGgoAAAANSUhEUgAA/+8x" * (size // 28)
        return b'{"content":[{"type":"image","data":"%b","mimeType":"image/png"}]}' % data
    return text_result(b"x" * size)


def call_tail(name: str, arguments: bytes = b'{"path":"a/b/c"}', is_modern: bool = False) -> bytes:
    """A tools/call after its id."""
    meta = b"," + META if is_modern else b""
    return b',"method":"tools/call","params":{"name":"%b","arguments":%b%b}}' % (
        name.encode(),
        arguments,
        meta,
    )


def list_tail(is_modern: bool = False) -> bytes:
    return b',"method":"tools/list","params":{%b}}' % (META if is_modern else b"")
