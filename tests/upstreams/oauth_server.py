"""An MCP server of the Python SDK that wants tokens of an authorization server, meant for it and nobody else.

    oauth_server.py ISSUER JWKS_URI [--audience FILE]

The audience is its own address, or the one in FILE, which is read when a token comes.
It says `listening on URL` on stderr.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import jwt
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer


class Verifier:
    """Checks signature, issuer, time and audience."""

    def __init__(self, issuer: str, keys: str, audience: Callable[[], str]) -> None:
        self._issuer = issuer
        self._keys = jwt.PyJWKClient(keys)
        self._audience = audience

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who the token was given to; None when it is not for us."""
        try:
            key = self._keys.get_signing_key_from_jwt(token).key
            claims = jwt.decode(
                token, key, algorithms=["RS256"], audience=self._audience(), issuer=self._issuer
            )
        except jwt.PyJWTError as why:
            print(f"refused a token: {why}", file=sys.stderr, flush=True)
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims["scope"].split(),
            expires_at=claims["exp"],
        )


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("issuer")
    parser.add_argument("keys")
    parser.add_argument("--audience", type=Path)
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        audience = chosen.audience.read_text if chosen.audience else lambda: own
        server = MCPServer(
            "wants-tokens",
            token_verifier=Verifier(chosen.issuer, chosen.keys, audience),
            auth=AuthSettings(
                issuer_url=chosen.issuer,  # type: ignore[arg-type]
                resource_server_url=own,  # type: ignore[arg-type]
                required_scopes=["use"],
                validate_token_resource=False,
            ),
        )

        @server.tool()
        def echo(word: str) -> str:
            """Says it again."""
            return word

        @server.tool()
        def erase() -> str:
            """Something to hide."""
            return "gone"

        app = server.streamable_http_app()
        print(f"listening on {own}", file=sys.stderr, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    main()
