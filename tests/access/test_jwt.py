"""Access tokens of an authorization server: which count, which do not, and what clients are told of us."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from authorization_server import KEY_ID, AuthorizationServer
from gate import wait_until
from guarded import Guarded, free_port, reach, shown, tools_of
from pairs import Upstream

WELL_KNOWN = "/.well-known/oauth-protected-resource"
EC_KEY, ED_KEY = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()


class Server(AuthorizationServer):
    """Has keys of every kind, and counts who asks for them."""

    fetched = 0
    is_broken = False

    def _jwks(self) -> dict[str, Any]:
        self.fetched += 1
        if self.is_broken:
            return {"keys": []}
        keys = super()._jwks()["keys"]
        keys[0].pop("alg")
        keys.append({**json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())), "kid": "ec"})
        keys.append({**json.loads(OKPAlgorithm.to_jwk(ED_KEY.public_key())), "kid": "ed"})
        keys.append({"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(b"k" * 32).decode()})
        return {"keys": keys}

    def claims(self, audience: str, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        scope = " ".join(self.scopes)
        whole = {
            "iss": self.issuer,
            "sub": "somebody",
            "aud": audience,
            "exp": now + 300,
            "scope": scope,
            **more,
        }
        return {name: value for name, value in whole.items() if value is not None}

    def public_pem(self) -> bytes:
        return self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def signed(self, claims: dict[str, Any], algorithm: str = "RS256") -> str:
        return jwt.encode(claims, self._key, algorithm, headers={"kid": KEY_ID})


class Place(NamedTuple):
    server: Server
    proxy: Guarded
    url: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    work = tmp_path_factory.mktemp("jwt")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Server(scopes=("mcp", "use")) as server, Upstream("streamable", work) as upstream:
        terms = {
            "issuer": server.issuer,
            "audience": "https://gate.example/mcp",
            "scopes": ["mcp"],
            "profile_claim": "role",
        }
        config = {
            "upstream": reach(upstream),
            "public_url": url,
            "auth": {"jwt": terms},
            "profiles": {"echoer": {"tools": {"allow": ["^echo$"]}}},
            "choose": {"default": "all"},
        }
        with Guarded(work, config, listen=str(port)) as proxy:
            yield Place(server, proxy, url)


AUDIENCE = "https://gate.example/mcp"


def test_30_a_good_token_counts(place: Place) -> None:
    server = place.server
    for token in (
        server.token(AUDIENCE),
        server.token(["https://other.example", AUDIENCE]),
        server.token(f"{place.url}/mcp"),  # for this very door
        server.signed(server.claims(AUDIENCE), "PS256"),
        jwt.encode(server.claims(AUDIENCE), EC_KEY, "ES256", headers={"kid": "ec"}),
        jwt.encode(server.claims(AUDIENCE), ED_KEY, "EdDSA", headers={"kid": "ed"}),
        server.token(AUDIENCE, nbf=int(time.time()) + 20),
        server.token(AUDIENCE, scope=None, scp=["use", "mcp"]),
    ):
        assert place.proxy.hello(token).status == 200
    door = place.proxy.door(server.token(AUDIENCE))
    door.begin()
    assert door.is_alive()
    # Another token of the same bearer goes on in the same session; one of somebody else does not.
    door.more = {"Authorization": f"Bearer {server.token(AUDIENCE, seconds=200)}"}
    assert door.is_alive()
    ping = b'{"jsonrpc":"2.0","id":3,"method":"ping"}'
    for other in (server.token(AUDIENCE, sub="other"), server.token(AUDIENCE, client_id="other")):
        door.more = {"Authorization": f"Bearer {other}"}
        assert door.whole("POST", "/mcp", door.headers(), ping).status == 404


def _bad(server: Server) -> dict[str, str]:
    good = server.claims(AUDIENCE)
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    head, body, signature = server.signed(good).split(".")

    def b64(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    # What a library would not make: the public key used as a shared secret.
    import hashlib
    import hmac

    confused = f"{b64({'alg': 'HS256', 'kid': KEY_ID})}.{body}"
    mac = hmac.new(server.public_pem(), confused.encode(), hashlib.sha256).digest()
    return {
        "expired": server.token(AUDIENCE, seconds=-1),
        "not yet": server.token(AUDIENCE, nbf=int(time.time()) + 600),
        "no expiry": server.signed(server.claims(AUDIENCE, exp=None)),
        "expiry is text": server.signed(server.claims(AUDIENCE, exp="never")),
        "another issuer": server.signed(server.claims(AUDIENCE, iss="https://evil.example")),
        "no issuer": server.signed(server.claims(AUDIENCE, iss=None)),
        "another audience": server.token("https://other.example"),
        "audience with more": server.token(AUDIENCE + "/"),
        "no audience": server.signed(server.claims(AUDIENCE, aud=None)),
        "audience is no text": server.signed(server.claims(AUDIENCE, aud=[{"x": AUDIENCE}])),
        "another door's": server.token(f"{place_url(server)}/p/echoer/mcp"),
        "another key": jwt.encode(good, other, "RS256", headers={"kid": KEY_ID}),
        "alg none": f"{b64({'alg': 'none', 'kid': KEY_ID})}.{body}.",
        "alg None": f"{b64({'alg': 'None', 'kid': KEY_ID})}.{body}.",
        "no alg": f"{b64({'kid': KEY_ID})}.{body}.{signature}",
        "public key as secret": f"{confused}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}",
        "shared key in the set": jwt.encode(good, "k" * 32, "HS256", headers={"kid": "shared"}),
        "alg of another key": f"{b64({'alg': 'ES256', 'kid': KEY_ID})}.{body}.{signature}",
        "weaker hash": server.signed(good, "RS512"),
        "own key in the head": jwt.encode(good, other, "RS256", headers={"kid": "x", "jwk": {"kty": "RSA"}}),
        "key from elsewhere": jwt.encode(good, other, "RS256", headers={"jku": "http://127.0.0.1:1/"}),
        "kid is no text": f"{b64({'alg': 'RS256', 'kid': 7})}.{body}.{signature}",
        "kid leads elsewhere": jwt.encode(good, other, "RS256", headers={"kid": "../../dev/null"}),
        "critical": jwt.encode(good, server._key, "RS256", headers={"kid": KEY_ID, "crit": ["x"], "x": 1}),
        "changed body": f"{head}.{b64({**good, 'sub': 'admin'})}.{signature}",
        "cut": server.signed(good)[:-2],
        "four parts": f"{head}.{body}.{signature}.x",
        "two parts": f"{head}.{body}",
        "not base64": "a.b.c",
        "empty": "..",
    }


_PLACES: dict[int, str] = {}


def place_url(server: Server) -> str:
    return _PLACES.get(id(server), "")


def test_30_what_is_wrong_with_a_token_is_found(place: Place) -> None:
    _PLACES[id(place.server)] = place.url
    for why, token in _bad(place.server).items():
        refused = place.proxy.hello(token)
        assert refused.status == 401, why
        assert 'error="invalid_token"' in refused.headers["www-authenticate"], why


def test_30_a_scope_that_is_missing_is_told(place: Place) -> None:
    for scope in ("use", "", "mcp2", "MCP"):
        refused = place.proxy.hello(place.server.token(AUDIENCE, scope=scope))
        assert refused.status == 403
        challenge = refused.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="mcp"' in challenge


def test_30_the_claim_pins_to_a_profile(place: Place) -> None:
    token = place.server.token(AUDIENCE, role="echoer")
    door = place.proxy.door(token)
    door.begin()
    assert tools_of(door) == ["echo"]
    assert place.proxy.hello(token, "/p/echoer/mcp").status == 200
    # Without the claim: the default, and nothing else by asking for it.
    assert place.proxy.hello(place.server.token(AUDIENCE), "/p/echoer/mcp").status == 404
    for role in ("nowhere", ["echoer", "all"], 7, "", {"a": 1}):
        assert place.proxy.hello(place.server.token(AUDIENCE, role=role)).status == 403


def test_30_metadata_names_each_door_and_does_not_depend_on_host(place: Place) -> None:
    door = place.proxy.door()
    for path in ("/mcp", "/sse", "/p/echoer/mcp", "/p/no-such-profile/mcp"):
        found = door.whole("GET", WELL_KNOWN + path, {"Host": "localhost:1"})
        assert found.status == 200
        assert shown(found) == {
            "resource": f"{place.url}{path}",
            "authorization_servers": [place.server.issuer],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["mcp"],
        }
        refused = place.proxy.hello(path=path)
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == (
            f'Bearer resource_metadata="{place.url}{WELL_KNOWN}{path}"'
        )
    assert shown(door.whole("GET", WELL_KNOWN))["resource"] == f"{place.url}/mcp"
    for path in ("/", "/other", "/../mcp", "//mcp", "/p/a/b/mcp", "x"):
        assert door.whole("GET", WELL_KNOWN + path).status == 404
    assert door.whole("GET", WELL_KNOWN, {"Host": "evil.example"}).status == 403


def test_30_a_thousand_unknown_keys_are_one_fetch(tmp_path: Path) -> None:
    port = free_port()
    with Server() as server, Upstream("stdio", tmp_path) as upstream:
        config = {
            "upstream": reach(upstream),
            "public_url": f"http://127.0.0.1:{port}",
            "auth": {"jwt": {"issuer": server.issuer, "audience": AUDIENCE}},
        }
        server.is_broken = True  # at first there are no keys: the start goes on, and says so
        with Guarded(tmp_path, config, listen=str(port)) as proxy:
            assert "Cannot get the keys" in proxy.stderr
            assert proxy.hello(server.token(AUDIENCE)).status == 503
        server.is_broken, server.fetched = False, 0
        with Guarded(tmp_path, config, listen=str(port)) as proxy:
            assert server.fetched == 1
            assert proxy.hello(server.token(AUDIENCE)).status == 200
            claims = server.claims(AUDIENCE)
            body = server.signed(claims).split(".", 1)[1]
            import http.client

            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            for number in range(1000):
                head = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"made-up-%d"}' % number).rstrip(b"=")
                connection.request(
                    "POST",
                    "/mcp",
                    b"{}",
                    {"Authorization": f"Bearer {head.decode()}.{body}", "Content-Type": "application/json"},
                )
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 401
            connection.close()
            assert server.fetched == 1
            assert proxy.hello(server.token(AUDIENCE)).status == 200


def test_streams_end_soon_after_their_token(place: Place) -> None:
    door = place.proxy.door(place.server.token(AUDIENCE, seconds=3))
    door.begin()
    stream = door.listen()
    assert stream.status == 200
    wait_until(lambda: place.proxy.hello(door.more["Authorization"].split()[1]).status == 401)
    door.until(lambda: stream.is_over, within=60)
