"""An S3 store with STS by moto that lets nobody in without a key, and holds sessions to their policies.

The service has a user of its own; there is a role, which may do anything with the store, for sessions of clients.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.iam import access_control
from moto.server import ThreadedMotoServer
from moto.sts.models import sts_backends

REGION = "us-east-1"
BUCKETS = ("lake", "views")
EXTERNAL_ID = "of the lake"
_STORE = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
_SESSIONS = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}
_TRUST = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedStore:
    """The store; ``access_key_id`` and ``secret_access_key`` are the service's."""

    address: str
    access_key_id: str
    secret_access_key: str
    role: str

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    def uri(self, path: str) -> str:
        """The URI by which the service opens a folder, given with its bucket."""
        keys = f"{quote(self.access_key_id, safe='')}:{quote(self.secret_access_key, safe='')}"
        return f"s3://{keys}@{path}?scheme=http&region={REGION}&endpoint_override={self.address}"

    def upload(self, folder: Path, to: str) -> None:
        """Copy the files of a folder below a place of the store."""
        bucket, _, key = to.partition("/")
        client = self.client("s3")
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                client.put_object(Bucket=bucket, Key=f"{key}/{path.relative_to(folder)}", Body=path.read_bytes())

    def client(self, service: str) -> Any:
        """A client with the service's keys."""
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
        )

    def sessions(self) -> Sequence[Any]:
        """The sessions of roles, as moto keeps them."""
        return [
            role
            for by_region in sts_backends.values()
            for backend in by_region.values()
            for role in backend.assumed_roles
        ]


@contextmanager
def guarded_store() -> Iterator[GuardedStore]:
    """A store with empty buckets, during the block."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        try:
            address = "{}:{}".format(*server.get_host_and_port())
            store = _set_up(address)
            patch.setattr(access_control.AssumedRoleAccessKey, "collect_policies", _policies_of_session)
            patch.setattr(ActionAuthenticatorMixin, "request_count", 0)
            patch.setattr(settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
            yield store
        finally:
            server.stop()


def _set_up(address: str) -> GuardedStore:
    iam, s3 = (
        boto3.client(
            service,
            endpoint_url=f"http://{address}",
            region_name=REGION,
            aws_access_key_id="first",
            aws_secret_access_key="first",
        )
        for service in ("iam", "s3")
    )
    for bucket in BUCKETS:
        s3.create_bucket(Bucket=bucket)
    iam.create_user(UserName="service")
    iam.put_user_policy(UserName="service", PolicyName="all", PolicyDocument=_policy(_STORE, _SESSIONS))
    key = iam.create_access_key(UserName="service")["AccessKey"]
    role = iam.create_role(RoleName="reader", AssumeRolePolicyDocument=_policy(_TRUST))["Role"]["Arn"]
    iam.put_role_policy(RoleName="reader", PolicyName="all", PolicyDocument=_policy(_STORE))
    return GuardedStore(
        address=address,
        access_key_id=key["AccessKeyId"],
        secret_access_key=key["SecretAccessKey"],
        role=role,
    )


def _policy(*statements: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def _policies_of_session(key: Any) -> list[str]:
    """The policy of a session, which moto itself does not look at; the role may do all that it allows, and more."""
    sessions = sts_backends[key.account_id][key.partition].assumed_roles
    return [session.policy for session in sessions if session.access_key_id == key._access_key_id]
