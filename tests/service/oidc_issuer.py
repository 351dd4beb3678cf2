"""An OpenID Connect issuer on a loopback address, whose tokens are signed with keys of its own."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "hudi"


@dataclass(kw_only=True)
class LoopbackIssuer:
    """The issuer; ``asked`` are the paths that it was asked for. It does not answer until ``may_answer`` is set."""

    url: str
    keys: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    up: bool = True
    may_answer: Event = field(default_factory=Event)

    def new_key(self, id_: str) -> None:
        """Sign with a new key from now on, and publish it beside the others."""
        self.keys[id_] = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, **claims: Any) -> str:
        """A token that is valid, but for what ``claims`` change; None leaves a claim out."""
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "someone", "exp": int(time.time()) + 60, "scope": "lake read"}
        complete = {name: value for name, value in (usual | claims).items() if value is not None}
        id_, key = list(self.keys.items())[-1]
        return jwt.encode(complete, key, algorithm="RS256", headers={"kid": id_})

    def answer(self, path: str) -> Any:
        """The document at a path."""
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/token":
            return {"access_token": self.token(), "token_type": "bearer", "expires_in": 60}
        made = [
            (id_, jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)) for id_, key in self.keys.items()
        ]
        return {"keys": [{**key, "kid": id_, "use": "sig", "alg": "RS256"} for id_, key in made]}


@contextmanager
def running_issuer() -> Iterator[LoopbackIssuer]:
    """An issuer that answers during the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.may_answer.wait()
            content = json.dumps(issuer.answer(self.path)).encode()
            self.send_response(200 if issuer.up else 500)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = LoopbackIssuer(url=f"http://127.0.0.1:{server.server_address[1]}")
        issuer.new_key("first")
        issuer.may_answer.set()
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
