"""Every number Penstock holds itself to, each with its reason."""

MESSAGE_BYTES = 10 * 1024 * 1024
"""One message, either way. 10 MiB holds any sane result; more is refused, never buffered whole.
`allow_messages` sets another."""

MESSAGE_LEAST_BYTES = 64 * 1024
"""The least that --max-message takes: with less, the handshake of some servers would not pass."""

MESSAGE_MOST_BYTES = 512 * 1024 * 1024
"""The most that --max-message takes: a message is held whole, two or three times over."""

LINE_BYTES = 20 * 1024 * 1024
"""Bytes without a line end on stdio before we say so aloud. Past MESSAGE_BYTES nothing is kept anyway."""

NESTING = 128
"""Levels of objects and arrays. Real messages stay below 30; parsers start to die near 1,000."""

BATCH_MESSAGES = 1_000
"""Messages in one batch of a client. Each costs us what a message costs, and its sender perhaps two bytes."""

NAME_ECHO = 128
"""Characters of a tool name that an error may repeat: the longest name the MCP text recommends."""

NAME_LENGTH = 128
"""Characters in a tool name that the catalog takes. Clients refuse longer ones, so they are hidden aloud."""

LIST_PAGES = 1_000
"""Pages of one tools/list. An upstream that never ends its list must not keep us for ever."""

LIST_BYTES = 64 * 1024 * 1024
"""Bytes of all pages of one tools/list together."""

PENDING_REQUESTS = 100_000
"""Requests waiting for an answer in one session and direction; the oldest is forgotten first."""

UPSTREAM_REQUESTS = 1_000
"""Questions of one upstream that a client has not answered; the oldest is forgotten first."""

PENDING_BYTES = 4 * MESSAGE_BYTES
"""What is kept of all of them: ids and methods, which may be as long as messages, and for rules the requests;
the oldest is forgotten first."""

UPSTREAM_TOKEN_BYTES = 4 * 1024
"""Of several upstreams, ids, progress tokens and names of tasks of one are remembered up to this length. Real
ones have forty bytes; a question with a longer id is refused."""

REFUSED_IDS = 1_024
"""Ids of requests we answered ourselves, remembered so that a late cancel does not reach the upstream."""

HELD_BYTES = MESSAGE_BYTES
"""Client bytes held while the tool list is on its way; past this the client is simply not read."""

READ_BYTES = 64 * 1024
"""One read from a pipe. Above 128 KiB a read can be a memory mapping of its own."""

BULK_READ_BYTES = 256 * 1024
"""One read from a pipe or socket whose last one was full: a large message takes fewer turns."""

JOINED_BYTES = 64 * 1024
"""Small messages that wait together are joined up to this size: one buffer is written faster than many."""

LOG_LINES = 100
"""Lines of one wording that are logged in a second; the rest are counted."""

COLLECT_AFTER = 5_000
"""New objects after which the collector looks for cycles; Python's own 700 are a few dozen messages."""

BRISK_SECONDS = 0.0003
"""Waits shorter than this are the rhythm of a client that asks again as soon as it is answered."""

BRISK_LOOK_SECONDS = 0.0001
"""How long we then look for the next event before we sleep; being woken takes about half as long."""

BRISK_PAUSE_SECONDS = 1.0
"""How long we do not look so after we were kept from it by others who want the core."""

SOCKET_READ_BYTES = 64 * 1024
"""One read from a socket."""

PIPE_BYTES = 1024 * 1024
"""Size asked of the kernel for the pipes to a child: the default 64 KiB halves the speed of big messages."""

WRITE_HIGH_BYTES = 1024 * 1024
"""Unwritten bytes toward one peer at which its sender is paused."""

WRITE_LOW_BYTES = 256 * 1024
"""Unwritten bytes toward one peer at which its sender may go on."""

CONNECT_SECONDS = 30.0
"""How long connecting to an upstream may take, unless --connect-timeout says otherwise."""

START_SECONDS = 120.0
"""How long a command may take to start and answer, unless --start-timeout says otherwise. A package manager
that has to fetch the server first takes a minute over a slow line."""

STARTING_SECONDS = 10.0
"""How often people are told that a command is still starting."""

LAST_LINES = 5
"""Lines of a command's stderr that are repeated when it is gone."""

LAST_BYTES = 1_024
"""The same in bytes."""

LAST_WORDS_SECONDS = 0.5
"""How long we wait for the exit status of a command that has closed its stdout, to say it with the loss."""

TOOLS_SECONDS = 10.0
"""How long the tool list may take from the first answer on, unless --tools-timeout says otherwise."""

CHILD_GRACE_SECONDS = 5.0
"""From closing a child's stdin to SIGTERM."""

DRAIN_LOOK_SECONDS = 0.05
"""How often it is looked, after a signal, whether all that was under way is answered."""

SIGNAL_GRACE_SECONDS = 1.0
"""What a child has at least between the end of its stdin and SIGTERM, however long its last answers took."""

CHILD_TERM_SECONDS = 0.5
"""From SIGTERM to SIGKILL. Short, so that a stubborn child costs six seconds at the most."""

CHILD_LINGER_SECONDS = 1.0
"""How long the pipe of a child that has exited may stay open in some grandchild before we give up on it."""

FLUSH_SECONDS = 2.0
"""How long the last answers may take to reach a client that has stopped reading."""

PATTERN_REPEATS = 25
"""Repetitions in one pattern, and the highest count of a group in one of them."""

PATTERN_COUNT = 1000
"""The highest count of a single character or class, which every engine takes in one go. RE2's own limit."""

PATTERN_LENGTH = 32 * 1024
"""Characters in one pattern: 200 names of the longest kind. RE2 takes seconds over some of 100,000."""

PATTERN_NESTING = 50
"""Groups in groups in one pattern. People write three; reading them takes a few frames of stack each."""

PATTERN_WORK = 250_000
"""Steps to tell apart what one pattern repeats: a quarter second. 200 names that begin alike take 3,000."""

PLAIN_TEXT = 256
"""Characters of a text up to which a plain pattern is looked for without RE2; tool names have 128 at most."""

PATTERNS_KEPT = 4096
"""Compiled patterns that are remembered; one that was forgotten is compiled again."""

PATTERN_BYTES = 1024 * 1024
"""What RE2 may use for one pattern. 2,000 names in one fit; one that does not fit is refused."""

PATTERN_SET_BYTES = 16 * 1024 * 1024
"""What RE2 may use for all patterns that rules ask about at one path."""

URI_LENGTH = 8 * 1024
"""Characters up to which a text is looked at as the URI that it may be; what is longer, and odd, is blocked
where a rule looks at a `uri`."""

ARGUMENT_FAULTS = 5
"""Arguments of a wrong type that one refusal names."""

ARGUMENT_ECHO = 40
"""Characters of such an argument that it repeats."""

PATTERN_ECHO = 40
"""Characters of a pattern that the reason for refusing it may repeat."""

CONFIG_BYTES = 1024 * 1024
"""A configuration file. 1,000 rules take 300 KiB; reading 1 MiB of YAML takes about half a second."""

CONFIG_NODES = 100_000
"""Values in a configuration file, with those that aliases repeat: a few lines can ask for billions."""

CONFIG_NESTING = 64
"""Levels in a configuration file. Rules need ten."""

CLIENT_FILE_BYTES = 64 * 1024 * 1024
"""A file of an AI client. Some keep their history in it."""

CONFIG_LOOK_SECONDS = 1.0
"""Between two looks at a configuration file, to see whether it has changed."""

HTTP_HEAD_BYTES = 32 * 1024
"""Request line and headers of one request. Clients send 1 KiB; big cookies and tokens reach 16."""

HTTP_HEADERS = 100
"""Header lines in one message. Browsers send 20; every further one costs us more than it costs the sender."""

HTTP_TARGET_BYTES = 8 * 1024
"""A request target. RFC 9112 asks for 8,000 octets."""

HTTP_REQUEST_SECONDS = 10.0
"""From the first byte of a request to the end of its headers, and from there to the end of its body."""

HTTP_BODY_BYTES_PER_SECOND = 64 * 1024
"""Each so many bytes of a body buy one more second: a slow line may upload, a dripping one may not."""

HTTP_HELD_BYTES = 256 * 1024 * 1024
"""Bodies of all clients together, from the first byte until nobody holds them: under way, waiting for rules
or an upstream, remembered. A thousand connections could hold ten gigabytes."""

HEAP_BYTES = 8 * 1024 * 1024
"""When so much less is held than was at its most, and no body came for a second or two, free memory is given
back to the system: by itself the C library keeps it."""

HTTP_SMALL_BODY_BYTES = 64 * 1024
"""A body that is taken also when there is no room for larger ones, up to twice the limit: who sends much must
not silence others."""

HTTP_COUNTED_BYTES = 4 * 1024
"""Bodies up to this size are not counted: they would be a thousand in four megabytes."""

HTTP_IDLE_SECONDS = 75.0
"""A kept-alive connection without a request. nginx waits as long; clients give up sooner."""

HTTP_STALL_SECONDS = 60.0
"""A client with bytes waiting for it that takes none of them."""

HTTP_LINGER_SECONDS = 2.0
"""After a refusal we read on so long: closing at once would reset the line and lose the refusal."""

HTTP_CONNECTIONS = 1_000
"""Client connections at once; more are answered 503. Common systems grant 1,024 files to a process."""

OWN_FILES = 24
"""Descriptors that we need ourselves before the first client comes, and a few to spare."""

FILES_PER_REFUSAL = 16
"""One descriptor in so many may be held by a connection that is being told there is no room."""

HTTP_REFUSALS = 64
"""Connections beyond the cap that are told so; past these they are just closed."""

PIPELINED_BYTES = 64 * 1024
"""Bytes of further requests held while one is being answered; past this the client is not read."""

KNOWN_HEADS = 64
"""Heads of requests that are remembered with what was found out from them: as many as clients have habits."""

KNOWN_HEAD_BYTES = 4096
"""How long such a head may be; longer ones are rare, and read anew each time."""

HTTP_JOIN_BYTES = 64 * 1024
"""Parts of one reply that are written in the same turn of the loop are sent as one, up to this."""

LISTEN_BACKLOG = 1_024
"""Connections that the kernel may hold for us; a burst of clients must not see resets."""

ACCEPT_BATCH = 64
"""Connections taken in one turn of the loop, so that a burst does not stop the others."""

ACCEPT_RETRY_SECONDS = 1.0
"""Pause in accepting after the system had no file or no memory for one more connection."""

CHUNK_LINE_BYTES = 1_024
"""The line before a chunk: a size, and an extension that nobody uses."""

RESPONSE_HEAD_BYTES = 64 * 1024
"""Status line and headers of an upstream's answer; servers set more than clients do."""

RESPONSE_HEADERS = 1_000
"""Header lines in an upstream's answer."""

UPSTREAM_IDLE_SECONDS = 4.0
"""An idle upstream connection older than this is not used again: many servers close theirs after 5 s."""

WATCH_SECONDS = 3.0
"""How often an upstream at a URL is looked for while nobody talks to it: a connection, and nothing on it."""

SECOND_CALL_SECONDS = 0.25
"""How long a connection must last that was made to see whether anybody is there: the kernel may still take
one for a process that is just dying."""

UPSTREAM_IDLE_CONNECTIONS = 64
"""Idle upstream connections that are kept."""

CATALOGS = 1_000
"""Catalogs kept at once where each client's own credentials decide what it may see."""

SESSIONS = 256
"""Sessions of clients over HTTP that have an upstream link of their own, a child process each on stdio."""

SESSION_IDLE_SECONDS = 1800.0
"""How long a session may be silent, with no stream open and nothing under way, before it is ended, unless
--session-idle says otherwise."""

INPUT_SECONDS = 600.0
"""How long a translated question in the middle of a call waits for its answer, unless --input-timeout says
otherwise: people answer some of them."""

SESSION_SHY_SECONDS = 60.0
"""The same for a session whose client never came back after its first request."""

SESSION_BACKLOG_BYTES = 1024 * 1024
"""What an upstream says unasked and no stream is there to carry, kept for one session."""

KNOWN_SESSION_IDS = 100_000
"""Session ids of an HTTP upstream that we have seen work, so that a cached answer needs no question."""

KNOWN_SESSION_ID_BYTES = 128
"""How long such an id may be; servers make them of 32 or 36. A longer one works too, and costs a question."""

KEYS_SECONDS = 600.0
"""How often the keys of an authorization server are fetched again."""

KEYS_UNKNOWN_SECONDS = 60.0
"""How often at most because a token names a key that nobody knows: anybody can make up such a name."""

KEYS_OUTAGE_SECONDS = 24 * 3600.0
"""How long keys count that could not be fetched again."""

KEYS_FETCH_SECONDS = 10.0
"""How long fetching them may take."""

SWAP_AGAIN_SECONDS = 1.0
"""How long nobody asks again after an exchange of tokens has failed."""

SWAP_EARLY_SECONDS = 10.0
"""How long before a token lapses that was exchanged another one is made."""

SWAP_UNSAID_SECONDS = 60.0
"""How long such a token counts that does not say so itself."""

CREDENTIALS = 256
"""Callers at a time whose own credentials go to upstreams: each has sessions and links of its own."""

CREDENTIAL_IDLE_SECONDS = 300.0
"""How long what belongs to such a caller is kept while nobody uses it."""

KEYS_BYTES = 256 * 1024
"""How large a set of keys, or metadata, may be."""

KNOWN_TOKENS = 10_000
"""Tokens, and callers, of which is remembered what was found out about them."""

VERDICT_KNOWN_SECONDS = 300.0
"""How long that counts at most: then the signature is checked again, with the keys of that time."""

TOKEN_AHEAD_SECONDS = 60.0
"""How far ahead of ours the clock of an authorization server may be."""

TLS_HANDSHAKE_SECONDS = 20.0
"""How long a client may take to agree on TLS with the listener."""

TLS_SHUTDOWN_SECONDS = 2.0
"""How long a client may take to take leave of it; most never do."""

CALLER_SESSIONS = 10_000
"""Sessions that one caller may own at a time, where callers are known; the longest unused one gives way."""

LAPSE_LOOK_SECONDS = 5.0
"""How often it is looked whether somebody's credential has lapsed whose stream is still open."""

UNREAD_BYTES = 12 * 1024 * 1024
"""Held for a client that does not read while others wait for the same link; past it, it is cut off."""

KEEP_ALIVE_SECONDS = 15.0
"""Between comments on a silent event stream: proxies and some clients cut what is silent for 30 s or more."""

DRAIN_SECONDS = 5.0
"""How long exchanges under way may take to finish once we were asked to end."""

EVENT_BYTES = 256 * 1024
"""The largest answer that is sent as an event where we may choose; the Python SDK's client takes 1 MiB."""

RATE_KEYS = 10_000
"""Rate limits counted apart from each other at once; newcomers past these share one count."""

RATE_MOST = 100_000
"""Messages that one rate limit lets through in one window, whatever the rule says."""

RATE_STAMPS = 1_000_000
"""Messages remembered by all rate limits together: 32 MiB. Past these nothing limited passes."""

CACHE_ENTRIES = 1_000
"""Results kept by the cache action."""

CACHE_BYTES = 64 * 1024 * 1024
"""The same in bytes, keys included; the longest unused go first."""

PAUSED_MESSAGES = 1_000
"""Messages held back by the delay action at once; one more is refused."""

COUNTER_NAMES = 1_000
"""Names of metrics; what would be one more is counted under one common name."""

COUNTER_NAME_LENGTH = 200
"""Characters of a metric's name that are kept."""

VERDICT_BYTES = 1024 * 1024
"""What a script or a webhook may answer."""

HOOK_QUEUE = 1_000
"""Reports waiting for one webhook; the oldest are dropped first."""

HOOK_QUEUE_BYTES = 16 * 1024 * 1024
"""The same in bytes."""

HOOK_ASKS = 128
"""Questions under way at webhooks at once, a connection each; more wait within their time limit. One session
alone has half of them."""

HOOK_RETRY_SECONDS = 0.5
"""Before the second try of a report, at most; doubled for each one after."""

HOOK_RETRY_MOST_SECONDS = 30.0
"""The longest wait before another try."""

SCRIPTS = 16
"""Scripts running at once; more wait within their time limit. One session alone has half of them."""

SCRIPTS_WAITING = 1_000
"""Messages waiting for their script to be started; one more is refused."""

SCRIPT_LOG_BYTES = 64 * 1024
"""What one run of a script may say on stderr; the rest is read and forgotten."""

SCRIPT_KILL_SECONDS = 1.0
"""How long we wait to see a killed script gone. Only one stuck in the kernel takes longer."""

FORK_QUEUE = 1_000
"""Copies waiting for one shadow upstream; the oldest are dropped first."""

FORK_QUEUE_BYTES = 16 * 1024 * 1024
"""The same in bytes."""

FORK_UNDER_WAY = 64
"""Requests that a shadow upstream has not answered; the next one waits."""

FORK_ANSWER_SECONDS = 60.0
"""A shadow upstream with all its requests unanswered so long is hung up on, and called again later."""

FORK_RETRY_SECONDS = 1.0
"""From a failure of a shadow upstream to the next attempt, at most; doubled for each one after."""

FORK_RETRY_MOST_SECONDS = 60.0
"""The longest wait before a shadow upstream is called again."""

FORK_IDLE_SECONDS = 900.0
"""A shadow upstream that gets no copies for so long is hung up on until there is one."""

UPSTREAM_POSTS = 256
"""Requests of one session under way at an HTTP upstream, each on its own connection; more wait their turn."""

UNANSWERED_BYTES = 4 * MESSAGE_BYTES
"""Bytes of a session that its upstream has not taken, or, posted to it, not begun to answer. Past this a
client on stdio is not read, and one over HTTP is answered 503: each post taken makes room for another."""

BESIDE_BYTES = 1_024
"""What a small message takes in memory beside its own bytes, about: it has been taken apart."""

BACKLOG_SMALL_BYTES = 64 * 1024
"""What a session may leave untaken or unanswered however much others do: 256 of them are 16 MiB."""

BACKLOG_BYTES = 256 * 1024 * 1024
"""What all sessions together leave so; past it, who has more than a little is answered 503."""

UNHEARD_ANSWERS = 256
"""Answers that an HTTP upstream still works on and nobody waits for; past this the oldest is given up."""

ERROR_EXCERPT_BYTES = 1_024
"""What is kept of an error page that is no JSON-RPC: enough to tell people what it says."""

EVENT_SLACK_BYTES = 64 * 1024
"""Field names, ids and comments that an event may have around a message of the greatest size."""

EVENT_ID_BYTES = 4 * 1024
"""An event id that can be sent back in a header."""

RETRY_SECONDS = 1.0
"""From the end of an event stream to asking for the rest, unless the upstream says otherwise."""

RETRY_LEAST_SECONDS = 0.01
"""The same, when the upstream says 0: it shall not make us spin."""

RETRY_MOST_SECONDS = 30.0
"""The longest wait before a stream is opened again, whatever the upstream says."""

RESUME_ATTEMPTS = 5
"""How often in a row an answer is asked for that brings no event."""

LISTEN_LINGER_SECONDS = 1.0
"""How long an event stream may stay open after the response it was there for."""

CANCELLED_SECONDS = 30.0
"""How long an upstream may keep the answer to a cancelled request open, and a place with it; and how long it
may still speak of one on a link that clients share."""

SESSION_END_SECONDS = 1.0
"""How long the upstream may take to hear that its session is over."""

SSE_TURN_SECONDS = 0.5
"""How long a request to a legacy SSE upstream holds up the next message when it is not acknowledged."""

RECONNECT_SECONDS = 120.0
"""How long a lost upstream is looked for before the session ends."""

RECONNECT_FIRST_SECONDS = 0.25
"""Before the first new attempt; doubled, with some chance in it, for each one after."""

SCHEMAS = 10_000
"""Tools whose arguments travel in headers, remembered for one session."""

SCHEMA_BYTES = 256 * 1024
"""One tool's schema that is searched for arguments that headers repeat: a tree takes thirty times as much."""

TRANSLATED_REQUESTS = 10_000
"""Requests of one session under way across eras; they are kept whole, PENDING_BYTES of them."""

SUBSCRIPTIONS = 1_000
"""Resources that one session is subscribed to, or that one listen request names, where they are remembered:
over several upstreams and across eras. Clients watch what people have open."""

SUBSCRIBED_BYTES = 128 * 1024
"""What their URIs may take together."""

SESSION_METHODS = 256
"""Methods that have statistics of their own in one session; the rest share one row."""

REVIEWED_REQUESTS = 1_000
"""Requests of one session over HTTP whose answers the rules still wait for; the oldest is forgotten first."""

REVIEWED_SESSION_BYTES = 12 * 1024 * 1024
"""The same in bytes, for one session; one message of the greatest size fits."""

REVIEWED_BYTES = 128 * 1024 * 1024
"""The same for all sessions together. Who comes when it is used up is not remembered, and what then answers
by another way than it was asked is dropped where rules are in force."""

RESUMABLE_BYTES = 256 * 1024
"""A request that is still remembered when its stream breaks off, because its client may ask for the rest."""

TEMPLATE_VALUE = 4 * 1024
"""Characters of one value that a template inserts; a log line or a key has no use for more."""

TEMPLATE_VALUES = 64
"""Values that one ${param.PATH} inserts, where a name stands more than once or the path has a star."""

PATH_PARTS = 50_000
"""Members or elements of one message that all rules together look at one by one: a tenth of a second."""

PATH_BYTES = 64 * 1024 * 1024
"""Bytes of one message that rules with ** in a path go through, those counted anew that lie in each other."""

PATH_TEXTS = 10_000
"""Texts of one message that hold JSON and are looked into."""

ACTION_SECONDS = 5.0
"""A webhook that is asked, or a script: as long as the whole chain may take, unless the rule says."""

FLOW_PLACES = 4_096
"""Places (addresses, hosts, paths, accounts) of answers that a session keeps for copied_from, as digests."""

FLOW_TEXT = 32_768
"""Characters of answers that a session keeps for copied_from, the last ones; and of an argument looked at."""

FLOW_TRIES = 64
"""How often a piece of an argument is looked for in them."""

FLOW_LOOKED_AT = 1 << 20
"""Bytes of one answer that copied_from looks through."""

TEXTS_LOOKED_AT = 200_000
"""Texts of one message that text_matches looks through, numbers included: about a second."""

SESSION_TOOLS = 5_000
"""Tools of a session whose annotations are remembered for rules. Past it nothing is known of a tool."""

ANNOTATIONS_BYTES = 1_024
"""Annotations of one tool that are remembered; MCP's own take 150. Of longer ones nothing is known."""

SESSION_TASKS = 1_000
"""Tasks of a session whose requests are remembered, so that rules know what a late result answers. Past it
the oldest is forgotten, and what it brings is blocked where rules look at results."""

SESSION_TASK_BYTES = 1024 * 1024
"""What those requests may take together, but for the last one."""

PYTHON_THREADS = 64
"""Functions of the user's that run at once, a thread each; one session alone has half of them."""

LONG_MESSAGE = 64 * 1024
"""Bytes from which on rules look at the clock, and let others have a turn between two conditions."""

MANY_RULES = 200
"""So many rules for one method do the same with any message."""

RULES_TURN_SECONDS = 0.01
"""How long the conditions of one message go on before others have a turn."""

KNOWN_METHODS = 1_024
"""Methods for which the rules that apply are remembered. Real sessions use twenty."""

STATE_SECONDS = 3_600.0
"""How long the state of a session that nobody speaks in is remembered."""

STATE_SESSIONS = 10_000
"""Sessions whose state is remembered; the one that was silent longest is forgotten first."""


def allow_messages(size: int) -> None:
    """Sets the size of one message, and all that is a multiple of it; once, before anything runs."""
    global MESSAGE_BYTES, LINE_BYTES, HELD_BYTES, PENDING_BYTES, UNANSWERED_BYTES, UNREAD_BYTES
    global LIST_BYTES, HTTP_HELD_BYTES
    MESSAGE_BYTES = HELD_BYTES = size
    LINE_BYTES = 2 * size
    PENDING_BYTES = UNANSWERED_BYTES = 4 * size
    UNREAD_BYTES = size + size // 5
    LIST_BYTES = max(LIST_BYTES, size)
    HTTP_HELD_BYTES = max(HTTP_HELD_BYTES, 4 * size)
