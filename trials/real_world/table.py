"""Which published servers and clients are tried: all that start without keys or accounts."""

from __future__ import annotations

from trials.real_world.clients import Client
from trials.real_world.servers import Server

_OFFICIAL = "@modelcontextprotocol/server-"
EVERYTHING = Server("npm", f"{_OFFICIAL}everything", ("mcp-server-everything",))
SERVERS = (
    EVERYTHING,
    Server(
        "npm",
        f"{_OFFICIAL}everything",
        ("mcp-server-everything", "streamableHttp"),
        "http",
        env=(("PORT", "{port}"),),
    ),
    Server(
        "npm",
        f"{_OFFICIAL}everything",
        ("mcp-server-everything", "sse"),
        "sse",
        "/sse",
        (("PORT", "{port}"),),
    ),
    Server("npm", f"{_OFFICIAL}filesystem", ("mcp-server-filesystem", "{work}")),
    Server("npm", f"{_OFFICIAL}github", ("mcp-server-github",)),
    Server("npm", f"{_OFFICIAL}memory", ("mcp-server-memory",)),
    Server("npm", f"{_OFFICIAL}postgres", ("mcp-server-postgres", "postgresql://localhost/none")),
    Server("npm", f"{_OFFICIAL}sequential-thinking", ("mcp-server-sequential-thinking",)),
    Server("npm", "@antv/mcp-server-chart", ("mcp-server-chart",)),
    Server(
        "npm",
        "@antv/mcp-server-chart",
        ("mcp-server-chart", "--transport", "sse", "--port", "{port}"),
        "sse",
        "/sse",
    ),
    Server("npm", "@eslint/mcp", ("mcp",)),
    Server("npm", "@kazuph/mcp-fetch", ("mcp-fetch",)),
    Server("npm", "@notionhq/notion-mcp-server", ("notion-mcp-server",)),
    Server("npm", "@playwright/mcp", ("playwright-mcp", "--headless")),
    Server("npm", "@playwright/mcp", ("playwright-mcp", "--headless", "--port", "{port}"), "http"),
    Server("npm", "@upstash/context7-mcp", ("context7-mcp",)),
    Server(
        "npm", "@upstash/context7-mcp", ("context7-mcp", "--transport", "http", "--port", "{port}"), "http"
    ),
    Server("npm", "@wonderwhy-er/desktop-commander", ("desktop-commander",)),
    Server("npm", "chrome-devtools-mcp", ("chrome-devtools-mcp",)),
    Server("npm", "firecrawl-mcp", ("firecrawl-mcp",), env=(("FIRECRAWL_API_KEY", "none"),)),
    Server("npm", "mcp-obsidian", ("mcp-obsidian", "{work}")),
    Server("npm", "mcp-server-commands", ("mcp-server-commands",)),
    Server("npm", "mongodb-mcp-server", ("mongodb-mcp-server",)),
    Server("pypi", "awslabs.aws-documentation-mcp-server", ("awslabs.aws-documentation-mcp-server",)),
    Server("pypi", "blender-mcp", ("blender-mcp",)),
    Server("pypi", "code-index-mcp", ("code-index-mcp",)),
    Server("pypi", "duckduckgo-mcp-server", ("duckduckgo-mcp-server",)),
    Server("pypi", "excel-mcp-server", ("excel-mcp-server", "stdio")),
    Server("pypi", "markitdown-mcp", ("markitdown-mcp",)),
    Server("pypi", "markitdown-mcp", ("markitdown-mcp", "--http", "--port", "{port}"), "http", "/mcp"),
    Server("pypi", "mcp-hn", ("mcp-hn",)),
    Server("pypi", "mcp-nixos", ("mcp-nixos",)),
    Server("pypi", "mcp-server-calculator", ("mcp-server-calculator",)),
    Server("pypi", "mcp-server-fetch", ("mcp-server-fetch",)),
    Server("pypi", "mcp-server-git", ("mcp-server-git", "--repository", "{work}")),
    Server("pypi", "mcp-server-sqlite", ("mcp-server-sqlite", "--db-path", "{work}/test.db")),
    Server("pypi", "mcp-server-time", ("mcp-server-time",)),
    Server("pypi", "mcp-shell-server", ("mcp-shell-server",), env=(("ALLOW_COMMANDS", "ls"),)),
    Server(
        "pypi", "mcp-simple-pubmed", ("mcp-simple-pubmed",), env=(("PUBMED_EMAIL", "nobody@example.org"),)
    ),
    Server("pypi", "office-word-mcp-server", ("word_mcp_server",)),
    Server("pypi", "paper-search-mcp", ("paper-search-mcp",)),
    Server("pypi", "wikipedia-mcp", ("wikipedia-mcp",)),
    Server(
        "pypi", "wikipedia-mcp", ("wikipedia-mcp", "--transport", "http", "--port", "{port}"), "http", "/mcp"
    ),
)
CLIENTS = (
    Client("npm", "@ai-sdk/mcp", also=("zod",)),
    Client("npm", "@langchain/mcp-adapters", also=("@langchain/core", "@langchain/langgraph")),
    Client("npm", "@mastra/mcp", also=("@mastra/core", "zod")),
    Client("npm", "@modelcontextprotocol/client"),
    Client("npm", "@modelcontextprotocol/sdk"),
    Client("npm", "@openai/agents"),
    Client("npm", "mcp-client"),
    Client("npm", "mcp-use", also=("react",)),
    Client("npm", "mcporter", "mcporter"),
    Client("pypi", "agno", also=("fastmcp", "mcp")),
    Client("pypi", "autogen-ext[mcp]", also=("mcp<2",)),
    Client("pypi", "fastmcp"),
    Client("pypi", "google-adk", also=("mcp",)),
    Client("pypi", "langchain-mcp-adapters"),
    Client("pypi", "llama-index-tools-mcp"),
    Client("pypi", "mcp"),
    Client("pypi", "mcp<2"),
    Client("pypi", "mcp-haystack"),
    Client("pypi", "mcp-use"),
    Client("pypi", "openai-agents"),
    Client("pypi", "pydantic-ai-slim[mcp]"),
    Client("pypi", "smolagents[mcp]", also=("mcp<2",)),
    Client("pypi", "strands-agents"),
)
