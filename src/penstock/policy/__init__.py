"""Messages to verdicts. Pure: no asyncio, no files, no sockets."""
