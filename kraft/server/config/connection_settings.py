"""Limits of what one address, somebody who does not log in, or a client can take from a listener."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.model.config_keys import key, whole_number
from kraft.model.config_types import INT32_MAX, INT64_MAX
from kraft.quotas.client_quotas import ClientQuotas
from kraft.quotas.rate import Windows
from kraft.server.config import security_readers


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultQuotas:
    """Quotas of client ids without one of their own, as older files set them."""

    producer: int | None = key(
        "quota.producer.default",
        whole_number(1, INT64_MAX),
        "Old: producer_byte_rate of all client ids without one of their own. It is set in the metadata when the broker"
        " starts, unless it has one there; use kraft quotas.",
        default=None,
    )
    consumer: int | None = key(
        "quota.consumer.default",
        whole_number(1, INT64_MAX),
        "Old: consumer_byte_rate, likewise.",
        default=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindows:
    """Over which time quotas of clients are measured."""

    count: int = key(
        "quota.window.num",
        whole_number(1),
        "Windows of time over which quotas of clients are measured, the present one included. A client that has rested"
        " may use the quota of all but one at once.",
        default=11,
    )
    size_s: int = key(
        "quota.window.size.seconds",
        whole_number(1),
        "Length of each of them; also the longest wait for processor time and for connections at a time.",
        default=1,
    )
    mutation_count: int = key(
        "controller.quota.window.num",
        whole_number(1),
        "The same for changes of topics, of which a client that has rested may use the quota of all windows at once.",
        default=11,
    )
    mutation_size_s: int = key(
        "controller.quota.window.size.seconds",
        whole_number(1),
        "Length of the windows for changes of topics.",
        default=1,
    )

    def client_quotas(self) -> ClientQuotas:
        """Return what measures over these windows."""
        return ClientQuotas(
            Windows(self.count, self.size_s * 1_000), Windows(self.mutation_count, self.mutation_size_s * 1_000)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    per_host_max: int = key(
        "max.connections.per.ip",
        whole_number(0),
        "Most open connections from one address, to the Kafka listeners of one process together, and as many to GRPC,"
        " which closes those beyond it within 5 s.",
        default=INT32_MAX,
    )
    per_host_overrides: tuple[tuple[str, int], ...] = key(
        "max.connections.per.ip.overrides",
        security_readers.connections_per_host,
        "Other values of max.connections.per.ip for some hosts, as HOST:COUNT.",
        default=(),
    )
    creation_rate_max: int = key(
        "max.connection.creation.rate",
        whole_number(0),
        "Most new connections of the Kafka listeners of one process per second, for all together;"
        " listener.name.NAME.max.connection.creation.rate is for one of them. Further ones wait. GRPC has none.",
        default=INT32_MAX,
    )
    creation_rates_of_listeners: tuple[tuple[str, int], ...] = field(default=())
    """Names of listeners that have a rate of their own, and the rates."""
    failed_login_delay_ms: int = key(
        "connection.failed.authentication.delay.ms",
        whole_number(0),
        "Time until the connection of a client that could not log in is closed.",
        default=100,
    )
