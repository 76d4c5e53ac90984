"""Plumbing: the event loop, file descriptors, child processes. Knows nothing of MCP."""
