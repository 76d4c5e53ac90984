"""A certificate authority for tests, and what it signs. Keys are made anew each time."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates; everything is written to files in `work`."""

    def __init__(self, work: Path, name: str = "test authority") -> None:
        self.work = work
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._cert = self._build(self._name, self._key, [], is_authority=True)
        self.file = work / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(_pem(self._cert))

    def sign(self, name: str) -> tuple[str, str, str]:
        """The files of a new certificate and its key, and its SHA-256; it is for localhost, too."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._build(_name(name), key, [name, "localhost"], is_authority=False)
        cert_file, key_file = self.work / f"{name}.pem", self.work / f"{name}.key"
        cert_file.write_bytes(_pem(cert))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        der = cert.public_bytes(serialization.Encoding.DER)
        return str(cert_file), str(key_file), hashlib.sha256(der).hexdigest()

    def _build(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, names: list[str], is_authority: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(hours=2))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names:
            alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
            alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        else:
            usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(serialization.Encoding.PEM)
