"""Addresses at which topics and configs are changed: the part of the table of routes that is theirs."""

from __future__ import annotations

from typing import Final

from kraft.console.pages.configs import (
    broker_config,
    broker_configs,
    change_broker_config,
    change_topic_config,
    topic_config,
    topic_configs,
)
from kraft.console.pages.record_deletion import FORM_BYTES_MAX as OFFSETS_BYTES_MAX
from kraft.console.pages.record_deletion import delete_records, record_deletion
from kraft.console.pages.topic_creation import add_partitions, create_topic, creation, more_partitions
from kraft.console.pages.topic_deletion import delete_topic, deletion
from kraft.console.route_kinds import Change, Page

_NEW_TOPIC: Final = ("topic", "partition_count", "replication_factor", "config", "other_configs")
_CONFIG: Final = ("value", "reset", "seen", "seen_own")

TOPIC_PAGES: Final = (
    # No topic can be called so: its name would be below /topics/.
    Page(
        path="/clusters/{cluster}/topics-new",
        template="topic_new.html",
        load=creation,
        asks="Create on Topic, or on Cluster",
        takes=_NEW_TOPIC,
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}/partitions",
        template="topic_partitions.html",
        load=more_partitions,
        asks="Alter on Topic",
        takes=("count",),
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}/configs",
        template="configs.html",
        load=topic_configs,
        asks="DescribeConfigs on Topic",
        takes=("q",),
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}/configs/{config}",
        template="config.html",
        load=topic_config,
        asks="DescribeConfigs on Topic",
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}/delete-records",
        template="record_deletion.html",
        load=record_deletion,
        asks="Describe on Topic",
        takes=("partition", "keep_from"),
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}/delete",
        template="topic_deletion.html",
        load=deletion,
        asks="Describe on Topic; on each Group, and on Cluster, for what hangs on it",
    ),
    Page(
        path="/clusters/{cluster}/brokers/{broker}/configs",
        template="configs.html",
        load=broker_configs,
        asks="DescribeConfigs on Cluster",
        takes=("q",),
    ),
    Page(
        path="/clusters/{cluster}/brokers/{broker}/configs/{config}",
        template="config.html",
        load=broker_config,
        asks="DescribeConfigs on Cluster",
    ),
)

TOPIC_CHANGES: Final = (
    Change(
        path="/clusters/{cluster}/topics-new",
        perform=create_topic,
        asks="Create on Topic, or on Cluster",
        takes=_NEW_TOPIC,
    ),
    Change(
        path="/clusters/{cluster}/topics/{topic}/partitions",
        perform=add_partitions,
        asks="Alter on Topic",
        takes=("count", "seen"),
    ),
    Change(
        path="/clusters/{cluster}/topics/{topic}/configs/{config}",
        perform=change_topic_config,
        asks="AlterConfigs and DescribeConfigs on Topic",
        takes=_CONFIG,
    ),
    Change(
        path="/clusters/{cluster}/topics/{topic}/delete-records",
        perform=delete_records,
        asks="Delete on Topic",
        takes=("offsets",),
        form_bytes_max=OFFSETS_BYTES_MAX,
    ),
    Change(
        path="/clusters/{cluster}/topics/{topic}/delete",
        perform=delete_topic,
        asks="Delete on Topic",
        takes=("confirm", "seen", "force"),
    ),
    Change(
        path="/clusters/{cluster}/brokers/{broker}/configs/{config}",
        perform=change_broker_config,
        asks="AlterConfigs and DescribeConfigs on Cluster",
        takes=_CONFIG,
    ),
)
