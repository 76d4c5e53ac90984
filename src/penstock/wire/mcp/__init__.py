"""MCP messages, ids, eras and headers."""
