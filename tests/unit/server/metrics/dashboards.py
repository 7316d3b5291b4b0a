"""The series that dashboards and alert rules ask for, read from their expressions."""

from __future__ import annotations

from typing import Final

STRIMZI_KAFKA: Final = (
    "container_memory_working_set_bytes",
    "jvm_gc_collection_seconds_count",
    "jvm_gc_collection_seconds_sum",
    "jvm_memory_bytes_used",
    "jvm_threads_current",
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_replicascount",
    "kafka_cluster_partition_underminisr",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_log_log_size",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_socket_server_metrics_connection_count",
    "kubelet_volume_stats_available_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
)
"""Strimzi's dashboard strimzi-kafka.json."""

STRIMZI_KRAFT: Final = (
    "container_cpu_usage_seconds_total",
    "container_memory_usage_bytes",
    "jvm_memory_used_bytes",
    "kafka_server_raftchannelmetrics_incoming_byte_total",
    "kafka_server_raftchannelmetrics_outgoing_byte_total",
    "kafka_server_raftchannelmetrics_request_total",
    "kafka_server_raftchannelmetrics_response_total",
    "kafka_server_raftmetrics_append_records_rate",
    "kafka_server_raftmetrics_commit_latency_avg",
    "kafka_server_raftmetrics_current_epoch",
    "kafka_server_raftmetrics_current_leader",
    "kafka_server_raftmetrics_current_state",
    "kafka_server_raftmetrics_current_vote",
    "kafka_server_raftmetrics_fetch_records_rate",
    "kafka_server_raftmetrics_high_watermark",
    "kafka_server_raftmetrics_log_end_offset",
)
"""Strimzi's dashboard strimzi-kraft.json, without what the other one asks for, too."""

STRIMZI_RULES: Final = (
    "container_last_seen",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_log_logmanager_offlinelogdirectorycount",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kubelet_volume_stats_capacity_bytes",
)
"""Strimzi's alert rules prometheus-kafka-rules.yaml."""

KAFKA_EXPORTER: Final = (
    "kafka_broker_info",
    "kafka_brokers",
    "kafka_consumer_lag_millis",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_current_offset_sum",
    "kafka_consumergroup_lag",
    "kafka_consumergroup_lag_sum",
    "kafka_consumergroup_members",
    "kafka_consumergroup_uncommitted_offsets",
    "kafka_consumergroupzookeeper_lag_zookeeper",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_topic_partitions",
)
"""kafka_exporter's list of metrics, its dashboard (Grafana's 7589), and that of its mixin."""

ASKED_FOR: Final = frozenset((*STRIMZI_KAFKA, *STRIMZI_KRAFT, *STRIMZI_RULES, *KAFKA_EXPORTER))
