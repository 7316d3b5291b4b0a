"""Translates gRPC's reasons for a failed connection into reasons that an operator can act on.

Only the dialing side has them: gRPC does not say why a handshake failed on a listener, nor with which peer.
"""

from __future__ import annotations

import re
from typing import Final

UNKNOWN_HOST: Final = "unknown host"

_REFUSED: Final = "Connection refused"
_CONNECTING: Final = "failed to connect"
_OTHER_PROTOCOL: Final = ("Socket closed", "Connection reset", "Failed parsing HTTP/2")
_BAD_CERTIFICATE: Final = re.compile(r"CERTIFICATE_VERIFY_FAILED(?:: (?P<reason>.+?))?(?:: OK)?$")


def is_refused(details: str) -> bool:
    """True if the host refused the connection, because no process listens at the port."""
    return _REFUSED in details


def is_not_grpc(details: str) -> bool:
    """True if the peer accepted the connection, but did not begin gRPC's protocol on it."""
    return _CONNECTING in details and any(sign in details for sign in _OTHER_PROTOCOL)


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
        return f"its certificate is not trusted by ssl.truststore.location ({found['reason'] or 'no reason given'})"
    if "Hostname Verification Check failed" in details:
        return "its certificate is not for the host name that was dialled"
    if "WRONG_VERSION_NUMBER" in details:
        return "it does not use TLS: compare listener.security.protocol.map of both nodes, or a client's settings"
    if _CONNECTING in details and "Socket closed" in details:
        return f"it closed the connection during the handshake; {_LIKELY_CAUSE[uses_tls]}"
    return None


_LIKELY_CAUSE: Final = {
    True: "it may not trust this node's certificate: compare ssl.truststore.location there",
    False: "it may expect TLS: compare listener.security.protocol.map of both nodes",
    None: "it may expect TLS, or another certificate",
}
