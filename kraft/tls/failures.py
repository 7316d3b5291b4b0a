"""What went wrong with TLS, in one line with the remedy. OpenSSL's own words are for those who know its source."""

from __future__ import annotations

import ssl
from typing import Final

_TEXT_MAX: Final = 200

_REASONS: Final = {
    "NO_SHARED_CIPHER": "it offers none of the cipher suites of this listener: change ssl.cipher.suites on one side",
    "UNSUPPORTED_PROTOCOL": "it offers no version of TLS that this listener has: TLS 1.2 and 1.3, unless "
    "ssl.enabled.protocols has fewer",
    "VERSION_TOO_LOW": "it offers no version of TLS that this listener has: TLS 1.2 and 1.3, unless "
    "ssl.enabled.protocols has fewer",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate, which ssl.client.auth=required asks for: set "
    "ssl.keystore.location at the client",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the certificate of this listener: its truststore needs that of the CA",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept the certificate of this listener: its truststore needs "
    "that of the CA, and the certificate the name to which the client connected",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept the certificate of this listener: its truststore needs that of "
    "the CA, and the certificate the name to which the client connected",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it finds the certificate of this listener expired: renew it",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the listener asks for a certificate: set ssl.keystore.location",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it has no version of TLS that is offered here",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
}


def failure(error: Exception) -> str:
    """Return why the other end is refused, for a log line or an error that begins with its address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"[:_TEXT_MAX]
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return _REASONS.get(reason) or f"TLS failed: {reason.lower().replace('_', ' ')}"[:_TEXT_MAX]
    return str(error)
