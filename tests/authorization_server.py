"""A small OAuth 2.1 authorization server for tests: registration, PKCE, resource indicators, signed tokens.

Nobody is asked: whoever comes to `/authorize` is sent back with a code. Tokens are JWTs (RS256) whose
audience is the `resource` that was asked for (RFC 8707), and what `also` adds. The keys are at `jwks_uri`.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import secrets
import threading
import time
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

KEY_ID = "test-key"


class AuthorizationServer:
    """Listens on a port of its own while it is entered. What it was asked is kept for tests to look at."""

    def __init__(self, also: tuple[str, ...] = (), scopes: tuple[str, ...] = ("use",)) -> None:
        """`also` are audiences that every token has besides the resource that was asked for."""
        self.also = also
        self.scopes = scopes
        self.clients: dict[str, dict[str, Any]] = {}
        self.authorized: list[dict[str, str]] = []  # the parameters of every authorization request
        self.exchanged: list[dict[str, str]] = []  # and of every token request
        self.swapped: list[dict[str, str]] = []  # and of every exchange of a token for another (RFC 8693)
        self.secrets: dict[str, str] = {}  # of clients that may exchange tokens
        self.refused: set[str] = set()  # subjects whose tokens are exchanged for nothing
        self.seconds = 300.0  # how long such tokens count
        self._codes: dict[str, dict[str, str]] = {}
        self._refreshes: dict[str, dict[str, str]] = {}
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> AuthorizationServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def jwks_uri(self) -> str:
        """Where the keys are that tokens are checked with."""
        return f"{self.issuer}/jwks"

    def token(self, audience: str | list[str], seconds: float = 300, **claims: Any) -> str:
        """A token, as a client would get it; claims may be given that a client would not get."""
        now = int(time.time())
        whole = {
            "iss": self.issuer,
            "sub": "somebody",
            "aud": audience,
            "iat": now,
            "exp": int(now + seconds),
            "scope": " ".join(self.scopes),
            **claims,
        }
        return jwt.encode(whole, self._key, algorithm="RS256", headers={"kid": KEY_ID})

    # --- what it answers ---------------------------------------------------------------------------------

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "jwks_uri": self.jwks_uri,
            "scopes_supported": list(self.scopes),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def _jwks(self) -> dict[str, Any]:
        public = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [{**public, "kid": KEY_ID, "use": "sig", "alg": "RS256"}]}

    def _register(self, wanted: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not wanted.get("redirect_uris"):
            return 400, {"error": "invalid_redirect_uri"}
        client = {
            **wanted,
            "client_id": secrets.token_urlsafe(8),
            "client_id_issued_at": int(time.time()),
            "token_endpoint_auth_method": "none",
        }
        self.clients[client["client_id"]] = client
        return 201, client

    def _authorize(self, asked: dict[str, str]) -> str | None:
        """Where the user's browser is sent; None when it must not be sent anywhere."""
        self.authorized.append(asked)
        client = self.clients.get(asked.get("client_id", ""))
        back = asked.get("redirect_uri", "")
        if client is None or back not in client["redirect_uris"]:
            return None
        answer = {"iss": self.issuer, "state": asked.get("state", "")}
        if asked.get("response_type") != "code" or asked.get("code_challenge_method") != "S256":
            answer["error"] = "invalid_request"
        else:
            code = answer["code"] = secrets.token_urlsafe(16)
            self._codes[code] = asked
        return f"{back}?{urlencode(answer)}"

    def _exchange(self, asked: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.exchanged.append(asked)
        if asked.get("grant_type") == "refresh_token":
            granted = self._refreshes.pop(asked.get("refresh_token", ""), None)
        else:
            granted = self._codes.pop(asked.get("code", ""), None)
            if granted is not None and not self._is_same_client(granted, asked):
                granted = None
        if granted is None:
            return 400, {"error": "invalid_grant"}
        resource = asked.get("resource", granted.get("resource", ""))
        if resource != granted.get("resource", resource):
            return 400, {"error": "invalid_target"}
        refresh = secrets.token_urlsafe(16)
        self._refreshes[refresh] = granted
        audience = [name for name in (resource, *self.also) if name]
        return 200, {
            "access_token": self.token(audience, client_id=granted["client_id"]),
            "token_type": "Bearer",
            "expires_in": 300,
            "refresh_token": refresh,
            "scope": " ".join(self.scopes),
        }

    def _swap(self, asked: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """RFC 8693: a token of ours for one that somebody else takes."""
        self.swapped.append(asked)
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode().split(":")
        client, secret = (unquote(text) for text in (*pair, "")[:2])
        if not authorization.startswith("Basic ") or self.secrets.get(client) != secret:
            return 401, {"error": "invalid_client"}
        try:
            public, options = self._key.public_key(), {"verify_aud": False}
            claims = jwt.decode(asked["subject_token"], public, algorithms=["RS256"], options=options)
        except (KeyError, jwt.PyJWTError):
            return 400, {"error": "invalid_request"}
        if claims["sub"] in self.refused:
            return 400, {"error": "invalid_grant", "error_description": asked["subject_token"]}
        token = self.token(asked["audience"], self.seconds, sub=claims["sub"], act={"sub": client})
        kind = "urn:ietf:params:oauth:token-type:access_token"
        return 200, {
            "access_token": token,
            "issued_token_type": kind,
            "token_type": "Bearer",
            "expires_in": self.seconds,
        }

    @staticmethod
    def _is_same_client(granted: dict[str, str], asked: dict[str, str]) -> bool:
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_same = all(granted.get(name) == asked.get(name) for name in ("client_id", "redirect_uri"))
        return is_same and secrets.compare_digest(challenge, granted["code_challenge"])

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        ours = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path, query = urlsplit(self.path)[2:4]
                if path == "/.well-known/oauth-authorization-server":
                    self._answer(200, ours._metadata())
                elif path == "/jwks":
                    self._answer(200, ours._jwks())
                elif path == "/authorize":
                    where = ours._authorize({name: values[0] for name, values in parse_qs(query).items()})
                    more = {} if where is None else {"Location": where}
                    self._answer(400 if where is None else 302, {}, **more)
                else:
                    self._answer(404, {"error": "not_found"})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                if self.path == "/register":
                    self._answer(*ours._register(json.loads(body)))
                elif self.path == "/token":
                    asked = {name: values[0] for name, values in parse_qs(body).items()}
                    if asked.get("grant_type", "").endswith(":token-exchange"):
                        self._answer(*ours._swap(asked, self.headers.get("Authorization", "")))
                    else:
                        self._answer(*ours._exchange(asked))
                else:
                    self._answer(404, {"error": "not_found"})

            def _answer(self, status: int, value: dict[str, Any], **headers: str) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Cache-Control", "no-store")
                for name, text in headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
