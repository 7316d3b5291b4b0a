"""Certificates that expire soon, as a client sees them: those that brokers show, and those of its own files."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kraft.health.findings import ExpiringCertificate, listed
from kraft.server.config.values import GRPC
from kraft.tls.contexts import client_context
from kraft.tls.expiry import SOON, stored_certificates
from kraft.tls.store_files import StoreError

if TYPE_CHECKING:
    import ssl

    from kraft.model.brokers import BrokerDescription
    from kraft.tls.stores import TlsSettings

ASKED_MAX: Final = 50
"""Brokers whose certificates are looked at."""

_ALPN: Final = "h2"


def expiring(
    brokers: Sequence[BrokerDescription], tls: TlsSettings, timeout_s: float, now: datetime
) -> list[ExpiringCertificate]:
    """Return those that have expired or will soon, each once.

    A broker that cannot be reached is left out: others find that, with the reason.
    """
    found: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    with suppress(StoreError):
        context = client_context(tls)
        context.set_alpn_protocols([_ALPN])
        asked = [each for each in brokers if not each.fenced][:ASKED_MAX]
        with ThreadPoolExecutor(ASKED_MAX) as pool:
            ends = pool.map(lambda each: _end_of(each, context, timeout_s), asked)
            for broker, end in zip(asked, ends, strict=True):
                if end is not None:
                    found["", end].append(broker.broker_id)
        for own in stored_certificates(tls):
            found[own.place, own.expires] = []
    return [
        ExpiringCertificate(
            whose=f"in {place}, which this command uses," if place else f"of the GRPC listener of broker {listed(ids)}",
            expires=f"{end:%Y-%m-%d %H:%M} UTC",
            days_left=(end - now).days,
        )
        for (place, end), ids in found.items()
        if end - now <= SOON
    ]


def _end_of(broker: BrokerDescription, context: ssl.SSLContext, timeout_s: float) -> datetime | None:
    """Return when the certificate expires that the broker shows here; None if it shows none in time."""
    import ssl

    for host, port in _addresses(broker):
        with (
            suppress(OSError),
            socket.create_connection((host, port), timeout_s) as connected,
            context.wrap_socket(connected, server_hostname=host) as secured,
        ):
            not_after = (secured.getpeercert() or {}).get("notAfter")
            if not_after is not None:
                return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(not_after)), UTC)
    return None


def _addresses(broker: BrokerDescription) -> Iterator[tuple[str, int]]:
    yield from ((each.host, each.port) for each in broker.addresses if each.listener == GRPC)
