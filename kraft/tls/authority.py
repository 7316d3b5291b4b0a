"""A certificate authority of a cluster's own: its certificate, and certificates for nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from kraft.tls.store_files import StoreError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_CLOCKS_DIFFER_BY: Final = timedelta(hours=1)
"""A certificate is valid for machines whose clocks are that much behind."""

_COMMON_NAME_MAX: Final = 64


def new_key() -> bytes:
    """Return a new private key (P-256) in PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def authority_certificate(key: bytes, name: str, now: datetime, validity: timedelta) -> bytes:
    """Return the certificate of an authority with that key, in PEM. It signs certificates of nodes, and no CA's."""
    from cryptography import x509

    own = _private_key(key)
    builder = _builder(name, _distinguished(name), own.public_key(), now, validity)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return _signed(builder, own, own.public_key())


def node_certificate(
    authority: tuple[bytes, bytes], key: bytes, hosts: Sequence[str], now: datetime, validity: timedelta
) -> bytes:
    """Return the certificate of a node that is reached by these names and addresses, in PEM.

    `authority` is its key and its certificate; nothing that it signs is valid longer than itself. A node is also a
    client, of other nodes. Raises StoreError.
    """
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    signer, issuer = _private_key(authority[0]), _certificate(authority[1])
    if signer.public_key() != issuer.public_key():
        raise StoreError("the key of the authority is not that of its certificate")
    own = _private_key(key)
    until = min(validity, issuer.not_valid_after_utc - now)
    try:
        names = x509.SubjectAlternativeName([_name(host) for host in hosts])
    except ValueError:
        raise StoreError(f"one of {', '.join(hosts)} is neither an address nor a name of ASCII letters") from None
    builder = _builder(hosts[0], issuer.subject, own.public_key(), now, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(names, critical=False)
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(purposes, critical=False)
    return _signed(builder, signer, issuer.public_key())


def end_of_validity(certificate: bytes) -> datetime:
    """Raises StoreError if it is no certificate."""
    return _certificate(certificate).not_valid_after_utc


def _builder(name: str, issuer: x509.Name, key: Any, now: datetime, validity: timedelta) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(_distinguished(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER_BY)
        .not_valid_after(now + validity)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, signer: EllipticCurvePrivateKey, issuer_key: Any) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    identified = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    return identified.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _distinguished(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_COMMON_NAME_MAX])])


def _private_key(pem: bytes) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        raise StoreError("not a private key in PEM, without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StoreError("the private key is not of an elliptic curve")
    return key


def _certificate(pem: bytes) -> x509.Certificate:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise StoreError("not a certificate in PEM") from None
