"""Metrics of the listeners for Kafka's clients: connections, requests, quotas and memory."""

from __future__ import annotations

from typing import Final

from kraft.model.errors import ErrorCode
from kraft.server.broker.apis import BrokerApis
from kraft.server.kafka_listener.listener import KafkaListener
from kraft.server.kafka_listener.request_times import ApiTimes
from kraft.server.metrics.metric import Metric, counter, gauge, summary
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot
from kraft.wire.api_keys import ApiKey

_REQUESTS: Final = "kafka.network:type=RequestMetrics,request=,name="

LOGINS: Final = counter(
    "kafka_server_socket_server_metrics_successful_authentication",
    "Logins of clients with SASL.",
    "listener",
    jmx="kafka.server:type=socket-server-metrics,listener=,attribute=successful-authentication-total",
)
FAILED_LOGINS: Final = counter(
    "kafka_server_socket_server_metrics_failed_authentication",
    "Logins of clients with SASL that failed, by the error that the client got.",
    "listener",
    "error",
    jmx="kafka.server:type=socket-server-metrics,listener=,attribute=failed-authentication-total",
)
FETCH_SESSIONS: Final = gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions",
    "Fetch sessions of Kafka's clients.",
    jmx="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
)
FETCH_PARTITIONS: Final = gauge(
    "kraft_waiting_fetch_partitions", "Partitions of the fetches of Kafka's clients that wait: 50,000 at most."
)

CONNECTIONS: Final = gauge(
    "kafka_server_socket_server_metrics_connection_count",
    "Open connections of clients.",
    "listener",
    jmx="kafka.server:type=socket-server-metrics,listener=,attribute=connection-count",
)
STRANGERS: Final = gauge("kraft_strangers", "Connections of clients that have not logged in.")
REFUSED: Final = counter(
    "kraft_refused_connections",
    "Connections that were refused, or ended for what their clients did: too many, too fast, no login, bad requests."
    " The log has the reasons.",
)
REQUESTS: Final = counter(
    "kafka_network_requestmetrics_requests", "Requests.", "request", jmx=f"{_REQUESTS}RequestsPerSec"
)
LOCAL: Final = summary(
    "kafka_network_requestmetrics_localtimems",
    "Milliseconds in which requests were decoded and carried out, until they were answered or waited.",
    "request",
    jmx=f"{_REQUESTS}LocalTimeMs",
)
REMOTE: Final = summary(
    "kafka_network_requestmetrics_remotetimems",
    "Milliseconds that requests waited, for replicas, records, other members, a thread or a turn.",
    "request",
    jmx=f"{_REQUESTS}RemoteTimeMs",
)
TOTAL: Final = summary(
    "kafka_network_requestmetrics_totaltimems",
    "Milliseconds from the beginning of requests to their responses: LocalTimeMs and RemoteTimeMs.",
    "request",
    jmx=f"{_REQUESTS}TotalTimeMs",
)
THROTTLED: Final = summary(
    "kraft_throttle_seconds", "Waits of clients that used more than their quotas, on every listener."
)
MEMORY: Final = gauge("kraft_listener_memory_bytes", "Memory of requests that arrive, and of responses not yet read.")
MEMORY_MAX: Final = gauge("kraft_listener_memory_max_bytes", "The most that this memory can be.")
AUDIT_LOST: Final = counter(
    "kraft_audit_lines_lost", "Audit lines that are missing in the file or the topic. Only with an audit."
)

METRICS: Final[tuple[Metric, ...]] = (
    CONNECTIONS,
    STRANGERS,
    REFUSED,
    LOGINS,
    FAILED_LOGINS,
    FETCH_SESSIONS,
    FETCH_PARTITIONS,
    REQUESTS,
    LOCAL,
    REMOTE,
    TOTAL,
    THROTTLED,
    MEMORY,
    MEMORY_MAX,
    AUDIT_LOST,
)

_NAMES: Final = {int(key): "".join(word.capitalize() for word in key.name.split("_")) for key in ApiKey}
"""Kafka's names of the APIs."""


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    if parts.kafka is not None:
        _collect_listener(parts.kafka, snapshot)
    if parts.broker is not None:
        _collect_apis(parts.broker.apis, snapshot)


def _collect_apis(apis: BrokerApis, snapshot: Snapshot) -> None:
    throttling = apis.throttling
    snapshot.add_summary(THROTTLED, throttling.throttled, throttling.throttled_ms / 1_000)
    if apis.audit.note is not None:
        snapshot.add(AUDIT_LOST, apis.audit.lost_count)
    snapshot.add(FETCH_SESSIONS, len(apis.fetches.sessions))
    snapshot.add(FETCH_PARTITIONS, apis.fetches.waiting.held)
    for (listener, error), count in apis.logins.counts.items():
        if error == ErrorCode.NONE.name:
            snapshot.add(LOGINS, count, listener)
        else:
            snapshot.add(FAILED_LOGINS, count, listener, error)


def _collect_listener(listener: KafkaListener, snapshot: Snapshot) -> None:
    for name, count in listener.connections_of.items():
        snapshot.add(CONNECTIONS, count, name)
    snapshot.add(STRANGERS, listener.stranger_count)
    snapshot.add(REFUSED, listener.refused)
    snapshot.add(MEMORY, listener.memory.held_bytes)
    snapshot.add(MEMORY_MAX, listener.memory.bytes_max)
    for key, name in _NAMES.items():
        if listener.times.by_key[key].count:
            _collect_api(listener.times.by_key[key], name, snapshot)


def _collect_api(times: ApiTimes, name: str, snapshot: Snapshot) -> None:
    snapshot.add(REQUESTS, times.count, name)
    for metric, seconds in (
        (LOCAL, times.local_s),
        (REMOTE, times.remote_s),
        (TOTAL, times.local_s + times.remote_s),
    ):
        snapshot.add_summary(metric, times.count, seconds * 1_000, name)
