"""Plumbing on asyncio: sockets, processes, HTTP. Nothing here knows what MCP is."""
