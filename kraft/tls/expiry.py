"""When certificates expire: a reminder 30 days before, another one once they have, and each of them again every day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.tls.store_files import read_key_store, read_trust_store
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SOON: Final = timedelta(days=30)
AGAIN_AFTER: Final = timedelta(days=1)


class StoredCertificate(Struct, frozen=True, kw_only=True):
    """A certificate that a node shows or trusts."""

    place: str
    """Its file, or the key of the setting that holds its text."""

    subject: str
    expires: datetime
    is_trusted: bool
    """Whether it is one of the truststore, which belongs to a CA."""


class Reminder(Struct, frozen=True, kw_only=True):
    certificate: StoredCertificate
    days_left: int
    """Whole days, rounded down; below 0 if it has expired."""

    @property
    def has_expired(self) -> bool:
        return self.days_left < 0


class ExpiryReminders:
    """Decides which certificates to report now."""

    def __init__(self) -> None:
        self._reported: dict[tuple[StoredCertificate, bool], datetime] = {}
        """When a certificate was last reported, as one that has expired or as one that will."""

    def due(self, certificates: Iterable[StoredCertificate], now: datetime) -> list[Reminder]:
        before, self._reported = self._reported, {}
        due = []
        for certificate in certificates:
            left = certificate.expires - now
            if left > SOON:
                continue
            reminder = Reminder(certificate=certificate, days_left=left.days)
            key = certificate, reminder.has_expired
            last = before.get(key)
            if last is None or now - last >= AGAIN_AFTER:
                last = now
                due.append(reminder)
            self._reported[key] = last
        return due


def stored_certificates(settings: TlsSettings) -> list[StoredCertificate]:
    """Read the certificates of the stores, which takes up to some hundred milliseconds. Raises StoreError."""
    found = []
    if (own := settings.key_store) is not None:
        place = str(own.path) if isinstance(own, KeyStoreFile) else "ssl.keystore.certificate.chain"
        found += _stored(read_key_store(own).certificates, place, is_trusted=False)
    if (trusted := settings.trust_store) is not None:
        place = str(trusted.path) if isinstance(trusted, TrustStoreFile) else "ssl.truststore.certificates"
        found += _stored(read_trust_store(trusted), place, is_trusted=True)
    return found


def _stored(pem: bytes, place: str, *, is_trusted: bool) -> list[StoredCertificate]:
    return [
        StoredCertificate(
            place=place, subject=each.subject.rfc4514_string(), expires=each.not_valid_after_utc, is_trusted=is_trusted
        )
        for each in _certificates(pem)
    ]


def _certificates(pem: bytes) -> list[Certificate]:
    # Imported where it is used: a node without TLS does without.
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        # OpenSSL takes or refuses them, and says why: this only looks at their dates.
        return []


def at(wall_ms: int) -> datetime:
    return datetime.fromtimestamp(wall_ms / 1_000, UTC)
