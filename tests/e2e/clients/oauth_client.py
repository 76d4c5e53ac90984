"""Connects with the OAuth provider of the Python SDK, either generation, lists the tools and calls echo.

oauth_client.py URL
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

BACK = "http://127.0.0.1:1/callback"  # nobody listens: the code is read from where we are sent


class Kept:
    """Tokens and registration, for as long as this runs."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """What was given."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keeps what was given."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Who we are."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keeps who we are."""
        self.client = client_info


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def sent_back(url: str) -> dict[str, str]:
    """What the authorization server sends the user's browser back with."""
    try:
        urllib.request.build_opener(_Stay).open(url, timeout=10)
    except urllib.error.HTTPError as answer:
        location = answer.headers["Location"]
        return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
    raise AssertionError("not sent back")


def provider(url: str, is_old: bool) -> OAuthClientProvider:
    """The SDK's own, with a user who says yes."""
    found: dict[str, str] = {}

    async def redirected(where: str) -> None:
        found.update(await asyncio.to_thread(sent_back, where))

    async def called_back() -> Any:
        if is_old:
            return found["code"], found["state"]
        from mcp.client.auth import AuthorizationCodeResult

        return AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found["iss"])

    about = OAuthClientMetadata(
        client_name="test",
        redirect_uris=[BACK],  # type: ignore[list-item]
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope="use",
    )
    return OAuthClientProvider(url, about, Kept(), redirected, called_back)


async def with_old(url: str) -> tuple[list[str], str]:
    """SDK 1.x."""
    import httpx
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with httpx.AsyncClient(auth=provider(url, is_old=True)) as http:  # noqa: SIM117
        async with streamable_http_client(url, http_client=http) as (incoming, outgoing, _):
            async with ClientSession(incoming, outgoing) as session:
                await session.initialize()
                listed = await session.list_tools()
                called = await session.call_tool("echo", {"word": "said"})
                return [tool.name for tool in listed.tools], called.content[0].text


async def with_new(url: str) -> tuple[list[str], str]:
    """SDK 2.x."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(auth=provider(url, is_old=False)) as http:  # noqa: SIM117
        async with Client(streamable_http_client(url, http_client=http)) as client:
            listed = await client.list_tools()
            called = await client.call_tool("echo", {"word": "said"})
            return [tool.name for tool in listed.tools], called.content[0].text  # type: ignore[union-attr]


def main() -> None:
    """Prints one line of JSON: the tools and the answer, or why not."""
    try:
        import httpx2  # noqa: F401

        run = with_new
    except ImportError:
        run = with_old
    try:
        tools, said = asyncio.run(run(sys.argv[1]))
        report: dict[str, Any] = {"tools": tools, "said": said}
    except BaseException as why:
        while isinstance(why, BaseExceptionGroup):
            why = why.exceptions[0]
        report = {"error": f"{type(why).__name__}: {why}"}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
