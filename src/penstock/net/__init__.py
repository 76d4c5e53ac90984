"""Plumbing: the event loop, file descriptors, child processes, HTTP. Knows nothing of MCP."""
