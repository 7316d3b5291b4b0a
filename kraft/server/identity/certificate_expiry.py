"""Reminds the operator, in the log, of certificates of this node that expire soon, or have expired."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from kraft.model.callbacks import NowMs
from kraft.server.config.node_config import NodeConfig
from kraft.tls.expiry import ExpiryReminders, Reminder, StoredCertificate, at, stored_certificates
from kraft.tls.store_files import StoreError
from kraft.tls.stores import TlsSettings
from kraft.tls.watched_files import WatchedFiles, store_files

log = structlog.get_logger()

CHECK_PERIOD_S: Final = 10.0

_RENEW: Final = (
    "replace it in this file: it is used within seconds, without a restart; one of 'kraft security init' is made again"
    " if its file is moved away first"
)
_RENEW_TRUSTED: Final = (
    "add the CA's new certificate to this file, which is read again without a restart, then remove this one"
)


class CertificateExpiry:
    """The certificates of a node's listeners, each once."""

    def __init__(self, config: NodeConfig, wall_ms: NowMs) -> None:
        settings = [config.security_of(listener.name).tls for listener in config.listeners]
        self._settings = [each for each in settings if each is not None]
        self._wall_ms = wall_ms
        self._files = WatchedFiles(path for each in self._settings for path in store_files(each))
        self._certificates: list[StoredCertificate] | None = None
        self._reminders = ExpiryReminders()

    async def watch(self) -> None:
        """Remind at once, when a file has changed and every day, until cancelled. Returns if there are none."""
        while self._settings:
            await self.check()
            await asyncio.sleep(CHECK_PERIOD_S)

    async def check(self) -> None:
        # In a thread: a file system may be slow, and to decrypt a key takes long.
        for reminder in await asyncio.to_thread(self.due):
            _log(reminder)

    def due(self) -> list[Reminder]:
        """Read the files if they have changed, and return what to remind of now."""
        if self._files.have_changed() or self._certificates is None:
            self._certificates = _certificates_of(self._settings)
        return self._reminders.due(self._certificates, at(self._wall_ms()))


def _certificates_of(settings: list[TlsSettings]) -> list[StoredCertificate]:
    found: dict[StoredCertificate, None] = {}
    for each in settings:
        try:
            found |= dict.fromkeys(stored_certificates(each))
        except StoreError:
            # Whoever uses them has logged that they are not renewed, and why; those before stay in use.
            continue
    return list(found)


def _log(reminder: Reminder) -> None:
    certificate = reminder.certificate
    facts = {
        "file": certificate.place,
        "subject": certificate.subject,
        "expires": f"{certificate.expires:%Y-%m-%d %H:%M} UTC",
        "days_left": reminder.days_left,
        "remedy": _RENEW_TRUSTED if certificate.is_trusted else _RENEW,
    }
    if reminder.has_expired:
        log.error("certificate expired", **facts)
    else:
        log.warning("certificate about to expire", **facts)
