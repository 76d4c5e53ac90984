<<<<<<< HEAD
"""Plumbing: the event loop, file descriptors, child processes. Knows nothing of MCP."""
=======
"""Plumbing on asyncio: sockets, processes, HTTP. Nothing here knows what MCP is."""
>>>>>>> b6e37949a4b60a71a09f35e6ef47f76eaf5515ff
