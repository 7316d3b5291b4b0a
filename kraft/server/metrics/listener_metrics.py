"""Metrics of the listeners for Kafka's clients: connections, requests, quotas and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft.model.errors import ErrorCode
from kraft.server.broker.apis import BrokerApis
from kraft.server.kafka_listener.listener import KafkaListener
from kraft.server.kafka_listener.request_times import DURATIONS_S_MAX, ApiTimes
from kraft.server.metrics.metric import Metric, counter, gauge, histogram, summary
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
    "Connections and calls that were refused, or ended for what their clients did, on all listeners; by reason: limit,"
    " tls (a handshake failed), login (none, or it failed), login_timeout, not_a_node (no proof of the cluster's"
    " secret), version, request (not valid), slow_client, internal_error. The log says more of each.",
    "reason",
)
STRANGER_BYTES: Final = counter(
    "kraft_stranger_received_bytes",
    "Bytes from clients of Kafka's listeners before they had logged in, without handshakes and open connections.",
)
REQUESTS: Final = counter(
    "kafka_network_requestmetrics_requests",
    "Requests of clients and nodes, by protocol: kafka, or grpc for the GRPC listener.",
    "protocol",
    "request",
    jmx=f"{_REQUESTS}RequestsPerSec",
)


def _stage(name: str, help: str) -> Metric:
    jmx = f"{_REQUESTS}{name}TimeMs"
    return summary(f"kafka_network_requestmetrics_{name.lower()}timems", help, "protocol", "request", jmx=jmx)


QUEUE: Final = _stage(
    "RequestQueue",
    "Milliseconds from the arrival of requests until they were begun: they waited for earlier ones of their connection,"
    " for memory or for a quota. Of the protocol kafka only: gRPC does not tell.",
)
LOCAL: Final = _stage(
    "Local",
    "Milliseconds in which requests were carried out. With kafka, until they were answered or waited for the first"
    " time, and with what decoding took; with grpc, all of the time in which they did not wait.",
)
REMOTE: Final = _stage(
    "Remote", "Milliseconds that requests waited, for replicas, records, other members, a thread or a turn."
)
THROTTLE: Final = _stage(
    "Throttle", "Milliseconds that clients were to wait after these requests, for they had used more than their quotas."
)
SEND: Final = _stage(
    "ResponseSend",
    "Milliseconds from the end of requests until their responses were written: they waited for those of earlier"
    " requests, and for clients that did not read. Of the protocol kafka only: gRPC does not tell.",
)
TOTAL: Final = _stage("Total", "Milliseconds of all these stages, without ThrottleTimeMs.")
DURATIONS: Final = histogram(
    "kraft_request_duration_seconds",
    "How long requests took until they were answered: queue, local and remote. For percentiles of the last minutes,"
    " histogram_quantile of Prometheus, which are right within a factor of two.",
    DURATIONS_S_MAX,
    "protocol",
    "request",
)
QUOTA_WAITS: Final = summary(
    "kraft_quota_wait_seconds",
    "Occasions on which a client had used more than a quota, and the waits that followed; they may overlap.",
    "quota",
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
    STRANGER_BYTES,
    LOGINS,
    FAILED_LOGINS,
    FETCH_SESSIONS,
    FETCH_PARTITIONS,
    REQUESTS,
    QUEUE,
    LOCAL,
    REMOTE,
    THROTTLE,
    SEND,
    TOTAL,
    DURATIONS,
    QUOTA_WAITS,
    THROTTLED,
    MEMORY,
    MEMORY_MAX,
    AUDIT_LOST,
)

_NAMES: Final = {int(key): "".join(word.capitalize() for word in key.name.split("_")) for key in ApiKey}
"""Kafka's names of the APIs."""


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    for refused_for, count in parts.refused.items():
        snapshot.add(REFUSED, count, refused_for)
    if parts.kafka is not None:
        _collect_listener(parts.kafka, snapshot)
    if parts.broker is not None:
        _collect_apis(parts.broker.apis, snapshot)


def _collect_apis(apis: BrokerApis, snapshot: Snapshot) -> None:
    throttling = apis.throttling
    snapshot.add_summary(THROTTLED, throttling.throttled, throttling.throttled_ms / 1_000)
    for quota, count in throttling.quotas.exceeded.items():
        snapshot.add_summary(QUOTA_WAITS, count, throttling.quotas.exceeded_ms[quota] / 1_000, quota)
    for name, times in apis.call_times.by_name.items():
        _collect_api(times, ("grpc", name), snapshot)
    if apis.audit.note is not None:
        snapshot.add(AUDIT_LOST, apis.audit.lost_count)
    snapshot.add(FETCH_SESSIONS, len(apis.fetches.sessions))
    snapshot.add(FETCH_PARTITIONS, apis.fetches.waiting.held)
    collect_logins(apis.logins.counts, snapshot)


def collect_logins(counts: Mapping[tuple[str, str], int], snapshot: Snapshot) -> None:
    for (listener, error), count in counts.items():
        if error == ErrorCode.NONE.name:
            snapshot.add(LOGINS, count, listener)
        else:
            snapshot.add(FAILED_LOGINS, count, listener, error)


def _collect_listener(listener: KafkaListener, snapshot: Snapshot) -> None:
    for name, count in listener.connections_of.items():
        snapshot.add(CONNECTIONS, count, name)
    snapshot.add(STRANGERS, listener.stranger_count)
    snapshot.add(STRANGER_BYTES, listener.stranger_bytes)
    snapshot.add(MEMORY, listener.memory.held_bytes)
    snapshot.add(MEMORY_MAX, listener.memory.bytes_max)
    for key, name in _NAMES.items():
        _collect_api(listener.times.by_key[key], ("kafka", name), snapshot)


def _collect_api(times: ApiTimes, labels: tuple[str, str], snapshot: Snapshot) -> None:
    if not times.count:
        return
    snapshot.add(REQUESTS, times.count, *labels)
    answered_s = times.queue_s + times.local_s + times.remote_s
    for metric, seconds in (
        (QUEUE, times.queue_s),
        (LOCAL, times.local_s),
        (REMOTE, times.remote_s),
        (THROTTLE, times.throttle_s),
        (SEND, times.send_s),
        (TOTAL, answered_s + times.send_s),
    ):
        if labels[0] == "kafka" or metric not in (QUEUE, SEND):
            snapshot.add_summary(metric, times.count, seconds * 1_000, *labels)
    snapshot.add_histogram(DURATIONS, times.durations, answered_s, *labels)
