"""Bearer tokens of an OpenID Connect issuer: signed JSON web tokens, checked with the keys that the issuer publishes.

Source: OpenID Connect Discovery 1.0; RFC 7517, 7519 and 8725.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from hudi_bridge.connectors.iceberg.access import (
    IssuerUnavailableError,
    Reader,
    TokenLacksScopeError,
    TokenRefusedError,
)
from hudi_bridge.connectors.iceberg.http_limits import is_loopback
from hudi_bridge.errors import QueryError
from hudi_bridge.extras import needing_extra

with needing_extra("serve", "jwt", "cryptography"):
    import cryptography  # noqa: F401 - PyJWT checks signatures with it
    import jwt

# Signatures with a public key alone: a token that names another algorithm is refused.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_SECONDS = 30
_REFRESH_SECONDS = 10.0
"""How often an unknown key may make the service ask the issuer again."""
_KEYS_SECONDS = 300
_TIMEOUT_SECONDS = 10
_MOST_BYTES = 1 << 20


@dataclass(slots=True, kw_only=True)
class OidcIssuer:
    """An issuer. Tokens must be for ``audience`` and have all ``scopes``.

    ``namespaces_claim`` names the claim that has the namespaces which the bearer may read; without it, bearers may read
    all. ``keys_url`` is where the keys are; by default the issuer's discovery document tells it. Thread-safe.
    """

    url: str
    audience: str
    scopes: tuple[str, ...] = ()
    namespaces_claim: str | None = None
    keys_url: str | None = None
    _lock: Lock = field(default_factory=Lock)
    _client: "jwt.PyJWKClient | None" = None
    _refreshed: float = -_REFRESH_SECONDS

    def __post_init__(self) -> None:
        """Raises QueryError for addresses over which keys could be changed on the way.

        Raises:
            QueryError: an address is not of HTTPS, nor of this machine.
        """
        for address in (self.url, self.keys_url):
            if address is not None:
                _require_safe(address)

    def reader_of(self, token: str) -> Reader:
        """The reader that a token names.

        Raises:
            TokenRefusedError: the token is not genuine, expired, or of another issuer or audience.
            TokenLacksScopeError: it is genuine, but lacks a scope or the claim of namespaces.
            IssuerUnavailableError: the keys cannot be had.
        """
        try:
            id_ = jwt.get_unverified_header(token).get("kid")
            claims = jwt.decode(
                token,
                self._key(id_),
                algorithms=list(_ALGORITHMS),
                audience=self.audience,
                issuer=self.url,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise TokenRefusedError(f"a token that is refused: {type(error).__name__}") from error
        lacking = set(self.scopes) - set(_texts(claims.get("scope", claims.get("scp"))))
        if lacking:
            raise TokenLacksScopeError(f"a token without the scopes {', '.join(sorted(lacking))}")
        name = str(claims.get("sub", "unknown"))
        if self.namespaces_claim is None:
            return Reader(name=name)
        return Reader.of(name, _texts(claims.get(self.namespaces_claim)))

    def _key(self, id_: Any) -> Any:  # noqa: ANN401 - as an unchecked token has it
        """The key of an id, which may be the only one; the issuer is asked again for one that is not known."""
        with self._lock:
            try:
                client = self._keys()
                for refresh in (False, True):
                    if refresh and not self._may_ask_again():
                        break
                    keys = client.get_signing_keys(refresh=refresh)
                    found = [key for key in keys if key.key_id == id_] if id_ is not None or len(keys) > 1 else keys
                    if found:
                        return found[0].key
            except (jwt.PyJWKClientError, jwt.PyJWKSetError, OSError) as error:
                raise IssuerUnavailableError(f"the keys of {self.url} cannot be had: {error}") from error
        raise TokenRefusedError("a token signed with a key that the issuer does not have")

    def _may_ask_again(self) -> bool:
        now = time.monotonic()
        if now - self._refreshed < _REFRESH_SECONDS:
            return False
        self._refreshed = now
        return True

    def _keys(self) -> "jwt.PyJWKClient":
        if self._client is None:
            address = self.keys_url or _discovered(self.url)
            self._client = jwt.PyJWKClient(address, lifespan=_KEYS_SECONDS, timeout=_TIMEOUT_SECONDS)
        return self._client


def _discovered(issuer: str) -> str:
    """The address of the keys, by the issuer's discovery document."""
    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310 - checked to be of HTTPS
            content = response.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            raise OSError(f"{address} is answered with {error.code}") from None
    try:
        document = json.loads(content)
        keys = document["jwks_uri"] if document["issuer"] == issuer else None
    except (ValueError, LookupError, TypeError) as error:
        raise OSError(f"{address} is no discovery document") from error
    if not isinstance(keys, str):
        raise OSError(f"{address} is that of another issuer")
    try:
        _require_safe(keys)
    except QueryError as error:
        raise OSError(str(error)) from error
    return keys


def _require_safe(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise QueryError("address of the issuer", address, "an https:// address")


def _texts(claim: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    """The texts of a claim that is a list, or one text with spaces between them."""
    if isinstance(claim, str):
        return tuple(claim.split())
    return tuple(one for one in claim if isinstance(one, str)) if isinstance(claim, list) else ()


def issuer_of(document: Mapping[str, Any]) -> OidcIssuer:
    """The issuer of the table ``oidc`` in a configuration.

    Raises:
        QueryError: an address is not safe.
    """
    return OidcIssuer(
        url=document["issuer"],
        audience=document["audience"],
        scopes=tuple(document.get("scopes", ())),
        namespaces_claim=document.get("namespaces-claim"),
        keys_url=document.get("jwks"),
    )
