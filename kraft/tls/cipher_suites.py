"""Names of cipher suites: Java's, which Kafka's settings have, and OpenSSL's.

OpenSSL keeps the suites of TLS 1.3 apart, and Python cannot choose among them: all of them are enabled, or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

TLS_1_3_SUITES: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})

_JAVA: Final = re.compile(r"TLS_(?P<exchange>[A-Z_]+)_WITH_(?P<cipher>[A-Z0-9_]+)")
_BITS: Final = re.compile(r"(AES|CAMELLIA|ARIA)_(\d+)")


class UnknownCipherSuite(ValueError):
    """A name cannot be used. The text is one line, with the remedy."""


class CipherSuites(Struct, frozen=True):
    tls_1_2: tuple[str, ...]
    """In OpenSSL's words."""
    has_tls_1_3: bool


def cipher_suites(names: Iterable[str]) -> CipherSuites:
    """Sort names of either kind. Raises UnknownCipherSuite for some but not all suites of TLS 1.3."""
    wanted = list(names)
    newest = [name for name in wanted if name in TLS_1_3_SUITES]
    if newest and len(set(newest)) < len(TLS_1_3_SUITES):
        missing = ", ".join(sorted(TLS_1_3_SUITES.difference(newest)))
        raise UnknownCipherSuite(
            f"the suites of TLS 1.3 can only be enabled together: add {missing}, or remove {', '.join(newest)}"
        )
    return CipherSuites(tuple(openssl_name(name) for name in wanted if name not in TLS_1_3_SUITES), bool(newest))


def openssl_name(name: str) -> str:
    """Return OpenSSL's name: `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is its ECDHE-RSA-AES128-GCM-SHA256."""
    found = _JAVA.fullmatch(name)
    if found is None:
        return name
    exchange, cipher = found["exchange"].replace("_", "-"), _BITS.sub(r"\1\2", found["cipher"])
    if cipher.endswith("CHACHA20_POLY1305_SHA256"):
        cipher = cipher.removesuffix("_SHA256")
    # OpenSSL names neither the mode CBC nor the key exchange RSA.
    cipher = cipher.replace("_CBC_", "_").replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"
