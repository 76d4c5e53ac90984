"""One era of MCP shown as the other: pure state machines, no clock and no I/O."""
