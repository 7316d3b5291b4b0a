"""TLS of the CONTROLLER listener, for both ends: each shows a certificate, and checks that of the other."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from msgspec import Struct

from kraft.server.config.values import CONTROLLER
from kraft.server.identity.credential_files import CredentialsError, read, read_private
from kraft.tls.renewal import RenewedContext
from kraft.tls.store_files import StoreError, pem_blocks
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile

_HANDSHAKE_TURNS: Final = 4
"""Messages of each end at most; an end that waits for more has already checked the other."""


class TlsFiles(Struct, frozen=True, kw_only=True):
    """PEM: the node's own `private_key` and `certificates`, and the `trusted` certificates of the others' CAs."""

    private_key: bytes
    certificates: bytes
    trusted: bytes


class ControllerTls:
    """Follows its files once `watch` runs: connections that begin then use what they hold."""

    def __init__(self, settings: TlsSettings, host: str | None) -> None:
        """Read the files. `host` is where others connect to this node; None if nobody does. Raises CredentialsError."""
        self._host = host
        try:
            self._files = RenewedContext(CONTROLLER, settings, self._read)
        except StoreError as error:
            raise CredentialsError(str(error)) from None
        self.watch = self._files.watch

    def generation(self) -> int:
        """Return another number than before if channels have to be opened again."""
        return self._files.generation

    def __call__(self, address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """Open a channel to the CONTROLLER listener of another node."""
        files = self._files.current()
        credentials = grpc.ssl_channel_credentials(files.trusted, files.private_key, files.certificates)
        return grpc.aio.secure_channel(address, credentials, options=options)

    def server_credentials(self) -> grpc.ServerCredentials:
        known = self._files.current()

        def renewed() -> Any:
            """Return what the next connections use; None for what they have. A thread of gRPC calls this for each."""
            nonlocal known
            found = self._files.current()
            if found is known:
                return None
            known = found
            return _shown(found)

        return grpc.dynamic_ssl_server_credentials(_shown(known), renewed, require_client_authentication=True)

    def _read(self, settings: TlsSettings) -> TlsFiles:
        """Raises StoreError."""
        assert isinstance(settings.key_store, KeyStoreFile), "the configuration was checked"
        assert isinstance(settings.trust_store, TrustStoreFile), "the configuration was checked"
        try:
            return read_tls_files(settings.key_store.path, settings.trust_store.path, host=self._host)
        except CredentialsError as error:
            raise StoreError(str(error)) from None


def _shown(files: TlsFiles) -> Any:
    return grpc.ssl_server_certificate_configuration([(files.private_key, files.certificates)], files.trusted)


def read_tls_files(keystore: Path, truststore: Path, *, host: str | None) -> TlsFiles:
    """Read the files of a node with TLS.

    Raises CredentialsError for files that OpenSSL, or another node with this truststore, would refuse. That is checked
    here because gRPC does not report whose handshake failed. `host` is where others connect to this node; None if
    nobody does.
    """
    own = read_private(keystore, "ssl.keystore.location", forbidden=0o007)
    trusted = read(truststore, "ssl.truststore.location")
    blocks = pem_blocks(own)
    keys = [block for kind, block in blocks if kind.endswith("PRIVATE KEY")]
    if any(b"ENCRYPTED" in key for key in keys):
        raise CredentialsError(
            f"ssl.keystore.location: {keystore}: an encrypted private key is not supported yet: decrypt it"
        )
    certificates = [block for kind, block in blocks if kind == "CERTIFICATE"]
    if len(keys) != 1 or not certificates:
        raise CredentialsError(
            f"ssl.keystore.location: {keystore}: expected one private key and its certificates, in PEM"
        )
    answering, dialing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    answering.verify_mode, dialing.check_hostname = ssl.CERT_REQUIRED, host is not None
    for context in (answering, dialing):
        try:
            context.load_cert_chain(keystore)
        except ssl.SSLError as error:
            raise CredentialsError(f"ssl.keystore.location: {keystore}: {_openssl_error(error)}") from None
        try:
            context.load_verify_locations(truststore)
        except ssl.SSLError as error:
            raise CredentialsError(f"ssl.truststore.location: {truststore}: {_openssl_error(error)}") from None
    try:
        _shake_hands(answering, dialing, host)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or _openssl_error(error)
        raise CredentialsError(
            f"ssl.keystore.location: {keystore}: no node that trusts {truststore} would accept it: {reason}"
        ) from None
    return TlsFiles(private_key=keys[0], certificates=b"".join(certificates), trusted=trusted)


def _shake_hands(answering: ssl.SSLContext, dialing: ssl.SSLContext, host: str | None) -> None:
    """Do a whole handshake in memory, in which each side checks the other's certificate. Raises SSLError."""
    to_answering, to_dialing = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        dialing.wrap_bio(to_dialing, to_answering, server_hostname=host),
        answering.wrap_bio(to_answering, to_dialing, server_side=True),
    ]
    for _ in range(_HANDSHAKE_TURNS):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()


def _openssl_error(error: ssl.SSLError) -> str:
    return f"OpenSSL refuses it: {error.reason or error}"
