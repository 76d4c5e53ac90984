"""Penstock: an MCP proxy that makes chosen tools vanish and passes every other byte untouched."""

__version__ = "0.1.0"
