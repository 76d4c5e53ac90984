"""Penstock: an MCP proxy that makes chosen tools vanish and passes every other byte untouched."""

__version__ = "1.0.0"
