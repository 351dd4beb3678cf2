"""Certificates of TLS for services on a loopback address, and stores of them for Java."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from hudi_bridge.service.server import Tls


def certificate(folder: Path, common_name: str = "localhost") -> Tls:
    """A new certificate of this machine, signed by itself, and its key, in a folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(private)
    return Tls(certificate=folder / "cert.pem", key=folder / "key.pem")


def trust_store(tls: Tls, folder: Path, password: str) -> Path:
    """A trust store for Java, in a folder, that holds the certificate alone."""
    certificate = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    entry = pkcs12.PKCS12Certificate(certificate, b"hudi-bridge")
    store = folder / "trust.p12"
    encryption = serialization.BestAvailableEncryption(password.encode())
    store.write_bytes(pkcs12.serialize_java_truststore([entry], encryption))
    return store


def key_store(tls: Tls, folder: Path, password: str) -> Path:
    """A key store for a server in Java, in a folder, with the certificate and its key."""
    key = serialization.load_pem_private_key(tls.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    own = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    encryption = serialization.BestAvailableEncryption(password.encode())
    store = folder / "key.p12"
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"hudi-bridge", key, own, None, encryption))
    return store
