"""Translates gRPC's reasons for a failed connection into reasons that an operator can act on.

Only the dialing side has them: gRPC does not say why a handshake failed on a listener, nor with which peer.
"""

from __future__ import annotations

import re
from typing import Final

UNKNOWN_HOST: Final = "unknown host"
OTHER_PROTOCOL: Final = "it has TLS, but does not speak gRPC"
HOST_DIFFERS: Final = "its certificate is not for the host name that was dialled"
NOT_TRUSTED: Final = "its certificate is not trusted by ssl.truststore.location"
NO_TLS: Final = "it does not use TLS: compare listener.security.protocol.map of both nodes, or a client's settings"

_REFUSED: Final = "Connection refused"
_CONNECTING: Final = "failed to connect"
_OTHER_PROTOCOL: Final = ("Socket closed", "Connection reset", "Failed parsing HTTP/2")
_OTHER_HOST: Final = "Hostname Verification Check failed"
_OTHER_VERSION: Final = "WRONG_VERSION_NUMBER"
_NO_ALPN: Final = "missing selected ALPN property"
_REJECTED: Final = ("CERTIFICATE_VERIFY_FAILED", _OTHER_HOST, _OTHER_VERSION, _NO_ALPN)
_BAD_CERTIFICATE: Final = re.compile(r"CERTIFICATE_VERIFY_FAILED(?:: (?P<reason>.+?))?(?:: OK)?$")


def is_refused(details: str) -> bool:
    """True if the host refused the connection, because no process listens at the port."""
    return _REFUSED in details


def is_not_grpc(details: str) -> bool:
    """True if the peer accepted the connection, but did not begin gRPC's protocol on it."""
    return _CONNECTING in details and any(sign in details for sign in _OTHER_PROTOCOL)


def is_rejected_handshake(details: str) -> bool:
    """True if it is certain that the two ends do not fit: a certificate was not accepted, or the peer has no TLS, or
    another protocol inside it.
    """
    return any(sign in details for sign in _REJECTED)


def connection_failure(details: str) -> str:
    """Return the reason for a call that gRPC ended as UNAVAILABLE, with these `details`."""
    if handshake := handshake_failure(details):
        return handshake
    for sign, reason in {
        _REFUSED: "connection refused; is a node running there?",
        "Connection reset": "the connection was reset",
        "Failed parsing HTTP/2": "it does not speak gRPC",
        "Socket closed": "the connection was closed",
        "Cancelling all calls": "the node is stopping",
        "Domain name not found": UNKNOWN_HOST,
        "DNS": UNKNOWN_HOST,
        "before receiving SETTINGS": "it accepts connections, but says nothing: it may hang, or not speak gRPC",
        "Timeout": "connecting took too long",
    }.items():
        if sign in details:
            return reason
    return details or "the connection failed"


def handshake_failure(details: str, *, uses_tls: bool | None = None) -> str | None:
    """Return why the handshake with a reachable peer failed; None for any other failure.

    `uses_tls` says whether this end uses TLS; None if unknown.
    """
    if found := _BAD_CERTIFICATE.search(details):
        return f"{NOT_TRUSTED} ({found['reason'] or 'no reason given'})"
    if _OTHER_HOST in details:
        return HOST_DIFFERS
    if _OTHER_VERSION in details:
        return NO_TLS
    if _NO_ALPN in details:
        return OTHER_PROTOCOL
    if _CONNECTING in details and "Socket closed" in details:
        return f"it closed the connection during the handshake; {_LIKELY_CAUSE[uses_tls]}"
    return None


_LIKELY_CAUSE: Final = {
    True: "it may not trust this node's certificate: compare ssl.truststore.location there",
    False: "it may expect TLS: compare listener.security.protocol.map of both nodes",
    None: "it may expect TLS, or another certificate",
}
