"""Bytes and what they mean. Pure: nothing here opens, waits or knows of asyncio."""
