"""OpenSSL's contexts, made from settings: what a listener shows, and how a client checks it."""

from __future__ import annotations

import os
import ssl
from typing import Final

from msgspec import Struct

from kraft.tls.cipher_suites import UnknownCipherSuite, cipher_suites
from kraft.tls.store_files import KeyMaterial, StoreError, read_key_store, read_trust_store
from kraft.tls.stores import ClientAuth, TlsSettings, TlsVersion

_VERSIONS: Final = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}

_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class ServerContext(Struct, frozen=True):
    """What a listener shows to those who connect now. Another one follows when the files of its stores change."""

    context: ssl.SSLContext
    certificate: bytes
    """The listener's own certificate, in DER."""


def server_context(settings: TlsSettings) -> ServerContext:
    """Read the stores and make the context of a listener. Raises StoreError."""
    if settings.key_store is None:
        raise StoreError("ssl.keystore.location: a listener with TLS needs a private key: set it")
    material = read_key_store(settings.key_store)
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    # A client resumes no session: each connection is checked against the stores as they are.
    context.num_tickets = 0
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_key(context, material)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.client_auth is not ClientAuth.NONE:
        if settings.trust_store is None:
            raise StoreError(
                f"ssl.client.auth={settings.client_auth} needs the certificates of the clients' CAs: set "
                "ssl.truststore.location"
            )
        _load_trusted(context, read_trust_store(settings.trust_store))
    return ServerContext(context, _first_certificate(material))


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Read the stores and make the context of a client, which checks the server's certificate. Raises StoreError."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.verifies_host
    if settings.trust_store is None:
        context.load_default_certs()
    else:
        _load_trusted(context, read_trust_store(settings.trust_store))
    if settings.key_store is not None:
        _load_key(context, read_key_store(settings.key_store))
    return context


def introducing_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context of a node that dials a listener with these settings. Raises StoreError.

    It checks no certificate: nodes prove by the cluster's secret that they speak to each other over this very
    connection (`kraft.rpc.frame_exchange`). It shows that of its own listener, because another one may ask for it.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if settings.key_store is not None and settings.client_auth is not ClientAuth.NONE:
        _load_key(context, read_key_store(settings.key_store))
    return context


def _context(kind: int, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    versions = {_VERSIONS[version] for version in settings.protocols}
    if settings.cipher_suites:
        versions = _choose_suites(context, settings.cipher_suites, versions)
    if not versions:
        raise StoreError("ssl.cipher.suites: none of them belongs to a version of ssl.enabled.protocols: change one")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    return context


def _choose_suites(
    context: ssl.SSLContext, names: tuple[str, ...], versions: set[ssl.TLSVersion]
) -> set[ssl.TLSVersion]:
    """Return the versions that have one of the suites."""
    try:
        suites = cipher_suites(names)
        if suites.tls_1_2:
            context.set_ciphers(":".join(suites.tls_1_2))
    except (UnknownCipherSuite, ssl.SSLError) as error:
        reason = error if isinstance(error, UnknownCipherSuite) else "OpenSSL knows none of them: correct their names"
        raise StoreError(f"ssl.cipher.suites: {reason}") from None
    has_suites = {ssl.TLSVersion.TLSv1_2: bool(suites.tls_1_2), ssl.TLSVersion.TLSv1_3: suites.has_tls_1_3}
    return {version for version in versions if has_suites[version]}


def _load_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    """Give the context a key. OpenSSL's binding reads files only, so it gets one that is in no directory."""
    descriptor = os.memfd_create("kraft-keystore", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(material.private_key + material.certificates)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except ssl.SSLError as error:
        raise StoreError(
            f"ssl.keystore: OpenSSL refuses its private key or its certificate: {error.reason or error}"
        ) from None
    finally:
        os.close(descriptor)


def _load_trusted(context: ssl.SSLContext, certificates: bytes) -> None:
    try:
        context.load_verify_locations(cadata=certificates.decode("ascii"))
    except ssl.SSLError as error:
        raise StoreError(f"ssl.truststore: OpenSSL refuses a certificate in it: {error.reason or error}") from None


def _first_certificate(material: KeyMaterial) -> bytes:
    end = b"-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert((material.certificates.partition(end)[0] + end).decode("ascii"))
