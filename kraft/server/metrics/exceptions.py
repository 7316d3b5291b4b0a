"""Series that dashboards ask for and that a node does not serve, with the reason. docs/metrics.md shows them."""

from __future__ import annotations

from typing import Final

_JVM: Final = (
    "There is no JVM. `process_resident_memory_bytes`, `process_cpu_seconds_total` and `kraft_threads` are there."
)
_OF_KUBERNETES: Final = "Served by Kubernetes (cAdvisor, kubelet), not by a broker."
_RECORDED: Final = "Prometheus has it by [dashboards.yml](monitoring/dashboards.yml)."
_TRAFFIC: Final = (
    "bytesin",
    "bytesout",
    "messagesin",
    "totalproducerequests",
    "failedproducerequests",
    "totalfetchrequests",
    "failedfetchrequests",
)
_RAFT: Final = (
    "current_state_info",
    "current_leader",
    "current_epoch",
    "high_watermark",
    "log_end_offset",
    "append_records_rate",
    "fetch_records_rate",
    "commit_latency_avg",
    "current_vote",
)
_RAFT_CHANNEL: Final = ("incoming_byte", "outgoing_byte", "request", "response")
_OF_REPORTER: Final = (
    "kafka_controller_controllerstats_uncleanleaderelectionspersec_total",
    *(f"kafka_server_brokertopicmetrics_{name}persec_total" for name in _TRAFFIC),
    "kafka_network_socketserver_networkprocessoravgidlepercent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total",
    *(f"kafka_server_raft_metrics_{name}" for name in _RAFT),
    *(f"kafka_server_raft_channel_metrics_{name}" for name in _RAFT_CHANNEL),
)
"""Names of Strimzi's metrics reporter for what is served by the names of the JMX exporter."""

NOT_SERVED: Final = {
    "jvm_memory_bytes_used": _JVM,
    "jvm_memory_used_bytes": _JVM,
    "jvm_gc_collection_seconds_sum": _JVM,
    "jvm_gc_collection_seconds_count": _JVM,
    "jvm_threads_current": _JVM,
    "container_memory_usage_bytes": _OF_KUBERNETES,
    "container_memory_working_set_bytes": _OF_KUBERNETES,
    "container_cpu_usage_seconds_total": _OF_KUBERNETES,
    "container_last_seen": _OF_KUBERNETES,
    "kubelet_volume_stats_available_bytes": _OF_KUBERNETES,
    "kubelet_volume_stats_capacity_bytes": _OF_KUBERNETES,
    "kafka_server_raftmetrics_append_records_rate": f"A rate is the reader's to compute. {_RECORDED}",
    "kafka_server_raftmetrics_fetch_records_rate": f"A rate is the reader's to compute. {_RECORDED}",
    "kafka_consumergroupzookeeper_lag_zookeeper": "There is no ZooKeeper.",
    "kafka_consumergroup_uncommitted_offsets": f"An older name of `kafka_consumergroup_lag`. {_RECORDED}",
    **dict.fromkeys(_OF_REPORTER, f"A name of Strimzi's metrics reporter. {_RECORDED}"),
    "kafka_exporter_build_info": f"A node is not kafka_exporter. {_RECORDED}",
}
