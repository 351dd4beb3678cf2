"""Bearer tokens of an OpenID Connect issuer: signed JSON web tokens, checked with the keys that the issuer publishes.

Source: OpenID Connect Discovery 1.0; RFC 7517, 7519 and 8725.
"""

import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.errors import QueryError
from hudi_bridge.service.access import IssuerUnavailableError, Reader, TokenLacksScopeError, TokenRefusedError
from hudi_bridge.service.gate import is_loopback

with needing_extra("serve", "jwt", "cryptography"):
    import cryptography  # noqa: F401 - PyJWT checks signatures with it
    import jwt

# Signatures with a public key alone: a token that names another algorithm is refused.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_SECONDS = 30
_REFRESH_SECONDS = 10.0
"""How often an unknown key may make the service ask the issuer again, and how soon after it has not answered."""
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
    _keys: "tuple[jwt.PyJWK, ...]" = ()
    _under_way: Future[None] | None = None
    _failure: str = ""
    # Times of the monotonic clock: of the keys, of the latest request that failed, and of that for an unknown key.
    _keys_since: float = -math.inf
    _failed: float = -math.inf
    _refreshed: float = -math.inf

    def __post_init__(self) -> None:
        """Raises QueryError for addresses over which keys could be changed on the way.

        Raises:
            QueryError: an address is not of HTTPS, nor of this machine.
        """
        for address in (self.url, self.keys_url):
            if address is not None:
                _require_safe(address)

    def keys_coming(self, token: str) -> Future[None] | None:
        """The request for keys that a token has to wait for; None if it can be checked or refused at once.

        The future always ends without an error: ``reader_of`` raises it if there are no keys.
        """
        try:
            id_ = jwt.get_unverified_header(token).get("kid")
        except (jwt.PyJWTError, ValueError):
            return None
        return self._coming(id_)

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
            return Reader(name=name, issuer=self.url)
        reader = Reader.of(name, _texts(claims.get(self.namespaces_claim)))
        return replace(reader, issuer=self.url)

    def _key(self, id_: Any) -> Any:  # noqa: ANN401 - as an unchecked token has it
        """The key with an id, which may be the only one; the issuer is asked for an unknown key."""
        coming = self._coming(id_)
        if coming is not None:
            coming.result()
        with self._lock:
            signing_key = self._cached_key(id_)
            if signing_key is not None:
                return signing_key.key
            if self._has_failed() or not self._has_keys():
                raise IssuerUnavailableError(f"the keys of {self.url} cannot be had: {self._failure}")
        raise TokenRefusedError("a token signed with a key that the issuer does not have")

    def _coming(self, id_: Any) -> Future[None] | None:  # noqa: ANN401
        """The shared request under way for an unknown key; None if there is no reason to ask."""
        with self._lock:
            if self._cached_key(id_) is not None:
                return None
            if self._under_way is not None:
                return self._under_way
            if self._has_failed():
                return None
            if self._has_keys():
                now = time.monotonic()
                if now - self._refreshed < _REFRESH_SECONDS:
                    return None
                self._refreshed = now
            coming = self._under_way = Future()
        Thread(target=self._ask, args=(coming,), name="hudi-bridge-oidc", daemon=True).start()
        return coming

    def _ask(self, coming: Future[None]) -> None:
        """Ask the issuer for its keys."""
        keys: tuple[jwt.PyJWK, ...] = ()
        failure = ""
        try:
            if self._client is None:
                address = self.keys_url or _discovered(self.url)
                self._client = jwt.PyJWKClient(address, cache_jwk_set=False, timeout=_TIMEOUT_SECONDS)
            keys = tuple(self._client.get_signing_keys())
        except Exception as error:  # noqa: BLE001 - what an issuer answers may be anything
            failure = str(error)
        with self._lock:
            now = time.monotonic()
            if keys:
                self._keys, self._keys_since, self._failed = keys, now, -math.inf
            else:
                self._failure, self._failed = failure, now
            self._under_way = None
        coming.set_result(None)

    def _cached_key(self, id_: Any) -> "jwt.PyJWK | None":  # noqa: ANN401
        keys = self._keys if self._has_keys() else ()
        matching = [key for key in keys if key.key_id == id_] if id_ is not None or len(keys) > 1 else keys
        return matching[0] if matching else None

    def _has_keys(self) -> bool:
        return time.monotonic() - self._keys_since < _KEYS_SECONDS

    def _has_failed(self) -> bool:
        return time.monotonic() - self._failed < _REFRESH_SECONDS


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
    return tuple(value for value in claim if isinstance(value, str)) if isinstance(claim, list) else ()


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
