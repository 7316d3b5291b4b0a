"""What listeners cannot do yet. A node refuses to start with it: somebody would rely on it."""

from __future__ import annotations

from enum import StrEnum

from kraft.server.config.listener_security import ListenerSecurity
from kraft.server.config.values import GRPC
from kraft.tls.stores import ClientAuth, TlsSettings, TlsVersion


class Layer(StrEnum):
    TLS = "TLS"
    SASL = "SASL"


def _not_by_grpc(tls: TlsSettings) -> str | None:
    """Return what gRPC cannot do; None if it can do all. It is the only TLS of that listener."""
    own = f"listener.name.{GRPC.lower()}"
    if tls.client_auth is ClientAuth.REQUESTED:
        return (
            "gRPC either requires the certificates of clients or asks for none, so ssl.client.auth=requested is not"
            f" possible: set {own}.ssl.client.auth to required or none"
        )
    if tls.protocols != tuple(TlsVersion):
        return (
            "gRPC offers both TLS 1.2 and 1.3, so ssl.enabled.protocols cannot choose: set"
            f" {own}.ssl.enabled.protocols={','.join(TlsVersion)}"
        )
    if tls.cipher_suites:
        return f"gRPC chooses the cipher suite, so ssl.cipher.suites cannot: set {own}.ssl.cipher.suites to nothing"
    return None


def not_served(name: str, security: ListenerSecurity) -> str | None:
    """Return what of it the listener of that name, which is for clients, cannot do; None if it can do all."""
    if name == GRPC and security.tls is not None and (reason := _not_by_grpc(security.tls)) is not None:
        return reason
    return None
