"""Why a connection could not be made: gRPC's account of it, in the words of whoever reads it.

Only the side that dials is told. gRPC has no way to ask why a handshake failed on a listener, nor whose it was.
"""

from __future__ import annotations

import re
from typing import Final

_REFUSED: Final = "Connection refused"
_BAD_CERTIFICATE: Final = re.compile(r"CERTIFICATE_VERIFY_FAILED(?:: (?P<reason>.+?))?(?:: OK)?$")


def is_refused(details: str) -> bool:
    """Whether the host refused the connection, because no process listens at the port."""
    return _REFUSED in details


def connection_failure(details: str) -> str:
    """What to tell of a call that gRPC ended as UNAVAILABLE, with these `details`."""
    if handshake := handshake_failure(details):
        return handshake
    for sign, reason in {
        _REFUSED: "connection refused; is a node running there?",
        "Connection reset": "the connection was reset",
        "Domain name not found": "unknown host",
        "DNS": "unknown host",
        "Timeout": "connecting took too long",
    }.items():
        if sign in details:
            return reason
    return details or "the connection failed"


def handshake_failure(details: str, *, uses_tls: bool | None = None) -> str | None:
    """Why both ends did not come to speak with each other, though somebody is there; None for any other failure.

    `uses_tls` says of this end whether it does; None for not known.
    """
    if found := _BAD_CERTIFICATE.search(details):
        return f"its certificate is none that ssl.truststore.location certifies ({found['reason'] or 'no reason told'})"
    if "Hostname Verification Check failed" in details:
        return "its certificate is not for the host under which it is dialed"
    if "WRONG_VERSION_NUMBER" in details:
        return "no TLS is spoken there: compare listener.security.protocol.map of both nodes"
    if "failed to connect" in details and "Socket closed" in details:
        return f"it hung up before the first word, as {_WHO_HANGS_UP[uses_tls]}"
    return None


_WHO_HANGS_UP: Final = {
    True: "a node does that does not accept this node's certificate: compare ssl.truststore.location there",
    False: "a node does that expects TLS: compare listener.security.protocol.map of both nodes",
    None: "a listener does that expects TLS, or another certificate",
}
