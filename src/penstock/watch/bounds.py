"""The numbers that the live view holds itself to, each with its reason.

They stand here and not in `penstock.limits` because a run without a dashboard does not load them.
"""

RING_MESSAGES = 1_000
"""What a hub that comes later is shown of the time before: a few screens, and little memory."""

RING_BYTES = 4 * 1024 * 1024
"""The same in bytes."""

RING_HEAD = 4096
"""Of a message larger than this, so much is kept while no hub listens: enough to see what it was."""

NAME_LENGTH = 1_024
"""Of an id, a method, a URI or a tool's name, so much is kept: it may be as long as its message."""

TAP_BYTES = 8 * 1024 * 1024
"""What may wait toward a hub; past it messages are dropped from its view and counted, and traffic goes on."""

TAP_SECONDS = 0.02
"""How long a message may stay with the proxy before it is written for hubs: nobody sees the difference."""

TAP_PENDING_BYTES = 1024 * 1024
"""What may stay so; more is written at once, so that large messages are not kept from being freed."""

COMMAND_BYTES = 64 * 1024 * 1024
"""The longest command of a hub: an edit of the largest message, escaped."""

HUBS = 4
"""Hubs that listen to one proxy at a time."""

HELD_MESSAGES = 64
"""Messages that wait for a person: more than anybody decides about before they time out."""

HELD_OF_SESSION = 16
"""Of them, those of one session, so that no client takes all the places."""

HELD_BYTES = 64 * 1024 * 1024
"""Bytes of them all."""

HELD_SECONDS = 50.0
"""How long a message waits for a person unless a rule says otherwise: TypeScript clients stop at 60."""

HELD_MOST_SECONDS = 600.0
"""How far that can be extended."""

KEEP_ALIVE_SECONDS = 15.0
"""How often a client whose call waits hears of it, where a rule wants that: three times before the minute is
over after which TypeScript clients stop. Where somebody decides sooner, nothing is told."""

PROGRESS_TOKEN_BYTES = 1024
"""The longest progress token that is said back: it is the client's, and told again and again."""

HUB_GONE_SECONDS = 10.0
"""A hub that is gone so long holds nothing any more: a reload of it takes less."""

BREAKPOINTS = 32
"""Breakpoints of one proxy: each is asked about every message."""

ROWS = 100_000
"""Rows that a hub keeps, oldest out."""

ROW_BYTES = 128 * 1024 * 1024
"""Bytes of messages that a hub keeps beside them; of older ones the first 4 KiB stay."""

PAGE_ROWS = 500
"""Rows in one answer of the API."""

EVENT_SECONDS = 0.1
"""How often a stream is told what is new: ten times a second."""

EVENT_ROWS = 200
"""New rows in one event; a page that shows fewer asks for those that it shows."""

STREAMS_OF_LOGIN = 4
"""Streams of one login: a browser allows six connections to one server in all."""

LOG_LINES = 1_000
"""Lines of the log that a hub keeps."""

DECIDED = 500
"""Held messages that were decided about and are still shown."""

CODE_SECONDS = 30.0
"""How long a code for the login is good that goes straight to a browser."""

CODE_TTY_SECONDS = 600.0
"""The same where a person reads it from a terminal."""

LOGIN_SECONDS = 12 * 3600.0
"""How long a login lasts: a working day."""

WRONG_TRIES = 5
"""Wrong codes or tokens within a minute from one address: a code has 192 bits, so nobody guesses right."""

WRONG_TRIES_OF_ALL = 100
"""The same from all addresses together."""

REVEAL_SECONDS = 60.0
"""How long a message stays unmasked for who asked."""

FILTERS = 16
"""Filters whose findings are kept up to date."""

HUB_PORT = 8818
"""Where the browser's view is, unless somebody says otherwise."""

REPLAY_SECONDS = 30.0
"""How long a replayed call may take."""

TRY_MESSAGES = 5_000
"""Messages that pasted rules are tried on: some seconds of work."""

PATTERN_USES = 4_096
"""Pairs of client and tool whose use over time is counted: some 10 MiB; those beyond are counted as one."""

PATTERN_DAYS = 400
"""Days of each of them: a year, and a month to compare it with."""

PATTERN_SHOWN_DAYS = 31
"""Days in one answer: what fits on a page."""

PATTERN_ROWS = 200
"""Clients or tools in one answer."""

ALERTS = 1_000
"""Alerts that a hub keeps of one proxy, newest last."""

STUDY_BYTES = 16 * 1024 * 1024
"""What a command may print that the hub has run: more is no page for people."""
