"""Whom the certificate of a client stands for, on Kafka's listeners and on GRPC."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from kraft.model.principal import ANONYMOUS, Principal
from kraft.rpc.client_gate import PrincipalOf
from kraft.rpc.session_tokens import NotLoggedIn
from kraft.tls.distinguished_names import UnreadableCertificate, owner_of
from kraft.tls.handshakes import ClientRefused
from kraft.tls.principal_rules import NoPrincipal, PrincipalRules
from kraft.tls.stores import ClientAuth, TlsSettings

_CERTIFICATE: Final = "x509_pem_cert"

_REMEMBERED: Final = 1_024
"""Certificates: each call of a client has the same one, and reading it takes a tenth of a millisecond."""


def kafka_principal(rules: PrincipalRules | None, certificate: bytes | None) -> Principal:
    """Return the principal of a connection. `rules`: None if clients log in later. Raises ClientRefused."""
    if rules is None or certificate is None:
        return ANONYMOUS
    try:
        return _owner(rules, certificate)
    except NoPrincipal as error:
        raise ClientRefused(str(error)) from None


def grpc_principal(tls: TlsSettings | None) -> PrincipalOf | None:
    """Return what finds the principal of a connection; None if the listener asks for no certificate."""
    if tls is None or tls.client_auth is not ClientAuth.REQUIRED:
        return None
    rules = PrincipalRules(tls.principal_mapping_rules)

    @lru_cache(_REMEMBERED)
    def of(certificate: bytes) -> Principal:
        try:
            return _owner(rules, ssl.PEM_cert_to_DER_cert(certificate.decode("ascii")))
        except NoPrincipal as error:
            raise NotLoggedIn(str(error)) from None

    def principal_of(connection: Mapping[str, Iterable[bytes]]) -> Principal:
        for certificate in connection.get(_CERTIFICATE, ()):
            return of(certificate)
        raise NotLoggedIn("it showed no certificate")

    return principal_of


def _owner(rules: PrincipalRules, certificate: bytes) -> Principal:
    """Return whom a certificate in DER stands for. Raises NoPrincipal."""
    try:
        return Principal(rules.name(owner_of(certificate)))
    except UnreadableCertificate as error:
        raise NoPrincipal(str(error)) from None
