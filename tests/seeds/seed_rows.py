"""The promises of the five documents that Penstock grew from, one row each.

A test names its rows with `@row(...)`. A row that waits for a capability says which; when that is built, the
word goes and a test comes. `scripts/seeds_page.py` runs the tests and writes `docs/seeds.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

DOCUMENTS = {
    "contract": "The contract of a tool filter at both interfaces",
    "model": "Its data model",
    "specification": "Its specification",
    "interceptor": "The specification of an interceptor for MCP messages",
    "compatibility": "Notes on compatibility with servers and clients",
}


class Row(NamedTuple):
    """One promise."""

    document: str
    promise: str
    waits: str = ""  # for which capability, if it is not built yet


def row(*names: str) -> Callable[[Any], Any]:
    """Marks the test that shows these rows."""
    for name in names:
        assert name in ROWS, name
    return pytest.mark.seed(*names)


_C, _M, _S, _I, _N = DOCUMENTS

ROWS: dict[str, Row] = {
    # The command line and the configuration
    "A1": Row(_S, "The upstream's URL is a command-line argument"),
    "A2": Row(_S, "The deny list is a command-line argument; patterns are separated by commas"),
    "A3": Row(_S, "A command to spawn is accepted as one text, --upstream-cmd"),
    "A4": Row(_M, "The upstream's URL must be a valid HTTP or HTTPS URL"),
    "A5": Row(_M, "Deny patterns must be valid regular expressions, or the start fails"),
    "A6": Row(_M, "Deny patterns must pass the check for backtracking"),
    "A7": Row(_M, "The configuration does not change after the start"),
    "A8": Row(_M, "Connecting has 30,000 ms by default"),
    "A9": Row(_M, "Fetching the tool list has 10,000 ms by default"),
    "A10": Row(_M, "Timeouts are positive whole numbers of milliseconds"),
    "A11": Row(_S, "By default every tool is allowed"),
    "A12": Row(_S, "It is set up from within an AI coding tool, with no file of its own"),
    "A13": Row(_S, "Several instances run side by side, each with its own deny list"),
    "A14": Row(_S, "It can be published as open source: no proprietary dependency"),
    "A15": Row(_S, "A deny list of two anchored patterns hides just what they match"),
    # The tool list
    "B16": Row(_S, "Tools that the upstream adds later stay hidden until a restart"),
    "B17": Row(_C, "tools/list returns only tools that passed the filter"),
    "B18": Row(_C, "No tool in the list matches a deny pattern"),
    "B19": Row(_C, "The order is the upstream's"),
    "B20": Row(_C, "The list is cached from the start, for life: no upstream call"),
    "B21": Row(_S, "Of 20 tools and a deny list of 5, 15 are seen"),
    "B22": Row(_S, "With an empty deny list every tool is exposed"),
    "B23": Row(_S, "A pattern that matches no tool is no error"),
    "B24": Row(_S, "When everything is denied the list is empty"),
    "B25": Row(_M, "A tool must conform to the MCP tool schema"),
    "B26": Row(_M, "A tool's description is optional"),
    "B27": Row(_M, "No tool is both allowed and denied"),
    "B28": Row(_M, "Patterns that matched nothing are told, as warnings"),
    "B29": Row(_M, "More than 100 tools are supported"),
    "B30": Row(_S, "A denied tool adds not a single token to the context"),
    # Calls and other methods
    "C31": Row(_C, "A call of an allowed tool is forwarded"),
    "C32": Row(_C, "Its answer comes back unmodified"),
    "C33": Row(_C, "A call of a denied tool is rejected without upstream traffic"),
    "C34": Row(_C, "A denied call has the code -32601"),
    "C35": Row(_C, "A denied call says: Tool not found, and the name"),
    "C36": Row(_C, "A denied call tells nothing of a filter"),
    "C37": Row(_C, "The answer has the request's id"),
    "C38": Row(_C, "resources/list is forwarded as it is"),
    "C39": Row(_C, "resources/read is forwarded as it is"),
    "C40": Row(_C, "prompts/list is forwarded as it is"),
    "C41": Row(_C, "prompts/get is forwarded as it is"),
    "C42": Row(_C, "sampling/createMessage is forwarded as it is"),
    "C43": Row(_C, "Every other method is forwarded unmodified"),
    "C44": Row(_C, "Errors of the upstream reach the client"),
    "C45": Row(_C, "Timing is kept: a slow answer holds up no other"),
    "C46": Row(_S, "A denied tool is not callable even by who circumvents the list"),
    "C47": Row(_S, "All of it holds over SSE"),
    "C48": Row(_S, "All of it holds over stdio"),
    "C49": Row(_S, "Inspected with an MCP client, only the allowed tools appear"),
    "C50": Row(_M, "Whether a tool may be called is decided by the cached list"),
    # Bytes and messages
    "D51": Row(_N, "The order of JSON members is preserved"),
    "D52": Row(_N, "White space and formatting are preserved"),
    "D53": Row(_N, "Unicode escapes are preserved, not expanded"),
    "D54": Row(_N, "Numbers keep their precision and spelling"),
    "D55": Row(_N, "White space within texts is preserved"),
    "D56": Row(_N, "Each forwarded message ends with a line feed"),
    "D57": Row(_N, "Requests pass"),
    "D58": Row(_N, "Responses pass"),
    "D59": Row(_N, "Notifications pass"),
    "D60": Row(_N, "Ids may be numbers"),
    "D61": Row(_N, "Ids may be texts"),
    "D62": Row(_N, "Error responses may have the id null"),
    "D63": Row(_N, "More than 128 levels of nesting are rejected"),
    "D64": Row(_N, "10 MB pass, more is rejected with a warning; 20 MB without a line end clear the buffer"),
    # Lifecycle and connection
    "E65": Row(_N, "The child starts at once, without a health check"),
    "E66": Row(_N, "A child that fails to start is noticed by its closed pipe"),
    "E67": Row(_N, "When the client closes stdin, so does the proxy to the child"),
    "E68": Row(_N, "A child that does not leave within 5 s is killed"),
    "E69": Row(_M, "A connection is disconnected, connecting, connected or lost"),
    "E70": Row(_M, "The cached list is set once"),
    "E71": Row(_C, "The loss of the upstream is detected"),
    "E72": Row(_C, "On loss: a line on stderr, and exit code 1 at once"),
    "E73": Row(_S, "Communication with the upstream has a time limit"),
    "E74": Row(_C, "There is no attempt to reconnect"),
    "E75": Row(_N, "When the child dies the proxy says so and ends"),
    "E76": Row(_N, "The child's stderr passes through unparsed"),
    "E77": Row(_S, "An upstream that cannot be reached fails the start, with a clear message"),
    # What people read
    "F78": Row(_C, "An invalid pattern is named"),
    "F79": Row(_C, "What is wrong with it is said"),
    "F80": Row(_C, "The exit code is 1"),
    "F81": Row(_C, "An unsafe pattern is named, with the reason"),
    "F82": Row(_C, "The exit code is 1"),
    "F83": Row(_C, "A tool list that does not come is named, with the milliseconds"),
    "F84": Row(_C, "The exit code is 1"),
    "F85": Row(_C, "Two lines say that the connection is lost and that the proxy shuts down"),
    "F86": Row(_C, "A connection that fails is named, with the URL and the milliseconds"),
    "F87": Row(_C, "The exit code is 1"),
    "F88": Row(_M, "What a client is told has no stack trace and no path of ours"),
    "F89": Row(_M, "A connection error has a code: TIMEOUT, REFUSED, INVALID_RESPONSE"),
    # Security
    "G90": Row(_S, "Patterns are checked before anything starts"),
    "G91": Row(_S, "Patterns that could backtrack badly are refused"),
    "G92": Row(_C, "No internal detail reaches a client"),
    "G93": Row(_C, "Tool names in errors are sanitised"),
    "G94": Row(_C, "What the upstream sends is checked against the MCP schema"),
    "G95": Row(_S, "A denied tool is inaccessible however it is named"),
    "G96": Row(_S, "Messages of the upstream are checked before they are forwarded"),
    "G97": Row(_N, "A line of the upstream that is not JSON is logged and skipped"),
    "G98": Row(_N, "The stream goes on after it"),
    # Speed and size
    "H99": Row(_C, "A tool list is answered in less than 1 ms"),
    "H100": Row(_C, "An allowed call costs less than 5 ms"),
    "H101": Row(_C, "A denied call is answered in less than 1 ms"),
    "H102": Row(_C, "It starts in less than 500 ms"),
    "H103": Row(_C, "It takes less than 10 MB"),
    "H104": Row(_S, "Tools are filtered at the start, not at every call"),
    "H105": Row(_S, "No large amounts of data are kept"),
    # The stream of messages and the chain
    "I106": Row(_I, "A stream of bytes becomes messages"),
    "I107": Row(_I, "Responses are matched with their requests"),
    "I108": Row(_I, "Every message goes through the chain"),
    "I109": Row(_I, "What is allowed passes"),
    "I110": Row(_I, "What is blocked does not"),
    "I111": Row(_I, "What is modified passes as modified"),
    "I112": Row(_I, "Blocks are counted with their reason"),
    "I113": Row(_I, "Method interceptors come first, then rules by priority, then general interceptors"),
    "I114": Row(_I, "A disabled rule is skipped"),
    "I115": Row(_I, "fail_fast stops at the first block; without it all are heard"),
    "I116": Row(_I, "The chain has a time limit"),
    "I117": Row(_I, "default_action decides where no rule matches"),
    "I118": Row(_I, "General interceptors may run in parallel"),
    "I119": Row(_I, "A later stage sees what an earlier one changed"),
    "I120": Row(_I, "Responses go through the chain as well"),
    # Conditions
    **{
        f"J{number}": Row(_I, f"The condition {name}")
        for number, name in enumerate(
            "method_equals method_starts_with method_ends_with method_matches method_in param_exists"
            " param_equals param_matches param_greater_than param_less_than param_is_null param_is_array"
            " param_in result_exists result_equals error_code_equals error_message_contains session_id_equals"
            " session_age_greater_than all any not".split(),
            121,
        )
    },
    # Actions
    **{
        f"K{number}": Row(_I, f"The action {name}")
        for number, name in enumerate(
            "allow block delay set_param remove_param set_result inject_error transform log".split(), 143
        )
    },
    "K152": Row(_I, "A log line has the level that the rule says"),
    "K153": Row(_I, "The action metric; its values are visible while running"),
    "K154": Row(_I, "The action webhook"),
    "K155": Row(_I, "The action run_script"),
    "K156": Row(_I, "The action fork, with a number of copies"),
    "K157": Row(_I, "The action cache"),
    "K158": Row(_I, "The action rate_limit"),
    "K159": Row(_I, "A rule has an id, a name, a priority, and is enabled or not"),
    "K160": Row(_I, "A rule has metadata"),
    # Interceptors of one method, and the mode
    "L161": Row(_I, "ToolCallInterceptor: only the allowed tools"),
    "L162": Row(_I, "ToolCallInterceptor: so many calls a minute"),
    "L163": Row(_I, "ResourceAccessInterceptor: only the allowed paths"),
    "L164": Row(_I, "ResourceAccessInterceptor: no denied pattern"),
    "L165": Row(_I, "The mode is mcp, or transport for legacy set-ups"),
    # State
    "M166": Row(_I, "A session has an id"),
    "M167": Row(_I, "A session knows its MCP session id"),
    "M168": Row(_I, "A session knows its start and counts its messages"),
    "M169": Row(_I, "A conversation keeps request, response, both times, what intercepted and modified it"),
    "M170": Row(_I, "A session has statistics by method"),
    "M171": Row(_I, "Conversations have a time to live"),
    "M172": Row(_I, "Old sessions are cleaned away periodically"),
    "M173": Row(_I, "Memory is bounded, with eviction"),
    "M174": Row(_I, "A session has values of its own"),
    "M175": Row(_I, "Rules hold over several messages"),
    # Classes of methods, refusals, and how rules are evaluated
    "N176": Row(_N, "initialize, ping, notifications and responses pass unaudited"),
    "N177": Row(_N, "Lists are forwarded and audited"),
    "N178": Row(_N, "tools/call, resources/read and sampling are judged by policy"),
    "N179": Row(_N, "Unknown and vendor methods are forwarded and audited"),
    "N180": Row(_N, "A policy block has the code -32001"),
    "N181": Row(_N, "A policy block says why, for people"),
    "N182": Row(_N, "A policy block names rule and action in its data"),
    "N183": Row(_I, "Patterns are compiled once"),
    "N184": Row(_I, "A message is parsed once"),
    "N185": Row(_I, "Large messages are streamed"),
    "N186": Row(_I, "Logical operators stop at the first answer"),
    # Afterwards
    "O187": Row(_I, "Rules are reloaded without a restart"),
    "O188": Row(_I, "Transport rules and MCP rules work side by side"),
    "O189": Row(_I, "Messages are recorded when asked"),
    "O190": Row(_S, "Several upstreams behind one proxy"),
    "O191": Row(_I, "Several instances share state and limits"),
    "O192": Row(_I, "Anomalies, suggested rules, A/B sets, a live view"),
    # Where the documents disagree, settled
    "X8": Row(_C, "A listener before an upstream that dies ends, with every pending request answered"),
    "X11": Row(_C, "--validate without its package ends in one sentence"),
}
