"""Clients of the two clusters of a pair, by the settings of the mirror's file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kraft.client.aio import Admin, Consumer, Producer
from kraft.mirror.config import ClusterConfig, PairConfig
from kraft.mirror.patterns import plain_list
from kraft.model.errors import ErrorCode, Refusal

FETCH_BYTES: Final = {"fetch.max.bytes": "16777216", "max.partition.fetch.bytes": "4194304"}
"""Defaults of what is read ahead at the source."""

SENT_BYTES: Final = {"max.request.size": "16777216", "buffer.memory": "67108864", "delivery.timeout.ms": "60000"}
"""Defaults of what is on its way to the target: a batch is copied whole, however large the source let it be."""

SESSION_MS: Final = 10_000
"""A worker that is gone without a word is replaced after this time."""


COMMAND: Final = {"default.api.timeout.ms": "10000"}
"""Defaults of a command, for whose answer somebody waits."""

REFUSED_MS: Final = 1_000
"""Longest time that a command tries when no listener is at any address."""


def admin_of(cluster: ClusterConfig) -> Admin:
    return Admin(**_merged(cluster.admin))


def command_admin_of(cluster: ClusterConfig) -> Admin:
    """Return the admin client of a command, which does not wait as long as a worker does."""
    return Admin(**_merged(COMMAND, cluster.admin), bootstrap_refused_timeout_ms=REFUSED_MS)


def source_consumer(pair: PairConfig) -> Consumer:
    """Return what reads committed records of the source, from the positions of the mirror only."""
    own = {"auto.offset.reset": "none", "isolation.level": "read_committed"}
    return Consumer(**_merged(FETCH_BYTES, pair.source.consumer, own))


def consumer_of(cluster: ClusterConfig) -> Consumer:
    """Return what reads committed records of a cluster from its beginning."""
    own = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    return Consumer(**_merged(cluster.consumer, own))


def member(pair: PairConfig, group: str, worker: str) -> Consumer:
    """Return the member of the workers' group at the target. A worker with a name takes over from its former self."""
    own: dict[str, str] = {
        "group.id": group,
        "group.protocol": "classic",
        "partition.assignment.strategy": "roundrobin",
        "session.timeout.ms": str(SESSION_MS),
        "heartbeat.interval.ms": "1000",
        "enable.auto.commit": "false",
        "auto.offset.reset": "latest",
        "client.id": f"mirror-{worker}" if worker else "mirror",
    }
    if worker:
        own["group.instance.id"] = worker
    return Consumer(**_merged(pair.target.consumer, own))


def target_producer(pair: PairConfig, transactional_id: str | None) -> Producer:
    own = {} if transactional_id is None else {"transactional.id": transactional_id}
    return Producer(**_merged(SENT_BYTES, pair.target.producer, own))


def _merged(*settings: Mapping[str, str]) -> dict[str, Any]:
    """Return all settings; later ones override."""
    return {key: value for some in settings for key, value in some.items()}


def addresses_of(*pairs: PairConfig) -> dict[str, str]:
    """Return the aliases of the clusters by the addresses that the file names."""
    return {
        address: cluster.alias
        for pair in pairs
        for cluster in (pair.target, pair.source)
        for address in plain_list(cluster.admin["bootstrap.servers"])
    }


def alias_in(text: str, addresses: Mapping[str, str]) -> str | None:
    """Return the alias of the cluster whose address a text names."""
    for address, alias in addresses.items():
        if re.search(rf"(?<![\w.-]){re.escape(address)}(?!\d)", text):
            return alias
    return None


def with_alias(error: object, addresses: Mapping[str, str]) -> str:
    """Return the text of an error, behind the alias of the cluster whose address it names."""
    alias = alias_in(str(error), addresses)
    return str(error) if alias is None else f"cluster {alias}: {error}"


def reason_of(error: object, addresses: Mapping[str, str]) -> str:
    """Return what a worker says of an error: with the alias, and with what it cannot do itself about a login."""
    said = with_alias(error, addresses)
    if isinstance(error, Refusal) and error.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED:
        return f"{said}; then start this worker again, which reads the file only at its start: it goes on where it was"
    return said
