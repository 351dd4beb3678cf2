"""An object store on the loopback, in its own process, with latency for each request and a line of limited width."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.s3_server import S3Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the store was asked for: requests by kind, the bytes that it sent, and the most requests at once."""

    requests: dict[str, int]
    sent_bytes: int
    most_at_once: int


class Store:
    """A running store, which serves the folders below its root."""

    def __init__(self, pipe: Connection, uri: str, root: Path) -> None:
        self._pipe, self._uri, self._root = pipe, uri, root

    def uri(self, folder: Path) -> str:
        """The URI of a folder below the root, as ``pyarrow`` takes it."""
        return self._uri.replace("@", f"@{folder.relative_to(self._root).as_posix()}")

    def endpoint(self) -> str:
        """The address of the store, as host and port."""
        return parse_qs(urlsplit(self._uri).query)["endpoint_override"][0]

    def reset(self) -> None:
        """Count anew."""
        self._ask("reset")

    def counted(self) -> Counted:
        """What was counted since ``reset``."""
        return self._ask("tell")

    def _ask(self, question: str) -> Counted:
        self._pipe.send(question)
        answer: Counted = self._pipe.recv()
        return answer


def as_object_store(uri: str) -> tuple[str, dict[str, str]]:
    """A URI of S3 as ``pyarrow`` takes it, as the readers in Rust take it: without, and with the options of the store.

    Others are left as they are.
    """
    if not uri.startswith("s3://"):
        return uri, {}
    # s3://KEY:SECRET@BUCKET/FOLDER?region=…&endpoint_override=…
    parts = urlsplit(uri)
    given = {name: values[0] for name, values in parse_qs(parts.query).items()}
    options = {
        "aws_access_key_id": parts.username or "",
        "aws_secret_access_key": parts.password or "",
        "aws_region": given["region"],
        "aws_endpoint": f"http://{given['endpoint_override']}",
        "aws_allow_http": "true",
    }
    return f"s3://{parts.hostname}{parts.path}", options


@contextmanager
def running_store(root: Path, latency_seconds: float, bytes_per_second: float | None) -> Iterator[Store]:
    """A store on the folders below ``root``; None for a line without limit."""
    pipe, other = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve, args=(root, latency_seconds, bytes_per_second, other))
    process.start()
    try:
        yield Store(pipe, pipe.recv(), root)
    finally:
        pipe.send(None)
        process.join()


def _serve(root: Path, latency: float, bandwidth: float | None, pipe: Connection) -> None:
    with S3Server(root, latency, bandwidth).running() as server:
        pipe.send(server.uri(""))
        while (asked := pipe.recv()) is not None:
            if asked == "reset":
                server.reset()
            found = server.traffic
            pipe.send(
                Counted(requests=dict(found.requests), sent_bytes=found.sent_bytes, most_at_once=found.most_at_once)
            )
