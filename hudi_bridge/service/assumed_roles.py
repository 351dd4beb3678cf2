"""Temporary credentials of AWS STS, or of a store with the same protocol, for a role that is narrowed to some folders.

Source: ``AssumeRole`` of the AWS STS API reference; "Actions, resources, and condition keys for Amazon S3"; "IAM JSON
policy elements: variables", for special characters.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.service.credential_kinds import KeySecrets, key_properties
from hudi_bridge.service.credentials import (
    CredentialsRefusedError,
    CredentialsUnavailableError,
    Places,
    StorageCredentials,
)

with needing_extra("glue", "boto3", "botocore", by="credentials by STS"):
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
    from botocore.exceptions import ConnectionError as NoConnectionError

_SESSION_NAME = "hudi-bridge"
_CONNECT_SECONDS, _READ_SECONDS, _MOST_TRIES = 5.0, 10.0, 3
_FIRST_SERVER_ERROR = 500
_LATER = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException")
_QUOTED = (
    "AccessDenied",
    "ValidationError",
    "MalformedPolicyDocument",
    "PackedPolicyTooLarge",
    "RegionDisabledException",
)
"""Codes of refusals whose text has no secret. The text for a wrong signature may have a session token."""
_SPECIAL = re.compile(r"[*?$]")


class AssumedRole:
    """Sessions of a role that may read places, and nothing else."""

    def __init__(
        self,
        role: str,
        *,
        region: str,
        session_seconds: int,
        external_id: str | None = None,
        endpoint: str | None = None,
        keys: KeySecrets | None = None,
        kms_keys: Sequence[str] = (),
    ) -> None:
        """The role of an ARN. It is assumed with ``keys``, by default with keys that boto3 finds.

        Sessions may decrypt with ``kms_keys``, the ARNs of keys of AWS KMS.
        """
        self._role = role
        self._region = region
        self._endpoint = endpoint
        self._keys = keys
        self._kms_keys = tuple(kms_keys)
        more = {} if external_id is None else {"ExternalId": external_id}
        self._session = {"RoleArn": role, "RoleSessionName": _SESSION_NAME, "DurationSeconds": session_seconds} | more
        self._lock = Lock()
        self._client: tuple[object, Any] | None = None

    def credentials_for(self, places: Places) -> StorageCredentials:
        """A new session for the places.

        Raises:
            CredentialsUnavailableError: STS does not answer.
            CredentialsRefusedError: STS refuses.
        """
        made_at = time.time()
        policy = read_policy(places, partition_of(self._role), self._kms_keys)
        try:
            answer = self._connected().assume_role(**self._session, Policy=policy)
        except ClientError as error:
            details = error.response.get("Error", {})
            code = details.get("Code", "an unknown error")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", _FIRST_SERVER_ERROR)
            if code in _LATER or status >= _FIRST_SERVER_ERROR:
                raise CredentialsUnavailableError(f"STS for {self._role}: {code}") from None
            message = f"{code}: {details.get('Message')}" if code in _QUOTED else code
            raise CredentialsRefusedError(f"STS for {self._role}: {message}") from None
        except (NoConnectionError, HTTPClientError) as error:
            raise CredentialsUnavailableError(f"STS for {self._role}: {type(error).__name__}") from None
        except BotoCoreError as error:
            raise CredentialsRefusedError(f"STS for {self._role}: {type(error).__name__}") from None
        return _credentials(answer["Credentials"], made_at)

    def _connected(self) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes at run time
        """A client, created again if the keys have changed; boto3 itself renews the keys that it finds."""
        keys = None if self._keys is None else self._keys.read()
        with self._lock:
            if self._client is None or self._client[0] != keys:
                access_key_id, secret, token = keys or (None, None, None)
                client = boto3.session.Session().client(
                    "sts",
                    region_name=self._region,
                    endpoint_url=self._endpoint,
                    aws_access_key_id=access_key_id,
                    aws_secret_access_key=secret,
                    aws_session_token=token,
                    config=Config(
                        connect_timeout=_CONNECT_SECONDS,
                        read_timeout=_READ_SECONDS,
                        retries={"total_max_attempts": _MOST_TRIES},
                    ),
                )
                self._client = keys, client
            return self._client[1]


def _credentials(answer: Mapping[str, Any], made_at: float) -> StorageCredentials:
    expires_at = answer["Expiration"].timestamp()
    key = key_properties(answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"])
    expiry = {"s3.session-token-expires-at-ms": str(int(1000 * expires_at))}
    return StorageCredentials(properties={**key, **expiry}, made_at=made_at, expires_at=expires_at)


def read_policy(places: Places, partition: str, kms_keys: Sequence[str] = ()) -> str:
    """A session policy by which the objects below some places can be read, and decrypted with some keys."""
    objects = []
    for uri in places:
        # Not by urlsplit: a question mark is part of a name here.
        within = uri.partition("://")[2].rstrip("/")
        objects.append(f"arn:{partition}:s3:::{_SPECIAL.sub(_escaped, within)}/*")
    statements = [{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": objects}]
    if kms_keys:
        statements.append({"Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": list(kms_keys)})
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _escaped(match: "re.Match[str]") -> str:
    return f"${{{match[0]}}}"


def partition_of(role: str) -> str:
    """The part of AWS in which a role is, such as ``aws-cn``; stores that are not of AWS have names as in ``aws``."""
    partition = role.split(":")[1]
    return partition if partition.startswith("aws") else "aws"
