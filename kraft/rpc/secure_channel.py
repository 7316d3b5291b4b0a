"""TLS of gRPC, for both ends. Certificates are renewed without a restart.

gRPC takes keys and certificates as bytes, and verifies each server's certificate and the host in it. It chooses the
version and the cipher suite itself, among those of TLS 1.2 and 1.3.
"""

from __future__ import annotations

import ssl
import time
from typing import Any

import grpc
import grpc.aio

from kraft.rpc.tls_stores import StoresRead, WatchedStores
from kraft.tls.store_files import StoreError
from kraft.tls.stores import ClientAuth, TlsSettings


class TlsDial:
    """Opens channels inside TLS. When the files of its stores have changed, new channels use what they hold now."""

    def __init__(self, settings: TlsSettings, *, trusts_own: bool = False) -> None:
        """With `trusts_own` and no truststore, the CAs in the own keystore are trusted, too. Raises StoreError."""
        self._stores = WatchedStores(settings, time.monotonic)
        self._trusts_own = trusts_own

    def generation(self) -> int:
        """Return another number than before if channels have to be opened again."""
        return self._stores.look()

    def __call__(self, address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        read = self._stores.latest
        key, chain = (None, None) if read.key is None else (read.key.private_key, read.key.certificates)
        credentials = grpc.ssl_channel_credentials(self._trusted(read), key, chain)
        return grpc.aio.secure_channel(address, credentials, options=options)

    def _trusted(self, read: StoresRead) -> bytes | None:
        if read.trusted is not None:
            return read.trusted
        own = read.key.certificates if self._trusts_own and read.key is not None else b""
        return (own + _trusted_by_system()) or None


def _trusted_by_system() -> bytes:
    """Return the CAs that programs of this system trust; gRPC has a list of its own, which is used without any."""
    context = ssl.create_default_context()
    return "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(binary_form=True))).encode()


def server_credentials(settings: TlsSettings) -> grpc.ServerCredentials:
    """Return the credentials of a listener, which reads its stores again when they change. Raises StoreError."""
    stores = WatchedStores(settings, time.monotonic)
    asks = settings.client_auth is ClientAuth.REQUIRED
    if asks and stores.latest.trusted is None:
        raise StoreError(
            "ssl.client.auth=required needs the certificates of the clients' CAs: set ssl.truststore.location"
        )
    known = 0

    def renewed() -> Any:
        """Return what the next connections use; None for what they have. A thread of gRPC calls this for each."""
        nonlocal known
        generation = stores.look()
        if generation == known:
            return None
        known = generation
        return _configuration(stores.latest, asks=asks)

    return grpc.dynamic_ssl_server_credentials(_configuration(stores.latest, asks=asks), renewed, asks)


def _configuration(read: StoresRead, *, asks: bool) -> grpc.ServerCertificateConfiguration:
    assert read.key is not None, "a listener with TLS has a keystore"
    pair = (read.key.private_key, read.key.certificates)
    return grpc.ssl_server_certificate_configuration([pair], read.trusted if asks else None)
