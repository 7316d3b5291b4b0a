"""Whom the certificate of a gRPC client stands for."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from kraft.model.principal import Principal
from kraft.rpc.client_gate import PrincipalOf
from kraft.rpc.session_tokens import NotLoggedIn
from kraft.tls.distinguished_names import UnreadableCertificate, owner_of
from kraft.tls.principal_rules import NoPrincipal, PrincipalRules
from kraft.tls.stores import ClientAuth, TlsSettings

_CERTIFICATE: Final = "x509_pem_cert"

_REMEMBERED: Final = 1_024
"""Certificates: each call of a client has the same one, and reading it takes a tenth of a millisecond."""


def principal_of_certificate(tls: TlsSettings | None) -> PrincipalOf | None:
    """Return what finds the principal of a connection; None if the listener asks for no certificate."""
    if tls is None or tls.client_auth is not ClientAuth.REQUIRED:
        return None
    rules = PrincipalRules(tls.principal_mapping_rules)

    @lru_cache(_REMEMBERED)
    def of(certificate: bytes) -> Principal:
        try:
            return Principal(rules.name(owner_of(ssl.PEM_cert_to_DER_cert(certificate.decode("ascii")))))
        except (NoPrincipal, UnreadableCertificate) as error:
            raise NotLoggedIn(str(error)) from None

    def principal_of(connection: Mapping[str, Iterable[bytes]]) -> Principal:
        for certificate in connection.get(_CERTIFICATE, ()):
            return of(certificate)
        raise NotLoggedIn("it showed no certificate")

    return principal_of
