"""Every number Penstock holds itself to, each with its reason."""

MESSAGE_BYTES = 10 * 1024 * 1024
"""One message, either way. 10 MiB holds any sane result; more is refused, never buffered whole."""

LINE_BYTES = 20 * 1024 * 1024
"""Bytes without a line end on stdio before we say so aloud. Past MESSAGE_BYTES nothing is kept anyway."""

NESTING = 128
"""Levels of objects and arrays. Real messages stay below 30; parsers start to die near 1,000."""

NAME_ECHO = 128
"""Characters of a tool name that an error may repeat: the longest name the MCP text recommends."""

NAME_LENGTH = 128
"""Characters in a tool name that the catalog takes. Clients refuse longer ones, so they are hidden aloud."""

LIST_PAGES = 1_000
"""Pages of one tools/list. An upstream that never ends its list must not keep us for ever."""

LIST_TOOLS = 100_000
"""Tools in one catalog."""

LIST_BYTES = 64 * 1024 * 1024
"""Bytes of all pages of one tools/list together."""

PENDING_REQUESTS = 100_000
"""Requests waiting for an answer in one session and direction; the oldest is forgotten first."""

REFUSED_IDS = 1_024
"""Ids of requests we answered ourselves, remembered so that a late cancel does not reach the upstream."""

HELD_BYTES = MESSAGE_BYTES
"""Client bytes held while the tool list is on its way; past this the client is simply not read."""

READ_BYTES = 256 * 1024
"""One read from a pipe. Larger reads cost memory and win nothing (measured with 10 MB results)."""

PIPE_BYTES = 1024 * 1024
"""Size asked of the kernel for the pipes to a child: the default 64 KiB halves the speed of big messages."""

WRITE_HIGH_BYTES = 1024 * 1024
"""Unwritten bytes toward one peer at which its sender is paused."""

WRITE_LOW_BYTES = 256 * 1024
"""Unwritten bytes toward one peer at which its sender may go on."""

CONNECT_SECONDS = 30.0
"""How long connecting to an upstream may take, unless --connect-timeout says otherwise."""

TOOLS_SECONDS = 10.0
"""How long fetching the tool list may take, unless --tools-timeout says otherwise."""

CHILD_GRACE_SECONDS = 5.0
"""From closing a child's stdin to SIGTERM."""

CHILD_TERM_SECONDS = 0.5
"""From SIGTERM to SIGKILL. Short, so that a stubborn child costs six seconds at the most."""

CHILD_LINGER_SECONDS = 1.0
"""How long the pipe of a child that has exited may stay open in some grandchild before we give up on it."""

FLUSH_SECONDS = 2.0
"""How long the last answers may take to reach a client that has stopped reading."""

PATTERN_REPEATS = 25
"""Repetitions in one pattern, and the highest count in one of them."""

PATTERN_LENGTH = 32 * 1024
"""Characters in one pattern: 200 names of the longest kind. RE2 takes seconds over some of 100,000."""

PATTERN_NESTING = 50
"""Groups in groups in one pattern. People write three; reading them takes a few frames of stack each."""

PATTERN_WORK = 250_000
"""Steps to tell apart what one pattern repeats: a quarter second. 200 names that begin alike take 3,000."""

PATTERN_BYTES = 1024 * 1024
"""What RE2 may use for one pattern. 2,000 names in one fit; one that does not fit is refused."""

PATTERN_ECHO = 40
"""Characters of a pattern that the reason for refusing it may repeat."""

BYTES_PER_TOKEN = 4
"""Rule of thumb for JSON in the tokenizers of current models; the summary calls it an estimate."""
