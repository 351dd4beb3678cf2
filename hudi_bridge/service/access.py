"""Who may read which namespaces: readers by static token, by client credentials, or by a token of an OIDC issuer."""

import base64
import hashlib
import hmac
import math
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, Self

from hudi_bridge.connectors.lakes.tables import Namespace
from hudi_bridge.errors import QueryError

TOKEN_SECONDS = 3600
"""How long a token that the service has issued is valid."""
EVERYTHING = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A reader of some namespaces with all that is in them; of all namespaces if ``namespaces`` is None.

    ``issuer`` is where the name comes from: readers with the same name but other issuers are different readers.
    """

    name: str
    namespaces: tuple[Namespace, ...] | None = None
    issuer: str = "configuration"

    @classmethod
    def of(cls, name: str, namespaces: Iterable[str]) -> Self:
        """A reader of dotted namespaces; ``*`` stands for all."""
        given = tuple(namespaces)
        if EVERYTHING in given:
            return cls(name=name)
        return cls(name=name, namespaces=tuple(tuple(name.split(".")) for name in given))

    def may_read(self, namespace: Namespace) -> bool:
        """Whether the reader may read the tables of a namespace."""
        return self.namespaces is None or any(namespace[: len(levels)] == levels for levels in self.namespaces)

    def may_see(self, namespace: Namespace) -> bool:
        """Whether the reader may know of a namespace, because something below it may be read."""
        if self.may_read(namespace):
            return True
        return any(levels[: len(namespace)] == namespace for levels in self.namespaces or ())


class TokenRefusedError(Exception):
    """Raised for a token that names no reader; the text is for the log."""


class TokenLacksScopeError(TokenRefusedError):
    """Raised for a genuine token that is not for this service."""


class IssuerUnavailableError(Exception):
    """Raised if the keys of the issuer are not available."""


class Issuer(Protocol):
    """An issuer of tokens for readers."""

    def keys_coming(self, token: str) -> Future[None] | None:
        """A future that must be done before a token can be checked; None if ``reader_of`` does not
        wait for anything.
        """

    def reader_of(self, token: str) -> Reader:
        """The reader that a token names.

        Raises:
            TokenRefusedError: the token is not genuine, or not for this service.
            IssuerUnavailableError: it cannot be checked.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The readers of a service: ``tokens`` by token, ``clients`` by client id and secret."""

    tokens: Mapping[str, Reader] = field(default_factory=dict)
    clients: Mapping[str, tuple[str, Reader]] = field(default_factory=dict)
    issuer: Issuer | None = None

    def with_token(self, token: str) -> Self:
        """With one more reader, of everything, by a token."""
        return replace(self, tokens={**self.tokens, token: Reader(name="token")})

    def own_reader_of(self, token: str) -> Reader | None:
        """The reader that a static token names, or one that was issued here; None for a token that is neither."""
        # All tokens are compared, so that the time does not depend on the token.
        readers = [reader for secret, reader in self.tokens.items() if _same(secret, token)]
        return readers[0] if readers else self._issued(token)

    def issue(self, client_id: str, secret: str) -> str | None:
        """A token for a client; None unless the client has this secret.

        It is signed with the secret: it holds in all services that know the client, and until the secret changes.
        """
        expected, _ = self.clients.get(client_id, ("", None))
        if not _same(expected, secret) or not expected:
            return None
        return self._signed(client_id)

    def renew(self, token: str, client_id: str, secret: str) -> str | None:
        """A later token in place of one that was issued; None if it is no longer valid.

        A client that shows its id and secret may renew a token of its own that has expired.
        """
        client = self._client_of(token)
        if client is None:
            return None
        of_client, expires = client
        if expires > time.time():
            return self._signed(of_client)
        return self.issue(client_id, secret) if client_id == of_client else None

    def _signed(self, client_id: str) -> str:
        # Rounded up, because clients renew their tokens shortly before the announced time.
        expires = math.ceil(time.time() + TOKEN_SECONDS)
        content = f"{base64.urlsafe_b64encode(client_id.encode()).decode()}~{expires}"
        return f"{content}~{_signature(self.clients[client_id][0], content)}"

    def _issued(self, token: str) -> Reader | None:
        client = self._client_of(token)
        if client is None or client[1] <= time.time():
            return None
        return self.clients[client[0]][1]

    def _client_of(self, token: str) -> tuple[str, int] | None:
        """The client that a token was issued to, and the time when it expires; None if it was not issued."""
        content, _, signature = token.rpartition("~")
        name, _, expires = content.partition("~")
        try:
            client_id = base64.urlsafe_b64decode(name).decode()
            secret, reader = self.clients.get(client_id, ("", None))
            expected = _signature(secret, content)
        except ValueError:
            # Tokens that are not UTF-8 were not signed here.
            return None
        if reader is None or not _same(expected, signature):
            return None
        return client_id, int(expires)


def _signature(secret: str, content: str) -> str:
    return hmac.new(f"hudi-bridge token {secret}".encode(), content.encode(), hashlib.sha256).hexdigest()


def _same(secret: str, given: str) -> bool:
    return hmac.compare_digest(secret.encode(), given.encode("utf-8", "surrogateescape"))


def read_secret(argument: str, path: Path) -> str:
    """The secret in a file, without the line end; ``argument`` names the file in errors.

    Raises:
        QueryError: the file cannot be read or is empty.
    """
    try:
        secret = path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise QueryError(argument, f"{path}, which cannot be read", "a file that holds a token") from error
    if not secret:
        raise QueryError(argument, f"{path}, which is empty", "a file that holds a token")
    return secret
