"""Every key that a configuration file may have, in one table.

The reader, the JSON Schema and the docs follow it. Only `interceptor` is missing here: that section has
its own tables, in `policy`.
"""

from __future__ import annotations

from penstock.config.kinds import Key, Kind
from penstock.config.several_keys import MEMBER_KEYS, SEVERAL_SECTIONS
from penstock.logs import FORMATS, LEVELS
from penstock.policy.tools.schema import MODES
from penstock.policy.tools.tool_filter import ORDERS

SERVER_TABLES = ("mcpServers", "servers", "mcp_servers")
"""What AI clients call the table of their servers."""

ERAS = ("auto", "bridge", "legacy", "modern", "same")
BATCHES = ("inspect", "refuse")
CRASHES = ("answer", "silent")
VERDICTS = ("pass", "block", "drop", "answer")
_TRANSPORTS = ("stdio", "http", "streamable-http", "streamableHttp", "streamable_http", "sse")

_ON_FAILURE = "When it cannot be written: go on and count what is lost (default), or refuse requests."

_REACH = (
    Key("url", Kind.TEXT, "The address of an upstream that is running: Streamable HTTP or legacy SSE."),
    Key("headers", Kind.TEXT_MAP, "Headers that are sent to `url` with every request."),
    Key(
        "auth",
        Kind.SECTION,
        "What of a client's own headers goes to `url`: none (`strip`, the default with `auth` or several "
        "upstreams), all (`pass`), some by another name (`relay`), or a token made of the caller's (`swap`).",
        ("strip", "pass"),
        "outbound",
    ),
    Key("env", Kind.TEXT_MAP, "Variables for the command, beside our own environment."),
    Key("cwd", Kind.TEXT, "The directory in which the command starts."),
)

SECTIONS: dict[str, tuple[Key, ...]] = {
    "": (
        Key("$schema", Kind.TEXT, "For editors: where the JSON Schema of this file is. Not used otherwise."),
        Key("upstream", Kind.SECTION, "The server that Penstock stands in front of.", section="upstream"),
        *(
            Key(
                name,
                Kind.SECTION_MAP,
                "Servers in the shape that AI clients use: one, or several behind one door.",
                section="server",
            )
            for name in SERVER_TABLES
        ),
        Key("inputs", Kind.ANY, "Of an AI client's file. Not used: nobody could be asked."),
        Key("names", Kind.SECTION, "With several servers: how their tools are called.", section="names"),
        Key("lists", Kind.SECTION, "With several servers: when their lists are there.", section="lists"),
        Key("server", Kind.SECTION, "With several servers: what clients hear of us.", section="front"),
        Key("search", Kind.SECTION, "List a way to find tools instead of all of them.", section="search"),
        Key("tools", Kind.SECTION, "Which tools clients see and may call.", section="tools"),
        Key("listen", Kind.ADDRESS, "Serve HTTP there. HOST defaults to loopback; port 0 picks one."),
        Key("stdio", Kind.FLAG, "Serve one client over stdin and stdout."),
        Key("allow_hosts", Kind.TEXTS, "With `listen`: other names in the Host header that are ours."),
        Key("allow_origins", Kind.TEXTS, "With `listen`: origins of web pages that may use us (CORS)."),
        Key(
            "validate",
            Kind.CHOICE,
            "Check what the upstream sends against the MCP schema: tell, or also withhold. "
            "`off`: what nobody looks at passes as it comes.",
            MODES,
        ),
        Key(
            "era",
            Kind.CHOICE,
            "Clients of one era over an upstream of the other: translate after its refusal, also from "
            "discovery on, as told of the upstream, or never.",
            ERAS,
        ),
        Key(
            "batch",
            Kind.CHOICE,
            "An array of messages, in the one protocol version that has them: look at each, or refuse it.",
            BATCHES,
        ),
        Key(
            "on_crash",
            Kind.CHOICE,
            "Over stdio, what a request hears when the upstream is lost: an error, or nothing.",
            CRASHES,
        ),
        Key("auth", Kind.SECTION, "With `listen`: how clients show who they are.", section="auth"),
        Key("tls", Kind.SECTION, "With `listen`: speak TLS.", section="tls"),
        Key(
            "public_url",
            Kind.TEXT,
            "With `listen`: the address at which clients reach us, such as https://gate.example.",
        ),
        Key("profiles", Kind.SECTION_MAP, "Views of the whole, each with less in it.", section="profile"),
        Key("choose", Kind.SECTION, "By what a client's profile is chosen.", section="choose"),
        Key("timeouts", Kind.SECTION, "How long to wait.", section="timeouts"),
        Key("limits", Kind.SECTION, "How much is taken.", section="limits"),
        Key("log", Kind.SECTION, "What is said on stderr.", section="log"),
        Key("record", Kind.SECTION, "Keep every message, byte for byte, in a file.", section="record"),
        Key("audit", Kind.SECTION, "Keep who asked for what and what became of it.", section="audit"),
        Key("metrics", Kind.SECTION, "Figures for Prometheus.", section="metrics"),
        Key("telemetry", Kind.SECTION, "Traces for OpenTelemetry.", section="telemetry"),
        Key(
            "anomalies",
            Kind.SECTION,
            "Tell when a session is unusual by a baseline, and what `is_new` asks.",
            section="anomalies",
        ),
        Key(
            "variants",
            Kind.SECTION,
            "Several rule sets: shares of the sessions, and shadows that only watch.",
            section="variants",
        ),
        Key("mask", Kind.SECTION, "What is masked wherever something is kept.", section="mask"),
        Key("workers", Kind.WORKERS, "Processes that serve one port (Linux); `auto`: one a core. Default 1."),
        Key(
            "worker_limits",
            Kind.CHOICE,
            "Limits with several workers and without `shared`: refuse to start (default), or give each "
            "worker its part.",
            ("refuse", "divide"),
        ),
        Key("shared", Kind.SECTION, "What several instances share, through Redis.", section="shared"),
        Key("peer", Kind.SECTION, "Where other instances reach this one.", section="peer"),
        Key("dashboard", Kind.SECTION, "The live view.", section="dashboard"),
        Key("tests", Kind.SECTIONS, "Fixtures for `penstock rules test`.", section="test"),
    ),
    "shared": (
        Key(
            "url",
            Kind.TEXT,
            "Redis or Valkey: `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://H1,H2/NAME` or "
            "`redis+cluster://H1,H2`.",
        ),
        Key("ca", Kind.TEXT, "With TLS: a file with the authority that signed Redis' certificate."),
        Key("cert", Kind.TEXT, "With TLS: our own certificate."),
        Key("key", Kind.TEXT, "With TLS: its key."),
        Key("namespace", Kind.TEXT, "What keeps one fleet's keys from another's; default `default`."),
        Key("secret", Kind.TEXT, "32 bytes or more, the same for all instances. Needed."),
        Key("old_secret", Kind.TEXT, "The secret before this one: still believed, while it is replaced."),
        Key("timeout", Kind.DURATION, "For one decision; default 100ms. Longer counts as down."),
        Key("required", Kind.FLAG, "Exit when Redis cannot be reached at the start; default true."),
        Key("use", Kind.TEXTS, "What is shared: `limits`, `caches`, `state`, `sessions`; default all."),
        Key("when_down", Kind.SECTION, "What holds while Redis cannot be asked.", section="when_down"),
    ),
    "when_down": (
        Key(
            "limits",
            Kind.CHOICE,
            "Block what is limited (default), give each instance its part, or the whole limit to each.",
            ("block", "divide", "local"),
        ),
        Key("caches", Kind.CHOICE, "Each instance its own (default), or none.", ("local", "off")),
        Key(
            "state",
            Kind.CHOICE,
            "Block what rules need it for (default), or each its own.",
            ("block", "local"),
        ),
    ),
    "peer": (
        Key("listen", Kind.ADDRESS, "Where this instance takes requests of the others."),
        Key("address", Kind.TEXT, "HOST:PORT as the others reach it; default what `listen` says."),
        Key("drain", Kind.DURATION, "At the end: how long sessions may go on; default 30s."),
    ),
    "record": (
        Key("file", Kind.TEXT, "The recording; a folder ends in `/` and gets one file a process."),
        Key("rotate", Kind.FILE_SIZE, "A new file is begun at this size; default 256MiB."),
        Key("keep", Kind.NUMBER, "So many rotated files are kept; default 4."),
        Key("mask", Kind.FLAG, "Mask secrets; the bytes are then no longer the original ones."),
        Key("on_failure", Kind.CHOICE, _ON_FAILURE, ("continue", "block")),
    ),
    "audit": (
        Key("file", Kind.TEXT, "The audit; a folder ends in `/` and gets one file a process."),
        Key("rotate", Kind.FILE_SIZE, "A new file is begun at this size; default 50MiB."),
        Key("keep", Kind.NUMBER, "So many rotated files are kept; default 20."),
        Key("on_failure", Kind.CHOICE, _ON_FAILURE, ("continue", "block")),
        Key(
            "sync",
            Kind.CHOICE,
            "When the disk must have it: each second (default), when the system likes, or before each "
            "message goes on (which implies `on_failure: block`).",
            ("second", "os", "record"),
        ),
        Key(
            "args", Kind.CHOICE, "The arguments of calls: masked (default), or left out.", ("masked", "none")
        ),
        Key("outcomes", Kind.FLAG, "Also say how each exchange ended, and how long it took."),
        Key("key_file", Kind.TEXT, "A file with a key: the chain then cannot be made anew without it."),
        Key("mode", Kind.CHOICE, "Who may read it: 0600 (default), or the group too.", ("0600", "0640")),
    ),
    "metrics": (Key("listen", Kind.ADDRESS, "Serve `/metrics` there. HOST defaults to loopback."),),
    "telemetry": (
        Key("otlp", Kind.TEXT, "Where spans are sent; default what OTEL_EXPORTER_OTLP_ENDPOINT says."),
        Key("headers", Kind.TEXT_MAP, "Headers that are sent with them."),
        Key(
            "propagate",
            Kind.CHOICE,
            "Pass `traceparent` on as it came (default), or put our own span there.",
            ("pass", "inject"),
        ),
        Key("content", Kind.FLAG, "Put the arguments of calls, masked, into spans."),
        Key("session_ids", Kind.FLAG, "Put the id of the session into spans."),
    ),
    "dashboard": (
        Key(
            "listen",
            Kind.WORD,
            "`auto`: for `penstock watch`, `auto:NAME`: under this name; PORT or HOST:PORT: also for the "
            "browser there, on loopback only.",
        ),
    ),
    "mask": (
        Key("keys", Kind.TEXTS, "Further names of members whose values are secret."),
        Key("patterns", Kind.TEXTS, "Further patterns of what is secret (RE2)."),
        Key("values_of", Kind.TEXTS, "Environment variables whose values are secret."),
    ),
    "auth": (
        Key("tokens", Kind.SECTIONS, "Bearer tokens; `penstock token new` makes one.", section="token"),
        Key("jwt", Kind.SECTION, "Access tokens of an OAuth authorization server.", section="jwt"),
        Key("certs", Kind.SECTIONS, "Client certificates that `tls.client_ca` has signed.", section="cert"),
    ),
    "token": (
        Key("id", Kind.TEXT, "What its bearer is called in logs and by `penstock check`."),
        Key("sha256", Kind.TEXT, "The SHA-256 of the token, in hexadecimal digits."),
        Key("profile", Kind.TEXT, "The one profile that it opens; default what its bearer chooses."),
        Key("admin", Kind.FLAG, "Its bearer may ask for `/status`, from wherever; default false."),
    ),
    "cert": (
        Key("id", Kind.TEXT, "What its bearer is called in logs and by `penstock check`."),
        Key("sha256", Kind.TEXT, "The SHA-256 of the certificate (DER), in hexadecimal digits."),
        Key("name", Kind.TEXT, "Or a name in it: common name, DNS, URI or e-mail."),
        Key("profile", Kind.TEXT, "The one profile that it opens; default what its bearer chooses."),
    ),
    "jwt": (
        Key("issuer", Kind.TEXT, "The authorization server: `iss`, and where its metadata is."),
        Key("audience", Kind.TEXTS, "Values of `aud` that are us; beside them, the address of each door."),
        Key("scopes", Kind.TEXTS, "Scopes that a token must all have."),
        Key("profile_claim", Kind.TEXT, "The claim that names the one profile which a token opens."),
        Key("jwks", Kind.TEXT, "Where its keys are; default what its metadata says."),
    ),
    "outbound": (
        Key("mode", Kind.CHOICE, "`auth: strip` alone is enough.", ("strip", "pass")),
        Key("relay", Kind.TEXT_MAP, "A header of clients', and by which name it goes to the upstream."),
        Key(
            "swap",
            Kind.SECTION,
            "With several servers and `auth.jwt`: exchange the caller's token (RFC 8693).",
            section="swap",
        ),
        Key(
            "lists",
            Kind.CHOICE,
            "With several servers, `relay` or `swap`: who the tools are learnt for: `own`, nobody (default), "
            "or `caller`, the first who comes, for all.",
            ("own", "caller"),
        ),
    ),
    "swap": (
        Key("token_url", Kind.TEXT, "Where tokens are exchanged."),
        Key("client_id", Kind.TEXT, "Who we are there."),
        Key("client_secret", Kind.TEXT, "What proves it, as `${VAR}`; sent as HTTP Basic."),
        Key("audience", Kind.TEXT, "For whom the new token shall be, by name."),
        Key("resource", Kind.TEXT, "For whom the new token shall be, by URL."),
        Key("scopes", Kind.TEXTS, "What it shall be good for."),
    ),
    "tls": (
        Key("cert", Kind.TEXT, "Our certificate and those that lead to its root (PEM)."),
        Key("key", Kind.TEXT, "Its key (PEM, not encrypted)."),
        Key("client_ca", Kind.TEXT, "Who signs the certificates of clients (PEM)."),
    ),
    "profile": (
        Key("upstreams", Kind.TEXTS, "Names in `mcpServers`: only these; default all."),
        Key("tools", Kind.SECTION, "Which tools are left: `deny`, `allow` and `read_only`.", section="tools"),
        Key("search", Kind.SECTION, "Find tools here instead of listing them.", section="search"),
    ),
    "choose": (
        Key("header", Kind.TEXT, "A header in which a client names its profile."),
        Key(
            "clients",
            Kind.TEXT_MAP,
            "A client's own name, and its profile. A convenience: names prove nothing.",
        ),
        Key(
            "default",
            Kind.TEXT,
            "The profile of who chooses none; default all, but with `auth` to be written.",
        ),
    ),
    "variants": (
        Key(
            "split_by",
            Kind.CHOICE,
            "What decides which set a session has; default session.",
            ("session", "client_name", "principal"),
        ),
        Key("salt", Kind.TEXT, "Another salt deals the sessions out anew; with one salt, alike everywhere."),
        Key("sets", Kind.SECTIONS, "The rule sets.", section="variant"),
    ),
    "variant": (
        Key("name", Kind.TEXT, "What it is called in recordings."),
        Key("file", Kind.TEXT, "The configuration whose `interceptor` it is; default this file's own."),
        Key("share", Kind.NUMBER, "Of the sessions, in per cent; those of all sets make 100."),
        Key("shadow", Kind.FLAG, "Judge every message after the live verdict, and change nothing."),
    ),
    "anomalies": (
        Key("baseline", Kind.TEXT, "What `penstock baseline` has written; frozen while Penstock runs."),
        Key("group_by", Kind.CHOICE, "How the baseline was made; another one is refused.", ("client_name",)),
        Key("budget", Kind.TEXT, "Usual sessions that may raise an alert; default `1/500 sessions`."),
        Key(
            "learn",
            Kind.FLAG,
            "Add sessions in which nothing was refused or told of to the baseline's file; they count from "
            "the next start on. Default false.",
        ),
        Key("watch", Kind.TEXTS, "Which kinds: tool place shape size rate errors sequence hour spread."),
        Key("alert", Kind.SECTION, "Where alerts go; stderr hears of them anyway.", section="alert"),
    ),
    "alert": (Key("file", Kind.TEXT, "A file of JSON lines, mode 0600."),),
    "upstream": (
        Key(
            "command", Kind.TEXTS, "The command to spawn and speak stdio with: a list of words, or one text."
        ),
        Key("args", Kind.TEXTS, "Further words of the command."),
        *_REACH,
        Key("server", Kind.TEXT, "The name of a server in `mcpServers`, instead of all the others here."),
        Key("cookies", Kind.FLAG, "Let cookies pass between clients over HTTP and `url`; default false."),
        Key("on_loss", Kind.CHOICE, "What to do when the upstream goes away.", ("exit", "reconnect")),
    ),
    "server": (
        Key("command", Kind.TEXT, "The program to spawn and speak stdio with."),
        Key("args", Kind.TEXTS, "The other words of the command."),
        *_REACH,
        Key("type", Kind.CHOICE, "The transport. It is found out anyway.", _TRANSPORTS),
        Key("transport", Kind.CHOICE, "The same as `type`.", _TRANSPORTS),
        Key("http_headers", Kind.TEXT_MAP, "The same as `headers`."),
        Key("disabled", Kind.FLAG, "A server that is disabled does not count."),
        Key("enabled", Kind.FLAG, "The opposite of `disabled`."),
        Key("disabledTools", Kind.TEXTS, "Names of tools that are hidden, like `tools.deny`."),
        Key("enabledTools", Kind.TEXTS, "Names of the only tools that are kept, like `tools.allow`."),
        Key("disabled_tools", Kind.TEXTS, "The same as `disabledTools`."),
        Key("enabled_tools", Kind.TEXTS, "The same as `enabledTools`."),
        *MEMBER_KEYS,
        *(
            Key(name, Kind.ANY, "Of an AI client's file. Not used.")
            for name in ("alwaysAllow", "autoApprove", "description", "name", "timeout", "trust", "version")
        ),
    ),
    **SEVERAL_SECTIONS,
    "tools": (
        Key("deny", Kind.TEXTS, "Patterns; tools whose name matches one are hidden."),
        Key("allow", Kind.TEXTS, "Patterns; only tools whose name matches one are kept. `deny` wins."),
        Key("read_only", Kind.FLAG, "Keep only tools annotated `readOnlyHint: true`."),
        Key(
            "deny_code",
            Kind.CODE,
            "What a call of a hidden or unknown tool is answered with; default -32601.",
        ),
        Key("lock", Kind.TEXT, "A file of `penstock lock`; only what is as it says there passes."),
        Key("lock_strict", Kind.FLAG, "With `lock`: any difference is an error."),
        Key("order", Kind.CHOICE, "Of the list; default the lock's, or else the upstream's.", ORDERS),
        Key("max_tokens", Kind.COUNT, "It is an error when the kept tools cost more tokens."),
        Key("warn_tokens", Kind.COUNT, "Warn when the kept tools cost more tokens."),
        Key("keep", Kind.TEXTS, "Patterns; tools that are not suggested to be hidden."),
        Key(
            "arguments",
            Kind.CHOICE,
            "`strict` refuses a call with an argument that is not of the JSON type its tool declares, in "
            "words a model can act on. Recommended with rules about arguments: servers convert what is not.",
            ("any", "strict"),
        ),
        Key(
            "refresh",
            Kind.CHOICE,
            "Whether the list is fetched and filtered again when the upstream says that it changed; "
            "default never.",
            ("never", "on-change"),
        ),
    ),
    "timeouts": (
        Key("connect", Kind.DURATION, "For a `url` to be reached and to answer first; default 30s."),
        Key("start", Kind.DURATION, "For a `command` to start and to answer first; default 120s."),
        Key("tools", Kind.DURATION, "For the upstream's tool list, from the first answer on; default 10s."),
        Key("call", Kind.DURATION, "For the answer to any request; default none."),
        Key(
            "session_idle",
            Kind.DURATION,
            "With `listen`: a session that nobody uses for so long ends; default 30m.",
        ),
        Key("input", Kind.DURATION, "For the answer to a question that was translated; default 10m."),
    ),
    "limits": (Key("message", Kind.SIZE, "The largest message, either way; default 10MiB."),),
    "log": (
        Key("level", Kind.CHOICE, "From which level up; default info.", LEVELS),
        Key("format", Kind.CHOICE, "Sentences or JSON lines; default text.", FORMATS),
    ),
    "tests file": (Key("tests", Kind.SECTIONS, "The fixtures, in a file of their own.", section="test"),),
    "test": (
        Key("name", Kind.TEXT, "What the test shows, in a few words."),
        Key("direction", Kind.CHOICE, "Who sends the message; default client.", ("client", "upstream")),
        Key("message", Kind.MESSAGE, "The message that comes in."),
        Key("request", Kind.MESSAGE, "For a response: the request that it answers."),
        Key("messages", Kind.SECTIONS, "Several messages of one session, in order.", section="step"),
        Key("session", Kind.SECTION, "What the session is like before the first message.", section="session"),
        Key(
            "webhook", Kind.CHOICE, "What a webhook that is asked answers; default allow.", ("allow", "block")
        ),
        Key("script", Kind.CHOICE, "What a script decides; default allow.", ("allow", "block")),
        Key("expect", Kind.SECTION, "What becomes of the last message.", VERDICTS, "expect"),
    ),
    "step": (
        Key("message", Kind.MESSAGE, "The message."),
        Key("direction", Kind.CHOICE, "Who sends it; default the test's.", ("client", "upstream")),
        Key("after", Kind.DURATION, "Time that passes before it."),
        Key("expect", Kind.SECTION, "What becomes of it.", VERDICTS, "expect"),
    ),
    "session": (
        Key("id", Kind.TEXT, "The session's id; default `test`."),
        Key("mcp_session_id", Kind.TEXT, "The Mcp-Session-Id."),
        Key("client_name", Kind.TEXT, "What the client calls itself."),
        Key("headers", Kind.TEXT_MAP, "Headers of the client's HTTP requests, for `header_equals`."),
        Key("at", Kind.TEXT, "The time, such as `2026-11-16T09:30+01:00`, for `time_outside`; default now."),
        Key("age", Kind.DURATION, "How long the session has lasted; default 0."),
        Key("values", Kind.ANY, "The session's own values, as `set_state` sets them."),
    ),
    "expect": (
        Key("verdict", Kind.CHOICE, "What happens: `expect: block` alone is enough.", VERDICTS),
        Key("rule", Kind.TEXT, "The id of the rule that blocked."),
        Key("reason", Kind.TEXT, "The reason that the sender is told."),
        Key("changed", Kind.FLAG, "Whether the message was changed on the way."),
        Key("message", Kind.MESSAGE, "What goes on instead: the message, value by value."),
        Key("reply", Kind.MESSAGE, "What the sender is answered, value by value."),
    ),
}

INTERCEPTOR = "interceptor"

SEVERAL = ("names", "lists", "server", "search")
"""Sections about several servers behind one door."""
ACCESS = ("auth", "tls", "public_url", "profiles", "choose")
"""Sections about who may come in, and what they get."""

OBSERVED = ("record", "audit", "metrics", "telemetry", "mask")
"""Sections about what is kept, counted and traced."""
