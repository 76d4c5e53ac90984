"""The keys that are about several servers behind one door. `keys` has them in its table."""

from __future__ import annotations

from penstock.config.kinds import Key, Kind
from penstock.policy.several.terms import PREFIXES, WHEN_DOWN

MEMBER_KEYS = (
    Key("prefix", Kind.TEXT, "With several: what stands before its tools' names; default its name."),
    Key("tools", Kind.SECTION, "Which of its tools count, by its own names for them.", section="own tools"),
    Key("timeouts", Kind.SECTION, "How long to wait for this one.", section="own timeouts"),
    Key("rename", Kind.TEXT_MAP, "Its own names of tools, with what clients shall see instead."),
    Key("lazy", Kind.FLAG, "With several: start it when it is needed first; needs `lists.keep`."),
    Key("idle_stop", Kind.DURATION, "With several: stop it when nobody has used it for so long."),
    Key("share", Kind.FLAG, "With several, a command: one process for all sessions."),
    Key("required", Kind.FLAG, "With several: do not start without it."),
    Key("ask", Kind.TEXTS, "With several: what it may ask of clients: sampling, elicitation, roots."),
    Key("uris", Kind.TEXTS, "With several: patterns of the resources that are its own."),
    Key("methods", Kind.TEXTS, "With several: patterns of methods outside MCP that are its own."),
    Key("on_loss", Kind.CHOICE, "With several: look for it again (default), or end.", ("retry", "exit")),
    Key(
        "inherit_env", Kind.FLAG, "With several: pass all of our environment on; default PATH, HOME and such."
    ),
    Key("show_origin", Kind.FLAG, "With several: its name before what it asks of people; default true."),
)

SEVERAL_SECTIONS: dict[str, tuple[Key, ...]] = {
    "own tools": (
        Key("deny", Kind.TEXTS, "Patterns; its tools whose own name matches one are hidden."),
        Key("allow", Kind.TEXTS, "Patterns; only its tools whose own name matches one are kept."),
        Key("read_only", Kind.FLAG, "Keep only its tools annotated `readOnlyHint: true`."),
    ),
    "own timeouts": (
        Key("connect", Kind.DURATION, "For its `url` to be reached and to answer first."),
        Key("start", Kind.DURATION, "For its `command` to start and to answer first."),
        Key("list", Kind.DURATION, "For its lists; default 10s."),
        Key("call", Kind.DURATION, "For its answer to any request; default none."),
    ),
    "names": (
        Key("prefix", Kind.CHOICE, "When the server's name comes first; default on-conflict.", PREFIXES),
        Key("separator", Kind.TEXT, "Between the server's name and the tool's; default `__`."),
        Key("known_as", Kind.TEXT, "What clients call us; their limit of 64 counts it. Default `penstock`."),
    ),
    "lists": (
        Key("wait", Kind.DURATION, "How long the first lists wait for all servers; default 10s."),
        Key("keep", Kind.TEXT, "A file in which names and lists outlive us; default none is written."),
        Key(
            "when_down", Kind.CHOICE, "Of a server that is lost: keep its lists (default) or not.", WHEN_DOWN
        ),
        Key("debounce", Kind.DURATION, "How long changes are gathered into one notice; default 250ms."),
    ),
    "front": (
        Key("name", Kind.TEXT, "Our name in the handshake; default `penstock`."),
        Key("instructions", Kind.TEXT, "`merge` the servers' instructions (default), `none`, or a text."),
    ),
    "search": (
        Key("keep", Kind.TEXTS, "Patterns; tools that are listed all the same."),
        Key("limit", Kind.COUNT, "How many tools one search finds; default 5."),
        Key("from_tokens", Kind.COUNT, "List all tools while they cost fewer tokens; default 10000."),
    ),
}
