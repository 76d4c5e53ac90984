"""Every AI client we know: its files, the shape of its entries, its limits. One row each.

In paths `{home}` is the home folder, `{config}` the folder that $XDG_CONFIG_HOME names, `{app}` that of
applications on this system (on Linux the same as `{config}`), and `*` any name.
"""

from __future__ import annotations

from msgspec import Struct

Files = tuple[str, ...]


class Shape(Struct, frozen=True):
    """How a client writes down a server: where the table is and what its members are called."""

    table: tuple[str, ...] = ("mcpServers",)
    command: str = "command"
    args: str | None = "args"  # None: `command` is the whole array
    env: str = "env"
    urls: tuple[str, ...] = ("url",)
    headers: tuple[str, ...] = ("headers",)
    type: str = "type"
    local_type: str = "stdio"
    remote_types: tuple[str, ...] = ()  # what `type` may say of a server at a URL
    is_list: bool = False  # a list of entries with `name`, not entries by name
    takes_urls: bool = True


class Client(Struct, frozen=True):
    """One client."""

    name: str
    title: str
    user: Files
    project: Files = ()
    shape: Shape = Shape()
    home_variables: tuple[tuple[str, str], ...] = ()  # variable, and the path in the folder that it names
    after: str = "Restart {title}."
    start_seconds: int | None = None
    most_tools: int | None = None
    name_length: int | None = None
    name_counts_server: bool = False  # the limit is for server and tool together
    has_poor_path: bool = False  # started from a desktop: no shell has set its PATH
    passes: tuple[str, ...] | None = None  # the only variables that a server inherits; None: all
    note: str = ""
    last_file_wins: bool = False  # the same server in a later file hides that of an earlier one
    has_local_scope: bool = False  # entries for one project in the user's file


_REMOTE = ("http", "sse", "streamable-http", "streamableHttp", "streamable_http", "remote")
_RELOADS = "{title} reloads it by itself."
_TYPED = Shape(remote_types=_REMOTE)
_SERVERS = Shape(table=("servers",), remote_types=_REMOTE)

_CODEX_PASSES = tuple(
    "HOME LOGNAME PATH SHELL USER __CF_USER_TEXT_ENCODING LANG LC_ALL TERM TMPDIR TZ".split()
)

CLIENTS: tuple[Client, ...] = (
    Client(
        "claude-code",
        "Claude Code",
        user=("{home}/.claude.json",),
        project=(".mcp.json",),
        shape=_TYPED,
        home_variables=(("CLAUDE_CONFIG_DIR", ".claude.json"),),
        start_seconds=30,
        note="MCP_TIMEOUT sets how long it waits. It rewrites its own file all the time.",
        has_local_scope=True,
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        user=(
            "{app}/Claude/claude_desktop_config.json",
            "{localapp}/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json",
        ),
        shape=Shape(takes_urls=False),
        start_seconds=60,
        has_poor_path=True,
        note="Its PATH is poor: programs of nvm, uv or Homebrew need their whole path.",
    ),
    Client(
        "cursor",
        "Cursor",
        user=("{home}/.cursor/mcp.json",),
        project=(".cursor/mcp.json",),
        shape=_TYPED,
        after=_RELOADS,
        start_seconds=60,
        most_tools=80,
        name_length=60,
        name_counts_server=True,
    ),
    Client(
        "vscode",
        "VS Code",
        user=("{app}/Code/User/mcp.json", "{app}/Code/User/profiles/*/mcp.json"),
        project=(".vscode/mcp.json",),
        shape=_SERVERS,
        after=_RELOADS,
        most_tools=128,
        name_length=64,
        note="Reads envFile beside env; asks for ${input:...}.",
    ),
    Client(
        "vscode-insiders",
        "VS Code Insiders",
        user=("{app}/Code - Insiders/User/mcp.json", "{app}/Code - Insiders/User/profiles/*/mcp.json"),
        shape=_SERVERS,
        after=_RELOADS,
        most_tools=128,
        name_length=64,
    ),
    Client(
        "windsurf",
        "Windsurf",
        user=("{home}/.codeium/windsurf/mcp_config.json",),
        shape=Shape(urls=("serverUrl", "url"), remote_types=_REMOTE),
        after="Press its refresh button.",
        most_tools=100,
        note="${env:X} and ${file:X} expand in args.",
    ),
    Client(
        "devin",
        "Devin Desktop",
        user=("{config}/devin/mcp_config.json",),
        project=(".devin/mcp_config.json",),
        shape=Shape(urls=("serverUrl", "url"), remote_types=_REMOTE),
        after="Press its refresh button.",
        most_tools=100,
    ),
    Client(
        "codex",
        "Codex",
        user=("{home}/.codex/config.toml",),
        project=(".codex/config.toml",),
        shape=Shape(table=("mcp_servers",), headers=("http_headers",)),
        home_variables=(("CODEX_HOME", "config.toml"),),
        start_seconds=30,
        name_length=128,
        passes=_CODEX_PASSES,
        note="Reads a project's file only where the project is trusted; passes few variables and env_vars.",
    ),
    Client(
        "gemini",
        "Gemini CLI",
        user=("{home}/.gemini/settings.json",),
        project=(".gemini/settings.json",),
        shape=Shape(urls=("httpUrl", "url"), remote_types=_REMOTE),
        start_seconds=600,
        name_length=63,
        note="url is legacy SSE, httpUrl Streamable HTTP; $VAR expands; hides variables called like keys.",
    ),
    Client(
        "zed",
        "Zed",
        user=("{config}/zed/settings.json",),
        project=(".zed/settings.json",),
        shape=Shape(table=("context_servers",)),
        after=_RELOADS,
        start_seconds=60,
    ),
    Client(
        "cline",
        "Cline",
        user=(
            "{home}/.cline/data/settings/cline_mcp_settings.json",
            "{app}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
        shape=_TYPED,
        home_variables=(("CLINE_MCP_SETTINGS_PATH", ""),),
        after=_RELOADS,
        start_seconds=60,
        name_length=64,
    ),
    Client(
        "goose",
        "goose",
        user=("{config}/goose/config.yaml", "{app}/Block/goose/config/config.yaml"),
        shape=Shape(
            table=("extensions",),
            command="cmd",
            env="envs",
            urls=("uri",),
            remote_types=("streamable_http", "sse"),
        ),
        start_seconds=300,
        note="Adds folders to PATH of its own.",
    ),
    Client(
        "continue",
        "Continue",
        user=("{home}/.continue/config.yaml",),
        project=(".continue/mcpServers/*.yaml", ".continue/mcpServers/*.yml", ".continue/mcpServers/*.json"),
        shape=Shape(
            is_list=True, headers=("requestOptions", "headers"), remote_types=("streamable-http", "sse")
        ),
        after=_RELOADS,
        start_seconds=20,
        note="Takes the PATH of the login shell.",
    ),
    Client(
        "jetbrains",
        "JetBrains AI Assistant",
        user=("{home}/.ai/mcp/mcp.json",),
        project=(".ai/mcp/mcp.json",),
        shape=_TYPED,
    ),
    Client(
        "junie",
        "Junie",
        user=("{home}/.junie/mcp/mcp.json",),
        project=(".junie/mcp/mcp.json",),
        shape=_TYPED,
    ),
    Client(
        "copilot-jetbrains",
        "Copilot for JetBrains",
        user=("{config}/github-copilot/intellij/mcp.json",),
        shape=_SERVERS,
    ),
    Client(
        "lmstudio",
        "LM Studio",
        user=("{home}/.lmstudio/mcp.json", "{home}/.cache/lm-studio/mcp.json"),
        shape=_TYPED,
    ),
    Client(
        "opencode",
        "opencode",
        user=("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"),
        project=("opencode.json", "opencode.jsonc"),
        shape=Shape(
            table=("mcp",), args=None, env="environment", local_type="local", remote_types=("remote",)
        ),
        start_seconds=30,
        last_file_wins=True,
    ),
    Client(
        "copilot-cli",
        "Copilot CLI",
        user=("{home}/.copilot/mcp-config.json",),
        project=(".github/mcp.json",),
        shape=Shape(local_type="local", remote_types=_REMOTE),
    ),
    Client(
        "kiro",
        "Kiro",
        user=("{home}/.kiro/settings/mcp.json",),
        project=(".kiro/settings/mcp.json",),
        shape=_TYPED,
    ),
    Client("amp", "Amp", user=("{config}/amp/settings.json",), shape=Shape(table=("amp.mcpServers",))),
    Client(
        "antigravity",
        "Antigravity",
        user=("{home}/.gemini/antigravity/mcp_config.json",),
        shape=Shape(urls=("serverUrl", "url"), remote_types=_REMOTE),
    ),
)

BY_NAME = {client.name: client for client in CLIENTS}
