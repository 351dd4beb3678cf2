"""Tokens that read some folders of Google Cloud Storage, and nothing else.

Source: "Downscope with Credential Access Boundaries" of Google, and the resource attributes of "IAM Conditions"; the
Common Expression Language for texts in expressions. Reading needs ``storage.objects.get`` alone: clients of Iceberg
list nothing.
"""

import time
from collections.abc import Iterable

from hudi_bridge.connectors.iceberg.google_tokens import GoogleTokens, errors_of, google_client
from hudi_bridge.connectors.iceberg.storage_credentials import Places, StorageCredentials
from hudi_bridge.extras import needing_extra

with needing_extra("gcs", "google", by="credentials for Google Cloud Storage"):
    from google.auth.downscoped import AccessBoundaryRule, AvailabilityCondition, CredentialAccessBoundary
    from google.oauth2.sts import Client

_STS = "https://sts.googleapis.com/v1/token"
_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
_ROLE = "inRole:roles/storage.legacyObjectReader"


class GcsTokens:
    """The service's own tokens, narrowed to places."""

    def __init__(self, tokens: GoogleTokens, *, sts_endpoint: str | None = None) -> None:
        """``sts_endpoint`` is the address of Google's Security Token Service, where it has another one."""
        self._tokens = tokens
        self._sts = Client(sts_endpoint or _STS)

    def credentials_for(self, places: Places) -> StorageCredentials:
        """A new token for the places, which ends with the one that it is made of.

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
    for place in places:
        # Not by urlsplit: a question mark is part of a name here.
        bucket, _, folder = place.partition("://")[2].rstrip("/").partition("/")
        folders.setdefault(bucket, []).append(f"{folder}/" if folder else "")
    return CredentialAccessBoundary([_rule(bucket, found) for bucket, found in folders.items()])


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
