"""Access tokens for Google Cloud Storage: the service's own, and narrower ones for clients.

The service's own token belongs to a service account or to the machine. Clients get a token that reads some folders and
nothing else. Reading needs only ``storage.objects.get``, because clients of Iceberg list nothing.

Source: "How Application Default Credentials works", "Using OAuth 2.0 for Server to Server Applications" and "Downscope
with Credential Access Boundaries" of Google; the resource attributes of "IAM Conditions"; the Common Expression
Language for texts in expressions.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from threading import Lock
from typing import Any

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.service.credentials import (
    CredentialsRefusedError,
    CredentialsUnavailableError,
    Places,
    StorageCredentials,
)

with needing_extra("gcs", "google", "requests", by="credentials for Google Cloud Storage"):
    import google.auth
    import requests
    from google.auth.downscoped import AccessBoundaryRule, AvailabilityCondition, CredentialAccessBoundary
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.auth.transport.requests import Request
    from google.oauth2.service_account import Credentials
    from google.oauth2.sts import Client

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_TIMEOUT = (5.0, 10.0)
_FIRST_SERVER_ERROR, _TOO_MANY_REQUESTS = 500, 429
_OLDEST_SECONDS = 300.0
_CODE = re.compile(r"[a-z_]{1,40}")
_STS = "https://sts.googleapis.com/v1/token"
_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
_ROLE = "inRole:roles/storage.legacyObjectReader"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleToken:
    """An access token, with the time of its end in seconds since the epoch."""

    text: str
    expires_at: float

    def __repr__(self) -> str:
        return f"GoogleToken(expires_at={self.expires_at})"


class GoogleTokens:
    """Tokens that are at most five minutes old, so that tokens derived from them are valid for nearly as long.
    Thread-safe.
    """

    def __init__(self, file: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        """``file`` is the key of a service account; by default, Google's library finds credentials.

        Both are looked up for each new token, so that they can be changed.
        """
        self._file = file
        self._clock = clock
        self._lock = Lock()
        self._cache: tuple[float, GoogleToken] | None = None

    def token(self) -> GoogleToken:
        """A token for all that the service may do.

        Raises:
            CredentialsUnavailableError: Google does not answer.
            CredentialsRefusedError: Google refuses, or there are no credentials.
        """
        with self._lock:
            now = self._clock()
            if self._cache is None or now - self._cache[0] > _OLDEST_SECONDS:
                self._cache = now, self._made()
            return self._cache[1]

    def _made(self) -> GoogleToken:
        with errors_of("Google's token service"), google_client() as client:
            default: Any = (
                google.auth.default(_SCOPES, request=client)[0] if self._file is None else service_account(self._file)
            )
            default.refresh(client)
            return GoogleToken(text=default.token, expires_at=default.expiry.replace(tzinfo=UTC).timestamp())


class GcsTokens:
    """The service's own tokens, narrowed to places."""

    def __init__(self, tokens: GoogleTokens, *, sts_endpoint: str | None = None) -> None:
        """``sts_endpoint`` is the address of Google's Security Token Service, where it has another one."""
        self._tokens = tokens
        self._sts = Client(sts_endpoint or _STS)

    def credentials_for(self, places: Places) -> StorageCredentials:
        """A new token for the places, which expires with the token that it is derived from.

        Raises:
            CredentialsUnavailableError: Google does not answer.
            CredentialsRefusedError: Google refuses, or there are no credentials.
        """
        own, made_at = self._tokens.token(), time.time()
        with errors_of("Google's Security Token Service"), google_client() as client:
            answer = self._sts.exchange_token(
                client,
                _GRANT,
                own.text,
                _ACCESS_TOKEN,
                requested_token_type=_ACCESS_TOKEN,
                additional_options=access_boundary(places).to_json(),
            )
            token, seconds = answer["access_token"], answer.get("expires_in")
            expires_at = own.expires_at if seconds is None else min(own.expires_at, made_at + float(seconds))
        properties = {"gcs.oauth2.token": token, "gcs.oauth2.token-expires-at": str(int(1000 * expires_at))}
        return StorageCredentials(properties=properties, made_at=made_at, expires_at=expires_at)


def access_boundary(places: Places) -> CredentialAccessBoundary:
    """A boundary within which the objects below some places can be read, with a rule for each bucket."""
    folders: dict[str, list[str]] = {}
    for uri in places:
        # Not by urlsplit: a question mark is part of a name here.
        bucket, _, folder = uri.partition("://")[2].rstrip("/").partition("/")
        folders.setdefault(bucket, []).append(f"{folder}/" if folder else "")
    return CredentialAccessBoundary([_rule(bucket, names) for bucket, names in folders.items()])


def _rule(bucket: str, folders: Iterable[str]) -> AccessBoundaryRule:
    names = (f"projects/_/buckets/{bucket}/objects/{folder}" for folder in folders)
    condition = " || ".join(f"resource.name.startsWith({cel_text(name)})" for name in names)
    return AccessBoundaryRule(
        available_resource=f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        available_permissions=[_ROLE],
        availability_condition=AvailabilityCondition(condition),
    )


def cel_text(text: str) -> str:
    """A text as a literal of the Common Expression Language, whatever signs it has."""
    return "'" + "".join(sign if sign.isprintable() and sign not in "'\\" else _escaped(sign) for sign in text) + "'"


def _escaped(sign: str) -> str:
    return f"\\{sign}" if sign in "'\\" else f"\\U{ord(sign):08x}"


def service_account(file: Path) -> Credentials:
    """The service account whose key is in a file.

    Raises:
        CredentialsRefusedError: there is none; the text has nothing of the file.
    """
    try:
        account: Credentials = Credentials.from_service_account_info(json.loads(file.read_bytes()), scopes=_SCOPES)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise CredentialsRefusedError(f"{file} has no key of a service account: {type(error).__name__}") from None
    return account


@contextmanager
def google_client() -> Iterator[Any]:
    """The HTTP client for Google's library, with a timeout.

    An answer that asks to try again is an error of the network.
    """
    with requests.Session() as session:
        request = Request(session)

        def bounded(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the library calls it
            response = request(*arguments, **{**named, "timeout": _TIMEOUT})
            if response.status >= _FIRST_SERVER_ERROR or response.status == _TOO_MANY_REQUESTS:
                raise TransportError(f"status {response.status}")
            return response

        yield bounded


@contextmanager
def errors_of(service: str) -> Iterator[None]:
    """Raises errors of Google's library, and of invalid answers, as errors of this service.

    Raises:
        CredentialsUnavailableError: the service does not answer.
        CredentialsRefusedError: it refuses, or there are no credentials.
    """
    try:
        yield
    except GoogleAuthError as error:
        text = f"{service}: {_safe_text(error)}"
        # The library hands on an error of the network as the cause of one of its own.
        is_of_network = isinstance(error, TransportError) or isinstance(error.__cause__, TransportError)
        raise (CredentialsUnavailableError if is_of_network else CredentialsRefusedError)(text) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CredentialsUnavailableError(f"{service}: no token in the answer ({type(error).__name__})") from None


def _safe_text(error: GoogleAuthError) -> str:
    """The kind of an error and the code of an answer; the rest of its text may quote what was sent."""
    answer = error.args[1] if len(error.args) > 1 else None
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except ValueError:
            answer = None
    code = answer.get("error") if isinstance(answer, Mapping) else None
    is_known = isinstance(code, str) and _CODE.fullmatch(code)
    return f"{type(error).__name__}, {code}" if is_known else type(error).__name__
