"""Progress notifications in their plainest form, as many as come one after another in a stream of events.

A long call tells its progress again and again: the same few members with other numbers. The pattern takes
just those: each member once, in the orders that SDKs write them, no blank, no escape, nothing that is not
ASCII. So an event that it takes has one reading, for strict and careless readers alike. Whatever else comes
is not refused here: it is read in wire/http/sse.py and wire/mcp/message.py.
"""

from __future__ import annotations

import re

# Everything has a limit, so that an event is small and a token cannot be as long as a message.
_TEXT = rb'"[ !#-\[\]-~]{0,500}"'
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,17})?"
_TOKEN = rb'"progressToken":(?:%b|%b)' % (_NUMBER, _TEXT)
_STEP = rb'"progress":%b(?:,"total":%b)?(?:,"message":%b)?' % (_NUMBER, _NUMBER, _TEXT)
_SAID = rb'"method":"notifications/progress","params":\{(?:%b,%b|%b,%b)\}' % (_TOKEN, _STEP, _STEP, _TOKEN)
_MESSAGE = rb'\{(?:"jsonrpc":"2\.0",%b|%b,"jsonrpc":"2\.0")\}' % (_SAID, _SAID)
# As a plain event of wire/http/sse.py. Not possessive: before 3.11.5 such a group could lose a match.
_RUN = re.compile(
    rb"(?:(?:event: ?message\r?\n|id: ?[!-~]{0,200}\r?\n){0,4}data: ?%b(?:\r\n\r\n|\r?\n\n))+" % _MESSAGE
).match


def end_of_progress(chunk: bytes) -> int:
    """Where the events that `chunk` begins with end, as far as they tell nothing but progress; 0: at once.

    `chunk` begins where an event does. One that says something of tools is left for those who know what is
    hidden, though here it could be no more than a word.
    """
    run = _RUN(chunk)
    if run is None or b"tools" in run[0].lower():
        return 0
    return run.end()
