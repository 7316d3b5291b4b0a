"""The mechanisms of SASL that a listener can enable."""

from __future__ import annotations

from enum import StrEnum


class SaslMechanism(StrEnum):
    """The value is the registered name."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
