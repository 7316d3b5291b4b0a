"""Certificates for tests, made with the openssl command: authorities of their own, good for a day."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Stores:
    """Both PEM: `keystore` holds a node's key and certificate, `truststore` the authority's certificate."""

    keystore: Path
    truststore: Path

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings for a node's configuration file."""
        return {
            "listener.security.protocol.map": "CONTROLLER:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
        }


class Authority:
    """A certificate authority. Skips the test if there is no openssl."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            # Only these tests use it; Kraft itself does not.
            pytest.skip("not run: there is no openssl command")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._name = directory, name
        self._key, self.certificate = directory / f"{name}.key", directory / f"{name}.pem"
        self._openssl("req", "-x509", *_new_key(self._key), "-out", self.certificate, "-subj", f"/CN={name}", *_YEAR)

    def certify(self, owner: str, names: str = "DNS:localhost,IP:127.0.0.1", days: int = 1) -> Stores:
        """A new key and a certificate for these alternative names. With negative `days` it has expired."""
        key, request, certificate = (self._directory / f"{self._name}-{owner}.{kind}" for kind in ("key", "csr", "crt"))
        subject = ("-subj", f"/CN={owner}", "-addext", f"subjectAltName={names}")
        self._openssl("req", *_new_key(key), "-out", request, *subject)
        signer = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial")
        self._openssl("x509", "-req", "-in", request, *signer, "-out", certificate, *_valid(days))
        keystore = self._directory / f"{self._name}-{owner}.pem"
        keystore.touch(mode=0o600)
        keystore.write_bytes(key.read_bytes() + certificate.read_bytes())
        return Stores(keystore, self.certificate)

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)


_YEAR = ("-days", "365")


def _valid(days: int) -> tuple[str, ...]:
    return ("-days", str(days), "-copy_extensions", "copy")


def _new_key(path: Path) -> tuple[str | Path, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path)
