"""Bytes to messages and back. Pure: no asyncio, no files, no sockets."""
