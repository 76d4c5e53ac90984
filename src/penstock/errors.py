"""Every error Penstock raises on purpose.

    PenstockError                    something people should read, never a traceback
    |-- UsageError                   a command line that makes no sense            exit 2
    |-- ConfigError                  a value that makes no sense                   exit 1
    |   |-- PatternError             a pattern that is no pattern
    |   |-- UnsafePattern            a pattern that would backtrack badly
    |   '-- FaultyFile               a configuration file with faults, all of them
    |-- UnsupportedSystem            a system where no proxy can run (platforms)   exit 1
    |-- UpstreamError                the upstream's side failed                    exit 1
    |   |-- ConnectFailed            it could not be reached
    |   |   |-- ConnectTimeout       in time
    |   |   |-- CannotStart          its command is not there, or no command
    |   |   '-- SessionRefused       it is there, and would not begin this session
    |   |-- ToolListFailed           it did not give its tool list
    |   |   |-- ToolListRefused      it gave one that the user does not want
    |   |   '-- ToolListTimeout      in time
    |   |-- RequestFailed            one request got no answer; the upstream may be well
    |   '-- UpstreamLost             it went away
    |       '-- SessionEnded         it is there, and has ended this session
    |-- EffectFailed                 a webhook, script or delay of a rule gave no verdict
    |-- MalformedHttp                bytes that are no HTTP message we take
    '-- ProtocolError                one message that must not be forwarded
        |-- ClientProtocolError      the client sent it
        '-- UpstreamProtocolError    the upstream sent it

What people read is worded here, once. `headline` and `detail` are the two lines on stderr.
"""

from __future__ import annotations

import enum


class PenstockError(Exception):
    """An error with a headline and a line of detail for stderr."""

    exit_code = 1

    cause = ""  # one more line, where more is known

    def __init__(self, headline: str, detail: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.detail = detail

    @property
    def for_log(self) -> dict[str, object]:
        """What a line of the JSON log has beside its words: the `extra` of a log call."""
        return {}

    def __str__(self) -> str:
        return "\n".join(line for line in (self.headline, self.detail, self.cause) if line)


class UsageError(PenstockError):
    """A command line that makes no sense."""

    exit_code = 2


class ConfigError(PenstockError):
    """A value, from the command line or a file, that makes no sense."""


class PatternError(ConfigError):
    """A pattern that is not a valid regular expression."""

    def __init__(self, pattern: str, origin: str, why: str) -> None:
        super().__init__(
            f'Invalid regex pattern in {origin}: "{pattern}"',
            f"Pattern must be a valid regular expression: {why}",
        )
        self.pattern, self.origin, self.why = pattern, origin, why


class UnsafePattern(ConfigError):
    """A valid pattern that engines which backtrack would choke on."""

    def __init__(self, pattern: str) -> None:
        super().__init__(
            f'Unsafe regex pattern detected: "{pattern}"',
            "Pattern could cause catastrophic backtracking",
        )
        self.pattern = pattern


class FaultyFile(ConfigError):
    """A configuration file with faults: each a line number and a sentence."""

    def __init__(self, name: str, faults: list[tuple[int, str]]) -> None:
        count = "a fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__(
            f"The configuration has {count}", "\n".join(f"{name}:{line}: {text}" for line, text in faults)
        )
        self.name, self.faults = name, faults

    def and_also(self, other: FaultyFile) -> FaultyFile:
        """The same, with what is wrong with a file that belongs to it."""
        both = FaultyFile(self.name, self.faults + other.faults)
        both.detail = f"{self.detail}\n{other.detail}"
        return both


class Failure(enum.StrEnum):
    """What went wrong with a connection, in one word."""

    TIMEOUT = "TIMEOUT"
    REFUSED = "REFUSED"
    INVALID_RESPONSE = "INVALID_RESPONSE"


class UpstreamError(PenstockError):
    """The upstream's side failed. `safe_message` is all that a client may be told."""

    safe_message = "Upstream MCP failed"
    is_of_one_session = False  # whether nothing is known against the upstream: other sessions may go on

    def __init__(self, headline: str, detail: str, failure: Failure = Failure.INVALID_RESPONSE) -> None:
        super().__init__(headline, detail)
        self.failure = failure

    @property
    def for_log(self) -> dict[str, object]:
        """The code of what went wrong."""
        return {"code": self.failure}


class ConnectFailed(UpstreamError):
    """The upstream could not be reached."""

    safe_message = "Failed to connect to upstream MCP"

    def __init__(self, where: str, detail: str, failure: Failure = Failure.REFUSED) -> None:
        super().__init__(f"Failed to connect to upstream MCP at {where}", detail, failure)
        self.where = where


class ConnectTimeout(ConnectFailed):
    """The upstream did not take the connection, or did not answer first, in time."""

    cause = "--connect-timeout gives it longer"

    def __init__(self, where: str, seconds: float) -> None:
        super().__init__(where, f"Connection timeout after {round(seconds * 1000)}ms", Failure.TIMEOUT)


class CannotStart(ConnectFailed):
    """The upstream's command cannot be started at all."""


class SessionRefused(ConnectFailed):
    """The upstream answered, but not as one does that begins a session."""

    is_of_one_session = True

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(where, detail, Failure.INVALID_RESPONSE)


class ToolListFailed(UpstreamError):
    """The upstream did not give its tool list."""

    safe_message = "Failed to fetch tool list from upstream MCP"
    is_of_one_session = True

    def __init__(self, detail: str, failure: Failure = Failure.INVALID_RESPONSE) -> None:
        super().__init__(self.safe_message, detail, failure)


class ToolListRefused(ToolListFailed):
    """The upstream gave its tool list, and it is not one that the user wants."""

    def __init__(self, headline: str, detail: str) -> None:
        super().__init__(detail)
        self.headline = headline


class ToolListTimeout(ToolListFailed):
    """The upstream's tool list did not come in time."""

    cause = "--tools-timeout gives it longer"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Request timeout after {round(seconds * 1000)}ms", Failure.TIMEOUT)


class UpstreamLost(UpstreamError):
    """The upstream was there and went away; `cause` says how, where that is known."""

    safe_message = "Lost connection to upstream MCP"

    def __init__(self, detail: str = "Shutting down proxy", cause: str = "") -> None:
        super().__init__(self.safe_message, detail, Failure.REFUSED)
        self.cause = cause


class SessionEnded(UpstreamLost):
    """The upstream has ended one session, as it may whenever it likes."""

    is_of_one_session = True


class RequestFailed(UpstreamError):
    """One request got no answer, and nothing is known against the upstream itself.

    A connection that was kept for the next request may end in the moment that one is written; and we may have
    no descriptor or port left to open another. Neither is a reason to end anything but the request.
    """

    safe_message = "No answer from upstream MCP"
    is_of_one_session = True

    def __init__(self, detail: str) -> None:
        super().__init__(self.safe_message, detail, Failure.REFUSED)


class EffectFailed(PenstockError):
    """What a rule waits for gave no verdict: never a reason to let a message pass.

    `detail` is for the log; what it was about (a host, a command) need not be known to clients.
    """

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(f"{what} gave no verdict", detail)
        self.what = what


class MalformedHttp(PenstockError):
    """Bytes that are no HTTP message we take. `status` answers a client; `reason` is safe to send."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


class ProtocolError(PenstockError):
    """One message that must not be forwarded.

    `code` is the JSON-RPC error code for the sender, `reason` a sentence that is safe to send,
    `id_token` the id as it was written, when it can be known.
    """

    def __init__(self, code: int, reason: str, id_token: bytes | None = None) -> None:
        super().__init__(reason)
        self.code, self.reason, self.id_token = code, reason, id_token


class ClientProtocolError(ProtocolError):
    """The client sent a message that must not be forwarded."""


class UpstreamProtocolError(ProtocolError):
    """The upstream sent a message that must not be forwarded."""
